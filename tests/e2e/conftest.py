"""The product, in a home of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import Product


def _product(folder: Path, slots: int) -> Iterator[Product]:
    devices = json.dumps([f"cpu:{n}" for n in range(slots)])
    product = Product(folder / "home", TRAINLEDGER_DEVICES=devices)
    yield product
    product.close()


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A home that nobody else uses: its server may be killed."""
    yield from _product(tmp_path, slots=3)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A home for the tests of a module: each looks at its own runs only."""
    yield from _product(tmp_path_factory.mktemp("shared"), slots=12)

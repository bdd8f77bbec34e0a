"""A home of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import Product


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    product = Product(tmp_path / "home", TRAINLEDGER_DEVICES='["cpu:0","cpu:1","cpu:2"]')
    yield product
    product.close()

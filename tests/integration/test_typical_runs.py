"""What people read of five typical runs, at 80 columns: reviewed by eye, and kept so.

Each golden text is what the command prints over the real service, made of events.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from jsonschema import Draft202012Validator

from projections.documents.schema import record_schema
from tests import typical
from tests.histories import Importer

GOLDEN = Path(__file__).parent.parent / "golden" / "typical"
RUNS = ("completed", "retried", "failed", "branch", "imported")
BASELINES = {name: "retried" if name == "completed" else "completed" for name in RUNS}


class Product(NamedTuple):
    importer: Importer
    ids: dict[str, str]

    def text(self, *words: str) -> str:
        """What a command prints; the id that the import made up is always the same here."""
        shown: str = self.importer.call(*words).stdout
        return shown.replace(self.ids["imported"], typical.IMPORTED)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with typical.served(tmp_path_factory.mktemp("home")) as (importer, ids):
        yield Product(importer, ids)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_the_detail_of_a_typical_run_reads_as_agreed(product: Product, name: str) -> None:
    """S1 to S20, S60, S61, S82, C38."""
    assert product.text("runs", "get", product.ids[name]) == golden(f"get_{name}")


@pytest.mark.parametrize("name", RUNS)
def test_the_metrics_of_a_typical_run_read_as_agreed(product: Product, name: str) -> None:
    """S86, C34, C35: with what a restore took back."""
    shown = product.text("runs", "metrics", product.ids[name], "--superseded")

    assert shown == golden(f"metrics_{name}")


@pytest.mark.parametrize("name", RUNS)
def test_the_comparison_of_a_typical_run_reads_as_agreed(product: Product, name: str) -> None:
    """S94 to S103: with the first run, and that one with the one that was lost twice."""
    pair = [product.ids[name], product.ids[BASELINES[name]]]

    shown = product.text("runs", "compare", *pair, "--window", "4", "--across-plans")

    assert shown == golden(f"compare_{name}")


@pytest.mark.parametrize("name", RUNS)
def test_the_record_of_a_typical_run_is_as_published(product: Product, name: str) -> None:
    """U17, D8: over the service, with all that it adds to the document."""
    record = product.importer.api.get(f"/v1/runs/{product.ids[name]}")

    faults = Draft202012Validator(record_schema()).iter_errors(record)

    assert [f"{each.json_path}: {each.message}" for each in faults] == []

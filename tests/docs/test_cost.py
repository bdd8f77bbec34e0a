"""The page about cost says what the record has, and its price book is one."""

import re
from pathlib import Path

from api.prices import PriceBook
from tests import apis

TEXT = (Path(__file__).parents[2] / "docs" / "cost.md").read_text("utf-8")


def test_every_part_of_the_split_is_explained(tmp_path: Path) -> None:
    """S60: in the order of the record."""
    with apis.api(tmp_path) as api:
        cost = api.get(f"/v1/runs/{api.started()}")["cost"]

    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == list(cost["split"])


def test_the_price_book_of_the_page_is_one(tmp_path: Path) -> None:
    """style.md: examples are read by a test."""
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "prices.toml").write_text(example)

    book = PriceBook(tmp_path / "prices.toml")

    assert book.fault() is None
    assert [float(each.per_hour) for each in book.prices()] == [1.25, 1.1]

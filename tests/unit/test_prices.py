"""The price book: which price an attempt has, what a run costs, and what is wrong with a book."""

import os
from pathlib import Path
from typing import Any

import pytest

from api.prices import PriceBook, money

BOOK = """\
[[prices]]
profile = "gpu"
perHour = 1.25
currency = "EUR"
from = 2026-01-01

[[prices]]
profile = "gpu"
perHour = 2
currency = "EUR"
from = 2026-06-01T12:00:00+02:00

[[prices]]
profile = "cpu"
perHour = 0.1
currency = "USD"
from = 2026-01-01T00:00:00
"""


@pytest.fixture
def book(tmp_path: Path) -> PriceBook:
    (tmp_path / "prices.toml").write_text(BOOK)
    return PriceBook(tmp_path / "prices.toml")


def record(*attempts: tuple[str, float], kind: str | None = "gpu") -> dict[str, Any]:
    """The record of a run with attempts that opened at a time and held devices so long."""
    return {
        "cost": {"deviceKind": kind, "estimate": False},
        "attempts": [
            {"attempt": number, "openedAt": opened, "cost": {"deviceSeconds": seconds}}
            for number, (opened, seconds) in enumerate(attempts, start=1)
        ],
    }


def test_every_attempt_has_the_price_of_the_moment_at_which_it_began(book: PriceBook) -> None:
    """S60: one that goes on over a change of price keeps its own."""
    run = record(
        ("2026-06-01T09:59:59.999Z", 7200.0),
        ("2026-06-01T10:00:00.000Z", 1800.0),
    )

    assert money(run, book.prices()) == {
        "amount": 3.5,
        "currency": "EUR",
        "profile": "gpu",
        "estimate": False,
        "perAttempt": [
            {"attempt": 1, "deviceSeconds": 7200.0, "perHour": 1.25, "amount": 2.5},
            {"attempt": 2, "deviceSeconds": 1800.0, "perHour": 2.0, "amount": 1.0},
        ],
    }


def test_sums_of_money_are_exact(book: PriceBook) -> None:
    """Three attempts at 0.1 an hour are 0.3, which floating point would miss."""
    run = record(*[("2026-02-01T00:00:00Z", 3600.0)] * 3, kind="cpu")

    found = money(run, book.prices())

    assert found is not None
    assert (found["amount"], found["currency"]) == (0.3, "USD")


def test_the_profile_is_the_kind_of_the_devices_unless_it_is_set(book: PriceBook) -> None:
    run = record(("2026-02-01T00:00:00Z", 3600.0), kind="cpu")

    found = [money(run, book.prices(), profile=name) for name in ("", "gpu", "h100")]

    assert [each and (each["amount"], each["profile"]) for each in found] == [
        (0.1, "cpu"),
        (1.25, "gpu"),
        None,
    ]


@pytest.mark.parametrize(
    "run",
    [
        record(),
        record(kind=None),
        record(("2025-12-31T23:59:59Z", 1.0)),
        record(("2025-12-31T23:59:59Z", 1.0), ("2026-02-01T00:00:00Z", 1.0)),
    ],
)
def test_where_the_price_of_an_attempt_is_not_known_there_is_no_sum(
    book: PriceBook, run: dict[str, Any]
) -> None:
    """A part of the cost is no cost."""
    assert money(run, book.prices()) is None


def test_a_book_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    book = PriceBook(path)
    run = record(("2026-02-01T00:00:00Z", 3600.0))

    seen = [money(run, book.prices())]
    for text in (BOOK, BOOK.replace("1.25", "9.25"), "nonsense", BOOK):
        path.write_text(text)
        seen.append(money(run, book.prices()))
    path.unlink()
    seen.append(money(run, book.prices()))

    assert [each and each["amount"] for each in seen] == [None, 1.25, 9.25, None, 1.25, None]
    assert book.fault() is None


PRICE = '[[prices]]\nprofile = "gpu"\nperHour = 1\ncurrency = "EUR"\nfrom = 2026-01-01\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[prices]", "(at line 1, column 9)"),
        (PRICE + "perHour = 2\n", "Cannot overwrite a value (at line 6, column 12)"),
        (PRICE + "[[prices]]\n", "price 2, profile is missing"),
        (PRICE.replace("perHour = 1", ""), "price 1, perHour is missing"),
        (PRICE.replace("1\n", "-1\n", 1), "price 1, perHour: Input should be greater than"),
        (PRICE.replace("= 1\n", "= nan\n"), "price 1, perHour: Input should be a finite number"),
        (PRICE.replace("= 1\n", '= "x"\n'), "price 1, perHour: Input should be a valid decimal"),
        (PRICE.replace("EUR", "euro"), "price 1, currency: String should match pattern"),
        (PRICE.replace("2026-01-01", '"soon"'), "price 1, from: expected a date, for example"),
        (PRICE + 'until = "x"', "price 1, until is not known here"),
        ("price = 1", "price is not known here"),
        ("prices = 1", "prices: expected tables that begin with [[prices]]"),
        ("prices = [1]", "price 1: expected tables that begin with [[prices]]"),
        (PRICE + PRICE.replace("EUR", "USD"), "profile 'gpu' has prices in EUR and USD"),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_line_or_the_field(
    tmp_path: Path, text: str, fault: str
) -> None:
    """I26: and a book with a fault prices nothing."""
    path = tmp_path / "prices.toml"
    path.write_text(text)
    book = PriceBook(path)

    said = book.fault()

    assert said is not None
    assert said.startswith("prices.toml: ")
    assert fault in said
    assert "\n" not in said
    assert book.prices() == ()


def test_what_is_no_readable_text_is_a_fault_too(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.mkdir()
    folder = PriceBook(path).fault()
    path.rmdir()
    path.write_bytes(b"\xff\xfe")
    bytes_only = PriceBook(path).fault()

    assert folder == "prices.toml: Is a directory"
    assert bytes_only == "prices.toml: it is not UTF-8 text"


def test_a_book_of_nobody_is_no_fault(tmp_path: Path) -> None:
    """The book is optional, and an empty one says nothing."""
    (tmp_path / "prices.toml").write_text("")

    for path in (tmp_path / "prices.toml", tmp_path / "none.toml"):
        assert (PriceBook(path).fault(), PriceBook(path).prices()) == (None, ())


def test_the_same_name_with_other_words_is_read_again(tmp_path: Path) -> None:
    """A file of the same size that was put in its place is another file."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICE)
    book = PriceBook(path)
    first = book.prices()
    moment = path.stat().st_mtime_ns
    fresh = tmp_path / "prices.new"
    fresh.write_text(PRICE.replace("= 1\n", "= 2\n"))
    os.utime(fresh, ns=(moment, moment))

    fresh.replace(path)

    assert [each.per_hour for each in (*first, *book.prices())] == [1, 2]

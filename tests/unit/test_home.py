"""A home, and the ledger that it leads to, have one server at most."""

from pathlib import Path

from api.home import LEDGER, own


def test_a_home_has_one_owner(tmp_path: Path) -> None:
    with own(tmp_path) as first, own(tmp_path) as second:
        assert (first, second) == ("", f"in {tmp_path}")
    with own(tmp_path) as next_one:
        assert next_one == ""


def test_a_ledger_that_two_homes_lead_to_has_one_owner(tmp_path: Path) -> None:
    """Two servers would dispatch each run twice, and one would not hear what the other revokes."""
    owner, copy, other = (tmp_path / name for name in ("owner", "copy", "other"))
    for home in (owner, copy, other):
        home.mkdir()
    (owner / LEDGER).touch()
    (copy / LEDGER).symlink_to(owner / LEDGER)

    with own(owner) as first, own(copy) as second, own(other) as third:
        assert (first, second, third) == ("", f"on {owner / LEDGER}", "")
    with own(copy) as first, own(owner) as second:
        assert (first, second) == ("", f"on {owner / LEDGER}")


def test_a_link_to_a_ledger_that_is_still_to_be_made_counts_too(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
        (home / LEDGER).symlink_to(tmp_path / "large.db")

    with own(homes[0]) as first, own(homes[1]) as second:
        assert (first, second) == ("", f"on {tmp_path / 'large.db'}")

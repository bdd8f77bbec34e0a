"""docs/access.md: it has every role, and its examples of secrets are masked as it says."""

import re
from pathlib import Path

from api.access import NEEDED
from api.app import create_app
from api.settings import Settings
from ledger.masking import is_secret, text
from ledger.tokens import MARK, ROLES

PAGE = (Path(__file__).parent.parent.parent / "docs" / "access.md").read_text("utf-8")


def test_every_role_is_explained() -> None:
    """I24: in their order; http.md has the routes of each, made from the code."""
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", PAGE, re.MULTILINE)

    assert rows == [*ROLES, "worker"]
    assert {*ROLES, "worker", "anybody"} == set(NEEDED.values())


def test_no_entry_is_left_of_a_route_that_is_gone() -> None:
    """A name that is used again would be open as the old one was."""
    app = create_app(Settings(home=Path("home"), devices=()))
    summaries = (
        each["summary"] for every in app.openapi()["paths"].values() for each in every.values()
    )

    assert {each.lower().replace(" ", "_") for each in summaries} == set(NEEDED)


def test_names_are_secrets_or_only_sound_alike_as_the_page_says() -> None:
    """U20."""
    part = PAGE.split("## Secrets")[1]
    secret, alike = re.findall(
        r"^- Values under.*?: (.*?)\. Names.*?: (.*?)\.\n", part, re.DOTALL | re.MULTILINE
    )[0]

    names = re.findall(r"`([\w-]+)`", secret)
    assert len(names) == 7
    assert all(map(is_secret, names))
    innocent = re.findall(r"`([\w-]+)`", alike)
    assert innocent == ["num_memory_tokens", "eos_token", "tokenizer", "password_file"]
    assert [is_secret(name) for name in innocent] == [False] * 4
    before, after = re.search(r"`(https://ana\S+)` becomes `(\S+)`", part).groups()  # type: ignore[union-attr]
    assert text(before) == after


def test_tokens_begin_as_the_page_says() -> None:
    assert f"`{MARK}`" in PAGE

"""The page about branches says what a branch does."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from cli.main import app
from ledger import plan as plans
from ledger.branch import BUDGET, INHERITED
from ledger.events import Restore

PAGE = (Path(__file__).parent.parent.parent / "docs" / "branches.md").read_text("utf-8")


def test_every_command_of_the_page_is_one() -> None:
    """style.md 34."""
    groups: dict[str, set[Any]] = {
        group.name: {command.name for command in group.typer_instance.registered_commands}
        for group in app.registered_groups
        if group.typer_instance is not None and group.name is not None
    }

    named = re.findall(r"^trainledger (\w+) (\w+)", PAGE, re.MULTILINE)

    assert len(named) > 5
    assert all(command in groups[group] for group, command in named)


def test_every_field_that_a_branch_inherits_is_named() -> None:
    """S142, S146."""
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}

    assert named >= {*BUDGET, *INHERITED}


@pytest.mark.parametrize("word", ["requested", "preparing", "created", "refused"])
def test_every_state_is_explained(word: str) -> None:
    """S157."""
    assert f"\n| `{word}` | " in PAGE


def test_both_ways_to_restore_are_explained() -> None:
    """S143, S144."""
    assert all(f"--restore {each}" in PAGE for each in get_args(Restore))


def test_the_override_document_of_the_page_is_one() -> None:
    """S147."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    assert all(plans.is_field(f"config.{name}") for name in yaml.safe_load(text)["config"])

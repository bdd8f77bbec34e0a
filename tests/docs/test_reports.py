"""The contract for people who write a trainer says what the ledger does."""

import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from ledger import plan, reports

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reports.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of the page in ``language``."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


LINES = [line for block in blocks("json") for line in block.splitlines()]


def kinds() -> list[str]:
    """Every kind of report that the ledger understands."""
    union, _ = typing.get_args(reports.AnyReport)
    return [
        typing.get_args(kind.model_fields["kind"].annotation)[0] for kind in typing.get_args(union)
    ]


@pytest.mark.parametrize("line", LINES)
def test_every_example_is_a_report(line: str) -> None:
    """design.md, engine: docs/reports.md is the contract."""
    assert reports.parse(line).kind == line.split('"')[3]


def test_every_kind_has_its_section_and_an_example() -> None:
    """style.md, tests of documentation."""
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == kinds()
    assert list(dict.fromkeys(reports.parse(line).kind for line in LINES)) == kinds()


def test_every_field_has_an_example() -> None:
    """style.md, tests of documentation."""
    union, _ = typing.get_args(reports.AnyReport)
    fields = {
        f"{kind.__name__}.{name}"
        for kind in typing.get_args(union)
        for name in kind.model_fields
        if name != "at"
    }

    shown = {
        f"{type(report).__name__}.{name}"
        for report in map(reports.parse, LINES)
        for name in report.model_fields_set
    }

    assert fields - shown == set()


def test_the_example_program_says_what_the_page_promises(tmp_path: Path) -> None:
    """design.md, engine: a one-file Python client writes the lines."""
    spool = tmp_path / "spool"
    environment = {"TRAINLEDGER_SPOOL": str(spool), "PYTHONPATH": str(REPOSITORY)}

    subprocess.run([sys.executable, "-c", blocks("python")[0]], env=environment, check=True)

    said = [reports.parse(line).kind for line in spool.read_text().splitlines()]
    assert said == ["stage", "training", *["step"] * 20, "validation", "model", "completed"]


def test_the_example_plan_is_a_plan() -> None:
    """style.md: README commands are run by a test."""
    yaml = pytest.importorskip("yaml")

    assert plan.parse(yaml.safe_load(blocks("yaml")[0])).base_model == "my model"

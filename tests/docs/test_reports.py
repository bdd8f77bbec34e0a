"""The contract for people who write a trainer says what the ledger does."""

import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

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


def lines(home: Path, program: str, **settings: str) -> tuple[int, list[reports.AnyReport]]:
    """How an attempt of the example ended, and what it said."""
    home.mkdir()
    environment = {
        "PYTHONPATH": str(REPOSITORY),
        "TRAINLEDGER_SPOOL": str(home / "spool"),
        "TRAINLEDGER_OUTPUT": str(home),
        **settings,
    }
    ended = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    said = [reports.parse(line) for line in (home / "spool").read_text().splitlines()]
    return ended.returncode, said


def attempt(home: Path, **settings: str) -> tuple[int, list[tuple[str, int | None]]]:
    """How an attempt of the example with snapshots ended, and kind and step of what it said."""
    code, said = lines(home, blocks("python")[1], **settings)
    return code, [(each.kind, getattr(each, "step", None)) for each in said]


def steps(first: int, last: int) -> list[tuple[str, int | None]]:
    """Updates with the snapshots between them."""
    said: list[tuple[str, int | None]] = []
    for step in range(first, last + 1):
        said += [("step", step)] + [("snapshot", step)] * (step % 5 == 0)
    return said


def test_the_example_with_snapshots_goes_on_from_them(tmp_path: Path) -> None:
    """I5: an attempt goes on right after what its snapshot holds."""
    whole = attempt(tmp_path / "a1")
    rest = attempt(tmp_path / "a2", TRAINLEDGER_RESTORE=str(tmp_path / "a1" / "checkpoint-15"))

    assert whole == (0, [("training", None), *steps(1, 20), ("completed", None)])
    began = [("restoreCheck", 15), ("training", None)]
    assert rest == (0, [*began, *steps(16, 20), ("completed", None)])
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("request_", ["stop", "pause"])
def test_the_example_with_snapshots_ends_on_request(tmp_path: Path, request_: str) -> None:
    """I4: with nothing new there is nothing to save."""
    control = tmp_path / "control.json"
    control.write_text(f'{{"request": "{request_}", "serial": 1}}')

    ended = attempt(tmp_path / "a1", TRAINLEDGER_CONTROL=str(control))

    assert ended == (143, [("training", None)])


def branch(home: Path, budget: int, **settings: str) -> tuple[list[tuple[str, int | None]], Any]:
    """Kind and step of what an attempt of the example with branches said, and its last numbers."""
    plan_file = home.with_suffix(".json")
    plan_file.write_text(json.dumps({"config": {"maxSteps": budget}}))
    code, said = lines(home, blocks("python")[2], TRAINLEDGER_PLAN=str(plan_file), **settings)
    assert code == 0
    steps = [each.measured for each in said if isinstance(each, reports.StepReport)]
    return [(each.kind, getattr(each, "step", None)) for each in said], (steps or [None])[-1]


def test_the_example_with_branches_counts_from_one_and_keeps_where_it_began(
    tmp_path: Path,
) -> None:
    """S28, S124, S143, S144: a branch of each kind, and one of a branch."""
    _, last = branch(tmp_path / "parent", 4)
    origin = str(tmp_path / "parent" / "checkpoint-4")
    began = [("restoreCheck", 0), ("training", None)]

    by_weights = branch(tmp_path / "w", 2, TRAINLEDGER_BRANCH="weights", TRAINLEDGER_ORIGIN=origin)
    by_state = branch(
        tmp_path / "s", 2, TRAINLEDGER_BRANCH="trainingState", TRAINLEDGER_ORIGIN=origin
    )
    of_branch = branch(
        tmp_path / "b",
        1,
        TRAINLEDGER_BRANCH="trainingState",
        TRAINLEDGER_ORIGIN=str(tmp_path / "s" / "checkpoint-2"),
    )

    said = [("step", 1), ("step", 2), ("snapshot", 2), ("completed", None)]
    assert by_weights[0] == by_state[0] == began + said
    assert last["loss"] > by_weights[1]["loss"] == by_state[1]["loss"] > of_branch[1]["loss"]
    assert [each.get("engine_step") for each in (by_weights[1], by_state[1], of_branch[1])] == [
        None,
        6,
        7,
    ]


def test_the_example_with_branches_goes_on_from_its_own_snapshot(tmp_path: Path) -> None:
    """S145: and knows where it began, which its origin would have told."""
    branch(tmp_path / "parent", 4)
    origin = str(tmp_path / "parent" / "checkpoint-4")
    settings = {"TRAINLEDGER_BRANCH": "trainingState"}
    branch(tmp_path / "a1", 2, TRAINLEDGER_ORIGIN=origin, **settings)

    said, last = branch(
        tmp_path / "a2", 3, TRAINLEDGER_RESTORE=str(tmp_path / "a1" / "checkpoint-2"), **settings
    )

    assert said[:3] == [("restoreCheck", 2), ("training", None), ("step", 3)]
    assert last["engine_step"] == 7


def test_the_example_plan_is_a_plan() -> None:
    """style.md: README commands are run by a test."""
    yaml = pytest.importorskip("yaml")

    assert plan.parse(yaml.safe_load(blocks("yaml")[0])).base_model == "my model"

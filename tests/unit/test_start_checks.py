"""Start checks, from what a trainer says of them to what people read."""

import math
from pathlib import Path
from typing import Any

import pytest

from cli.render.checks import start_checks
from cli.render.run import detail
from engine.client import Reporter
from ledger import attempt, reports
from ledger.attempt import JobHead
from ledger.events import LineRejected, StartChecked
from ledger.reports import StartCheckReport
from ledger.run import Stamp
from ledger.store.sqlite import Database
from projections.documents import Documents
from tests import make
from tests.cli_answers import record


def found(*made: make.Made) -> dict[str, Any] | None:
    """What the record of a run that training began for says, after these events."""
    history = make.History(make.training(), *made)
    documents = Documents(Database(":memory:"), history)
    documents.apply(history.events)
    shown = documents.get(make.RUN)
    assert shown is not None
    checks: dict[str, Any] | None = shown["results"]["startChecks"]
    return checks


@pytest.mark.parametrize(
    ("value", "warn", "refuse", "verdict"),
    [
        (0, 0, 0, "passed"),
        (1, 0, 0, "refused"),
        (6.5, 6.5, 8.9, "passed"),
        (6.6, 6.5, 8.9, "warned"),
        (8.9, 6.5, 8.9, "warned"),
        (9.0, 6.5, 8.9, "refused"),
        (math.nan, 6.5, 8.9, "refused"),
        (math.inf, 6.5, 8.9, "refused"),
        (200, 100, 50, "passed"),
        (99, 100, 50, "warned"),
        (49, 100, 50, "refused"),
        (math.nan, 100, 50, "refused"),
    ],
)
def test_a_verdict_follows_from_value_and_limits(
    tmp_path: Path, value: float, warn: float, refuse: float, verdict: str
) -> None:
    """S15, I19: up to a limit is within it; with the warn limit above, less is worse."""
    report = Reporter(tmp_path / "spool")

    said = report.start_check("a check", value, warn=warn, refuse=refuse, unit="nats", seconds=0.5)

    line = reports.parse((tmp_path / "spool").read_text())
    assert said == verdict
    assert isinstance(line, StartCheckReport)
    assert (line.name, line.verdict, line.unit) == ("a check", verdict, "nats")
    assert (line.warn_limit, line.refuse_limit, line.seconds) == (warn, refuse, 0.5)
    assert line.value == value or math.isnan(value)


def taken(line: str) -> StartChecked | LineRejected:
    """The event that the line becomes."""
    event = attempt.take(JobHead("run/r/a1"), line, Stamp(make.START, "attempt"))
    assert isinstance(event, StartChecked | LineRejected)
    return event


LINE = '{"kind": "startCheck", "name": "loss", "value": %s, "warnLimit": 1, "refuseLimit": 2, '


def test_a_line_becomes_an_event_and_keeps_a_value_that_is_not_finite() -> None:
    """S15, C28: NaN is what was found."""
    event = taken(LINE % '"NaN"' + '"seconds": 0.1, "verdict": "refused"}')

    assert isinstance(event, StartChecked)
    assert math.isnan(event.value)
    assert StartChecked.model_validate_json(event.model_dump_json()).model_dump_json() == (
        event.model_dump_json()
    )


@pytest.mark.parametrize(
    ("value", "rest", "reason"),
    [
        ("1", '"verdict": "passed"}', "the field seconds is missing"),
        ("true", '"seconds": 0, "verdict": "passed"}', "value: it is True, which is not a number"),
        ("1", '"seconds": 0, "verdict": "fine"}', "verdict: Input should be 'passed', 'warned'"),
    ],
)
def test_a_line_that_is_no_check_is_rejected_by_name(value: str, rest: str, reason: str) -> None:
    """U19: the field and what is wrong with it."""
    event = taken(LINE % value + rest)

    assert isinstance(event, LineRejected)
    assert reason in event.reason


def test_the_record_counts_what_passed_and_has_every_limit() -> None:
    """S15: passed n of m, seconds; each with name, value, warn limit, refuse limit."""
    checks = found(
        make.start_checked("vocabulary", 0, seconds=0.25, unit="tokens"),
        make.start_checked("loss", 1.5, seconds=0.5, verdict="warned", unit="nats"),
    )

    assert checks is not None
    assert (checks["passed"], checks["total"], checks["seconds"]) == (1, 2, 0.75)
    assert checks["checks"][1] == {
        "name": "loss",
        "value": 1.5,
        "warnLimit": 1.0,
        "refuseLimit": 2.0,
        "unit": "nats",
        "seconds": 0.5,
        "verdict": "warned",
        "attempt": 1,
    }


def test_a_later_attempt_replaces_the_checks_that_it_makes_again() -> None:
    """S15: the disk is looked at by each attempt, the model by the first alone."""
    checks = found(
        make.start_checked("disk room", 900),
        make.start_checked("loss", 1),
        make.step(1),
        make.retried(2, 0),
        make.start_checked("disk room", 700, attempt=2),
    )

    assert checks is not None
    said = [(each["name"], each["value"], each["attempt"]) for each in checks["checks"]]
    assert said == [("disk room", 700.0, 2), ("loss", 1.0, 1)]


def test_a_run_that_checked_nothing_says_so() -> None:
    """S65: null, no invention."""
    assert found() is None


def test_people_read_how_many_passed_and_the_others_with_both_limits() -> None:
    """S15: a warning has its value and both limits, on the side on which they are."""
    checks = found(
        make.start_checked("vocabulary", 0, seconds=0.7),
        make.start_checked(
            *("loss before training", 6.6),
            warn_limit=6.5457068,
            refuse_limit=8.926,
            unit="nats",
            verdict="warned",
            seconds=0.5,
        ),
        make.start_checked(
            *("disk room", 3 * 2**30),
            warn_limit=4 * 2**30,
            refuse_limit=60 * 2**20,
            unit="bytes free",
            verdict="warned",
        ),
    )

    assert checks is not None
    assert start_checks(checks).splitlines() == [
        "1 of 3 passed in 1.2 s",
        "warned: loss before training, 6.6 nats (warns above 6.54571, refuses above 8.926)",
        "warned: disk room, 3.0 GiB free (warns below 4.0 GiB, refuses below 60.0 MiB)",
    ]


def test_a_value_that_is_not_finite_is_shown_as_it_is() -> None:
    """C28, S15: and a name cannot write a line of its own."""
    checks = found(make.start_checked("loss\n", math.nan, verdict="refused"))

    assert checks is not None
    assert start_checks(checks).splitlines()[1] == (
        "refused: loss\\n, NaN (warns above 1, refuses above 2)"
    )


def test_the_detail_of_a_run_has_checks_and_memory_in_80_columns() -> None:
    """S15, S63, S64: below Results, and below Cost beside the peak of each device."""
    checks = found(make.start_checked("vocabulary", 0), make.start_checked("disk room", 1))
    part = {"phase": "forward and backward", "weightsBytes": 2**20, "freeBytes": 2**30 - 2**20}
    held = {"attempt": 1, "step": 3, "device": "cpu:0", "sizeBytes": 2**30}
    results = {"model": None, "validationLoss": None, "trainingLoss": None, "startChecks": checks}
    memory = {
        "peakBytes": {"cpu:0": 2**21},
        "breakdown": held | {"reservedBytes": 2**20, "peak": part, "other": None},
    }

    shown = detail(record(results=results, memory=memory), width=80, with_settings=False)

    assert "  Start checks      2 of 2 passed in 0.0 s\n" in shown
    assert "  Memory            1.0 MiB of 1.0 GiB on cpu:0 reserved, in step 3\n" in shown
    assert "                    weights                        1.0 MiB\n" in shown
    assert "                    adapter                   not measured\n" in shown
    assert max(map(len, shown.splitlines())) <= 80

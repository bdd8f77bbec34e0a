"""``runs rollouts``: what it asks, the table that it shows, and what is wrong use."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.answers import ROUTES, SUPERSEDED_BY
from tests.cli_server import RUN, CannedServer, canned_server, here

PATH = f"/v1/runs/{RUN}/rollouts"
LONG = "word " * 50


def rollout(place: int, score: float | str, **facts: Any) -> dict[str, Any]:
    terms = {"correct": 1.0, "format": 0.125}
    said = {"place": place, "attempt": 1, "prompt": "2 * 3?", "completion": "6", "score": score}
    return said | {"terms": terms} | facts


def answer(*rollouts: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    number = len(rollouts) if count is None else count
    steps = [40, 41]
    said = {"step": 41 if rollouts else None, "count": number, "rollouts": list(rollouts)}
    return {"runId": RUN, "position": 7, **said, "steps": steps if rollouts else []}


@pytest.fixture
def canned() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


def shown(canned: CannedServer, *options: str, columns: int = 80) -> str:
    done = here("runs", "rollouts", RUN, *options, url=canned.url, COLUMNS=str(columns))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_table_has_the_last_message_of_a_prompt_and_cuts_both_texts(
    canned: CannedServer,
) -> None:
    """S130: in 80 columns; line breaks are blanks, and what is empty is seen to be."""
    chat = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": f"Why?\n\n{LONG}"},
    ]
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "So."}, {"type": "image"}]}]
    rows = [
        rollout(3, 0.123456789, prompt=chat, completion=LONG),
        rollout(1, "NaN", completion="", terms={"correct": 0.0}),
        rollout(2, 1.125, completion=parts),
    ]
    canned.answer("GET", PATH, answer(*rows, count=64))

    text = shown(canned, "--worst", "3")

    assert text == (
        "update 41: 3 of 64 rollouts, lowest scores first\n"
        "place     score  correct  format  prompt                  completion\n"
        "    3  0.123457        1   0.125  Why? word word word...  word word word word...\n"
        '    1       NaN        0       -  2 * 3?                  ""\n'
        '    2     1.125        1   0.125  2 * 3?                  So. {"type": "image"}\n'
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_wide_terminal_shows_more_of_the_texts(canned: CannedServer) -> None:
    canned.answer("GET", PATH, answer(rollout(1, 1.0, prompt=LONG, completion=LONG)))

    narrow, wide = shown(canned, columns=60), shown(canned, columns=200)

    assert narrow.splitlines()[0] == "update 41: 1 rollout, in the order of scoring"
    assert max(map(len, narrow.splitlines())) <= 60
    assert 180 <= max(map(len, wide.splitlines())) <= 200


def test_superseded_rollouts_say_so(canned: CannedServer) -> None:
    """D13."""
    back = rollout(1, 0.5, superseded=True, supersededBy=SUPERSEDED_BY)
    canned.answer("GET", PATH, answer(back, rollout(1, 1.0, attempt=2)))

    lines = shown(canned, "--superseded", "--best", "2").splitlines()

    assert lines[0] == "update 41: 2 rollouts, highest scores first"
    assert [line.split()[:4] for line in lines[1:]] == [
        ["place", "attempt", "superseded", "score"],
        ["1", "1", "by", "attempt"],
        ["1", "2", "-", "1"],
    ]


def test_a_run_that_has_none_says_so(canned: CannedServer) -> None:
    canned.answer("GET", PATH, answer())

    assert shown(canned) == "no rollouts\n"


def test_json_has_everything_in_full(canned: CannedServer) -> None:
    """S131: and jq reads it."""
    example = ROUTES["read_rollouts"].example
    canned.answer("GET", PATH, example)

    assert json.loads(shown(canned, "-o", "json")) == example
    assert shown(canned, "--jq", ".steps[], .rollouts[].completion") == "5\n6\n7\n6\n"


def test_each_option_is_asked_for_by_its_name(canned: CannedServer) -> None:
    """S127, S128, S129, D13."""
    canned.answer("GET", PATH, answer())

    shown(canned, "--step", "40", "--limit", "5", "--attempt", "2", "--as-of", "7")
    shown(canned, "--worst", "5", "--superseded")
    shown(canned, "--best", "200")

    assert [request.parameters for request in canned.asked("GET", PATH)] == [
        {"step": ["40"], "limit": ["5"], "attempt": ["2"], "asOf": ["7"]},
        {"worst": ["5"], "superseded": ["true"]},
        {"best": ["200"]},
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--best", "1", "--worst", "1"), "state one of --worst, --best and --limit"),
        (("--limit", "1", "--worst", "1"), "state one of --worst, --best and --limit"),
        (("--best", "201"), "Invalid value for '--best'"),
        (("--step", "0"), "Invalid value for '--step'"),
    ],
)
def test_wrong_use_is_told_and_nothing_asked(
    canned: CannedServer, options: tuple[str, ...], sentence: str
) -> None:
    """D8."""
    done = here("runs", "rollouts", RUN, *options, url=canned.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert canned.requests == []

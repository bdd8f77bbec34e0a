"""Preparations in the terminal: in the detail of a run, and in the lines of a followed one."""

from functools import reduce

from cli.progress import Progress, advance
from cli.render.progress import changes, stage_line
from cli.render.run import detail
from tests.cli_answers import event, record
from tests.cli_server import RUN

REASON = "this run’s rows could not be prepared"
KILLED = {
    "preparation": 1,
    "hostSeconds": 5.25,
    "outcome": "failed",
    "reason": REASON,
    "rejectedLines": 2,
}
DONE = {"preparation": 2, "hostSeconds": 65, "outcome": "completed", "reason": "the rows are ready"}


def test_the_detail_has_each_preparation_before_the_attempts() -> None:
    """D12, S30: the time of a host, apart from that of devices."""
    text = detail(record(preparations=[KILLED, DONE]), width=80, with_settings=False)

    cost = text[text.index("\nCost") :].splitlines()
    first = next(n for n, line in enumerate(cost) if line.startswith("  Preparation 1"))
    assert [" ".join(line.split()) for line in cost[first : first + 6]] == [
        "Preparation 1 5.2 s without devices",
        "2 lines of its reports rejected",
        f"ended: {REASON}",
        "Preparation 2 0:01:05 without devices",
        "ended: the rows are ready",
        "Attempt 1 steps 1 to 120 on cuda:0 cuda:1",
    ]


def test_a_followed_run_tells_its_turn_its_rows_and_what_is_repeated() -> None:
    """S31, S33, S50: in a pipe."""
    because = "its turn to be prepared, after run 5eed"
    waits = event(2, "phaseChanged", phase="PREPARING", waitingFor=because)
    stage = event(3, "stageReported", preparation=1, stage="tokenizing", completed=5, total=10)
    closed = event(4, "preparationClosed", preparation=1, reason=REASON, mayRetry=True)
    last = event(5, "preparationClosed", preparation=2, reason="the rows are ready")

    submitted = Progress(phase="SUBMITTED", run_id=RUN)
    waiting = advance(submitted, waits)
    tokenizing = advance(waiting, stage)
    repeated = advance(tokenizing, closed)

    assert list(changes(submitted, waiting)) == [f"PREPARING: {because}"]
    assert stage_line(tokenizing) == "  tokenizing: 5 of 10"
    assert list(changes(tokenizing, repeated)) == [f"preparation 1 ended: {REASON}"]
    assert list(changes(repeated, reduce(advance, [last], repeated))) == []

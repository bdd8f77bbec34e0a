"""The ledger over its recorders: what comes in, comes in once, in order, and stays."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.persistence import StoredEvent

from ledger import audit, codec
from ledger.errors import (
    CorruptError,
    FencedError,
    GapError,
    LedgerError,
    NotFoundError,
    PlanError,
    TokenReusedError,
)
from ledger.events import Job, LineRejected, PhaseChanged, StepReported, UnknownEvent
from ledger.ledger import TAIL, Ledger
from ledger.run import Phase
from ledger.store.memory import MemoryRecorder
from ledger.store.recorder import LedgerRecorder
from ledger.store.sqlite import Database, SQLiteRecorder
from tests import ledgers, make


@pytest.fixture(params=["memory", "sqlite"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerRecorder]:
    if request.param == "memory":
        yield MemoryRecorder()
        return
    database = Database(tmp_path / "ledger.db")
    yield SQLiteRecorder(database)
    database.close()


def test_the_same_plan_twice_is_two_runs(recorder: LedgerRecorder) -> None:
    """I1, U9: ids are keys, names are labels."""
    ledger = ledgers.ledger(recorder)

    ids = {ledgers.submit(ledger, name="first try") for _ in range(2)}

    assert len(ids) == 2
    assert ledger.open_runs() != []


def test_a_submission_token_creates_one_run(recorder: LedgerRecorder) -> None:
    """I1: a lost answer never makes two runs, also after a restart."""
    ledger = ledgers.ledger(recorder)
    document = ledgers.DOCUMENT

    first = ledger.submit(document, token="t-1", principal="tester")
    again = ledgers.ledger(recorder).submit(document, token="t-1", principal="tester")

    assert (first.created, again.created) == (True, False)
    assert again.run_id == first.run_id
    assert len(ledger.read(0, 10)) == 2  # one acceptance, one submission


def test_a_submission_token_is_not_good_for_another_plan(recorder: LedgerRecorder) -> None:
    """D14: refused, with the first plan's digest."""
    ledger = ledgers.ledger(recorder)
    ledger.submit(ledgers.DOCUMENT, token="t-1", principal="tester")

    with pytest.raises(TokenReusedError, match=r"its digest is [0-9a-f]{12}"):
        ledger.submit(ledgers.DOCUMENT | {"project": "x"}, token="t-1", principal="tester")

    assert len(ledger.read(0, 10)) == 2


def test_a_plan_that_cannot_be_run_leaves_no_trace() -> None:
    """I1: unknown fields are refused by name."""
    ledger = ledgers.ledger()

    with pytest.raises(PlanError) as caught:
        ledger.submit({"baseModel": "m", "datset": "d"}, token="t-1", principal="tester")

    assert caught.value.faults == ["dataset is missing", "datset is not a field of a plan"]
    assert ledger.position() == 0


def test_a_token_that_could_be_a_path_is_refused() -> None:
    with pytest.raises(LedgerError, match="1 to 100 letters"):
        ledgers.ledger().submit(ledgers.DOCUMENT, token="../x", principal="tester")


def test_one_line_is_one_event_and_training_begins_with_the_first_word_of_it(
    recorder: LedgerRecorder,
) -> None:
    """S42: PREPARING until the worker trains."""
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)

    head = ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 3))

    assert head.lines == 3
    assert ledger.run(run_id).phase is Phase.TRAINING
    events = [each.event for each in ledger.read_run(run_id, 0, 100)]
    assert [type(event) for event in events[-4:]] == [PhaseChanged, *[StepReported] * 3]
    assert [event.originator_version for event in events[-3:]] == [1, 2, 3]


def test_a_batch_that_is_sent_again_adds_nothing(recorder: LedgerRecorder) -> None:
    """U6, C55: an append that was answered or not is in the ledger once."""
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    lines = ledgers.step_lines(1, 6)
    ledger.record(run_id, Job(1), first=1, lines=lines[:4])

    head = ledger.record(run_id, Job(1), first=2, lines=lines[1:])

    assert head.lines == 6
    stored = [each.event for each in ledger.read_run(run_id, 0, 100)]
    steps = [event.step for event in stored if isinstance(event, StepReported)]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_line_that_was_left_out_or_changed_is_not_accepted(recorder: LedgerRecorder) -> None:
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 2))

    with pytest.raises(GapError, match="line 4 came, but line 3 is the next one") as caught:
        ledger.record(run_id, Job(1), first=4, lines=ledgers.step_lines(4, 4))
    with pytest.raises(GapError, match="line 2 said something else before"):
        ledger.record(run_id, Job(1), first=2, lines=ledgers.step_lines(2, 2, loss=7.0))

    assert caught.value.taken == 2


def test_a_closed_attempt_says_nothing_more(recorder: LedgerRecorder) -> None:
    """C55: the stale attempt gets an error and none of its rows count, even of another process."""
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 2))
    stale = ledgers.ledger(recorder)
    stale.record(run_id, Job(1), first=3, lines=ledgers.step_lines(3, 3))

    ledgers.close(ledger, run_id)
    position = ledger.position()

    with pytest.raises(FencedError, match="attempt 1 of run"):
        stale.record(run_id, Job(1), first=4, lines=ledgers.step_lines(4, 4))
    with pytest.raises(FencedError):
        ledger.record(run_id, Job(2), first=1, lines=[])
    assert ledger.position() == position
    assert ledger.open_runs() == []
    assert ledger.run(run_id).phase is Phase.COMPLETED


def test_a_restarted_ledger_judges_the_next_line_by_the_last_one(recorder: LedgerRecorder) -> None:
    """U2: also when the last step lies far behind the end of the stream."""
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    stages = [json.dumps({"kind": "stage", "stage": f"saving {n}"}) for n in range(2 * TAIL)]
    ledger.record(run_id, Job(1), first=1, lines=[*ledgers.step_lines(1, TAIL + 7), *stages])

    again = ledgers.ledger(recorder)
    lines = 3 * TAIL + 7
    again.record(run_id, Job(1), first=lines + 1, lines=ledgers.step_lines(TAIL + 7, TAIL + 8))

    newest = [each.event for each in again.read_run(run_id, again.position() - 2, 10)]
    assert isinstance(newest[0], LineRejected)
    assert isinstance(newest[1], StepReported)
    assert again.open_runs() == [run_id]


def test_there_is_no_run_of_that_name() -> None:
    with pytest.raises(NotFoundError, match="there is no run 00"):
        ledgers.ledger().run("00")


def test_the_chain_of_an_untouched_ledger_holds(recorder: LedgerRecorder) -> None:
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 20))
    ledgers.close(ledger, run_id)

    verdict = audit.verify(ledger)

    assert verdict.faults == ()
    assert (verdict.events, verdict.streams) == (ledger.position(), 3)


def tampered(folder: Path, statement: str) -> Ledger:
    """A ledger whose file somebody edited behind its back."""
    database = Database(folder / "ledger.db")
    ledger = ledgers.ledger(SQLiteRecorder(database))
    run_id = ledgers.started(ledger)
    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 9))
    ledgers.close(ledger, run_id)
    database.close()
    with sqlite3.connect(folder / "ledger.db") as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement).rowcount >= 1
    connection.close()
    return ledgers.ledger(SQLiteRecorder(Database(folder / "ledger.db")))


@pytest.mark.parametrize(
    ("statement", "version", "detail"),
    [
        (
            "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
            " WHERE stream LIKE '%/a1' AND version = 4",
            5,
            "does not follow what is stored before it",
        ),
        (
            "UPDATE stored_event SET topic = 'run.restored.v1'"
            " WHERE stream LIKE '%/a1' AND version = 4",
            5,
            "does not follow what is stored before it",
        ),
        (
            "DELETE FROM stored_event WHERE stream LIKE '%/a1' AND version = 4",
            5,
            "version 5 follows version 3",
        ),
        (
            "UPDATE stored_event SET version = CASE version WHEN 4 THEN -5 ELSE 4 END"
            " WHERE stream LIKE '%/a1' AND version IN (4, 5)",
            -5,
            "version -5 follows version 3",
        ),
    ],
)
def test_the_audit_names_the_first_event_that_is_not_what_it_was(
    tmp_path: Path, statement: str, version: int, detail: str
) -> None:
    ledger = tampered(tmp_path, statement)

    (fault,) = audit.verify(ledger).faults

    assert fault.stream.endswith("/a1")
    assert fault.version == version
    assert detail in fault.detail


def test_a_life_that_was_changed_is_not_folded(tmp_path: Path) -> None:
    """The chain is checked where a decision would rest on it."""
    ledger = tampered(
        tmp_path,
        "UPDATE stored_event SET state = CAST(replace(state, 'cpu:0', 'cpu:1') AS BLOB)"
        " WHERE topic = 'run.attempt_opened.v1'",
    )
    (run_id,) = {each.event.run_id for each in ledger.read(1, 1)}

    with pytest.raises(CorruptError, match="an event was changed, removed or exchanged"):
        ledger.run(run_id)


@pytest.mark.parametrize(
    "statement", ["UPDATE stored_event SET version = 9", "DELETE FROM stored_event"]
)
def test_the_table_of_events_refuses_changes(tmp_path: Path, statement: str) -> None:
    database = Database(tmp_path / "ledger.db")
    ledgers.submit(ledgers.ledger(SQLiteRecorder(database)))

    with (
        sqlite3.connect(tmp_path / "ledger.db") as connection,
        pytest.raises(sqlite3.IntegrityError, match="an event is never"),
    ):
        connection.execute(statement)
    connection.close()
    database.close()


def test_an_event_of_a_later_version_is_kept_and_not_guessed_at(recorder: LedgerRecorder) -> None:
    ledger = ledgers.ledger(recorder)
    state = codec.GENESIS + b'{"new": 1}'
    recorder.insert_events([StoredEvent("run/aa/note", 1, "run.noted.v7", state)])

    (recorded,) = ledgers.ledger(recorder).read(0, 10)

    assert isinstance(recorded.event, UnknownEvent)
    assert (recorded.event.topic, recorded.event.payload) == ("run.noted.v7", b'{"new": 1}')
    assert audit.verify(ledger).faults == ()


def test_every_event_comes_back_as_it_was_written(recorder: LedgerRecorder) -> None:
    """U11: stored exactly, whatever the number."""
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger)
    measured = '{"a":"NaN","b":"-Infinity","c":1e-320,"d":0.1,"e":123456789012345678}'
    line = f'{{"kind":"step","step":1,"measured":{measured}}}'
    ledger.record(run_id, Job(1), first=1, lines=[line])

    event = ledger.read_run(run_id, 0, 100)[-1].event

    assert isinstance(event, StepReported)
    assert {name: repr(value) for name, value in event.measured.items()} == {
        "a": "nan",
        "b": "-inf",
        "c": "1e-320",
        "d": "0.1",
        "e": "1.2345678901234568e+17",
    }


def test_somebody_who_waits_wakes_when_the_ledger_grows() -> None:
    ledger = ledgers.ledger()

    assert not ledger.wait_beyond(0, 0.0)
    ledgers.submit(ledger)
    assert ledger.wait_beyond(0, 0.0)
    assert ledger.read(0, 1)[0].event.timestamp == make.START

"""The audit against somebody who edits the files behind the server's back."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ledger import audit, signing
from ledger.audit import Fault, Verdict
from ledger.events import SEALS, Job
from ledger.ledger import Ledger
from ledger.seals import Sealer
from ledger.store.sqlite import Database, SQLiteRecorder
from tests import ledgers

STEPS = 9


class Home:
    """A ledger in a file: two runs that ended and are sealed, and one that goes on unsealed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.key = signing.make_key(folder / "seal.key")
        database = Database(self.path, synchronous="NORMAL")
        ledger = ledgers.ledger(SQLiteRecorder(database))
        sealer = Sealer(
            ledger,
            every_events=1_000,
            every_seconds=1_000.0,
            monotonic=lambda: 0.0,
            key=lambda: self.key,
        )
        self.runs = []
        for _ in range(2):
            run_id = ledgers.started(ledger)
            ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, STEPS))
            ledgers.close(ledger, run_id)
            sealer.work()
            self.runs.append(run_id)
        self.runs.append(ledgers.started(ledger))
        self.end = ledger.position()
        database.close()
        with closing(sqlite3.connect(self.path)) as connection:
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")

    def edit(self, *statements: str) -> None:
        """Change the file by hand; a, b and c in braces are the ids of the runs."""
        named = dict(zip("abc", self.runs, strict=True))
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in statements:
                changed = connection.execute(statement.format(**named)).rowcount
                assert changed != 0, statement

    def one(self, query: str) -> tuple[int | str | bytes, ...]:
        named = dict(zip("abc", self.runs, strict=True))
        with closing(sqlite3.connect(self.path)) as connection:
            row: tuple[int | str | bytes, ...] = connection.execute(
                query.format(**named)
            ).fetchone()
            return row

    def verify(self) -> Verdict:
        return self._asked(audit.verify)

    def verify_run(self, run_id: str) -> Verdict:
        return self._asked(
            lambda ledger: audit.verify_streams(
                ledger, f"run/{run_id}", audit.streams_beside(ledger, run_id)
            )
        )

    def _asked(self, question: Callable[[Ledger], Verdict]) -> Verdict:
        database = Database(self.path, synchronous="NORMAL")
        try:
            return question(ledgers.ledger(SQLiteRecorder(database)))
        finally:
            database.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def faults(verdict: Verdict) -> dict[str | None, Fault]:
    return {each.stream: each for each in verdict.faults}


def place(home: Home, stream: str, version: int) -> int:
    (position,) = home.one(
        f"SELECT position FROM stored_event WHERE stream = '{stream}' AND version = {version}"
    )
    assert isinstance(position, int)
    return position


STEP_4 = "stream = 'run/{a}/a1' AND version = 4"


def test_a_ledger_that_nobody_touched_is_whole(home: Home) -> None:
    verdict = home.verify()

    assert verdict.faults == ()
    assert (verdict.events, verdict.position) == (home.end, home.end)
    assert (verdict.sealed.seals, verdict.sealed.signed) == (2, 2)
    assert verdict.sealed.keys == (home.key.public,)
    assert verdict.unknown == {}


def test_a_changed_event_is_found(home: Home) -> None:
    """Issue 7: the event after it no longer follows; both are named by stream and version."""
    home.edit(
        "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
        f" WHERE {STEP_4}"
    )

    (fault,) = home.verify().faults

    stream = f"run/{home.runs[0]}/a1"
    assert fault == Fault(stream, 5, place(home, stream, 5), fault.detail)
    assert "does not follow what is stored before it" in fault.detail


@pytest.mark.parametrize(
    "stream",
    ["'run/{b}'", "'run/{b}/a1'", "(SELECT stream FROM stored_event WHERE position = 1)"],
)
def test_a_changed_event_that_is_the_newest_of_its_stream_is_found(home: Home, stream: str) -> None:
    """No event follows it, so only a seal tells."""
    named, version, position = home.one(
        "SELECT stream, version, position FROM stored_event"
        f" WHERE stream = {stream} ORDER BY version DESC LIMIT 1"
    )
    home.edit(
        "UPDATE stored_event SET state = CAST(replace(state, '2026', '2025') AS BLOB)"
        f" WHERE position = {position}"
    )

    (fault,) = home.verify().faults

    assert (fault.stream, fault.version, fault.position) == (named, version, position)
    assert fault.detail.startswith("what is stored is not what was sealed (seal ")


def test_a_deleted_event_is_found(home: Home) -> None:
    home.edit(f"DELETE FROM stored_event WHERE {STEP_4}")

    (fault,) = home.verify().faults

    assert (fault.stream, fault.version) == (f"run/{home.runs[0]}/a1", 5)
    assert fault.detail == "version 5 follows version 3"


def test_a_deleted_event_that_was_the_newest_of_its_stream_is_found(home: Home) -> None:
    (version,) = home.one("SELECT max(version) FROM stored_event WHERE stream = 'run/{a}'")
    home.edit(f"DELETE FROM stored_event WHERE stream = 'run/{{a}}' AND version = {version}")

    (fault,) = home.verify().faults

    assert (fault.stream, fault.version, fault.position) == (f"run/{home.runs[0]}", version, None)
    assert fault.detail.startswith(
        f"version {version} was sealed, and the newest is {int(version) - 1} stored"
    )


def test_a_deleted_stream_is_found(home: Home) -> None:
    home.edit("DELETE FROM stored_event WHERE stream LIKE 'run/{a}%'")

    found = faults(home.verify())

    assert found.keys() == {f"run/{home.runs[0]}", f"run/{home.runs[0]}/a1"}
    assert "nothing of the stream is stored" in found[f"run/{home.runs[0]}"].detail


def test_a_deleted_event_that_no_seal_covers_leaves_an_empty_place(home: Home) -> None:
    """Of the newest events: which stream it was of, nobody knows any more."""
    position = home.end - 1
    home.edit(
        f"UPDATE stored_event SET stream = 'submission/x', version = 1 WHERE position = {position}",
        f"DELETE FROM stored_event WHERE position = {position}",
    )

    details = [fault.detail for fault in home.verify().faults]

    assert details == [f"version {_version(home)} follows version {_version(home) - 2}"]


def _version(home: Home) -> int:
    (version,) = home.one(f"SELECT version FROM stored_event WHERE position = {home.end}")
    assert isinstance(version, int)
    return version


def test_an_inserted_event_is_found(home: Home) -> None:
    """At the end of the ledger, in a stream that goes on elsewhere, with a link of its own."""
    home.edit(
        "INSERT INTO stored_event SELECT (SELECT max(position) + 1 FROM stored_event), stream, "
        f"{STEPS + 2}, topic, state FROM stored_event WHERE {STEP_4}"
    )

    (fault,) = home.verify().faults

    assert (fault.stream, fault.position) == (f"run/{home.runs[0]}/a1", home.end + 1)


def chained(home: Home, stream: str, payload: bytes) -> None:
    """Append an event to a stream with the digest that belongs there."""
    version, topic, state = home.one(
        "SELECT version, topic, state FROM stored_event"
        f" WHERE stream = '{stream}' ORDER BY version DESC"
    )
    assert isinstance(state, bytes)
    digest = hashlib.sha256(f"{stream}\0{version}\0{topic}\0".encode() + state).hexdigest()
    home.edit(
        "INSERT INTO stored_event SELECT (SELECT max(position) + 1 FROM stored_event),"
        f" '{stream}', {int(version) + 1}, '{topic}', x'{digest}{payload.hex()}'"
    )


def test_an_inserted_event_that_is_no_json_is_found(home: Home) -> None:
    chained(home, f"run/{home.runs[2]}", b"{")

    (fault,) = home.verify().faults

    assert (fault.stream, fault.position) == (f"run/{home.runs[2]}", home.end + 1)
    assert fault.detail.endswith("is no JSON object")


def test_an_inserted_event_that_is_not_what_its_topic_says_is_found_when_it_is_read(
    home: Home,
) -> None:
    """Its chain is right: whoever writes to the file can compute that as well as we can."""
    chained(home, f"run/{home.runs[2]}", b'{"made": "up"}')
    database = Database(home.path)

    (fault,) = audit.unreadable(ledgers.ledger(SQLiteRecorder(database)))
    database.close()

    assert home.verify().faults == ()
    assert (fault.stream, fault.position) == (f"run/{home.runs[2]}", home.end + 1)
    assert " is not a run." in fault.detail


def test_an_event_inserted_below_what_was_sealed_is_found(home: Home) -> None:
    """With a chain that is right, in a stream that ended, in the place of another event."""
    position = place(home, f"run/{home.runs[1]}/a1", 3)
    home.edit(
        f"UPDATE stored_event SET position = -position WHERE position >= {position}",
        "UPDATE stored_event SET position = 1 - position WHERE position < 0",
        "INSERT INTO stored_event SELECT"
        f" {position}, 'run/{{b}}/note', 1, topic,"
        " CAST(zeroblob(32) || substr(state, 33) AS BLOB)"
        " FROM stored_event WHERE position = 3",
    )

    found = faults(home.verify())

    assert f"run/{home.runs[1]}/note" in found
    assert found[f"run/{home.runs[1]}/note"].version == 1
    assert "was not there when everything up to it was sealed" in (
        found[f"run/{home.runs[1]}/note"].detail
    )


def swapped(first: int, second: int) -> tuple[str, ...]:
    return (
        f"UPDATE stored_event SET position = -1 WHERE position = {first}",
        f"UPDATE stored_event SET position = {first} WHERE position = {second}",
        f"UPDATE stored_event SET position = {second} WHERE position = -1",
    )


def test_events_of_a_stream_in_another_order_are_found(home: Home) -> None:
    stream = f"run/{home.runs[0]}/a1"
    home.edit(*swapped(place(home, stream, 4), place(home, stream, 5)))

    (fault,) = home.verify().faults

    assert (fault.stream, fault.version) == (stream, 5)
    assert fault.detail == "version 5 follows version 3"


def test_events_of_two_streams_in_another_order_are_found(home: Home) -> None:
    """Each chain is whole, and only the order of the ledger is not what it was."""
    (first,) = home.one(
        "SELECT min(one.position) FROM stored_event AS one JOIN stored_event AS other"
        " ON other.position = one.position + 1 AND other.stream <> one.stream"
        " WHERE one.stream LIKE 'run/{b}%'"
    )
    home.edit(*swapped(int(first), int(first) + 1))

    (fault,) = home.verify().faults

    assert (fault.stream, fault.version) == (SEALS, 2)
    assert "or in another order" in fault.detail


def test_two_streams_in_each_others_place_are_found(home: Home) -> None:
    """Of one event each, so that no link is broken."""
    (one, other) = (
        str(home.one(f"SELECT stream FROM stored_event WHERE position = {position}")[0])
        for position in (1, place(home, f"run/{home.runs[1]}", 1) - 1)
    )
    assert one.startswith("submission/")
    assert other.startswith("submission/")
    home.edit(
        f"UPDATE stored_event SET stream = 'x' WHERE stream = '{one}'",
        f"UPDATE stored_event SET stream = '{one}' WHERE stream = '{other}'",
        f"UPDATE stored_event SET stream = '{other}' WHERE stream = 'x'",
    )

    assert faults(home.verify()).keys() == {one, other}


def test_two_runs_in_each_others_place_are_found(home: Home) -> None:
    home.edit(
        "UPDATE stored_event SET stream = 'x' || substr(stream, 5) WHERE stream LIKE 'run/{a}%'",
        "UPDATE stored_event SET stream = replace(stream, '{b}', '{a}')"
        " WHERE stream LIKE 'run/{b}%'",
        "UPDATE stored_event SET stream = 'run/' || replace(substr(stream, 2), '{a}', '{b}')"
        " WHERE stream LIKE 'x{a}%'",
    )

    assert {f"run/{each}" for each in home.runs[:2]} <= faults(home.verify()).keys()


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ('"upto":', '"upto" :', "what is stored is not what was sealed (seal 2"),
        ('"events":', '"events":1', "its signature is not of what it says"),
        ('"signature":"', '"signature":"00', "its signature is not of what it says"),
        ('"public_key"', '"public_kez"', "what is stored is not what was sealed (seal 2"),
    ],
)
def test_an_edited_seal_is_found(home: Home, old: str, new: str, detail: str) -> None:
    home.edit(
        f"UPDATE stored_event SET state = CAST(replace(state, '{old}', '{new}') AS BLOB)"
        f" WHERE stream = '{SEALS}' AND version = 1"
    )

    found = faults(home.verify())

    assert found.keys() == {SEALS}
    assert detail in found[SEALS].detail


def test_a_deleted_seal_is_found(home: Home) -> None:
    """It was the newest of its stream, but its place in the ledger is empty."""
    position = place(home, SEALS, 2)
    home.edit(f"DELETE FROM stored_event WHERE position = {position}")

    (fault,) = home.verify().faults

    assert fault == Fault(
        None, None, position, f"position {position} is empty: an event was removed"
    )


def test_an_event_before_the_first_one_is_found(home: Home) -> None:
    home.edit(
        "INSERT INTO stored_event SELECT 0, 'run/{a}/z', 1, topic, state FROM stored_event"
        " WHERE position = 1"
    )

    assert home.verify().faults[0].detail == "position 0 stands before the first one"


def test_a_topic_of_a_later_version_is_counted_and_is_no_fault(home: Home) -> None:
    home.edit(
        "INSERT INTO stored_event SELECT (SELECT max(position) + 1 FROM stored_event),"
        " 'run/{c}/n', 1, 'run.noted.v7', state FROM stored_event WHERE position = 1"
    )

    verdict = home.verify()

    assert verdict.faults == ()
    assert verdict.unknown == {"run.noted.v7": 1}


# -- one run ---------------------------------------------------------------------------------------


def test_one_run_is_checked_with_what_the_seals_say_of_it(home: Home) -> None:
    verdict = home.verify_run(home.runs[0])

    assert verdict.faults == ()
    assert verdict.streams == 4  # its own, its attempt's, its submission's, and the seals
    assert verdict.events < home.end


@pytest.mark.parametrize(
    ("statement", "stream"),
    [
        (f"DELETE FROM stored_event WHERE {STEP_4}", "run/{a}/a1"),
        ("DELETE FROM stored_event WHERE stream = 'run/{a}' AND version > 5", "run/{a}"),
        ("DELETE FROM stored_event WHERE stream = 'run/{a}/a1'", "run/{a}/a1"),
        (
            "UPDATE stored_event SET state = CAST(replace(state, '\"attempt\":1', '\"attempt\":2')"
            " AS BLOB) WHERE stream = 'run/{a}' AND topic = 'run.attempt_closed.v2'",
            "run/{a}",
        ),
    ],
)
def test_what_was_done_to_a_run_is_found_by_asking_for_that_run(
    home: Home, statement: str, stream: str
) -> None:
    home.edit(statement)

    assert faults(home.verify_run(home.runs[0])).keys() == {stream.format(a=home.runs[0])}
    assert home.verify_run(home.runs[1]).faults == ()


def test_a_submission_that_was_changed_is_found_by_asking_for_its_run(home: Home) -> None:
    home.edit(
        "UPDATE stored_event SET state = CAST(replace(state, 'tester', 'nobody') AS BLOB)"
        " WHERE position = 1"
    )

    (fault,) = home.verify_run(home.runs[0]).faults

    assert (fault.version, fault.position) == (1, 1)
    assert str(fault.stream).startswith("submission/")


def test_a_cut_tail_is_seen_by_whoever_kept_a_seal(home: Home) -> None:
    """Nothing in a file tells that it once was longer; a receipt, or a projection, does."""
    (state,) = home.one(f"SELECT state FROM stored_event WHERE stream = '{SEALS}' AND version = 2")
    assert isinstance(state, bytes)
    kept = json.loads(state[32:])
    home.edit(f"DELETE FROM stored_event WHERE position > {kept['upto'] - 3}")

    verdict = home.verify()

    assert verdict.faults == ()
    assert verdict.position < kept["upto"]

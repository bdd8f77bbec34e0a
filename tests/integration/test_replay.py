"""Both projections made anew, each by a process of its own that reads the ledger's file."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.errors import CorruptError
from ledger.events import Job
from ledger.store.sqlite import Database, SQLiteRecorder
from projections import replay
from projections.compare import differences
from projections.documents import Documents
from projections.errors import ProjectionError
from projections.warehouse import Warehouse
from tests import ledgers

STEPS = 700


class Home:
    """A ledger in a file, with one run."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger.db"
        self._database = Database(self.file, synchronous="NORMAL")
        self.ledger = ledgers.ledger(SQLiteRecorder(self._database))
        self.run_id = ledgers.started(self.ledger)
        lines = ledgers.step_lines(1, STEPS)
        self.ledger.record(self.run_id, Job(1), first=1, lines=lines)

    def close(self) -> None:
        self._database.close()

    def build(self, folder: Path, upto: int) -> tuple[Path, Path]:
        folder.mkdir(exist_ok=True)
        documents, warehouse = replay.build(self.ledger, folder, upto, ledger=self.file)
        return documents, warehouse

    def edit(self, position: int) -> None:
        """Make an event unreadable, behind the back of whoever serves it."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in triggers.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(
                "UPDATE stored_event SET state = zeroblob(40) WHERE position = ?", (position,)
            )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setattr(replay, "LITTLE", 10)
    home = Home(tmp_path)
    yield home
    home.close()


def test_processes_build_what_is_built_here(home: Home, tmp_path: Path) -> None:
    """Rebuilding: the same rows, document and milestones, and the views that analysts read."""
    end = home.ledger.position()

    documents, warehouse = home.build(tmp_path / "made", end)

    with closing(Database(documents)) as database, closing(Warehouse(warehouse)) as filled:
        made = Documents(database, home.ledger)
        assert made.position() == filled.position() == end
        assert differences(home.ledger, made, filled) == []
        with filled.read() as cursor:
            found = cursor.execute("SELECT count(*), max(step) FROM metrics").fetchall()
        assert found == [(STEPS, STEPS)]


def test_processes_stop_at_the_position_that_is_asked_for(home: Home, tmp_path: Path) -> None:
    """As-of: nothing that came later is in what they build."""
    upto = home.ledger.position() - 100

    documents, warehouse = home.build(tmp_path / "made", upto)

    with closing(Database(documents)) as database, closing(Warehouse(warehouse)) as filled:
        record = Documents(database, home.ledger).get(home.run_id)
        assert record is not None
        assert record["observedStep"] == STEPS - 100
        assert filled.position() == upto


def test_an_unreadable_event_is_said_and_no_fault_of_a_process(home: Home, tmp_path: Path) -> None:
    home.edit(position=50)

    with pytest.raises(CorruptError, match=r"^version \d+ of run/\w+/a1 is not a run.step_report"):
        home.build(tmp_path / "made", home.ledger.position())


def test_the_first_process_that_ends_in_a_fault_ends_the_other(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it is: nobody waits for what will not be used."""
    ended = tmp_path / "ended"
    interpreter = tmp_path / "python"
    interpreter.write_text(
        "#!/bin/sh\n"
        f'[ "$3" = documents ] && exec {sys.executable} -c "import time, pathlib; time.sleep(20);'
        f" pathlib.Path('{ended}').touch()\"\n"
        f'exec {sys.executable} "$@"\n'
    )
    interpreter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    (tmp_path / "made" / "warehouse.lock").mkdir(parents=True)  # where it says whose it is

    with pytest.raises(ProjectionError, match="built the warehouse anew ended in a fault"):
        home.build(tmp_path / "made", home.ledger.position())

    assert not ended.exists()


def test_a_process_that_cannot_write_is_named(
    home: Home, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The log has why; the sentence says which projection was not made."""
    (tmp_path / "made" / replay.DOCUMENTS).mkdir(parents=True)

    with pytest.raises(ProjectionError, match="built the documents anew ended in a fault"):
        home.build(tmp_path / "made", home.ledger.position())

    assert "unable to open database file" in capfd.readouterr().err

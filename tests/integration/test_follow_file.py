"""A DuckDB file of one's own: kept at the end of a ledger by a process that only reads it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from ledger.events import Job
from ledger.ledger import Ledger
from ledger.store.sqlite import Database, SQLiteRecorder
from tests import ledgers
from tests.product import PATIENCE_SECONDS, eventually

ROOT = Path(__file__).parents[2]


class Home:
    """A home with a ledger in it, and those who follow it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder.parent / "my.duckdb"
        self.database = Database(folder / "ledger.db", synchronous="NORMAL")
        self.ledger = Ledger(SQLiteRecorder(self.database), clock=ledgers.ticking())
        self.run_id = ledgers.started(self.ledger)
        self.lines = 0
        self.processes: list[subprocess.Popen[str]] = []

    def steps(self, count: int) -> None:
        lines = ledgers.step_lines(self.lines + 1, self.lines + count)
        self.ledger.record(self.run_id, Job(1), first=self.lines + 1, lines=lines)
        self.lines += count

    def follow(self, file: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "projections.follow_file"]
        process = subprocess.Popen(
            [*command, str(self.folder), str(file or self.file)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def found(self) -> int:
        """How many updates a stranger finds in the file."""
        try:
            with duckdb.connect(str(self.file), read_only=True) as stranger:
                ((rows,),) = stranger.execute("SELECT count(*) FROM metrics").fetchall()
        except duckdb.IOException:
            return 0
        return int(rows)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "home").mkdir()
    home = Home(tmp_path / "home")
    yield home
    for process in home.processes:
        process.kill()
        process.communicate()
    home.database.close()


def interrupted(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    return talk


def test_a_file_is_kept_at_the_end_of_a_ledger_that_others_write(home: Home) -> None:
    """C55: it can be opened at any time, and the ledger is only read."""
    home.steps(3)
    process = home.follow()
    assert process.stderr is not None
    told = process.stderr.readline()
    first = home.found()

    home.steps(4)
    eventually(lambda: home.found() == 7)

    interrupted(process)
    position = home.ledger.position() - 4
    assert told == f"{home.file} holds everything up to position {position} and is kept so\n"
    assert first == 3


def test_what_came_last_is_in_the_file_when_it_ends_and_the_next_call_goes_on(home: Home) -> None:
    home.steps(3)
    process = home.follow()
    eventually(lambda: home.found() == 3)

    home.steps(2)
    interrupted(process)
    kept = home.found()
    home.steps(1)
    again = home.follow()
    eventually(lambda: home.found() == 6)
    interrupted(again)

    assert kept == 5


def test_a_ledger_without_a_server_is_followed_too(home: Home) -> None:
    home.steps(2)
    home.database.close()
    home.database = Database(":memory:")

    process = home.follow()

    eventually(lambda: home.found() == 2)
    interrupted(process)


@pytest.mark.parametrize("name", ["analytics.duckdb", "warehouse.duckdb"])
def test_the_files_of_the_server_are_left_alone(home: Home, name: str) -> None:
    process = home.follow(home.folder / name)

    _, talk = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 4
    assert "is the server's own: name another file" in talk
    assert not (home.folder / name).exists()


def test_a_file_of_somebody_else_is_never_replaced(home: Home) -> None:
    with duckdb.connect(str(home.file)) as theirs:
        theirs.execute("CREATE TABLE precious AS SELECT 1 AS one")

    process = home.follow()
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 4
    assert "is another file: name one that is new" in talk
    with duckdb.connect(str(home.file), read_only=True) as theirs:
        assert theirs.execute("FROM precious").fetchall() == [(1,)]


def test_a_file_of_another_ledger_is_refused(home: Home, tmp_path: Path) -> None:
    home.steps(1)
    process = home.follow()
    eventually(lambda: home.found() == 1)
    interrupted(process)
    (tmp_path / "other").mkdir()
    other = Home(tmp_path / "other")
    other.steps(1)

    stranger = other.follow(home.file)
    _, talk = stranger.communicate(timeout=PATIENCE_SECONDS)
    other.database.close()

    assert stranger.returncode == 4
    assert "was made from another ledger: name one that is new" in talk


def test_two_cannot_keep_one_file(home: Home) -> None:
    home.steps(1)
    first = home.follow()
    eventually(lambda: home.found() == 1)

    second = home.follow()
    _, talk = second.communicate(timeout=PATIENCE_SECONDS)

    assert second.returncode == 4
    assert "is kept by another process already" in talk
    interrupted(first)


def test_a_home_without_a_ledger_is_said_to_be_one(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "projections.follow_file", str(tmp_path), "x.duckdb"]

    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (3, f"error: there is no ledger in {tmp_path}\n")

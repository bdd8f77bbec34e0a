"""A worker of several ranks, as the runner starts them and sees them end: shells, no training."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fake_ingest import FakeIngest
from tests.trl_runs import REPOSITORY

FOREVER = "exec sleep 1000"
# Ends as a rank does whose partner is gone: by itself, with an error.
UNTIL_ALONE = (
    "until [ -s $TRAINLEDGER_OUTPUT/1 ]; do sleep 0.01; done; "
    "while kill -0 $(cat $TRAINLEDGER_OUTPUT/1) 2>/dev/null; do sleep 0.01; done; exit 70"
)


class Ranks:
    """A job of so many ranks, with a shell script for each."""

    def __init__(self, home: Path, ingest: FakeIngest) -> None:
        self.ingest = ingest
        self.folder = home / "attempts" / "aa" / "a1"
        self._home = home
        self._runners: list[subprocess.Popen[bytes]] = []

    def start(self, *scripts: str, grace: float = 10.0, shell: str = "sh") -> None:
        """Start the runner; rank n carries out the nth script."""
        chosen = " ".join(f"{n}) {each} ;;" for n, each in enumerate(scripts))
        job = {
            "run": "00000000000000aa",
            "kind": "attempt",
            "number": 1,
            "command": [
                shell,
                "-c",
                f"echo $$ > $TRAINLEDGER_OUTPUT/$RANK; case $RANK in {chosen} esac",
            ],
            "directory": None,
            "devices": [f"cpu:{n}" for n in range(len(scripts))],
            "ranks": len(scripts),
            "environment": {},
            "token": self.ingest.token,
            "serverFile": str(self._home / "server.json"),
            "stopGraceSeconds": grace,
            "patienceSeconds": 10.0,
        }
        self.folder.mkdir(parents=True)
        (self.folder / "job.json").write_text(json.dumps(job))
        self.run()

    def run(self) -> None:
        """Start a runner of the job."""
        self._runners.append(
            subprocess.Popen(
                [sys.executable, "-m", "engine.runner", str(self.folder)], cwd=REPOSITORY
            )
        )

    def exit(self) -> dict[str, Any]:
        """What the server is told of the end, once the runner is gone."""
        assert self._runners[-1].wait(20) == 0
        assert self.ingest.exit is not None
        facts = {name: self.ingest.exit.get(name) for name in ("code", "signal", "rank", "seen")}
        return facts | ({"hung": True} if self.ingest.exit.get("hung") else {})

    def process(self, rank: int) -> psutil.Process:
        """The process of a rank, once it is there."""
        path = self.folder / "output" / str(rank)
        self.wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
        return psutil.Process(int(path.read_text()))

    def kill_runner(self) -> None:
        """End the runner as the system does when memory is short."""
        self._runners[-1].kill()
        self._runners[-1].wait(10)

    def wait_for(self, fact: Callable[[], Any]) -> None:
        """Wait until ``fact()`` holds."""
        end = time.monotonic() + 20.0
        while not fact():
            assert time.monotonic() < end
            time.sleep(0.005)

    def end(self) -> None:
        """Kill the runners; their workers die with them."""
        for each in self._runners:
            each.kill()
            each.wait(10)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with FakeIngest(tmp_path) as ingest:
        ranks = Ranks(tmp_path, ingest)
        yield ranks
        ranks.end()


def said(**report: Any) -> str:
    """A shell command that appends a report to the spool of its rank."""
    return f"echo '{json.dumps(report)}' >> $TRAINLEDGER_SPOOL"


def test_every_rank_knows_its_place_among_the_others(ranks: Ranks) -> None:
    """The names that torch, accelerate and NCCL read; one place to meet, on this machine alone."""
    show = "env > $TRAINLEDGER_OUTPUT/environment$RANK"
    ranks.start(show, show)

    assert ranks.exit() == {"code": 0, "signal": None, "rank": None, "seen": True}
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TRAINLEDGER_RANK")
    for rank in (0, 1):
        text = (ranks.folder / "output" / f"environment{rank}").read_text()
        found = dict(line.split("=", 1) for line in text.splitlines())
        assert [found[name] for name in names] == [str(rank), str(rank), "2", "2", str(rank)]
        assert found["TRAINLEDGER_SPOOL"] == str(ranks.folder / "spool" / f"rank{rank}.jsonl")
        assert found["TRAINLEDGER_RENDEZVOUS"] == str(ranks.folder / "rendezvous")
        assert found["GLOO_SOCKET_IFNAME"] == "lo"
        assert found["TRAINLEDGER_RANK_SECONDS"] == "300.0"


def test_rank_0_speaks_for_all_and_the_others_keep_their_reports(ranks: Ranks) -> None:
    """engine.md section 9: rank 0 sends; a spool for each rank."""
    ranks.start(
        f"{said(kind='training')}; {said(kind='completed')}",
        f"{said(kind='training')}; {said(kind='completed')}",
    )

    assert ranks.exit()["code"] == 0
    assert [each["kind"] for each in ranks.ingest.reports()] == ["training", "completed"]
    assert len((ranks.folder / "spool" / "rank1.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("partner", [FOREVER, UNTIL_ALONE])
def test_a_rank_that_is_killed_ends_the_others_and_is_named(ranks: Ranks, partner: str) -> None:
    """The partner is ended where it waits, and is not blamed where it fails by itself."""
    ranks.start(partner, FOREVER)
    other = ranks.process(0)

    ranks.process(1).kill()

    assert ranks.exit() == {"code": None, "signal": 9, "rank": 1, "seen": True}
    assert not other.is_running()


@pytest.mark.parametrize("rank", [0, 1])
def test_the_exit_code_of_every_rank_is_seen(ranks: Ranks, rank: int) -> None:
    """engine.md section 8: 3 is not 1, whichever rank it was."""
    scripts = [FOREVER, FOREVER]
    scripts[rank] = "exit 3"

    ranks.start(*scripts)

    assert ranks.exit() == {"code": 3, "signal": None, "rank": rank, "seen": True}


def test_a_rank_that_does_not_listen_is_killed_after_the_grace(ranks: Ranks) -> None:
    """As one that hangs in a call to a lost partner; the cause is still the partner."""
    ranks.start("trap '' TERM; while :; do sleep 0.05; done", "exit 3", grace=0.3)

    assert ranks.exit() == {"code": 3, "signal": None, "rank": 1, "seen": True}


def test_a_rank_that_the_others_gave_up_is_killed_and_named(ranks: Ranks) -> None:
    """It stands still, and sees no request; the first to end has only waited for it."""
    until_stopped = (
        "until grep -q '^State:.T' /proc/$(cat $TRAINLEDGER_OUTPUT/1)/status; do sleep 0.01; done"
    )
    ranks.start(f"{until_stopped}; exit 75", "kill -STOP $$", grace=0.3)

    assert ranks.exit() == {"code": None, "signal": 9, "rank": 1, "seen": True, "hung": True}


def test_what_another_rank_said_of_its_end_reaches_the_ledger(ranks: Ranks) -> None:
    """S66, S70: its own word, after the lines of rank 0, of which the last was cut off."""
    cut = "printf '%s' '{\"kind\":\"st' >> $TRAINLEDGER_SPOOL"
    ranks.start(
        f"{said(kind='training')}; {cut}; {UNTIL_ALONE}",
        f"{said(kind='failed', cause='deviceMemory')}; exit 70",
    )

    assert ranks.exit() == {"code": 70, "signal": None, "rank": 1, "seen": True}
    assert ranks.ingest.reports() == [
        {"kind": "training"},
        {"kind": "failed", "cause": "deviceMemory"},
    ]


def test_a_rank_that_is_done_early_waits_for_nobody_and_ends_nobody(ranks: Ranks) -> None:
    """Rank 0 may have a model to save after the others have nothing left to do."""
    ranks.start(f"sleep 0.3; {said(kind='completed')}", "exit 0")

    assert ranks.exit() == {"code": 0, "signal": None, "rank": None, "seen": True}
    assert [each["kind"] for each in ranks.ingest.reports()] == ["completed"]


def test_a_rank_that_fails_late_ends_those_that_are_left_at_once(ranks: Ranks) -> None:
    """One was done before, and gave the others time; a failure takes that back."""
    ranks.start(FOREVER, "exit 0", "sleep 0.2; exit 3", grace=1000.0)

    assert ranks.exit() == {"code": 3, "signal": None, "rank": 2, "seen": True}


def test_a_rank_that_never_ends_is_ended_when_the_others_are_done(ranks: Ranks) -> None:
    ranks.start(f"{said(kind='completed')}", FOREVER, grace=0.2)

    assert ranks.exit() == {"code": None, "signal": 15, "rank": 1, "seen": True}


def test_what_the_ranks_print_is_in_one_log_with_their_numbers(ranks: Ranks) -> None:
    """I29: whole lines, those of rank 0 as they are."""
    ranks.start("echo from the first", "echo from the second; printf 'without an end'")

    assert ranks.exit()["code"] == 0
    lines = (ranks.folder / "worker.log").read_text().splitlines()
    assert sorted(lines) == [
        "from the first",
        "rank 1: from the second",
        "rank 1: without an end",
    ]


def test_every_rank_dies_with_the_runner_and_the_next_runner_says_so(ranks: Ranks) -> None:
    """engine/dispatch: nothing trains that nobody watches."""
    ranks.start(FOREVER, FOREVER)
    processes = [ranks.process(0), ranks.process(1)]

    ranks.kill_runner()
    for each in processes:
        ranks.wait_for(lambda each=each: not each.is_running())
    ranks.run()

    assert ranks.exit() == {"code": None, "signal": None, "rank": None, "seen": False}


def test_a_request_to_stop_by_signal_reaches_every_rank(ranks: Ranks) -> None:
    """cluster.md section 4 rule 8: each is asked; none is to blame."""
    polite = "trap 'exit 143' TERM; while :; do sleep 0.02; done"
    ranks.start(polite, polite, grace=0.2)
    ranks.process(0)
    ranks.process(1)

    ranks.ingest.request = "stop"

    assert ranks.exit() == {"code": 143, "signal": None, "rank": None, "seen": True}


def test_a_command_that_is_not_there_leaves_no_rank_behind(ranks: Ranks) -> None:
    ranks.start(FOREVER, FOREVER, shell="no-such-shell")

    assert ranks.exit() == {"code": 127, "signal": None, "rank": None, "seen": True}

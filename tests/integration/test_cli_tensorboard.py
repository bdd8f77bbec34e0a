"""``runs tensorboard``: a real TensorBoard over a real server, and what is on disk for it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from cli import tensorboard
from cli.commands.runs.tensorboard import _keep_new
from cli.errors import CommandError, Exit, PassingError
from cli.event_files import EventFile
from tests import apis, cli_server, event_files, ledgers
from tests.apis import Api
from tests.cli_server import RUN, canned_server
from tests.product import eventually

NAME = "events.out.tfevents.trainledger"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.listening(tmp_path_factory.mktemp("home")) as server:
        yield server


def url_of(live: Api) -> str:
    return str(live.client.base_url).rstrip("/")


def trainledger(live: Api, *words: str) -> "subprocess.CompletedProcess[str]":
    """``runs tensorboard``, which ends by itself."""
    token = {"TRAINLEDGER_TOKEN": live.service.token}
    return cli_server.here("runs", "tensorboard", *words, url=url_of(live), **token)


# -- only the files --------------------------------------------------------------------------------


def trained(live: Api, steps: int, **fields: Any) -> str:
    """A run that trains and has made so many steps."""
    run_id = live.started(**fields)
    live.deliver(run_id, ['{"kind": "training"}', *ledgers.step_lines(1, steps)])
    return run_id


def test_event_files_are_written_to_a_folder_for_each_run(live: Api, tmp_path: Path) -> None:
    """S121, S123: each run once, however often and by whichever beginning it is named."""
    first, second = trained(live, 2), trained(live, 1)

    done = trainledger(
        live, first[:8], second, first, "--download-only", "--logdir", str(tmp_path / "logs")
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path / 'logs'}\n", "")
    assert sorted(each.name for each in (tmp_path / "logs").iterdir()) == sorted([first, second])
    assert [each.name for each in (tmp_path / "logs" / first).iterdir()] == [NAME]
    assert event_files.curves(tmp_path / "logs" / first) == {"train/loss": [(1, 1.0), (2, 0.5)]}


def test_without_a_name_the_folder_is_a_new_one_for_its_owner_alone(
    live: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S123: it is what the credentials protect."""
    run_id = trained(live, 2)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    done = trainledger(live, run_id, "--download-only")

    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert event_files.curves(folder / run_id)["train/loss"] == [(1, 1.0), (2, 0.5)]


def test_a_file_of_an_earlier_call_is_replaced_and_not_added_to(live: Api, tmp_path: Path) -> None:
    run_id = trained(live, 2)
    words = (run_id, "--download-only", "--logdir", str(tmp_path))
    trainledger(live, *words)
    live.deliver(run_id, ledgers.step_lines(3, 4), first=4)

    trainledger(live, *words)

    assert [step for step, _ in event_files.curves(tmp_path / run_id)["train/loss"]] == [1, 2, 3, 4]


def test_one_attempt_has_a_folder_below_that_of_its_run(live: Api, tmp_path: Path) -> None:
    """I6: both may be looked at together."""
    run_id = live.started()
    live.deliver(run_id, ledgers.step_lines(1, 3), exit=apis.KILLED)
    live.opened_again(run_id)

    for words in ((), ("--attempt", "1")):
        trainledger(live, run_id, *words, "--download-only", "--logdir", str(tmp_path))

    assert event_files.curves(tmp_path / run_id) == {"train/loss": []}
    assert len(event_files.curves(tmp_path / run_id / "a1")["train/loss"]) == 3


def test_an_attempt_of_several_runs_is_a_usage_error(live: Api) -> None:
    done = trainledger(live, RUN, "b" * 16, "--attempt", "1")

    assert (done.returncode, done.stderr) == (
        2,
        "error: --attempt is of one run, and several are named\n",
    )


def test_a_run_that_there_is_not_is_exit_3(live: Api, tmp_path: Path) -> None:
    """D8."""
    done = trainledger(live, RUN, "--download-only", "--logdir", str(tmp_path / "logs"))

    assert done.returncode == 3
    assert done.stderr.startswith(f"error: there is no run '{RUN}'")
    assert not (tmp_path / "logs").exists()


def test_a_server_that_cannot_write_them_says_what_to_install(
    live: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D8: exit 4."""
    run_id = trained(live, 1)
    monkeypatch.delitem(sys.modules, "projections.tensorboard.records", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)

    done = trainledger(live, run_id, "--download-only", "--logdir", str(tmp_path))

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "error: the package tensorboard is not installed beside the server\n"
        "hint: install trainledger[tensorboard] where the server runs, and start it again\n"
    )


def test_without_tensorboard_the_command_asks_for_nothing(
    live: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S123: it is an extra; the sentence says which, and that the files can be had all the same."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    done = trainledger(live, RUN)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "error: TensorBoard is not installed beside this command\n"
        "hint: pip install 'trainledger[tensorboard]', or --download-only for another one\n"
    )


def test_an_answer_that_is_no_archive_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with canned_server() as canned:
        canned.answer("GET", f"/v1/runs/{RUN}", {"runId": RUN})
        canned.answer("GET", f"/v1/runs/{RUN}/tensorboard", b"<html>")

        done = cli_server.here(
            *("runs", "tensorboard", RUN, "--download-only", "--logdir", str(tmp_path)),
            url=canned.url,
        )

    assert done.returncode == 4
    assert "something that is no archive of ours" in done.stderr
    assert not (tmp_path / RUN / NAME).exists()


@dataclass
class FakeClient:
    """Answers what a test has prepared, cut off in the middle where it says so."""

    answers: list[tuple[dict[str, str], list[bytes], bool]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    relocated: int = 0

    def relocate(self) -> None:
        self.relocated += 1

    @contextmanager
    def download(self, _path: str, **parameters: Any) -> Iterator[Any]:
        self.asked.append(parameters["after"])
        said, parts, is_whole = self.answers.pop(0)

        def come() -> Iterator[bytes]:
            yield from parts
            if not is_whole:
                raise PassingError("the connection was lost")

        yield said, come()


def test_what_breaks_off_leaves_the_file_as_it_was(live: Api, tmp_path: Path) -> None:
    """C43: a file with half of what is new would have it twice after the next try."""
    run_id = trained(live, 3)
    path = f"/v1/runs/{run_id}/tensorboard"
    archive = live.client.get(path, headers=live.token).content
    small = [archive[n : n + 100] for n in range(0, len(archive), 100)]
    said = {"Trainledger-Position": "7", "Trainledger-Over": "false"}
    client = FakeClient(
        [
            (said, small, True),
            (said, small[:9], False),
            (said | {"Trainledger-Over": "true"}, small, True),
        ]
    )
    file = EventFile(run_id, None, tmp_path / run_id)

    file.begin(client)  # type: ignore[arg-type]  (it only downloads)
    before = (tmp_path / run_id / NAME).read_bytes()
    with pytest.raises(PassingError):
        file.go_on(client)  # type: ignore[arg-type]
    between = (tmp_path / run_id / NAME).read_bytes(), file.position, file.is_over
    file.go_on(client)  # type: ignore[arg-type]
    file.close()

    assert between == (before, 7, False)
    assert (tmp_path / run_id / NAME).read_bytes() == 2 * before
    assert client.asked == [0, 7, 7]
    assert file.is_over


# -- with TensorBoard ------------------------------------------------------------------------------


class Shown:
    """A TensorBoard that the command has started."""

    def __init__(self, live: Api, *words: str) -> None:
        token = {"TRAINLEDGER_TOKEN": live.service.token}
        self.process = subprocess.Popen(
            cli_server.command("runs", "tensorboard", *words),
            env=cli_server.environment(url_of(live), **token),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.communicate()[1]
        self.board = next(
            each
            for each in psutil.Process(self.process.pid).children()
            if "tensorboard.main" in each.cmdline()
        )

    def ask(self, path: str, **parameters: str) -> Any:
        """What TensorBoard answers to its own page."""
        return httpx2.get(f"{self.url}data/plugin/{path}", params=parameters).json()

    def curve(self, run_id: str, tag: str) -> list[tuple[int, float]]:
        """Steps and values of a curve as its page would draw them."""
        answer = httpx2.get(
            f"{self.url}data/plugin/scalars/scalars", params={"run": run_id, "tag": tag}
        )
        return [(step, value) for _, step, value in answer.json()] if answer.is_success else []

    def rows(self) -> dict[str, Any]:
        """The rows of the HParams dashboard by run."""
        statuses = ["STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING", "STATUS_UNKNOWN"]
        asked = {"experimentName": "", "allowedStatuses": statuses, "sliceSize": 10}
        answer = httpx2.post(f"{self.url}data/plugin/hparams/session_groups", json=asked)
        return {each["name"]: each for each in answer.json()["sessionGroups"]}

    def folder(self) -> Path:
        words = self.board.cmdline()
        return Path(words[words.index("--logdir") + 1])

    def ended(self, by: signal.Signals) -> tuple[int, str]:
        """The exit code and what was said, after a signal."""
        self.process.send_signal(by)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def runs(live: Api) -> tuple[str, str]:
    """A run that trains, and one that has ended."""
    training = live.started(name="first try", config={"learningRate": 0.5})
    live.deliver(training, ['{"kind": "training"}', *ledgers.step_lines(1, 3)])
    over = live.started(config={"learningRate": 0.25})
    hparams = json.dumps({"kind": "hparams", "values": {"learningRate": 0.25, "warmupSteps": 2}})
    terms = {"accuracy": 0.5}
    step = {"kind": "step", "step": 1, "measured": {"reward": 2.0}, "rewardTerms": terms}
    live.deliver(over, [hparams, json.dumps(step), apis.COMPLETED], exit=apis.EXIT)
    return training, over


@pytest.fixture(scope="module")
def shown(live: Api, runs: tuple[str, str]) -> Iterator[Shown]:
    made = Shown(live, *runs)
    yield made
    if made.process.poll() is None:
        made.ended(signal.SIGKILL)
    if made.board.is_running():
        made.board.kill()


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Where a process takes connections."""
    return [
        (each.laddr.ip, each.laddr.port)
        for each in process.net_connections("all")
        if each.status == psutil.CONN_LISTEN
    ]


def own_addresses() -> list[str]:
    """Addresses of this machine that others may reach."""
    return [
        each.address
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]


def test_tensorboard_is_reached_on_this_machine_alone(shown: Shown) -> None:
    """S123: bound to loopback, it and whatever it started, and by the address that is printed."""
    address = httpx2.URL(shown.url)
    family = [shown.board, *shown.board.children(recursive=True)]

    assert [each for process in family for each in listening(process)] == [
        ("127.0.0.1", address.port)
    ]
    assert address.host == "127.0.0.1"
    for other in own_addresses():
        with socket.socket() as caller:
            assert caller.connect_ex((other, address.port or 0)) != 0
    assert "TRAINLEDGER_TOKEN" not in shown.board.environ()


def test_tensorboard_shows_what_comes_and_forgets_what_is_taken_back(
    live: Api, runs: tuple[str, str], shown: Shown
) -> None:
    """S121, S122, D5: over its own HTTP API, while the run trains."""
    training, over = runs

    def shows(tag: str, points: list[tuple[int, float]]) -> Callable[[], bool]:
        return lambda: shown.curve(training, tag) == points

    eventually(lambda: len(shown.curve(training, "train/loss")) == 3, "the first steps")
    assert shown.curve(over, "rewardTerms/accuracy") == [(1, 0.5)]
    assert shown.curve(over, "train/reward") == [(1, 2.0)]

    validation = {"kind": "validation", "step": 3, "measured": {"eval_loss": 0.5}}
    live.deliver(training, [json.dumps(validation)], first=5)
    eventually(shows("eval/loss", [(3, 0.5)]), "a validation that came later")
    live.deliver(training, ['{"kind": "restore", "step": 1}'], first=6)
    eventually(shows("train/loss", [(1, 1.0)]), "the purge")
    assert shown.curve(training, "eval/loss") == []
    live.deliver(training, ledgers.step_lines(2, 2, loss=8.0), first=7)
    eventually(shows("train/loss", [(1, 1.0), (2, 8.0)]), "the new line")


def test_the_hparams_dashboard_has_a_row_for_each_run(runs: tuple[str, str], shown: Shown) -> None:
    """S122: with what was resolved, how it ended, and the newest value of each curve."""
    training, over = runs
    rows = eventually(lambda: found if len(found := shown.rows()) == 2 else None, "both rows")

    assert rows[over]["hparams"] == {
        "method": "SFT",
        "baseModel": "tiny",
        "dataset": "rows.jsonl",
        "learningRate": 0.25,
        "warmupSteps": 2.0,
    }
    assert rows[training]["hparams"]["learningRate"] == 0.5
    assert rows[training]["hparams"]["name"] == "first try"
    assert rows[over]["sessions"][0]["status"] == "STATUS_SUCCESS"
    metrics = {each["name"]["tag"]: each["value"] for each in rows[over]["metricValues"]}
    assert metrics == {"train/reward": 2.0, "rewardTerms/accuracy": 0.5}


def test_a_port_that_is_taken_is_refused_in_a_sentence(shown: Shown, tmp_path: Path) -> None:
    """D8: exit 4, with TensorBoard's own words."""
    port = httpx2.URL(shown.url).port
    assert port is not None

    with (
        pytest.raises(CommandError, match=f"TensorBoard ended .* bind to port {port}") as raised,
        tensorboard.serving(tmp_path, port, tmp_path / "log"),
    ):
        pass

    assert raised.value.code == 4


def test_ctrl_c_ends_tensorboard_and_leaves_nothing_behind(shown: Shown) -> None:
    """S123: no process, and no file that only credentials gave."""
    folder = shown.folder()
    assert folder.is_dir()

    code, said = shown.ended(signal.SIGINT)

    assert code == 130
    assert said == (
        "TensorBoard shows 2 runs on this machine alone; Ctrl-C ends it\nTensorBoard has ended\n"
    )
    assert not shown.board.is_running()
    assert not folder.parent.exists()


# -- a program in the place of TensorBoard, for what is slow to see -------------------------------


def standing_in(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start this program where TensorBoard would be started."""
    monkeypatch.setattr(tensorboard, "_command", lambda *_: [sys.executable, "-c", program])


SERVES = """
import sys, time
print("TensorBoard 9.9 at http://127.0.0.1:1/ (Press CTRL+C to quit)", file=sys.stderr, flush=True)
time.sleep({seconds})
print("out of memory", file=sys.stderr)
sys.exit(9)
"""


def test_a_tensorboard_that_ends_by_itself_ends_the_command(
    live: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing_in(SERVES.format(seconds=0.1), monkeypatch)

    done = trainledger(live, trained(live, 1), "-q")

    assert (done.returncode, done.stdout) == (4, "http://127.0.0.1:1/\n")
    assert done.stderr == "error: TensorBoard ended with 9: out of memory\n"


def test_a_request_to_end_ends_both_and_leaves_nothing_behind(
    live: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S123: SIGTERM, as a service manager sends it, here by the program itself."""
    kills = "import os, signal; os.kill(os.getppid(), signal.SIGTERM)"
    standing_in(SERVES.format(seconds=f"0.1)\n{kills}\ntime.sleep(60"), monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)

    done = trainledger(live, trained(live, 1), "-q")

    assert (done.returncode, done.stderr) == (130, "TensorBoard has ended\n")
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_service_that_is_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C42: said once, and the file goes on where it was."""
    monkeypatch.setattr("cli.commands.runs.tensorboard.LOOK_SECONDS", 0)
    said = {"Trainledger-Position": "7", "Trainledger-Over": "false"}
    whole, lost = (said, [bytes(1024)], True), (said, [], False)
    client = FakeClient([whole, lost, lost, whole, whole])
    file = EventFile(RUN, None, tmp_path)

    class Board:
        def check(self) -> None:
            if not client.answers:
                raise CommandError("TensorBoard ended", Exit.REFUSED)

    file.begin(client)  # type: ignore[arg-type]
    with pytest.raises(CommandError, match="TensorBoard ended"):
        _keep_new(client, [file], Board())  # type: ignore[arg-type]
    file.close()

    assert client.asked == [0, 7, 7, 7, 7]
    assert client.relocated == 2
    assert capsys.readouterr().err == (
        "the connection was lost; TensorBoard shows what there is, and waits for it\n"
    )


def test_one_that_ends_before_it_serves_is_told_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    standing_in("import sys; sys.exit('ERROR: it is broken')", monkeypatch)

    with (
        pytest.raises(CommandError, match="TensorBoard ended with 1: it is broken"),
        tensorboard.serving(tmp_path, 0, tmp_path / "log"),
    ):
        pass


def test_one_that_does_not_heed_the_request_to_end_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    standing_in(deaf + SERVES.format(seconds=60), monkeypatch)
    monkeypatch.setattr(tensorboard, "STOPPING_SECONDS", 0.1)
    began = time.monotonic()

    with tensorboard.serving(tmp_path, 0, tmp_path / "log") as board:
        board.check()

    assert board.process.returncode == -signal.SIGKILL
    assert time.monotonic() - began < 30

"""What a worker printed, over HTTP: the right attempt, whole or as it comes, and nothing else."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from api.logs import BLOCK_BYTES
from tests import apis, ledgers
from tests.apis import Api
from tests.product import eventually


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.listening(tmp_path_factory.mktemp("home")) as server:
        yield server


def printed(api: Api, run_id: str, text: bytes, attempt: int = 1) -> Path:
    """Have the worker of an attempt print something."""
    folder = api.folder(run_id, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "worker.log").open("ab") as log:
        log.write(text)
    return folder / "worker.log"


def two_attempts(api: Api) -> str:
    """A run whose first worker was killed."""
    run_id = api.started()
    printed(api, run_id, b"first\n")
    api.deliver(run_id, exit=apis.KILLED)
    api.opened_again(run_id)
    printed(api, run_id, b"second\n", attempt=2)
    return run_id


def test_what_the_worker_printed_is_told_byte_for_byte(api: Api) -> None:
    """S81: the traceback that no reason holds can be read by who may."""
    run_id = api.started()
    text = b"Traceback:\n  \xff\x00 \x1b[31mred\r\n" + "损失 é".encode() + b" no end"
    printed(api, run_id, text)

    answer = api.client.get(f"/v1/runs/{run_id}/logs", headers=api.token)

    assert answer.content == text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_a_worker_died_of_is_in_its_log_and_in_no_reason(api: Api) -> None:
    """S81: exception text, module names and paths are for who asks for the log."""
    run_id = api.started()
    text = 'File "/opt/trainer/model.py", line 7, in forward\nRuntimeError: CUDA error\n'
    printed(api, run_id, text.encode())
    api.deliver(run_id, ['{"kind": "failed", "cause": "unknown"}'], exit=apis.EXIT | {"code": 1})

    record = api.get(f"/v1/runs/{run_id}")
    told = str([record, api.events(run_id)])

    assert api.logs(run_id) == text
    assert record["failure"]["reason"] == (
        "the training job failed; the run ID is what support needs"
    )
    assert not any(word in told for word in ("RuntimeError", "CUDA", "model.py", "/opt"))


def test_each_attempt_has_a_log_of_its_own_and_the_last_is_shown(api: Api) -> None:
    """I6."""
    run_id = two_attempts(api)

    assert api.logs(run_id) == "second\n"
    assert api.logs(run_id[:6], attempt=1) == "first\n"
    assert api.logs(run_id, attempt=2) == "second\n"


def test_an_attempt_that_there_is_not_is_a_problem_that_names_those_there_are(api: Api) -> None:
    """I26."""
    run_id, single, new = two_attempts(api), api.started(), ledgers.submit(api.service.ledger)

    def problem(of: str, **parameters: int) -> str:
        said = api.get(f"/v1/runs/{of}/logs", 404, **parameters)
        assert said["type"] == "/problems/attempt-not-found"
        return str(said["detail"])

    assert problem(run_id, attempt=3) == f"run {run_id} has no attempt 3; it has 1 to 2"
    assert problem(single, attempt=2) == f"run {single} has no attempt 2; it has 1"
    assert problem(new) == f"run {new} has had no attempt yet"
    api.get(f"/v1/runs/{run_id}/logs", 400, attempt=0)
    api.get("/v1/runs/0000000000000000/logs", 404)


def test_a_worker_that_printed_nothing_has_an_empty_log(api: Api) -> None:
    run_id = api.started()

    assert api.logs(run_id) == ""
    assert api.logs(run_id, tail=3) == ""


@pytest.mark.parametrize(
    ("text", "tail", "shown"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc", 0, b""),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * (3 * BLOCK_BYTES) + b"\nlast\n", 1, b"last\n"),
        (b"first\n" + b"x" * (3 * BLOCK_BYTES), 1, b"x" * (3 * BLOCK_BYTES)),
        (b"y\n" * BLOCK_BYTES, BLOCK_BYTES - 1, b"y\n" * (BLOCK_BYTES - 1)),
        (b"", 5, b""),
    ],
)
def test_the_last_lines_are_told_by_their_number(
    api: Api, text: bytes, tail: int, shown: bytes
) -> None:
    run_id = api.started()
    printed(api, run_id, text)

    answer = api.client.get(f"/v1/runs/{run_id}/logs?tail={tail}", headers=api.token)

    assert answer.content == shown


@pytest.mark.parametrize("kind", ["file", "folder", "run", "pipe"])
def test_nothing_outside_of_the_home_is_ever_read(api: Api, tmp_path: Path, kind: str) -> None:
    """U21: a worker may put links where its files belong."""
    secret = tmp_path / "a1"
    secret.mkdir()
    (secret / "worker.log").write_text("secret")
    run_id = api.started()
    folder = api.folder(run_id)
    if kind == "file":
        folder.mkdir(parents=True)
        (folder / "worker.log").symlink_to(secret / "worker.log")
    elif kind == "folder":
        folder.parent.mkdir(parents=True)
        folder.symlink_to(secret)
    elif kind == "run":
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.symlink_to(tmp_path)
    else:
        folder.mkdir(parents=True)
        os.mkfifo(folder / "worker.log")

    assert api.logs(run_id) == ""


@contextmanager
def following(api: Api, run_id: str, **parameters: int) -> Iterator[httpx2.Response]:
    """An open log of an attempt that goes on."""
    path, asked = f"/v1/runs/{run_id}/logs", {"follow": "true", **parameters}
    with api.client.stream("GET", path, params=asked, headers=api.token) as answer:
        assert answer.status_code == 200
        yield answer


def test_a_follower_gets_what_comes_until_the_attempt_is_closed(live: Api) -> None:
    """S81: from before the worker's first word to its last one."""
    run_id = live.started()

    with following(live, run_id) as answer:
        lines = answer.iter_lines()
        printed(live, run_id, b"one\n")
        told = [next(lines)]
        printed(live, run_id, b"two\n")
        told.append(next(lines))
        printed(live, run_id, b"three")
        live.deliver(run_id, exit=apis.KILLED)
        told += list(lines)

    assert told == ["one", "two", "three"]


def test_a_follower_of_an_attempt_that_is_closed_gets_it_whole(live: Api) -> None:
    run_id = live.started()
    printed(live, run_id, b"one\ntwo\nthree\n")
    live.deliver(run_id, [apis.COMPLETED], exit=apis.EXIT)

    with following(live, run_id, tail=2) as answer:
        assert answer.read() == b"two\nthree\n"


def test_a_log_that_grows_all_the_time_is_told_up_to_now(live: Api) -> None:
    """Without follow an answer ends, however much the worker prints meanwhile."""
    run_id = live.started()
    printed(live, run_id, b"x\n")
    stopped = threading.Event()

    def print_on() -> None:
        while not stopped.is_set():
            printed(live, run_id, b"y" * 100_000 + b"\n")

    printing = threading.Thread(target=print_on)
    printing.start()
    try:
        text = live.logs(run_id)
    finally:
        stopped.set()
        printing.join()

    assert text.startswith("x\n")


def test_a_server_that_stops_ends_the_logs_that_are_followed(tmp_path: Path) -> None:
    """C51."""
    with apis.listening(tmp_path) as live:
        run_id = live.started()
        printed(live, run_id, b"one\n")
        with following(live, run_id) as answer:
            chunks = answer.iter_bytes()
            first = next(chunks)
            live.service.hub.stop()
            rest = list(chunks)

    assert (first, rest) == (b"one\n", [])


def test_a_follower_that_went_away_holds_no_file_open(live: Api) -> None:
    run_id = live.started()
    path = printed(live, run_id, b"one\n")

    def is_open() -> bool:
        links = Path("/proc/self/fd").iterdir()
        return any(os.path.realpath(link) == str(path) for link in links)

    with following(live, run_id) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert is_open()
    live.deliver(run_id, exit=apis.KILLED)

    assert eventually(lambda: not is_open(), "the log is closed")

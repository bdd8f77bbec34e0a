"""The one-file client that trainers report with."""

import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import client
from engine.client import Reporter
from ledger import reports

AT = 1_790_000_000.5


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "rank0.jsonl"


def reporter(path: str | Path, **options: Any) -> Reporter:
    return Reporter(path, clock=lambda: AT, **options)


def said(spool: Path) -> list[dict[str, Any]]:
    """What the spool says, as the ledger understands it."""
    lines = spool.read_text(encoding="utf-8").splitlines()
    return [reports.parse(line).model_dump(exclude={"at"}, exclude_none=True) for line in lines]


def test_every_method_writes_a_line_that_the_ledger_understands(spool: Path) -> None:
    """design.md, the spool is the interface of a trainer."""
    report = reporter(spool)

    report.dataset(100, validation_rows=10)
    report.data_fit(rows=90, reached=3, lost_end=2, dropped=1, padding_share=0.25)
    report.hparams({"learning_rate": 2e-4})
    report.engine_config({"seed": 0}, {"seed": 0, "n_gpu": 1})
    report.stage("tokenizing", completed=5, total=10)
    report.training(total_steps=20)
    report.step(7, {"loss": 0.5}, reward_terms={"length": 1.0}, step_seconds=0.25)
    report.validation(0, {"loss": 0.75}, dataset="held out")
    report.rollouts(8, [{"prompt": "2 * 3?", "completion": "6", "score": 1, "terms": {"a": 1}}])
    report.restore(6)
    report.memory({"cuda:0": 2**33}, step=7)
    report.start_check("loss", 1.5, warn=1, refuse=2, unit="nats", seconds=0.25)
    report.restore_check(6, "within", within=0.25, parts={"adapter": "exact", "rng": "within"})
    report.snapshot(
        7, Path("out/7"), ["weights", "trainingState"], epoch=0.5, writer={"engine": "my own"}
    )
    report.snapshot(8, "out/8", ["weights"])
    report.save_failed(9, "the disk is full")
    report.model("out/model", step=20, sha256="a" * 64, size_bytes=123)
    report.refused("no row is short enough")
    report.failed("deviceMemory")
    report.completed()

    assert said(spool) == [
        {"kind": "dataset", "rows": 100, "validation_rows": 10},
        {
            "kind": "dataFit",
            "rows": 90,
            "reached": 3,
            "lost_end": 2,
            "dropped": 1,
            "padding_share": 0.25,
        },
        {"kind": "hparams", "values": {"learning_rate": 2e-4}},
        {"kind": "engineConfig", "requested": {"seed": 0}, "resolved": {"seed": 0, "n_gpu": 1}},
        {"kind": "stage", "stage": "tokenizing", "completed": 5, "total": 10},
        {"kind": "training", "total_steps": 20},
        {
            "kind": "step",
            "step": 7,
            "step_seconds": 0.25,
            "measured": {"loss": 0.5},
            "reward_terms": {"length": 1.0},
        },
        {"kind": "validation", "step": 0, "dataset": "held out", "measured": {"loss": 0.75}},
        {
            "kind": "rollouts",
            "step": 8,
            "count": 1,
            "rollouts": (
                {"prompt": "2 * 3?", "completion": "6", "score": 1.0, "terms": {"a": 1.0}},
            ),
        },
        {"kind": "restore", "step": 6},
        {"kind": "memory", "step": 7, "peak_bytes": {"cuda:0": 2**33}},
        {
            "kind": "startCheck",
            "name": "loss",
            "value": 1.5,
            "warn_limit": 1.0,
            "refuse_limit": 2.0,
            "unit": "nats",
            "seconds": 0.25,
            "verdict": "warned",
        },
        {
            "kind": "restoreCheck",
            "step": 6,
            "verdict": "within",
            "within": 0.25,
            "parts": {"adapter": "exact", "rng": "within"},
        },
        {
            "kind": "snapshot",
            "step": 7,
            "path": "out/7",
            "artifacts": ("weights", "trainingState"),
            "epoch": 0.5,
            "writer": {"engine": "my own"},
        },
        {"kind": "snapshot", "step": 8, "path": "out/8", "artifacts": ("weights",), "writer": {}},
        {"kind": "saveFailed", "step": 9, "reason": "the disk is full"},
        {
            "kind": "model",
            "path": "out/model",
            "step": 20,
            "sha256": "a" * 64,
            "size_bytes": 123,
        },
        {"kind": "refused", "reason": "no row is short enough"},
        {"kind": "failed", "cause": "deviceMemory"},
        {"kind": "completed"},
    ]


def test_every_line_carries_the_workers_clock(spool: Path) -> None:
    """U5: what the worker said about its own time."""
    reporter(spool).completed()

    assert json.loads(spool.read_text()) == {"kind": "completed", "at": AT}


def test_numbers_that_are_not_finite_are_written_as_words(spool: Path) -> None:
    """design.md: NaN and infinities are the same three strings everywhere."""
    reporter(spool).step(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": np.float32("nan")})

    assert json.loads(spool.read_text())["measured"] == {
        "a": "NaN",
        "b": "Infinity",
        "c": "-Infinity",
        "d": "NaN",
    }


def test_scalars_of_other_libraries_are_numbers(spool: Path) -> None:
    """U5: nobody has to convert what an engine measured."""
    measured = {"loss": np.float32(0.5), "tokens": np.int64(7), "share": np.array(0.25), "ok": True}
    report = reporter(spool)

    report.step(1, measured)
    report.memory({"cuda:0": np.int64(5)})  # type: ignore[dict-item]

    step, memory = said(spool)
    assert step["measured"] == {"loss": 0.5, "tokens": 7.0, "share": 0.25, "ok": 1.0}
    assert memory["peak_bytes"] == {"cuda:0": 5}


def test_many_rollouts_are_divided_so_that_each_line_is_taken(spool: Path) -> None:
    """S125: 300 of 10,000 letters of two bytes each; a line may hold 1,000,000 characters."""
    rollout = {"completion": "ж" * 5_000, "score": 1.0}
    report = reporter(spool)

    report.rollouts(1, ({"prompt": f"{n} {'ж' * 5_000}", **rollout} for n in range(300)))
    report.rollouts(2, [])

    lines = said(spool)
    places = [int(each["prompt"].split()[0]) for line in lines for each in line["rollouts"]]
    assert places == list(range(300))
    assert {line["step"] for line in lines} == {1}
    sizes = [len(line) for line in spool.read_bytes().splitlines()]
    assert len(sizes) == 13  # 24 rollouts of 20 kB in each
    assert max(sizes) < 510_000


def test_rollouts_may_hold_values_of_any_library(spool: Path) -> None:
    """A score that is no number reaches the ledger, which names it."""
    report = reporter(spool)
    scored = {
        "prompt": ({"role": "user", "content": "Hi"},),
        "completion": "Ho",
        "score": np.float32(0.5),
        "terms": {"length": np.float64("nan"), "format": None},
    }

    report.rollouts(1, [scored])
    report.rollouts(1, [scored | {"score": "high"}])

    told, rejected = spool.read_text(encoding="utf-8").splitlines()
    (rollout,) = reports.parse(told).model_dump()["rollouts"]
    assert rollout["prompt"] == [{"role": "user", "content": "Hi"}]
    assert (rollout["score"], list(rollout["terms"])) == (0.5, ["length"])
    with pytest.raises(reports.ReportError, match=r"rollouts\.0\.score: it is 'high'"):
        reports.parse(rejected)


def test_an_absent_number_is_left_out(spool: Path) -> None:
    """S83: absent is not zero."""
    reporter(spool).step(1, {"loss": 0.5, "entropy": None})

    assert json.loads(spool.read_text()) == {
        "kind": "step",
        "at": AT,
        "step": 1,
        "measured": {"loss": 0.5},
    }


def test_what_is_no_number_reaches_the_ledger_to_be_rejected_there(spool: Path) -> None:
    """U5: training never raises because of the ledger."""
    reporter(spool).step(1, {"loss": "low", "grad_norm": np.array([1.0, 2.0])})

    with pytest.raises(reports.ReportError, match="loss is 'low', which is not a number"):
        said(spool)


def test_configuration_of_any_kind_becomes_json(spool: Path) -> None:
    """S117: hyperparameters hold whatever an engine puts there."""
    values = {"dtype": np.dtype("float32"), "rate": math.inf, 3: (1, {2}), "scale": np.float64(0.5)}

    reporter(spool).hparams(values)  # type: ignore[arg-type]

    assert said(spool) == [
        {
            "kind": "hparams",
            "values": {"dtype": "float32", "rate": "Infinity", "3": [1, [2]], "scale": 0.5},
        }
    ]


def test_a_number_outside_of_measured_may_be_infinite(spool: Path) -> None:
    """U5: no call raises."""
    reporter(spool).step(1, {}, step_seconds=math.inf)

    assert json.loads(spool.read_text())["stepSeconds"] == "Infinity"


def test_what_wrote_a_snapshot_may_be_said_with_values_of_any_library(spool: Path) -> None:
    """U5: nobody has to convert what an engine holds."""
    writer = {"worldSize": np.int64(1), "adapter": {"dtype": np.dtype("float32"), "rank": 16}}

    reporter(spool).snapshot(7, "out/7", ["weights"], writer=writer)

    assert said(spool)[0]["writer"] == {
        "worldSize": 1,
        "adapter": {"dtype": "float32", "rank": 16},
    }


def test_a_file_name_with_half_a_character_is_still_a_report(spool: Path) -> None:
    """U5: names on disk are bytes."""
    reporter(spool).model(os.fsdecode(b"out/\xff"))

    assert said(spool) == [{"kind": "model", "path": "out/?"}]


def test_a_reason_that_is_too_long_is_cut_not_lost(spool: Path) -> None:
    """S70, I4: a refusal always gets through, and so does a save that failed."""
    report = reporter(spool)

    report.refused("x" * 5_000)
    report.save_failed(7, "x" * 5_000)

    assert [each["reason"] for each in said(spool)] == ["x" * 4_000] * 2


def test_a_torn_last_line_is_cut_when_the_spool_is_opened_again(spool: Path) -> None:
    """engine.md section 9: nobody has taken a torn line."""
    whole = b'{"kind":"restore","step":1}\n'
    spool.write_bytes(whole + b'{"kind":"st' + b"x" * 200_000)

    reporter(spool).completed()

    assert spool.read_bytes() == whole + b'{"kind":"completed","at":1790000000.5}\n'


def test_a_spool_that_holds_only_a_torn_line_starts_anew(spool: Path) -> None:
    """engine.md section 9."""
    spool.write_bytes(b'{"kind"')

    reporter(spool)

    assert spool.read_bytes() == b""


def test_a_full_disk_costs_lines_and_never_the_training() -> None:
    """U5: training never raises because of the ledger."""
    report = reporter("/dev/full")

    report.step(1, {"loss": 0.5})
    report.completed()

    assert report.lost_lines == 2


def test_a_line_that_fits_only_in_part_is_taken_back(spool: Path) -> None:
    """U5: what is read later are whole lines."""
    report = reporter(spool)
    report.step(1, {"loss": 0.5})
    before = spool.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        report.step(2, {"loss": 0.25})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (spool.read_bytes(), report.lost_lines) == (before, 1)
    report.step(3, {"loss": 0.125})
    assert [each["step"] for each in said(spool)] == [1, 3]


def test_a_process_killed_straight_after_a_call_has_lost_nothing(spool: Path) -> None:
    """U5, S79: the last lines of a killed worker are there."""
    program = (
        "import os, sys; from engine.client import Reporter; report = Reporter(sys.argv[1]);"
        "[report.step(step, {'loss': 1.0}) for step in range(1, 101)]; os.kill(os.getpid(), 9)"
    )

    ended = subprocess.run([sys.executable, "-c", program, spool], check=False)

    assert ended.returncode == -signal.SIGKILL
    assert [each["step"] for each in said(spool)] == list(range(1, 101))


def test_threads_do_not_mix_their_lines(spool: Path) -> None:
    """U6: several writers lose nothing."""
    report = reporter(spool)

    def work(name: str) -> None:
        for count in range(200):
            report.stage(name, completed=count)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    lines = said(spool)
    assert len(lines) == 800
    for name in "abcd":
        own = [each["completed"] for each in lines if each["stage"] == name]
        assert own == list(range(200))


def test_a_signal_handler_may_report_in_the_middle_of_a_report(spool: Path) -> None:
    """S79: a handler for SIGTERM says how far it came."""
    report, interrupted = reporter(spool), 0

    def handler(*_: object) -> None:
        nonlocal interrupted
        interrupted += 1
        report.stage("stopping")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    step = 0
    try:
        while interrupted < 50:
            step += 1
            report.step(step, {"loss": 0.5})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    kinds = [each["kind"] for each in said(spool)]
    assert (kinds.count("step"), kinds.count("stage")) == (step, interrupted)


def put(control: Path, content: str) -> None:
    """Replace what the control file says, at once, as the runner does."""
    fresh = control.with_name("fresh")
    fresh.write_text(content)
    fresh.replace(control)


@pytest.mark.parametrize("request_", ["stop", "pause"])
def test_a_worker_sees_what_it_is_asked_for(spool: Path, tmp_path: Path, request_: str) -> None:
    """I4, cluster.md section 4 rule 8: the cooperative path first."""
    control = tmp_path / "control.json"
    report = reporter(spool, control=control)
    assert (report.request(), report.stop_requested()) == (None, False)

    put(control, f'{{"request": "{request_}", "serial": 1}}')

    assert (report.request(), report.stop_requested()) == (request_, True)


def test_a_request_can_be_withdrawn_and_made_again(spool: Path, tmp_path: Path) -> None:
    """I4: a run whose pause failed goes on, and may be paused later."""
    control = tmp_path / "control.json"
    report = reporter(spool, control=control)
    seen = []

    for serial, said_ in enumerate(['"pause"', "null", '"pause"', '"stop"'], start=1):
        put(control, f'{{"request": {said_}, "serial": {serial}}}')
        seen.append((report.request(), report.stop_requested()))

    assert seen == [("pause", True), (None, False), ("pause", True), ("stop", True)]


@pytest.mark.parametrize("content", ["{", "[]", "{}", "7", '{"request": "dance"}'])
def test_what_is_no_request_asks_for_nothing(spool: Path, tmp_path: Path, content: str) -> None:
    """U5: no call raises because of the ledger."""
    control = tmp_path / "control.json"
    control.write_text(content)

    assert reporter(spool, control=control).request() is None


def test_a_request_outlives_its_file(spool: Path, tmp_path: Path) -> None:
    """I4: only the server withdraws one."""
    control = tmp_path / "control.json"
    report = reporter(spool, control=control)
    put(control, '{"request": "pause", "serial": 1}')
    assert report.stop_requested()

    control.unlink()

    assert report.request() == "pause"


def test_a_worker_knows_the_snapshot_that_it_goes_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: an attempt that has none begins from the start."""
    monkeypatch.delenv("TRAINLEDGER_RESTORE", raising=False)
    assert client.restore_folder() is None

    monkeypatch.setenv("TRAINLEDGER_RESTORE", str(tmp_path))
    assert client.restore_folder() == tmp_path


def test_a_worker_knows_what_its_branch_takes_and_from_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S143, S144: a run that is no branch has neither."""
    monkeypatch.delenv("TRAINLEDGER_BRANCH", raising=False)
    monkeypatch.delenv("TRAINLEDGER_ORIGIN", raising=False)
    assert (client.branch_kind(), client.origin_folder()) == (None, None)

    monkeypatch.setenv("TRAINLEDGER_ORIGIN", str(tmp_path))
    assert client.origin_folder() == tmp_path
    for kind in ("weights", "trainingState"):
        monkeypatch.setenv("TRAINLEDGER_BRANCH", kind)
        assert client.branch_kind() == kind


def test_a_kind_of_branch_that_the_client_does_not_know_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C31: what it does not know, it must not train as if it were nothing."""
    monkeypatch.setenv("TRAINLEDGER_BRANCH", "everything")

    with pytest.raises(ValueError, match="'everything', expected weights or trainingState"):
        client.branch_kind()


def test_a_worker_without_a_control_file_is_never_asked_for_anything(spool: Path) -> None:
    """Any program may use the client."""
    assert not reporter(spool).stop_requested()


def test_the_environment_names_spool_plan_and_output(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design.md, engine: the variables of a worker."""
    (tmp_path / "plan.json").write_text('{"method": "SFT"}')
    (tmp_path / "control.json").write_text('{"request": "stop"}')
    monkeypatch.setenv("TRAINLEDGER_ATTEMPT", "2")
    monkeypatch.setenv("TRAINLEDGER_SPOOL", str(spool))
    monkeypatch.setenv("TRAINLEDGER_PLAN", str(tmp_path / "plan.json"))
    monkeypatch.setenv("TRAINLEDGER_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("TRAINLEDGER_CONTROL", str(tmp_path / "control.json"))

    report = Reporter.from_environment()
    report.completed()

    assert said(spool) == [{"kind": "completed"}]
    assert report.stop_requested()
    assert client.read_plan() == {"method": "SFT"}
    assert client.output_folder() == tmp_path / "output"
    assert client.attempt_number() == 2


def test_outside_of_a_run_the_reports_go_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training script can be tried by hand."""
    monkeypatch.delenv("TRAINLEDGER_SPOOL", raising=False)
    report = Reporter.from_environment()

    report.completed()

    assert report.lost_lines == 0
    assert not report.stop_requested()


def test_the_client_is_one_file_that_needs_nothing_but_python(tmp_path: Path) -> None:
    """docs/reports.md: it may be copied next to any training script."""
    shutil.copy(client.__file__, tmp_path / "trainledger_client.py")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from trainledger_client import Reporter\n"
        f"Reporter({str(tmp_path / 'spool')!r}).completed()\n"
    )

    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)

    assert said(tmp_path / "spool") == [{"kind": "completed"}]

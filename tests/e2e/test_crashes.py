"""Servers and workers that die in the middle, and what is still true afterwards."""

import gc
import json
import subprocess
import sys
import threading
import time
import warnings

import psutil

from tests import inside
from tests.product import Product, eventually

RUN = [{"training": 150}, {"steps": 150, "seconds": 0.03}]


def steps_of(product: Product, run_id: str) -> list[int]:
    return [each["step"] for each in product.steps(run_id)]


def test_a_run_outlives_its_server(product: Product) -> None:
    """U5, U6: runner and worker go on, and the series has every step once, in order."""
    run_id = product.start(RUN)
    eventually(lambda: len(product.spooled(run_id)) > 30)
    worker = product.worker(run_id)

    product.kill_server()
    before = len(product.spooled(run_id))
    eventually(lambda: len(product.spooled(run_id)) > before + 20)
    assert worker.is_running()

    record = product.wait_for_phase(run_id, "COMPLETED")
    assert steps_of(product, run_id) == list(range(1, 151))
    assert record["attempts"][0]["lastStep"] == 150
    assert product.json("audit", "verify")["ok"] is True


def test_a_run_that_no_server_saw_is_known_in_full(product: Product) -> None:
    """U5, C42: the server was away until the worker had ended; times are the worker's own."""
    run_id = product.start(RUN)
    eventually(lambda: len(product.spooled(run_id)) > 3)
    product.kill_server()
    worker = product.worker(run_id)
    worker.wait(60)
    said = product.spooled(run_id)
    assert said[-1]["kind"] == "completed"

    record = product.wait_for_phase(run_id, "COMPLETED")

    assert steps_of(product, run_id) == list(range(1, 151))
    trained = said[-1]["at"] - next(line["at"] for line in said if line["kind"] == "training")
    assert abs(record["timing"]["phaseMillis"]["TRAINING"] / 1000 - trained) < 1.0


def test_a_runner_that_dies_takes_its_worker_along_and_loses_nothing(product: Product) -> None:
    """U3: the next runner hands over what was left, and the run ends."""
    run_id = product.start(RUN, execution={"maxAttempts": 1})
    eventually(lambda: len(product.spooled(run_id)) > 30)
    runner = json.loads((product.folder(run_id) / "runner.json").read_text())["pid"]

    psutil.Process(runner).kill()

    record = product.wait_for_phase(run_id, "FAILED")
    assert record["failure"]["reason"] == "the training job stopped before it finished"
    said = [line["step"] for line in product.spooled(run_id) if line["kind"] == "step"]
    assert steps_of(product, run_id) == said


def test_followers_see_each_event_once_across_a_restart(product: Product) -> None:
    """C51, S59: the server ends within seconds with open followers, who find the next one."""
    run_id = product.start(RUN)
    followers = [product.popen("runs", "wait", run_id, "-o", "json-compact") for _ in range(3)]
    eventually(lambda: len(product.spooled(run_id)) > 10)
    server = product.server()

    stopped = time.monotonic()
    server.terminate()
    server.wait(10)
    assert time.monotonic() - stopped < 5
    product.run("server", "start")

    outputs = [follower.communicate(timeout=120)[0] for follower in followers]
    assert [follower.returncode for follower in followers] == [0, 0, 0]
    for output in outputs:
        *events, record = [json.loads(line) for line in output.splitlines()]
        steps = [event["step"] for event in events if event["kind"] == "stepReported"]
        assert steps == list(range(1, 151))
        assert events[-1]["terminal"] is True
        assert record["phase"] == "COMPLETED"


def test_a_follower_that_stops_reading_holds_up_nobody(product: Product) -> None:
    """C51: a slow follower costs the others nothing."""
    run_id = product.start([{"training": 3000}, {"steps": 3000, "measured": {"padding": 1.0}}])
    stuck = product.popen("runs", "wait", run_id, "-o", "json")

    record = product.wait_for_phase(run_id, "COMPLETED")

    assert record["observedStep"] == 3000
    stuck.kill()
    stuck.communicate()


def test_parallel_runs_lose_nothing(product: Product) -> None:
    """C55, U6: 3 runs of 500 steps with followers: 1,500 steps, nothing locked."""
    script = [{"training": 500}, {"steps": 500, "seconds": 0.002}]
    runs = [product.start(script) for _ in range(3)]
    followers = [product.popen("runs", "wait", run_id) for run_id in runs[:2]]

    for run_id in runs:
        product.wait_for_phase(run_id, "COMPLETED")
        assert steps_of(product, run_id) == list(range(1, 501))
    for follower in followers:
        follower.communicate(timeout=60)
        assert follower.returncode == 0
    assert "locked" not in (product.home / "server.log").read_text()


def test_a_server_goes_on_in_whatever_process_the_command_ran_that_started_it(
    product: Product,
) -> None:
    """Python warns of a process that nobody waits for, and this one is not to be waited for."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        done = inside.run(("server", "start"), product.environment)
        gc.collect()

    assert done.returncode == 0
    assert [each for each in told if "subprocess" in str(each.message)] == []
    assert product.json("info")["ready"] is True


def test_two_commands_at_once_start_one_server(product: Product) -> None:
    """The embedded server starts by itself, once."""
    outputs: list[str] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(product.run("runs", "list", "-o", "json")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [json.loads(output)["runs"] for output in outputs] == [[]] * 4
    servers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[-2:] == ["-m", "api"]
        and process.environ().get("TRAINLEDGER_HOME") == str(product.home)
    ]
    assert len(servers) == 1


def test_a_second_server_of_a_home_is_refused(product: Product) -> None:
    product.run("server", "start")

    second = subprocess.run(
        [sys.executable, "-m", "api"],
        env=product.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert second.returncode == 4
    assert "another server works in" in second.stderr

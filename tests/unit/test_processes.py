"""Which processes belong to a job, and that nothing else is killed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from engine.runner.processes import identity, kill_group_of, kill_tree


@contextmanager
def sleeper(*, leads_a_group: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until the test is over."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=leads_a_group)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_process_that_has_the_id_of_a_dead_worker_by_now_is_left_alone() -> None:
    """U3: ids of processes come round again."""
    with sleeper(leads_a_group=True) as process:
        of_the_dead = identity(process.pid)
        of_the_dead["createdAt"] -= 60

        kill_group_of(of_the_dead)

        assert process.poll() is None


def test_the_group_of_a_process_is_killed() -> None:
    """cluster.md section 2: the job's process group goes as a whole."""
    with sleeper(leads_a_group=True) as process:
        kill_group_of(identity(process.pid))

        assert process.wait(10) == -9


def test_a_group_that_is_gone_is_no_trouble() -> None:
    """U3: a job that is killed twice."""
    with sleeper(leads_a_group=True) as process:
        said = identity(process.pid)
        process.kill()
        process.wait()

        kill_group_of(said)


def test_a_process_in_our_own_group_is_killed_without_it() -> None:
    """A runner that somebody started by hand shares the group of a shell."""
    with sleeper(leads_a_group=False) as process:
        kill_tree(psutil.Process(process.pid))

        assert process.wait(10) == -9
        assert os.getpgid(0) > 0  # we are still here

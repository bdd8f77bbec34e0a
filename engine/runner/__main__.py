"""The runner's process: one per job folder, alive until the server knows how the job ended."""

import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path

from engine.runner.job import load, write_json
from engine.runner.processes import identity
from engine.runner.supervise import Supervisor

NOT_DELIVERED = 75  # nobody took the reports within the job's patience


def main(folder: Path) -> int:
    """Carry out the job in ``folder``; the exit code of this process."""
    lock = os.open(folder / "runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0  # another runner is at it
    job = load(folder)
    job.spool.parent.mkdir(exist_ok=True)
    job.output.mkdir(exist_ok=True)
    # Each line of the worker wakes us: without this we would take its processor inside the call.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    supervisor = Supervisor(job, clock=time.time)  # noqa: TID251 - handed down from here
    signal.signal(signal.SIGTERM, lambda *_: supervisor.terminate())
    write_json(folder / "runner.json", identity(os.getpid()) | {"host": socket.gethostname()})
    if job.cancel_file.exists():  # from now on, a cancel finds this process
        supervisor.terminate()
    return 0 if supervisor.carry_out() else NOT_DELIVERED


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))

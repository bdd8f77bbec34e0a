"""Commands: which program prepares or trains for which engine of a plan."""

import sys
from typing import Any

from ledger.events import JobKind


def worker_command(plan: dict[str, Any], kind: JobKind) -> list[str]:
    """The command line of the worker of a job for a resolved plan."""
    if kind == "preparation":
        return [sys.executable, "-m", "engine.prepare"]
    engine = plan["engine"]
    if engine == "trl":
        return [sys.executable, "-m", "engine.worker.trl"]
    if "sim" in engine:
        return [sys.executable, "-m", "engine.worker.sim"]
    return list(engine["command"])


def worker_directory(plan: dict[str, Any]) -> str | None:
    """Where that program starts; None where the plan leaves it open."""
    engine = plan["engine"]
    return None if engine == "trl" else engine.get("directory")


def worker_ranks(plan: dict[str, Any], kind: JobKind) -> int:
    """Processes of that program: one for each device where it trains together with itself.

    The scripted trainer, and a program of somebody's own, are one process that has all devices.
    """
    if kind == "attempt" and plan["engine"] == "trl":
        devices: int = plan["execution"]["devices"]
        return devices
    return 1

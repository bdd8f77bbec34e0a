"""Commands: which program trains for which engine of a plan."""

import sys
from typing import Any


def worker_command(plan: dict[str, Any]) -> list[str]:
    """The command line of the worker of a resolved plan."""
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

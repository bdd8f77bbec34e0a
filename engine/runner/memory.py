"""Memory: whether the operating system killed a process of this group for want of memory."""

from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def oom_kills(*, groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS) -> int | None:
    """How many processes of our control group were killed so; None where nobody counts.

    Source: Linux kernel, admin-guide: cgroup-v2, memory.events; cgroup-v1, memory.oom_control.
    """
    for file in _counters(groups, own):
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def _counters(groups: Path, own: Path) -> list[Path]:
    """Files that may hold the count, the nearest first; inside a container, paths may be hidden."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if controllers == "":
            found += [groups / inside / "memory.events", groups / "memory.events"]
        elif "memory" in controllers.split(","):
            base = groups / "memory"
            found += [base / inside / "memory.oom_control", base / "memory.oom_control"]
    return found

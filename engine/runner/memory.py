"""Memory of the control group that this process is in: its limit, and who was killed for want."""

from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def oom_kills(*, groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS) -> int | None:
    """How many processes of our control group were killed so; None where nobody counts.

    Source: Linux kernel, admin-guide: cgroup-v2, memory.events; cgroup-v1, memory.oom_control.
    """
    for file in _files("memory.events", "memory.oom_control", groups=groups, own=own):
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def limit_bytes(*, groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS) -> int | None:
    """How much memory our control group may have; None where nothing limits it.

    Source: Linux kernel, admin-guide: cgroup-v2, memory.max; cgroup-v1, memory.limit_in_bytes.
    """
    limits = []
    for file in _files("memory.max", "memory.limit_in_bytes", groups=groups, own=own):
        try:
            said = file.read_text().strip()
        except OSError:
            continue
        if said.isdigit():  # else it is the word max
            limits.append(int(said))
    return min(limits, default=None)


def _files(second: str, first: str, *, groups: Path, own: Path) -> list[Path]:
    """Files of these names, in version 2 and 1, the nearest first; some may be hidden from us."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if controllers == "":
            found += [groups / inside / second, groups / second]
        elif "memory" in controllers.split(","):
            base = groups / "memory"
            found += [base / inside / first, base / first]
    return found

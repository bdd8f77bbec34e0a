"""Memory of a run: the peak of each device, and what held one of them where it held the most."""

from cli.render.text import count, cut, plain, size
from cli.wire import Json

_PARTS = {
    "weightsBytes": "weights",
    "adapterBytes": "adapter",
    "gradientsBytes": "gradients",
    "generationBytes": "generation",
    "activationsBytes": "activations",
    "optimizerStateBytes": "optimizer state",
    "overheadBytes": "allocator+driver",
    "freeBytes": "free",
}
_OPTIONAL = "generationBytes"  # a run that makes no rollouts has no such part
_COLUMNS = 20  # of a phase, so that two of them and the names fit into 80


def peaks(memory: Json | None) -> str:
    """The peak of each device, never a sum."""
    found = (memory or {}).get("peakBytes") or {}
    said = [f"{plain(device)} {size(peak)} at the peak" for device, peak in sorted(found.items())]
    return ", ".join(said) or "not measured"


def breakdown(said: Json) -> str:
    """What held the device in the two phases of the step that reserved the most."""
    phases = [said["peak"], *([said["other"]] if said.get("other") else [])]
    step = f", in step {count(said['step'])}" if said.get("step") is not None else ""
    lines = [
        f"{size(said['reservedBytes'])} of {size(said['sizeBytes'])} on {plain(said['device'])} "
        f"reserved{step}",
        _row("peak first", [cut(plain(each["phase"]), _COLUMNS) for each in phases]),
    ]
    for name, label in _PARTS.items():
        cells = [each.get(name) for each in phases]
        if name != _OPTIONAL or any(cell is not None for cell in cells):
            shown = ["not measured" if cell is None else size(cell) for cell in cells]
            lines.append(_row(label, shown))
    return "\n".join(lines)


def _row(label: str, cells: list[str]) -> str:
    return f"{label:<16}" + "".join(f"{cell:>{_COLUMNS + 2}}" for cell in cells)

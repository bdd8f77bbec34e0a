"""Memory of a run: the peak of each device, and what held one where it held the most."""

from typing import Any

from ledger.events import Breakdown, Held, MemoryMeasured


def empty() -> dict[str, Any]:
    """What is known of a run that measured nothing."""
    return {"peakBytes": {}, "breakdown": None}


def note(memory: dict[str, Any], event: MemoryMeasured, attempt: int) -> None:
    """Keep the highest peaks, and the breakdown of the step that reserved the most."""
    peaks, known = memory["peakBytes"], memory["breakdown"]
    for device, peak in event.peak_bytes.items():
        peaks[device] = max(peaks.get(device, 0), peak)
    new = event.breakdown
    if new is not None and (known is None or new.reserved_bytes > known["reservedBytes"]):
        memory["breakdown"] = {"attempt": attempt, "step": event.step} | _breakdown(new)


def record(memory: dict[str, Any]) -> dict[str, Any] | None:
    """What users read; None where nothing was measured."""
    return memory if memory["peakBytes"] or memory["breakdown"] else None


def _breakdown(said: Breakdown) -> dict[str, Any]:
    return {
        "device": said.device,
        "sizeBytes": said.size_bytes,
        "reservedBytes": said.reserved_bytes,
        "peak": _held(said.peak),
        "other": None if said.other is None else _held(said.other),
    }


def _held(said: Held) -> dict[str, Any]:
    """Every part with its bytes; null where nobody measured it."""
    bytes_of = {
        "weightsBytes": said.weights_bytes,
        "adapterBytes": said.adapter_bytes,
        "gradientsBytes": said.gradients_bytes,
        "generationBytes": said.generation_bytes,
        "activationsBytes": said.activations_bytes,
        "optimizerStateBytes": said.optimizer_state_bytes,
        "overheadBytes": said.overhead_bytes,
        "freeBytes": said.free_bytes,
    }
    return {"phase": said.phase, **bytes_of}

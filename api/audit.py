"""Whether the ledger is what was once written, and its projections what it says."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ledger import audit
from ledger.audit import Fault, Sealed, Verdict
from ledger.errors import CorruptError
from ledger.events import run_stream
from ledger.ledger import Ledger
from projections.compare import Difference, differences, differences_of
from projections.documents import Documents
from projections.follow import Follower
from projections.warehouse import Warehouse
from projections.warehouse.publish import Publisher

PUBLISH_SECONDS = 60.0  # so long one waits for a copy of what the warehouse holds

Answer = dict[str, Any]


class Parts(NamedTuple):
    """What is checked."""

    ledger: Ledger
    file: Path | None  # that its events are in
    documents: Documents
    warehouse: Warehouse
    publisher: Publisher
    followers: Mapping[str, Follower]
    catch_up: Callable[[str, int], bool]  # waits for a projection; whether it got there


class Auditor:
    """Checks the bytes first; what cannot be trusted as bytes is not replayed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._verifying = threading.Lock()  # one at a time: each keeps a processor busy

    def verify(self, run_id: str | None = None) -> Answer:
        """Check everything, or one run with what the seals say of it."""
        parts = self._parts
        with self._verifying:
            started = time.monotonic()
            ends = self._ends()
            if run_id is None:
                verdict = audit.verify(parts.ledger)
                faults = [*verdict.faults, *_cut_off(verdict.position, ends)]
            else:
                others = audit.streams_beside(parts.ledger, run_id)
                verdict = audit.verify_streams(parts.ledger, run_stream(run_id), others)
                faults = list(verdict.faults)
            checked = time.monotonic()
            found = [_changed(each) for each in faults] or self._replay(run_id)
            return {
                "ok": not found,
                "runId": run_id,
                **_counts(verdict),
                "seconds": round(time.monotonic() - started, 3),
                "chainSeconds": round(checked - started, 3),
                "faults": found,
            }

    def _ends(self) -> dict[str, int]:
        """How far each part had come before the check, so that nothing may end earlier."""
        ends = {name: each.position() for name, each in self._parts.followers.items()}
        return {"this server": self._parts.ledger.position()} | ends

    def _replay(self, run_id: str | None) -> list[Answer]:
        """What differs between the projections and a replay, or what cannot be replayed."""
        parts = self._parts
        end = parts.ledger.position()
        behind = [name for name in parts.followers if not parts.catch_up(name, end)]
        if behind:  # comparing what they hold would call the rest of the ledger true
            return [_behind(name, parts.followers[name].position(), end) for name in behind]
        models = (parts.ledger, parts.documents, parts.warehouse)
        try:
            if run_id is None:
                # One of an earlier version of us has other tables, which would be no fault.
                parts.publisher.wait_for(parts.warehouse.position(), PUBLISH_SECONDS)
                found = differences(*models, ledger=parts.file, copy=parts.publisher.path)
            else:
                found = differences_of(*models, run_id)
        except CorruptError:
            return [_changed(each) for each in audit.unreadable(parts.ledger)]
        return [_differs(each) for each in found]


def sealed(said: Sealed) -> Answer:
    """What the seals say of themselves, as an answer has it."""
    return {
        "count": said.seals,
        "upto": said.upto,
        "signed": said.signed,
        "keys": list(said.keys),
        "signaturesChecked": said.checked,
    }


def _counts(verdict: Verdict) -> Answer:
    return {
        "position": verdict.position,
        "events": verdict.events,
        "streams": verdict.streams,
        "seals": sealed(verdict.sealed),
        "unknownTopics": verdict.unknown,
    }


def _cut_off(end: int, ends: Mapping[str, int]) -> list[Fault]:
    """One fault where somebody has seen events beyond the end of the ledger."""
    name = max(ends, key=lambda each: ends[each])
    if ends[name] <= end:
        return []
    sentence = f"the ledger ends at position {end}, and {name} has come to {ends[name]}"
    return [Fault(None, None, end + 1, f"{sentence}: the newest events were removed")]


def _changed(fault: Fault) -> Answer:
    return {"verdict": "eventChanged", **fault._asdict()}


def _behind(name: str, position: int, end: int) -> Answer:
    detail = f"stands at position {position} of {end}"
    return {"verdict": "projectionDiffers", "projection": name, "detail": detail}


def _differs(each: Difference) -> Answer:
    return {
        "verdict": "projectionDiffers",
        "projection": each.projection,
        "runId": each.run_id,
        "detail": each.detail,
    }

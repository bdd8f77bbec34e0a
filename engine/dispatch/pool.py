"""The devices of this machine, and which run holds each."""

import threading
from collections.abc import Sequence


class DevicePool:
    """Slots that runs claim whole and give back whole."""

    def __init__(self, slots: Sequence[str]) -> None:
        self.slots = tuple(slots)
        self._holders: dict[str, str] = {}  # slot: run
        self._lock = threading.Lock()

    def claim(self, run_id: str, count: int) -> tuple[str, ...] | None:
        """So many free slots for ``run_id``, or None while there are too few."""
        with self._lock:
            free = [slot for slot in self.slots if slot not in self._holders]
            if len(free) < count:
                return None
            return self._hold(run_id, free[:count])

    def hold(self, run_id: str, slots: Sequence[str]) -> None:
        """Note that ``run_id`` holds these slots, as it did before this process started."""
        with self._lock:
            self._hold(run_id, slots)

    def release(self, run_id: str) -> None:
        """Free every slot of ``run_id``."""
        with self._lock:
            for slot in [slot for slot, holder in self._holders.items() if holder == run_id]:
                del self._holders[slot]

    def held(self, run_id: str) -> tuple[str, ...]:
        """The slots that ``run_id`` holds."""
        with self._lock:
            return tuple(slot for slot, holder in self._holders.items() if holder == run_id)

    def free(self) -> tuple[str, ...]:
        """The slots that nobody holds."""
        with self._lock:
            return tuple(slot for slot in self.slots if slot not in self._holders)

    def holders(self) -> dict[str, str]:
        """The run that holds each slot which is not free."""
        with self._lock:
            return dict(self._holders)

    def shortage(self, count: int) -> str:
        """A sentence that says what ``count`` devices are waited for, and who holds them."""
        with self._lock:
            holders = ", ".join(
                f"{slot} is held by run {run}" for slot, run in self._holders.items()
            )
        if count > len(self.slots):
            return f"{count} devices; this machine has {len(self.slots)}"
        return f"{count} {'device' if count == 1 else 'devices'}; {holders or 'others wait longer'}"

    def _hold(self, run_id: str, slots: Sequence[str]) -> tuple[str, ...]:
        self._holders |= dict.fromkeys(slots, run_id)
        return tuple(slots)

"""Exits: how a worker ended, and which of its ranks is why.

Where one rank ends, the others lose their partner and fail as well, often within milliseconds. What
ended first is a good guess only: a rank that said why counts for more than one that was killed,
that for more than one that just failed, and what we ended ourselves for nothing. But for one case:
where a rank has waited in vain, the one that had to be ended is the one that hung.
"""

import json
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

STOPPED = 143
REFUSED = 65
WAITED = 75  # in vain, for another rank

FAULTS = ("refused", "failed")  # kinds of reports that say why a rank ends
_LAST_BYTES = 1 << 16  # of a spool; a last word is far shorter
_CERTAIN = 3  # so many of the proofs below hold of one rank alone
_ENOUGH_SAID = (0, REFUSED, STOPPED)  # codes that do not come from one rank's trouble


@dataclass(frozen=True)
class Exit:
    """How a worker ended, in the words of the wire."""

    code: int | None
    signal: int | None
    at: float | None  # seconds since 1970 UTC
    oomKilled: bool | None  # noqa: N815 - a name of the wire
    seen: bool  # false: nobody watched the end
    rank: int | None = None  # which of several ended the others; absent where none did
    hung: bool = False  # it kept the others waiting until they gave up; absent where none did

    def said(self) -> dict[str, Any]:
        """The facts for a file or a delivery."""
        facts = asdict(self)
        if self.rank is None:
            del facts["rank"]
        if not self.hung:
            del facts["hung"]
        return facts


UNSEEN = Exit(code=None, signal=None, at=None, oomKilled=None, seen=False)


class End(NamedTuple):
    """How one rank ended."""

    rank: int
    code: int  # below 0: minus the signal
    at: float  # seconds since 1970 UTC
    oom_killed: bool | None
    was_told: bool  # by us, after another had ended
    word: str | None = None  # the line in which it said why


def exit_of(ends: Sequence[End]) -> tuple[Exit, End]:
    """How the worker of these ranks ended, and the rank that is why."""
    cause = min(ends, key=lambda end: (_weight(end), end.at))
    is_told = len(ends) > 1 and cause.code not in _ENOUGH_SAID
    hung = len(ends) > 1 and _weight(cause) >= _CERTAIN and any(end.code == WAITED for end in ends)
    if hung:
        cause = _hanging(ends)
        is_told = cause.code != WAITED  # else each waited for another
    ended = Exit(
        code=cause.code if cause.code >= 0 else None,
        signal=-cause.code if cause.code < 0 else None,
        at=max(end.at for end in ends),  # until then, its devices were in use
        oomKilled=cause.oom_killed,
        seen=True,
        rank=cause.rank if is_told else None,
        hung=hung,
    )
    return ended, cause


def last_word(spool: Path, *kinds: str) -> str | None:
    """The line in which a rank said that it is over, if that is the last thing that it said."""
    try:
        with spool.open("rb") as file:
            file.seek(max(0, spool.stat().st_size - _LAST_BYTES))
            lines = file.read().split(b"\n")[:-1]
        said = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return None
    is_last = isinstance(said, dict) and said.get("kind") in kinds
    return lines[-1].decode() if is_last else None


def _hanging(ends: Sequence[End]) -> End:
    """The rank that the others gave up: one that had to be killed, else the last to notice."""

    def unlikely(end: End) -> tuple[bool, ...]:
        was_killed = end.was_told and end.code == -signal.SIGKILL
        return end.code == WAITED, end.code == 0, not was_killed

    return min(ends, key=lambda end: (unlikely(end), -end.at))


def _weight(end: End) -> int:
    """The lower, the likelier it is that this rank ended by itself."""
    by_signal = end.code < 0 and end.code != -signal.SIGABRT  # which a lost partner causes too
    proofs = (
        end.word is not None,
        end.oom_killed is True,
        by_signal and not end.was_told,
        end.code != 0 and not end.was_told,
        end.code != 0,
    )
    return next((place for place, holds in enumerate(proofs) if holds), len(proofs))

"""Data fit: how rows fit the maximum length, from what is known of each without its tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fit:
    """How the rows fit the maximum sequence length."""

    rows: int
    reached: int  # rows of at least the maximum length, before the cut
    lost_end: int  # rows with a target beyond the cut
    dropped: int  # rows without any target before the cut
    longest: int  # tokens of the longest row, before the cut


@dataclass(frozen=True)
class Facts:
    """What each row was before it was cut; rows are meant by their place, from 0."""

    tokens: Sequence[int]  # of each
    lost_end: frozenset[int]
    dropped: frozenset[int]

    def __len__(self) -> int:
        """How many rows there are, the dropped ones too."""
        return len(self.tokens)

    def fit(self, max_seq_length: int, places: Sequence[int] | None = None) -> Fit:
        """How the rows at these places fit, or all; there is at least one."""
        chosen = range(len(self)) if places is None else places
        return Fit(
            rows=len(chosen),
            reached=sum(self.tokens[place] >= max_seq_length for place in chosen),
            lost_end=sum(place in self.lost_end for place in chosen),
            dropped=sum(place in self.dropped for place in chosen),
            longest=max(self.tokens[place] for place in chosen),
        )

    def said(self) -> bytes:
        """The facts as JSON."""
        rows = (self.tokens, sorted(self.lost_end), sorted(self.dropped))
        return json.dumps([list(each) for each in rows], separators=(",", ":")).encode()


def facts(said: bytes) -> Facts:
    """What ``Facts.said`` has said."""
    tokens, lost_end, dropped = json.loads(said)
    return Facts(tokens, frozenset(lost_end), frozenset(dropped))

"""Token rows: examples as the trainer takes them, in the columns of an Arrow table."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.prepare import prepared
from engine.prepare.fit import Facts, Fit

SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),  # cut to the maximum length; empty: dropped
        ("labels", pa.list_(pa.int32())),  # the token itself where it is a target, else IGNORED
        ("tokens", pa.int32()),  # of the whole row, before the cut
        ("lost_end", pa.bool_()),  # whether a target lay beyond the cut
    ]
)


class TokenRow(NamedTuple):
    """One example as the trainer takes it."""

    input_ids: list[int]
    labels: list[int]  # the token itself where it is a target, else IGNORED


class Cut(NamedTuple):
    """An example as tokens, as far as the maximum length reaches."""

    input_ids: "prepared.Ids"  # empty where no target is left
    labels: "prepared.Ids"
    tokens: int  # of the whole row
    lost_end: bool


class TokenRows(Sequence[TokenRow]):
    """Rows in the order of their file, or of what was chosen of them."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def of(cls, cuts: Sequence[Cut]) -> "TokenRows":
        """The rows that these are."""
        return cls(pa.Table.from_batches([batch(cuts)]) if cuts else SCHEMA.empty_table())

    @classmethod
    def joined(cls, batches: Sequence[Any]) -> "TokenRows":
        """All rows of record batches."""
        return cls(pa.Table.from_batches(batches, SCHEMA))

    def __len__(self) -> int:
        """How many rows there are, the dropped ones too."""
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, place: int) -> TokenRow: ...
    @overload
    def __getitem__(self, place: slice) -> "TokenRows": ...
    def __getitem__(self, place: int | slice) -> "TokenRow | TokenRows":
        """One row, or some of them."""
        if isinstance(place, slice):
            return self.take(range(len(self))[place])
        return TokenRow(self.table["input_ids"][place].as_py(), self.table["labels"][place].as_py())

    def take(self, places: Sequence[int]) -> "TokenRows":
        """The rows at these places, in this order."""
        return TokenRows(self.table.take(pa.array(places, pa.int64())))

    def kept(self) -> "TokenRows":
        """The rows that have something to train on."""
        return TokenRows(self.table.filter(pc.greater(pc.list_value_length(self.table[0]), 0)))

    def fit(self, max_seq_length: int) -> Fit:
        """How the rows fit; there is at least one."""
        return self.facts().fit(max_seq_length)

    def facts(self) -> Facts:
        """What is known of each row."""
        lengths = pc.list_value_length(self.table["input_ids"]).to_pylist()
        lost_end = self.table["lost_end"].to_pylist()
        return Facts(
            self.table["tokens"].to_pylist(),
            lost_end=frozenset(place for place, is_lost in enumerate(lost_end) if is_lost),
            dropped=frozenset(place for place, length in enumerate(lengths) if not length),
        )

    def highest(self) -> int:
        """The highest token; -1 where there is none."""
        found = pc.max(pc.list_flatten(self.table["input_ids"])).as_py()
        return -1 if found is None else int(found)

    def digest(self) -> str:
        """SHA-256 over all tokens and labels, in their order."""
        found = hashlib.sha256()
        for input_ids, labels in self._arrays():
            found.update(len(input_ids).to_bytes(8, "little"))
            found.update(input_ids.astype("<i4", copy=False).tobytes())
            found.update(labels.astype("<i4", copy=False).tobytes())
        return found.hexdigest()

    def _arrays(self) -> "Iterator[tuple[prepared.Ids, prepared.Ids]]":
        for part in self.table.to_batches():
            ends = part["input_ids"].offsets.to_numpy()
            input_ids = part["input_ids"].values.to_numpy()
            labels = part["labels"].values.to_numpy()
            others = part["labels"].offsets.to_numpy()
            for row in range(part.num_rows):
                yield (
                    input_ids[ends[row] : ends[row + 1]],
                    labels[others[row] : others[row + 1]],
                )


def cut(input_ids: "prepared.Ids", labels: "prepared.Ids", length: int) -> Cut:
    """The beginning of an example, without its tokens if that holds no target."""
    has_target = bool((labels[:length] != prepared.IGNORED).any())
    end = length if has_target else 0
    return Cut(
        input_ids[:end],
        labels[:end],
        len(input_ids),
        bool((labels[length:] != prepared.IGNORED).any()),
    )


def batch(cuts: Sequence[Cut]) -> Any:
    """Rows as a record batch."""
    return pa.record_batch(
        [
            _lists([each.input_ids for each in cuts]),
            _lists([each.labels for each in cuts]),
            pa.array([each.tokens for each in cuts], pa.int32()),
            pa.array([each.lost_end for each in cuts], pa.bool_()),
        ],
        schema=SCHEMA,
    )


def _lists(arrays: "Sequence[prepared.Ids]") -> Any:
    offsets = np.cumsum([0, *map(len, arrays)]).astype(np.int32)
    values = np.concatenate(arrays).astype(np.int32, copy=False)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))

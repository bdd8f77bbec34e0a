"""Token rows: the cut, Data fit by hand, and the digest that snapshots are compared by."""

import hashlib
import struct

import numpy as np

from engine.prepare.fit import Fit
from engine.prepare.tokens import Cut, TokenRows, batch, cut

IGNORED = -100


def row(tokens: int, *targets: int, length: int = 5) -> Cut:
    """A row of that many tokens, some of them targets, cut."""
    input_ids = np.arange(10, 10 + tokens, dtype=np.int32)
    labels = np.full(tokens, IGNORED, np.int32)
    labels[list(targets)] = input_ids[list(targets)]
    return cut(input_ids, labels, length)


FITS = row(4, 2, 3)
REACHES = row(5, 4)
LOSES_ITS_END = row(7, 4, 5, 6)
LOSES_NOTHING = row(7, 3, 4)  # what lies beyond the cut is no target
DROPPED = row(7, 6)
NEVER_A_TARGET = row(3)


def test_data_fit_counts_what_reached_lost_its_end_and_was_dropped() -> None:
    """S46, S47, S48: counted by hand, before the cut."""
    made = TokenRows.of([FITS, REACHES, LOSES_ITS_END, LOSES_NOTHING, DROPPED, NEVER_A_TARGET])

    assert made.fit(5) == Fit(rows=6, reached=4, lost_end=2, dropped=2, longest=7)
    assert made.take([0, 5]).fit(5) == Fit(rows=2, reached=0, lost_end=0, dropped=1, longest=4)


def test_a_row_is_cut_and_one_without_a_target_left_is_empty() -> None:
    """C02: so that it is not trained."""
    made = TokenRows.of([LOSES_ITS_END, DROPPED, FITS])

    assert made[0] == ([10, 11, 12, 13, 14], [IGNORED] * 4 + [14])
    assert made[1] == ([], [])
    assert [each.input_ids for each in made.kept()] == [
        [10, 11, 12, 13, 14],
        [10, 11, 12, 13],
    ]
    assert made.highest() == 14
    assert made.take([1]).kept().highest() == -1


def test_the_digest_is_over_tokens_and_labels_in_their_order() -> None:
    """S37: the same bytes as ever, whatever parts the table is in and whatever was left out."""
    packed = struct.pack("<q4i4i", 4, 10, 11, 12, 13, IGNORED, IGNORED, 12, 13)
    packed += struct.pack("<q5i5i", 5, *range(10, 15), *[IGNORED] * 4, 14)
    expected = hashlib.sha256(packed).hexdigest()
    made = [FITS, DROPPED, REACHES]
    whole, parts = TokenRows.of(made), TokenRows.joined([batch([each]) for each in made])

    assert whole.kept().digest() == parts.kept().digest() == expected
    assert whole.take([2, 0]).digest() != whole.take([0, 2]).digest() == expected


def test_some_of_the_rows_are_rows_in_the_order_that_is_asked_for() -> None:
    """S95."""
    made = TokenRows.of([FITS, REACHES, LOSES_NOTHING])

    assert [len(each.input_ids) for each in made.take([2, 0])] == [5, 4]
    assert [each.labels for each in made[1:]] == [made[1].labels, made[2].labels]

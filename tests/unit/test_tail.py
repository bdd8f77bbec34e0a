"""The whole lines of a spool that grows."""

from pathlib import Path

import pytest

from engine.runner.tail import BATCH_LINES, BLOCK_BYTES, LINE_BYTES, Tail


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "rank0.jsonl"


def append(spool: Path, content: bytes) -> None:
    with spool.open("ab") as file:
        file.write(content)


def test_lines_are_read_once_in_order(spool: Path) -> None:
    """U5: local spool first, forward later."""
    tail = Tail(spool)
    assert tail.read() == []

    append(spool, b"one\ntwo\n")
    assert tail.read() == ["one", "two"]
    assert tail.read() == []

    append(spool, b"\nfour\n")
    assert tail.read() == ["", "four"]
    assert tail.next_line == 5


def test_a_beginning_of_a_line_waits_for_its_end(spool: Path) -> None:
    """engine.md section 9: only whole lines are reports."""
    tail = Tail(spool)
    append(spool, b"one\ntw")

    assert (tail.read(), tail.has_line(), tail.unread_bytes()) == (["one"], False, 2)
    assert tail.read() == []

    append(spool, b"o\n")
    assert tail.has_line()
    assert tail.read() == ["two"]


def test_a_beginning_that_the_worker_takes_back_is_forgotten(spool: Path) -> None:
    """engine.md section 9: a torn last line is cut on reopen."""
    tail = Tail(spool)
    append(spool, b"one\ntorn")
    assert tail.read() == ["one"]

    spool.write_bytes(b"one\nwhole\n")

    assert tail.read() == ["whole"]


def test_a_batch_has_a_most_of_lines(spool: Path) -> None:
    """docs: a delivery stays small."""
    append(spool, b"".join(b"%d\n" % number for number in range(1, BATCH_LINES + 4)))
    tail = Tail(spool)

    first, second = tail.read(), tail.read()

    assert (len(first), first[-1], second) == (2_000, "2000", ["2001", "2002", "2003"])


def test_a_batch_has_a_most_of_bytes(spool: Path) -> None:
    """docs: a delivery stays small."""
    append(spool, b"".join(b"%d" % (number % 10) * 300_000 + b"\n" for number in range(8)))
    tail = Tail(spool)

    batches = [tail.read() for _ in range(3)]

    assert [[line[0] for line in batch] for batch in batches] == [
        ["0", "1", "2"],
        ["3", "4", "5"],
        ["6", "7"],
    ]


@pytest.mark.parametrize("size", [LINE_BYTES + 1, BLOCK_BYTES, 3 * BLOCK_BYTES])
def test_a_line_without_measure_is_cut_so_that_it_is_rejected_and_harms_nobody(
    spool: Path, size: int
) -> None:
    """C32: what is not a report is kept as rejected; the run goes on."""
    tail = Tail(spool)
    append(spool, b"x" * size)
    assert tail.read() == []

    append(spool, b"\nnext\n")

    lines = tail.read()
    lines += tail.read() if len(lines) == 1 else []
    assert lines == ["x" * LINE_BYTES, "next"]
    assert tail.next_line == 3


@pytest.mark.parametrize("taken", [0, 1, 2_500, 4_999, 5_000])
def test_reading_goes_on_after_any_line_that_was_taken(spool: Path, taken: int) -> None:
    """engine.md section 9: a gap is answered with the mark, and the runner rewinds."""
    append(spool, b"".join(b"%d" % number + b"." * 400 + b"\n" for number in range(1, 5_001)))
    tail = Tail(spool)
    tail.read()

    tail.seek(taken)

    assert tail.next_line == taken + 1
    numbers = [line.rstrip(".") for line in tail.read()[:1]]
    assert numbers == ([str(taken + 1)] if taken < 5_000 else [])


def test_a_spool_that_lost_its_end_has_nothing_to_say(spool: Path) -> None:
    """A machine that crashed may keep fewer lines than the ledger took."""
    append(spool, b"one\ntwo\n")
    tail = Tail(spool)

    tail.seek(5)

    assert (tail.read(), tail.next_line, tail.unread_bytes()) == ([], 6, 0)


def test_bytes_that_are_no_characters_become_their_escapes(spool: Path) -> None:
    """C32: garbage is forwarded, and the same garbage each time."""
    append(spool, b"caf\xc3\xa9 \xff\xfe\x00\n")

    assert Tail(spool).read() == ["café \\xff\\xfe\x00"]

"""Events as lines: exact, checkable by a stranger, and read back only as they were."""

import hashlib
import json

import pytest
from eventsourcing.persistence import StoredEvent

from ledger import codec, exchange
from ledger.errors import CorruptError
from ledger.events import Job
from ledger.ledger import Ledger
from ledger.store.memory import MemoryRecorder
from tests import ledgers


def recorded() -> tuple[MemoryRecorder, Ledger]:
    recorder = MemoryRecorder()
    ledger = ledgers.ledger(recorder)
    run_id = ledgers.started(ledger, name='a "state": of ,"state":{} \N{SNOWMAN}\n')
    ledger.record(run_id, Job(1), first=1, lines=[*ledgers.step_lines(1, 3, kl=float("nan"))])
    ledgers.close(ledger, run_id)
    return recorder, ledger


def exported(ledger: Ledger, upto: int = 10**9) -> tuple[list[bytes], exchange.Tale]:
    lines: list[bytes] = []
    tale = exchange.write(ledger.read_stored, upto, lines.append)
    return lines, tale


def test_a_ledger_comes_back_byte_for_byte() -> None:
    """U15: same digests, same positions."""
    _, ledger = recorded()
    lines, tale = exported(ledger)

    fresh = MemoryRecorder()
    loaded = exchange.load(fresh, lines)

    assert loaded == tale
    assert fresh.read_stored(after=0, limit=1_000) == ledger.read_stored(0, 1_000)


def test_a_line_can_be_checked_without_us() -> None:
    """docs/audit.md has these very lines of Python."""
    _, ledger = recorded()
    lines, tale = exported(ledger)

    rolled, heads = bytes(32), {}
    for line in lines:
        facts = json.loads(line)
        payload = line[line.index(b',"state":') + 9 : -2]
        head = f"{facts['stream']}\0{facts['version']}\0{facts['topic']}\0".encode()
        digest = hashlib.sha256(head + bytes.fromhex(facts["previous"]) + payload).digest()
        assert digest.hex() == facts["digest"]
        assert facts["previous"] == heads.get(facts["stream"], bytes(32)).hex()
        heads[facts["stream"]] = digest
        rolled = hashlib.sha256(rolled + digest).digest()
    assert rolled.hex() == tale.digest
    assert len(heads) == tale.streams


def test_an_export_ends_where_it_is_told_to() -> None:
    _, ledger = recorded()

    lines, tale = exported(ledger, upto=4)

    assert (len(lines), tale.events, tale.position) == (4, 4, 4)


@pytest.mark.parametrize("payload", [b'{"a":\n1}', b"no json", b"\xff\xfe", b""])
def test_bytes_that_do_not_fit_a_line_are_kept_all_the_same(payload: bytes) -> None:
    """An export of a damaged ledger is evidence, and holds what is there."""
    recorder = MemoryRecorder()
    recorder.insert_events([StoredEvent("run/x", 1, "run.odd.v1", codec.GENESIS + payload)])
    lines, tale = exported(ledgers.ledger(recorder))

    fresh = MemoryRecorder()

    assert lines[0].count(b"\n") == 1
    assert "state" not in json.loads(lines[0])
    assert exchange.load(fresh, lines) == tale
    assert fresh.read_stored(after=0, limit=9) == recorder.read_stored(after=0, limit=9)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b'"loss":0.5', b'"loss":0.6', "does not have its digest"),
        (b'"measured":{"loss":0.5', b'"measured": {"loss":0.5', "if only its spaces"),
        (b'"version":2', b'"version":3', "does not have its digest"),
        (b'"topic":"', b'"topic":"x', "does not have its digest"),
        (b'"digest":"', b'"digest":"0', "is no event"),
        (b'"stream":', b'"strom":', "is no event"),
        (b"}\n", b"\n", "does not have its digest"),
        (b"{", b"", "is no event"),
    ],
)
def test_a_line_that_was_changed_is_refused(old: bytes, new: bytes, sentence: str) -> None:
    _, ledger = recorded()
    lines, _ = exported(ledger)
    index = next(n for n, line in enumerate(lines) if old in line and b'"loss":0.5' in line)

    lines[index] = lines[index].replace(old, new, 1)

    with pytest.raises(CorruptError, match=f"line {index + 1} of the export") as refused:
        exchange.load(MemoryRecorder(), lines)
    assert sentence in str(refused.value)


def test_a_line_that_is_missing_is_refused() -> None:
    _, ledger = recorded()
    lines, _ = exported(ledger)
    del lines[5]

    with pytest.raises(CorruptError, match="position 6 is missing in the export"):
        exchange.load(MemoryRecorder(), lines)


def test_lines_in_another_order_are_refused() -> None:
    _, ledger = recorded()
    lines, _ = exported(ledger)
    lines[4], lines[5] = lines[5], lines[4]

    with pytest.raises(CorruptError, match="position 5 is missing"):
        exchange.load(MemoryRecorder(), lines)


def test_a_chain_that_is_broken_is_refused() -> None:
    """Whoever changes an event and gives it a digest of its own has changed all after it."""
    _, ledger = recorded()
    lines, _ = exported(ledger)
    stored = next(each for each in ledger.read_stored(0, 99) if b'"loss":0.5' in each.state)
    other = stored._replace(state=stored.state.replace(b'"loss":0.5', b'"loss":0.6'))
    lines[stored.position - 1] = exchange.line(other, codec.digest(other.event()))

    with pytest.raises(CorruptError, match="does not follow what is stored before it"):
        exchange.load(MemoryRecorder(), lines)


def test_only_an_empty_ledger_becomes_another() -> None:
    recorder, ledger = recorded()
    lines, _ = exported(ledger)

    with pytest.raises(ValueError, match="empty"):
        exchange.load(recorder, lines)

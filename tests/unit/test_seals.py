"""Sealing: when a seal is due, what it covers, and what it says of the ledger."""

from pathlib import Path

import pytest

from ledger import audit, codec, signing
from ledger.errors import LedgerError, RefusedError
from ledger.events import SEALS, Job, LedgerSealed
from ledger.ledger import Ledger
from ledger.seals import Sealer, message
from ledger.signing import Key
from tests import ledgers

MINUTES = 600.0


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sealer(
    ledger: Ledger, clock: Clock | None = None, *, every: int = 1_000, key: Key | None = None
) -> Sealer:
    return Sealer(
        ledger,
        every_events=every,
        every_seconds=MINUTES,
        monotonic=clock or Clock(),
        key=lambda: key,
    )


def sealed(ledger: Ledger) -> list[LedgerSealed]:
    return [each for each in ledger.stream(SEALS) if isinstance(each, LedgerSealed)]


def test_a_run_that_ended_is_sealed_at_once() -> None:
    """Issue 7: a seal at each run's end, over everything up to a position."""
    ledger = ledgers.ledger()
    run_id = ledgers.started(ledger)
    sealing = sealer(ledger)
    sealing.work()
    assert sealed(ledger) == []

    ledgers.close(ledger, run_id)
    end = ledger.position()
    sealing.work()

    (seal,) = sealed(ledger)
    assert (seal.upto, seal.events) == (end, end)
    assert seal.heads.keys() == {f"run/{run_id}", f"run/{run_id}/a1", *_submissions(ledger)}
    assert seal.principal == "sealer"
    assert (seal.signature, seal.public_key) == (None, None)


def _submissions(ledger: Ledger) -> set[str]:
    return {
        stored.stream
        for stored in ledger.read_stored(0, 1_000)
        if stored.stream.startswith("submission/")
    }


def test_the_digest_is_rolled_over_every_event_from_the_first_on() -> None:
    """docs/audit.md says how a stranger computes it."""
    ledger = ledgers.ledger()
    ledgers.close(ledger, ledgers.started(ledger))
    sealer(ledger).work()

    (seal,) = sealed(ledger)
    rolled = bytes(32)
    for stored in ledger.read_stored(0, seal.events):
        rolled = codec.roll(rolled, codec.digest(stored.event()))
    assert seal.digest == rolled.hex()


def test_nothing_but_seals_is_never_sealed() -> None:
    """No endless loop: a seal is an event, and asks for no seal of its own."""
    ledger, clock = ledgers.ledger(), Clock()
    ledgers.close(ledger, ledgers.started(ledger))
    sealing = sealer(ledger, clock, every=1)

    for _ in range(5):
        sealing.work()
        clock.now += 2 * MINUTES

    assert sealed(ledger)[-1].upto == ledger.position() - len(sealed(ledger))
    assert [each.upto for each in sealed(ledger)] == sorted({e.upto for e in sealed(ledger)})


def test_a_seal_is_due_after_so_many_events() -> None:
    ledger = ledgers.ledger()
    run_id = ledgers.started(ledger)
    sealing = sealer(ledger, every=20)

    ledger.record(run_id, Job(1), first=1, lines=ledgers.step_lines(1, 50))
    sealing.work()

    assert [each.upto for each in sealed(ledger)] == [20, 40]
    assert [each.events for each in sealed(ledger)] == [20, 40]


def test_a_seal_is_due_after_so_many_minutes() -> None:
    ledger, clock = ledgers.ledger(), Clock()
    sealing = sealer(ledger, clock)
    ledgers.submit(ledger)
    sealing.work()

    clock.now = MINUTES - 1
    sealing.work()
    early = len(sealed(ledger))
    clock.now = MINUTES
    sealing.work()

    assert (early, len(sealed(ledger))) == (0, 1)


def test_a_restarted_server_seals_what_the_one_before_left() -> None:
    ledger = ledgers.ledger()
    ledgers.close(ledger, ledgers.started(ledger))
    sealer(ledger).work()
    ledgers.close(ledger, ledgers.started(ledger))

    sealer(ledger).work()

    first, second = sealed(ledger)
    assert second.upto == ledger.position() - 1
    assert f"run/{ledger.read(0, 9)[1].event.run_id}" not in second.heads
    assert SEALS in second.heads
    assert audit.verify(ledger).faults == ()
    assert audit.verify(ledger).sealed.upto == second.upto
    assert first.events < second.events


def test_a_seal_that_could_not_be_stored_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledgers.ledger()
    ledgers.close(ledger, ledgers.started(ledger))
    sealing = sealer(ledger)
    with monkeypatch.context() as broken:
        broken.setattr(ledger, "append", _fail)
        with pytest.raises(LedgerError):
            sealing.work()

    sealing.work()

    assert len(sealed(ledger)) == 1
    assert audit.verify(ledger).faults == ()


def _fail(*_: object, **__: object) -> None:
    raise LedgerError("the disk is full")


def test_a_seal_is_signed_where_there_is_a_key(tmp_path: Path) -> None:
    """Ed25519, by a file that OpenSSL reads too."""
    key = signing.make_key(tmp_path / "seal.key")
    ledger = ledgers.ledger()
    ledgers.close(ledger, ledgers.started(ledger))

    sealer(ledger, key=signing.read_key(tmp_path / "seal.key")).work()

    (seal,) = sealed(ledger)
    assert seal.public_key == key.public
    assert signing.fits(key.public, seal.signature or "", message(seal))
    assert not signing.fits(key.public, seal.signature or "", message(seal) + b" ")
    verdict = audit.verify(ledger)
    assert verdict.faults == ()
    assert verdict.sealed == audit.Sealed(1, seal.upto, 1, (key.public,), checked=True)
    assert (tmp_path / "seal.key").stat().st_mode & 0o777 == 0o600


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    signing.make_key(tmp_path / "seal.key")

    with pytest.raises(RefusedError, match="there is a key already"):
        signing.make_key(tmp_path / "seal.key")


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    """Seals would otherwise go unsigned without anybody noticing."""
    (tmp_path / "seal.key").write_text("hello")

    with pytest.raises(LedgerError, match="holds no Ed25519 key"):
        signing.read_key(tmp_path / "seal.key")


def test_without_the_package_seals_are_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = signing.make_key(tmp_path / "seal.key")
    ledger = ledgers.ledger()
    ledgers.close(ledger, ledgers.started(ledger))
    sealer(ledger, key=key).work()
    monkeypatch.setattr("ledger.signing.is_possible", lambda: False)

    assert signing.read_key(tmp_path / "seal.key") is None
    assert audit.verify(ledger).sealed.checked is False
    with pytest.raises(RefusedError, match="cryptography is missing"):
        signing.make_key(tmp_path / "other.key")

"""Tokens: made once, kept as digests, and good until they expire or are revoked."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.errors import LedgerError, NameTakenError, NoTokenError
from ledger.events import TOKENS, TokenCreated, TokenRevoked
from ledger.ledger import Ledger
from ledger.store.memory import MemoryRecorder
from ledger.tokens import MARK, ROLES, Tokens, allows

START = datetime(2026, 11, 30, tzinfo=UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(MemoryRecorder(), clock=clock)


@pytest.fixture
def tokens(ledger: Ledger, clock: Clock) -> Tokens:
    return Tokens(ledger, clock=clock)


def test_a_role_may_do_what_those_before_it_may() -> None:
    """I24: at least reader, submitter, operator; and what is no role may nothing."""
    may = {role: [needed for needed in ROLES if allows(role, needed)] for role in ROLES}

    assert may == {
        "reader": ["reader"],
        "submitter": ["reader", "submitter"],
        "operator": ["reader", "submitter", "operator"],
    }
    assert not any(allows(role, "reader") for role in ("worker", "", "Reader", "admin"))


def test_a_token_is_found_by_what_was_given_away_and_by_nothing_else(tokens: Tokens) -> None:
    """I24: the token of ana is the principal user/ana with the role that it was made with."""
    ana, secret = tokens.create("ana", "submitter", principal="operator")
    tokens.create("bob", "reader", principal="operator")

    assert tokens.find(secret) == ana
    assert (ana.principal, ana.role, ana.created_by) == ("user/ana", "submitter", "operator")
    others = ["", MARK, secret[:-1], f"{secret}x", secret.lower(), ana.sha256, ana.token_id, "ana"]
    assert [tokens.find(each) for each in others] == [None] * len(others)


def test_a_token_has_256_random_bits_and_says_what_it_is(tokens: Tokens) -> None:
    secrets = [tokens.create(f"n{n}", "reader", principal="operator")[1] for n in range(20)]

    assert len(set(secrets)) == 20
    assert {each[: len(MARK)] for each in secrets} == {MARK}
    assert {len(each) for each in secrets} == {len(MARK) + 43}  # 43 letters of 6 bits hold 256


def test_the_ledger_has_the_digest_and_who_made_it_but_not_the_token(
    tokens: Tokens, ledger: Ledger
) -> None:
    """U20, I24: stored hashed, shown once, and every event carries the principal."""
    made, secret = tokens.create("ana", "reader", principal="operator")
    tokens.revoke("ana", principal="user/root")

    created, revoked = ledger.stream(TOKENS)
    stored = b"".join(each.state for each in ledger.read_stored(0, 10))
    assert isinstance(created, TokenCreated)
    assert isinstance(revoked, TokenRevoked)
    assert created.token_sha256 == made.sha256
    assert (created.principal, revoked.principal) == ("operator", "user/root")
    assert made.sha256.encode() in stored
    assert secret.encode() not in stored
    assert secret.removeprefix(MARK).encode() not in stored


def test_a_token_ends_at_the_very_moment_that_was_said(tokens: Tokens, clock: Clock) -> None:
    made, secret = tokens.create("ana", "reader", seconds=60, principal="operator")

    clock.now = START + timedelta(seconds=59.999)
    before = tokens.find(secret)
    clock.now = START + timedelta(seconds=60)

    assert made.expires_at == START + timedelta(minutes=1)
    assert before == made
    assert tokens.find(secret) is None
    assert tokens.status(made) == "expired"
    assert not tokens.counts(made)


def test_a_revoked_token_counts_no_more_and_says_who_took_it(tokens: Tokens) -> None:
    made, secret = tokens.create("ana", "operator", principal="operator")

    revoked = tokens.revoke(made.token_id, principal="user/bob")

    assert tokens.find(secret) is None
    assert (revoked.revoked_by, revoked.revoked_at) == ("user/bob", START)
    assert tokens.status(revoked) == "revoked"
    assert not tokens.counts(made)


def test_revoking_again_adds_nothing(tokens: Tokens, ledger: Ledger) -> None:
    tokens.create("ana", "reader", principal="operator")
    first = tokens.revoke("ana", principal="operator")

    again = tokens.revoke("ana", principal="user/bob")

    assert again == first
    assert ledger.position() == 2


def test_a_name_is_free_again_once_its_token_counts_no_more(tokens: Tokens, clock: Clock) -> None:
    """U9: names are labels, so the id tells one ana from the next."""
    first, _ = tokens.create("ana", "reader", seconds=60, principal="operator")
    with pytest.raises(NameTakenError, match="a token named ana is in use, with the role reader"):
        tokens.create("ana", "operator", principal="operator")
    clock.now += timedelta(minutes=2)
    second, _ = tokens.create("ana", "submitter", principal="operator")

    revoked = tokens.revoke("ana", principal="operator")

    assert first.token_id != second.token_id
    assert revoked.token_id == second.token_id
    assert [each.revoked_at is None for each in tokens.all()] == [True, False]
    tokens.create("ana", "reader", principal="operator")


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "-a", ".", "a/b", "ä", "a\n", "x" * 101, "0123abcd", "user/ana"]
)
def test_what_cannot_be_a_name_is_refused_by_its_rule(
    tokens: Tokens, ledger: Ledger, name: str
) -> None:
    """U21: a name stands in an address and in a principal; eight digits are an id."""
    with pytest.raises(LedgerError, match="cannot be the name of a token"):
        tokens.create(name, "reader", principal="operator")

    assert ledger.position() == 0


@pytest.mark.parametrize("which", ["", "nobody", "00000000", "user/ana"])
def test_a_token_that_is_not_there_is_said(tokens: Tokens, which: str) -> None:
    tokens.create("ana", "reader", principal="operator")

    with pytest.raises(NoTokenError, match="there is no token"):
        tokens.revoke(which, principal="operator")


def test_whoever_reads_the_ledger_again_knows_the_same_tokens(
    tokens: Tokens, ledger: Ledger, clock: Clock
) -> None:
    """A restart keeps them, and what became of them."""
    made, secret = tokens.create("ana", "submitter", seconds=60, principal="operator")
    _, gone = tokens.create("bob", "reader", principal="operator")
    tokens.revoke("bob", principal="operator")

    again = Tokens(ledger, clock=clock)

    assert again.all() == tokens.all()
    assert again.find(secret) == made
    assert again.find(gone) is None

"""Tokens of people and programs: who made which, what one may do with it, and whether it counts.

The ledger has the SHA-256 of a token, and nobody has the token but who was given it. A slow hash
protects words that people think of; a token is 256 random bits, which nobody guesses at any speed,
and it is hashed anew with each request.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from ledger import names
from ledger.errors import NameTakenError, NoTokenError
from ledger.events import TOKENS, Event, RoleName, TokenCreated, TokenRevoked
from ledger.ledger import Ledger
from ledger.register import Register, Told
from ledger.run import Stamp

ROLES: tuple[RoleName, ...] = get_args(RoleName)  # each may do what those before it may
MARK = "tlk_"  # how a token begins, so that whoever finds one in a file knows what it is
ID = re.compile(r"[0-9a-f]{8}")

Status = Literal["active", "expired", "revoked"]


@dataclass(frozen=True)
class Token:
    """What is known of a token."""

    token_id: str
    name: str
    role: RoleName
    sha256: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @property
    def principal(self) -> str:
        """Who causes the events of requests with it."""
        return f"user/{self.name}"

    def status(self, now: datetime) -> Status:
        """Whether it counts."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "active"


class Tokens:
    """Every token that was ever made; safe to use from any thread."""

    def __init__(self, ledger: Ledger, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._register = Register(ledger, TOKENS, fold)

    def all(self) -> Sequence[Token]:
        """Every token, oldest first."""
        return self._register.known

    def find(self, secret: str) -> Token | None:
        """The token that ``secret`` is, if it counts now.

        Every one is compared, in a time that does not depend on how much of it fits.
        """
        digest = _digest(secret)
        found = [each for each in self._register.known if hmac.compare_digest(each.sha256, digest)]
        return found[0] if found and self.status(found[0]) == "active" else None

    def counts(self, token: Token) -> bool:
        """Whether a token counts now, whatever was known of it before."""
        return self.status(self.named(token.token_id)) == "active"

    def status(self, token: Token) -> Status:
        """Whether a token counts now, as far as ``token`` tells."""
        return token.status(self._clock())

    def create(
        self, name: str, role: RoleName, *, seconds: float | None = None, principal: str
    ) -> tuple[Token, str]:
        """A new token, and what it is in clear, which is known to nobody after this.

        ``seconds``: how long it counts; None: until it is revoked.

        Raises:
            LedgerError: this cannot be a name.
            NameTakenError: a token of this name counts already.
        """
        names.check(name, "a token", is_id=ID.fullmatch, ids="ids look like (8 hexadecimal digits)")
        secret = MARK + secrets.token_urlsafe(32)
        digest = _digest(secret)

        def decide(known: Sequence[Token], stamp: Stamp) -> list[Told]:
            _check_free(known, name, stamp.now)
            facts = {
                "token_id": _unused(known),
                "name": name,
                "role": role,
                "token_sha256": digest,
                "expires_at": None if seconds is None else stamp.now + timedelta(seconds=seconds),
            }
            return [Told(TokenCreated, facts)]

        self._register.tell(decide, principal=principal)
        return next(each for each in self._register.known if each.sha256 == digest), secret

    def revoke(self, which: str, *, principal: str) -> Token:
        """The token of this id or name, which counts no more; doing it again changes nothing.

        Raises:
            NoTokenError: there is none.
        """
        token_id = self.named(which).token_id

        def decide(known: Sequence[Token], _: Stamp) -> list[Told]:
            is_over = _named(known, token_id).revoked_at is not None
            return [] if is_over else [Told(TokenRevoked, {"token_id": token_id})]

        self._register.tell(decide, principal=principal)
        return self.named(token_id)

    def named(self, which: str) -> Token:
        """The token of this id, or the newest of this name.

        Raises:
            NoTokenError: there is none.
        """
        return _named(self._register.known, which)


def allows(role: str, needed: RoleName) -> bool:
    """Whether who has ``role`` may do what needs ``needed``; a role that is none may nothing."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)


def fold(events: Iterable[Event]) -> tuple[Token, ...]:
    """The tokens that the events of the stream tell of, oldest first."""
    known: dict[str, Token] = {}
    for event in events:
        match event:
            case TokenCreated():
                known[event.token_id] = Token(
                    token_id=event.token_id,
                    name=event.name,
                    role=event.role,
                    sha256=event.token_sha256,
                    created_at=event.timestamp,
                    created_by=event.principal,
                    expires_at=event.expires_at,
                )
            case TokenRevoked():
                known[event.token_id] = replace(
                    known[event.token_id], revoked_at=event.timestamp, revoked_by=event.principal
                )
    return tuple(known.values())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _named(known: Sequence[Token], which: str) -> Token:
    for token in reversed(known):
        if which in (token.token_id, token.name):
            return token
    raise NoTokenError(f"there is no token {which[:80]!r}", NoTokenError.HINT)


def _check_free(known: Sequence[Token], name: str, now: datetime) -> None:
    taken = [each for each in known if each.name == name and each.status(now) == "active"]
    if taken:
        raise NameTakenError(
            f"a token named {name} is in use, with the role {taken[0].role}",
            f"choose another name, or revoke it first: trainledger tokens revoke {name}",
        )


def _unused(known: Sequence[Token]) -> str:
    """An id that no token has."""
    used = {each.token_id for each in known}
    while (token_id := secrets.token_hex(4)) in used:
        pass
    return token_id

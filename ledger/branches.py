"""Branches in a ledger: asked for once per token, prepared step by step, and what they hold."""

import secrets
from collections.abc import Callable
from typing import Any

from ledger import branch, codec, masking
from ledger.branch import BranchState, Child, Request
from ledger.errors import NotFoundError, RefusedError, TokenReusedError
from ledger.events import (
    BranchCreated,
    BranchRefused,
    BranchRequested,
    Event,
    RunSubmitted,
    SnapshotHeld,
    SnapshotReleased,
    SourceHeld,
    run_stream,
    snapshot_stream,
    submission_stream,
)
from ledger.ledger import Ledger, check_token
from ledger.run import Stamp

PRINCIPAL = "keeper"
DECIDED = (BranchCreated, BranchRefused)


class Branches:
    """Submissions of branches, and the snapshots that are held for their children."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = ledger.lock  # the ledger's own: its decisions ask what is held
        self._open: dict[str, None] = {}  # tokens that nothing is decided about, oldest first
        self._holders: dict[str, set[str]] = {}  # snapshot: runs that need it
        for event in ledger.read_kinds((BranchRequested, *DECIDED, SnapshotHeld, SnapshotReleased)):
            self._remember(event)

    # -- asking

    def preview(self, request: Request) -> Child:
        """What a request would make; nothing is stored and nothing is held.

        Raises:
            NotFoundError, RefusedError: as ``branch.resolve`` says.
        """
        return branch.resolve(self._ledger.run(request.parent), request)

    def request(self, request: Request, *, token: str, principal: str) -> tuple[BranchState, bool]:
        """Ask for a branch; what the token asked for before is answered again.

        Returns:
            The state of the branch, and whether it is new.

        Raises:
            TokenReusedError: the token asked for something else.
            NotFoundError, RefusedError: as ``branch.resolve`` says; nothing is stored.
        """
        check_token(token)
        request = _without_secrets(request)
        made: list[BranchState] = []

        def decide(stamp: Stamp) -> list[Event]:
            known = self._ledger.stream(submission_stream(token))
            if known:
                made[:] = [_same(known, token, request)]
                return []
            child = self.preview(request)
            requested = BranchRequested(
                originator_id=submission_stream(token),
                originator_version=1,
                timestamp=stamp.now,
                principal=stamp.principal,
                child=secrets.token_hex(8),
                origin=child.origin,
                steps=request.steps,
                plan=child.plan,
                stated=child.stated,
                overrides=request.overrides,
                request_sha256=_digest(request, child.origin.snapshot_id),
                config_name=request.config_name,
                description=request.description,
            )
            made.clear()
            return [requested]

        self._append(decide, principal=principal)
        return (made[0], False) if made else (self.state(token), True)

    def state(self, token: str) -> BranchState:
        """How far the branch is that ``token`` asked for.

        Raises:
            NotFoundError: it asked for none.
        """
        events = self._ledger.stream(submission_stream(token))
        if not events or not isinstance(events[0], BranchRequested):
            raise NotFoundError(f"no branch was submitted with token {token!r:.120}")
        return _folded(events)

    # -- preparing

    def undecided(self) -> list[str]:
        """Tokens whose branches are neither created nor refused, oldest first."""
        with self._lock:
            return list(self._open)

    def hold(self, token: str) -> BranchState:
        """Hold the source for the child, or refuse the branch where it is gone meanwhile."""

        def decide(stamp: Stamp) -> list[Event]:
            state = self.state(token)
            if state.is_held or state.is_decided:
                return []
            origin = state.origin
            try:
                parent = self._ledger.run(origin.parent)
                branch.check_source(parent.snapshot(origin.snapshot_id), origin.restore)
            except RefusedError as error:
                return [_refusal(state, stamp, str(error), error.hint)]
            held = SnapshotHeld(
                **self._next(snapshot_stream(origin.snapshot_id), stamp),
                run=origin.parent,
                holder=state.child,
            )
            return [held, SourceHeld(**_after(state, stamp))]

        self._append(decide, principal=PRINCIPAL)
        return self.state(token)

    def create(self, token: str) -> None:
        """Submit the child, now that its source is known to be whole."""

        def decide(stamp: Stamp) -> list[Event]:
            state = self.state(token)
            if state.is_decided:
                return []
            submitted = RunSubmitted(
                originator_id=run_stream(state.child),
                originator_version=1,
                timestamp=stamp.now,
                principal=stamp.principal,
                submission_id=token,
                plan=state.plan,
                stated=state.stated,
                origin=state.origin,
            )
            return [submitted, BranchCreated(**_after(state, stamp), child=state.child)]

        self._append(decide, principal=PRINCIPAL)

    def refuse(self, token: str, *, reason: str, advice: str) -> None:
        """Give the branch up, and the hold on its source."""

        def decide(stamp: Stamp) -> list[Event]:
            state = self.state(token)
            if state.is_decided:
                return []
            refusal = _refusal(state, stamp, reason, advice)
            return [refusal, *self._release(state.origin.snapshot_id, state.child, stamp)]

        self._append(decide, principal=PRINCIPAL)

    # -- holding

    def held(self) -> frozenset[str]:
        """Every snapshot that a run needs."""
        with self._lock:
            return frozenset(self._holders)

    def holders(self, snapshot_id: str) -> list[str]:
        """The runs that need a snapshot."""
        with self._lock:
            return sorted(self._holders.get(snapshot_id, ()))

    def release_ended(self) -> None:
        """Release what is held for runs that have ended."""
        with self._lock:
            pairs = [(name, run) for name, runs in self._holders.items() for run in runs]
        for snapshot_id, run_id in pairs:
            try:
                is_over = self._ledger.run(run_id).has_ended
            except NotFoundError:  # it is still being prepared
                continue
            if is_over:
                self._append(
                    lambda stamp, name=snapshot_id, run=run_id: self._release(name, run, stamp),  # type: ignore[misc]
                    principal=PRINCIPAL,
                )

    # -- inside

    def _append(self, decide: Callable[[Stamp], list[Event]], *, principal: str) -> None:
        """Store what is decided, and keep in mind what follows from it."""
        decided: list[Event] = []

        def remembering(stamp: Stamp) -> list[Event]:
            decided[:] = decide(stamp)
            return decided

        with self._lock:
            self._ledger.append(remembering, principal=principal)
            for event in decided:
                self._remember(event)

    def _remember(self, event: Event) -> None:
        token = event.originator_id.partition("/")[2]
        match event:
            case BranchRequested():
                self._open[token] = None
            case BranchCreated() | BranchRefused():
                self._open.pop(token, None)
            case SnapshotHeld():
                self._holders.setdefault(token, set()).add(event.holder)
            case SnapshotReleased():
                self._holders.get(token, set()).discard(event.holder)
                if not self._holders.get(token):
                    self._holders.pop(token, None)

    def _release(self, snapshot_id: str, holder: str, stamp: Stamp) -> list[Event]:
        held = [
            each
            for each in self._ledger.stream(snapshot_stream(snapshot_id))
            if isinstance(each, (SnapshotHeld, SnapshotReleased)) and each.holder == holder
        ]
        if not held or isinstance(held[-1], SnapshotReleased):
            return []
        facts = self._next(snapshot_stream(snapshot_id), stamp)
        return [SnapshotReleased(**facts, run=held[-1].run, holder=holder)]

    def _next(self, stream: str, stamp: Stamp) -> dict[str, Any]:
        """What the next event of a stream says whatever its kind."""
        return _common(stream, len(self._ledger.stream(stream)) + 1, stamp)


def _folded(events: list[Event]) -> BranchState:
    state = None
    for event in events:
        state = branch.evolve(state, event)
    assert state is not None
    return state


def _same(known: list[Event], token: str, request: Request) -> BranchState:
    """The branch that the token asked for, if it was the same."""
    if not isinstance(known[0], BranchRequested):
        raise TokenReusedError(
            f"submission {token} created a run from a plan, no branch",
            "use a new token for another submission",
        )
    state = _folded(known)
    source = state.origin.snapshot_id
    digest = _digest(request, source if source.startswith(request.snapshot) else request.snapshot)
    if state.request_sha256 != digest:
        raise TokenReusedError(
            f"submission {token} asked for another branch, of {state.steps} updates from snapshot "
            f"{state.origin.snapshot_id[:12]} of run {state.origin.parent} with --restore "
            f"{state.origin.restore} (its digest is {state.request_sha256[:12]}, this one's "
            f"{digest[:12]})",
            "use a new token for another branch",
        )
    return state


def _without_secrets(request: Request) -> Request:
    """The request as it is stored, so that nobody can try secrets on its digest."""
    said = {name: getattr(request, name) for name in ("overrides", "config_name", "description")}
    return request._replace(**masking.masked(said))


def _digest(request: Request, snapshot_id: str) -> str:
    """SHA-256 of what is asked for, however its fields were ordered and the id was cut."""
    facts = request._replace(snapshot=snapshot_id)._asdict()
    return codec.plan_digest(facts)


def _refusal(state: BranchState, stamp: Stamp, reason: str, advice: str) -> BranchRefused:
    return BranchRefused(**_after(state, stamp), reason=reason, advice=advice)


def _after(state: BranchState, stamp: Stamp) -> dict[str, Any]:
    return _common(submission_stream(state.token), state.version + 1, stamp)


def _common(stream: str, version: int, stamp: Stamp) -> dict[str, Any]:
    return {
        "originator_id": stream,
        "originator_version": version,
        "timestamp": stamp.now,
        "principal": stamp.principal,
    }

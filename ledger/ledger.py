"""The ledger: the only way in, and the only way to follow what comes in.

It folds what a decision needs (a run's life, the end of an attempt's stream), asks the pure rules
for the events that follow, and stores them in one transaction, each chained to its predecessor.
"""

import re
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from eventsourcing.persistence import IntegrityError, StoredEvent

from ledger import (
    attempt as attempts,
    cleaning,
    codec,
    lifecycle,
    masking,
    meaning,
    plan as plans,
    run as runs,
)
from ledger.attempt import JobHead
from ledger.errors import FencedError, GapError, LedgerError, NotFoundError, TokenReusedError
from ledger.events import (
    Event,
    Job,
    ReportsClosed,
    RunSubmitted,
    StepReported,
    SubmissionAccepted,
    job_of,
    job_stream,
    run_stream,
    submission_stream,
)
from ledger.reading import Reading
from ledger.run import Ending, RunState, Stamp
from ledger.store.recorder import LedgerRecorder

Decision = Callable[[RunState, Stamp], list[Event]]
TRIES = 5  # of a decision, when another writer was faster
TAIL = 500  # events of a job that are read to know its end
TOKEN = re.compile(r"^[A-Za-z0-9._-]{1,100}$")

ENDS = tuple(runs.ENDS)


class Submission(NamedTuple):
    """What a submission token created."""

    run_id: str
    created: bool  # False: the token had created it before
    position: int


@dataclass
class _Head:
    """The end of one stream: what the next event follows and is chained to."""

    version: int
    digest: bytes


class Ledger(Reading):
    """An append-only ledger over one recorder; safe to use from any thread."""

    def __init__(self, recorder: LedgerRecorder, *, clock: Callable[[], datetime]) -> None:
        super().__init__(recorder)
        self._clock = clock
        self.lock = threading.RLock()  # one decision at a time
        self._grown = threading.Condition()
        self._position = recorder.max_notification_id() or 0
        self._heads: dict[str, _Head] = {}
        self._runs: dict[str, RunState] = {}
        self._jobs: dict[str, JobHead] = {}
        self._unfinished = self._find_unfinished()

    # -- writing

    def submit(self, document: Any, *, token: str, principal: str) -> Submission:
        """Accept a plan as a new run; the same token answers the run that it created before.

        Raises:
            PlanError: the plan cannot be run.
            TokenReusedError: the token created a run from another plan.
        """
        check_token(token)
        plan, stated = plans.resolve(plans.parse(document))
        plan = masking.masked(plan)
        digest = codec.plan_digest(plan)  # of what is stored, so that nobody can try secrets on it
        with self.lock:
            known = self._submission(token)
            if known is not None:
                return self._replayed(known, token, digest)
            run_id = secrets.token_hex(8)
            now = self._clock()
            accepted = SubmissionAccepted(
                originator_id=submission_stream(token),
                originator_version=1,
                timestamp=now,
                principal=principal,
                created_run=run_id,
                plan_sha256=digest,
            )
            submitted = RunSubmitted(
                originator_id=run_stream(run_id),
                originator_version=1,
                timestamp=now,
                principal=principal,
                submission_id=token,
                plan=plan,
                stated=tuple(stated),
            )
            self._store([accepted, submitted])
            return Submission(run_id, created=True, position=self._position)

    def decide(
        self,
        run_id: str,
        decision: Decision,
        *,
        principal: str,
        reported_at: datetime | None = None,
    ) -> RunState:
        """Store what ``decision`` makes of the run, and answer the state after it.

        Raises:
            NotFoundError: there is no such run.
            RefusedError: the decision's own.
        """
        with self.lock:
            for _ in range(TRIES):
                state = self.run(run_id)
                events = decision(state, Stamp(self._clock(), principal, reported_at))
                if not events or self._try_to_store(events):
                    return self.run(run_id)
        raise LedgerError(f"run {run_id} is being changed by somebody else", "try again")

    def append(self, decision: Callable[[Stamp], list[Event]], *, principal: str) -> None:
        """Store what ``decision`` makes of several streams, in one transaction.

        Raises:
            LedgerError: another writer was faster each time, or the decision's own.
        """
        with self.lock:
            for _ in range(TRIES):
                events = decision(Stamp(self._clock(), principal))
                if not events or self._try_to_store(events):
                    return
        raise LedgerError("the ledger is being changed by somebody else", "try again")

    def record(self, run_id: str, job: Job, *, first: int, lines: Sequence[str]) -> JobHead:
        """Take lines of a job's spool, the first of which has the number ``first``.

        Lines that were taken before are compared and skipped, so a batch may be sent again.

        Raises:
            FencedError: the job is closed, or is not the run's newest.
            GapError: lines were left out, or a line said something else before.
        """
        with self.lock:
            for _ in range(TRIES):
                state, head = self._open(run_id, job)
                events, head = self._taken(state, head, self._untaken(head, first, lines))
                if not events or self._try_to_store(events):
                    self._jobs[head.stream] = head
                    return head
        raise LedgerError(f"{job} of run {run_id} has another writer", "try again")

    def close_job(
        self,
        run_id: str,
        *,
        ending: Ending,
        last_sign_at: datetime,
        principal: str,
        reported_at: datetime | None = None,
    ) -> RunState:
        """End the open job, fence its reports and say what follows, in one transaction."""

        def decision(state: RunState, stamp: Stamp) -> list[Event]:
            if state.open_job is None:
                return []
            head = self.head(run_id, state.open_job.job)
            story = lifecycle.close_job(
                state,
                stamp,
                ending=ending,
                lines=head.lines,
                step=head.step,
                last_sign_at=last_sign_at,
            )
            return [attempts.close(head, stamp), *story]

        return self.decide(run_id, decision, principal=principal, reported_at=reported_at)

    # -- reading what a decision needs

    def run(self, run_id: str) -> RunState:
        """The state of a run.

        Raises:
            NotFoundError: there is no such run.
        """
        with self.lock:
            if run_id not in self._runs:
                state = None
                for event in self._stream(run_stream(run_id)):
                    state = runs.evolve(state, event)
                if state is None:
                    raise NotFoundError(f"there is no run {run_id}", NotFoundError.HINT)
                self._runs[run_id] = state
            return self._runs[run_id]

    def head(self, run_id: str, job: Job) -> JobHead:
        """The end of what a job reported."""
        stream = job_stream(run_id, job)
        with self.lock:
            if stream not in self._jobs:
                events = self._tail(stream)
                skipped = events[0].originator_version - 1 if events else 0
                begun = self._step_that_begins(run_id, job)
                head = JobHead(stream, lines=skipped, step=begun, restored=begun)
                for event in events:
                    head = attempts.evolve(head, event)
                self._jobs[stream] = head
            return self._jobs[stream]

    def open_runs(self) -> list[str]:
        """Every run that has not ended, oldest first."""
        with self.lock:
            return list(self._unfinished)

    def stream(self, name: str) -> list[Event]:
        """Every event of a stream; none where there is no such stream."""
        with self.lock:
            return list(self._stream(name))

    # -- following

    def position(self) -> int:
        """The position of the newest event; 0 while there is none."""
        return self._position

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """Wait until there is an event after ``position``; False after ``timeout`` seconds."""
        with self._grown:
            return self._grown.wait_for(lambda: self._position > position, timeout)

    # -- inside

    def _find_unfinished(self) -> dict[str, None]:
        """Every run that began and did not end, in the order in which they began."""
        unfinished: dict[str, None] = {}
        for event in self.read_kinds((RunSubmitted, *ENDS)):
            if isinstance(event, RunSubmitted):
                unfinished[event.run_id] = None
            else:
                unfinished.pop(event.run_id, None)
        return unfinished

    def _step_that_begins(self, run_id: str, job: Job) -> int:
        """The update that an attempt began from; only the newest attempt's is asked for."""
        newest = self.run(run_id).attempt
        return newest.step if newest is not None and newest.job == job else 0

    def _open(self, run_id: str, job: Job) -> tuple[RunState, JobHead]:
        state = self.run(run_id)
        if state.open_job is None or state.open_job.job != job:
            raise FencedError(f"{job} of run {run_id} is closed")
        return state, self.head(run_id, job)

    def _untaken(self, head: JobHead, first: int, lines: Sequence[str]) -> Sequence[str]:
        """The part of ``lines`` that is new."""
        if first > head.lines + 1:
            raise GapError(
                f"line {first} came, but line {head.lines + 1} is the next one", head.lines
            )
        known = min(head.lines - first + 1, len(lines))
        if known > 0:
            stored = self._recorder.select_events(head.stream, gt=first - 1, lte=first - 1 + known)
            for event, line in zip(map(codec.decode, stored), lines[:known], strict=True):
                if not attempts.says_the_same(event, line):
                    raise GapError(
                        f"line {event.originator_version} said something else before", head.lines
                    )
        return lines[max(known, 0) :]

    def _taken(
        self, state: RunState, head: JobHead, lines: Sequence[str]
    ) -> tuple[list[Event], JobHead]:
        """The events that ``lines`` are, and the head after them.

        What a line means for the run itself is told in the run's stream, in the same transaction.
        """
        job = job_of(head.stream)
        assert job is not None  # a head is that of a job
        stamp = Stamp(self._clock(), job.principal)
        events: list[Event] = []
        for line in lines:
            event = attempts.take(head, line, stamp)
            own = stamp._replace(reported_at=event.reported_at)
            for each in meaning.of_report(state, own, head=head, event=event, attempt=job.number):
                events.append(each)
                state = runs.evolve(state, each)
            events.append(event)
            head = attempts.evolve(head, event)
        return events, head

    def _replayed(self, known: SubmissionAccepted, token: str, digest: str) -> Submission:
        if known.plan_sha256 != digest:
            raise TokenReusedError(
                f"submission {token} created run {known.created_run} from another plan "
                f"(its digest is {known.plan_sha256[:12]}, this one's {digest[:12]})",
                "use a new token for another plan",
            )
        return Submission(known.created_run, created=False, position=self._position)

    def _submission(self, token: str) -> SubmissionAccepted | None:
        first = next(self._stream(submission_stream(token)), None)
        if first is None or isinstance(first, SubmissionAccepted):
            return first
        raise TokenReusedError(
            f"submission {token} asked for a branch, not for a run from a plan",
            "use a new token for another submission",
        )

    def _tail(self, stream: str) -> list[Event]:
        """The newest events of a job's stream, back to its newest step at least.

        An attempt may have reported a million steps, and the next line is judged by the last one.
        """
        limit = TAIL
        while True:
            newest = self._recorder.select_events(stream, desc=True, limit=limit)
            events = [codec.decode(stored) for stored in reversed(newest)]
            if len(events) < limit or any(isinstance(event, StepReported) for event in events):
                return events
            limit *= 10

    def _try_to_store(self, events: list[Event]) -> bool:
        """Store the events; False, with everything cached forgotten, if another was faster."""
        try:
            self._store(events)
        except IntegrityError:
            for stream in {event.originator_id for event in events}:
                self._forget(stream)
            return False
        return True

    def _store(self, events: list[Event]) -> None:
        events = [cleaning.cleaned(each) for each in events]
        heads: dict[str, _Head] = {}
        stored = [self._chained(event, heads) for event in events]
        positions = self._recorder.insert_events(stored)
        self._heads |= heads
        for event in events:
            self._remember(event)
        with self._grown:
            self._position = max(self._position, *(positions or ()))
            self._grown.notify_all()

    def _chained(self, event: Event, heads: dict[str, _Head]) -> StoredEvent:
        """The event as it is stored after the newest of its stream."""
        stream = event.originator_id
        head = heads.get(stream) or replace(self._head(stream))
        stored = codec.encode(event, head.digest)
        heads[stream] = _Head(event.originator_version, codec.digest(stored))
        return stored

    def _head(self, stream: str) -> _Head:
        if stream not in self._heads:
            newest = self._recorder.select_events(stream, desc=True, limit=1)
            self._heads[stream] = (
                _Head(newest[0].originator_version, codec.digest(newest[0]))
                if newest
                else _Head(0, codec.GENESIS)
            )
        return self._heads[stream]

    def _remember(self, event: Event) -> None:
        """Bring the cached run up to ``event``; what is over is not kept."""
        stream, run_id = event.originator_id, event.run_id
        if stream == run_stream(run_id) and run_id in self._runs:
            self._runs[run_id] = runs.evolve(self._runs[run_id], event)
        if isinstance(event, RunSubmitted):
            self._unfinished[run_id] = None
        if isinstance(event, ENDS):
            self._unfinished.pop(run_id, None)
        if isinstance(event, (SubmissionAccepted, ReportsClosed, *ENDS)):
            self._forget(stream)

    def _forget(self, stream: str) -> None:
        self._heads.pop(stream, None)
        self._jobs.pop(stream, None)
        self._runs.pop(stream.split("/")[1], None)


def check_token(token: str) -> None:
    """Refuse what cannot be a submission token.

    Raises:
        LedgerError: it cannot.
    """
    if not TOKEN.match(token):
        raise LedgerError(
            "a submission token has 1 to 100 letters, digits, dots, dashes and underscores"
        )

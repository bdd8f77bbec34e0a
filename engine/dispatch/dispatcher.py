"""The process manager: claims devices, launches jobs, hears their reports, ends them.

Its to-do is whatever the ledger says has not ended, so a restart forgets nothing: a job that was
open is adopted, and a launch that was half done is done again (launching is idempotent). A job is
an attempt at a run, or a preparation of its rows, which holds no devices.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from engine.dispatch.job_tokens import JobTokens
from engine.dispatch.keeper import Keeper, Start
from engine.dispatch.launcher import JobRef, JobState, Launcher, LaunchRequest, UnreachableError
from engine.dispatch.pacing import is_due
from engine.dispatch.pool import DevicePool
from engine.dispatch.preparing import Preparing
from engine.dispatch.pressing import Pressing, asked, request
from engine.dispatch.rounds import TICK_SECONDS, Rounds, each_of
from engine.dispatch.watch import Verdict, Watch
from engine.failures import Exit, Failure, ending
from ledger import lifecycle
from ledger.attempt import JobHead
from ledger.errors import FencedError, RefusedError
from ledger.events import Checkpoint, Job
from ledger.ledger import Ledger
from ledger.run import Attempt, Ending, Phase, Preparation, RunState

PRINCIPAL = "dispatch"
SOON_SECONDS = 0.01  # until the next look at a run whose snapshot is being readied
REST_SECONDS = 0.02  # between rounds: a training run brings one about with every batch

OpenJob = Attempt | Preparation


class Runner(NamedTuple):
    """What a runner says of itself with each delivery."""

    host: str
    pid: int
    started_at: datetime


class Answer(NamedTuple):
    """What a runner hears after a delivery."""

    taken: int  # number of the last line that the ledger has
    request: str | None  # "stop", "pause", or nothing
    closed: bool


class Dispatcher:
    """Carries every run that has not ended to its end."""

    def __init__(  # noqa: PLR0913 (one for each part)
        self,
        ledger: Ledger,
        launcher: Launcher,
        pool: DevicePool,
        keeper: Keeper,
        *,
        preparations: int,
        secret: bytes,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._launcher = launcher
        self._pool = pool
        self._keeper = keeper
        self._preparing = Preparing(
            ledger, at_once=preparations, launcher=launcher.name, principal=PRINCIPAL
        )
        self.tokens = JobTokens(ledger, secret)
        self.rounds = Rounds(
            "dispatch", ledger, self.work, patience=self._patience, rest_seconds=REST_SECONDS
        )
        self._clock = clock
        self._monotonic = monotonic
        self._watches: dict[str, Watch] = {}
        self._pressing = Pressing(launcher)
        self._readies = False  # whether the keeper readies a run
        self._someone_waits = False  # for devices, so that whoever came later waits behind it
        self._jobs: dict[JobRef, JobState] = {}  # as they were seen last, and not yet acted upon
        self._observed = -TICK_SECONDS  # when that was
        self._lock = threading.RLock()

    # -- rounds

    def _patience(self) -> float:
        return SOON_SECONDS if self._readies else TICK_SECONDS

    def work(self) -> None:
        """Do what can be done now for each run that has not ended, oldest first."""
        self._observe()
        self._someone_waits = self._readies = False
        run_ids = self._ledger.open_runs()
        self._preparing.look(run_ids)
        each_of(run_ids, self._look_after)

    def _look_after(self, run_id: str) -> None:
        with self._lock:
            state = self._ledger.run(run_id)
            if state.open_job is not None:
                self._attend(state, state.open_job)
            elif not is_due(state, self._clock()):
                pass  # the last job got nowhere, a moment ago
            elif state.wants_preparation:
                self._try_to_prepare(state)
            elif state.wants_devices:
                is_open = self._try_to_open(state, may_claim=not self._someone_waits)
                self._someone_waits |= not is_open

    def _observe(self) -> None:
        """Look at every job at once, at most once a tick."""
        now = self._monotonic()
        if now - self._observed < TICK_SECONDS:
            return
        self._observed = now
        states = [self._ledger.run(run_id) for run_id in list(self._watches)]
        refs = [_ref(state, state.open_job) for state in states if state.open_job]
        self._jobs = self._launcher.observe(refs)

    def _try_to_prepare(self, state: RunState) -> None:
        """Launch its next preparation, unless it has to wait for those of others."""
        number = (state.preparation.number if state.preparation else 0) + 1
        token_sha256 = self.tokens.sha256(state.run_id, Job(number, "preparation"))
        opened = self._preparing.try_to_open(state, token_sha256=token_sha256)
        if opened is not None and opened.open_job is not None:
            self._attend(opened, opened.open_job)

    def _try_to_open(self, state: RunState, *, may_claim: bool) -> bool:
        """Claim devices and launch; False if the run has to wait for them, which it then says."""
        start = self._keeper.start_of(state)
        if start is None:
            self._readies = True
            return True
        count = state.plan["execution"]["devices"]
        devices = self._pool.claim(state.run_id, count) if may_claim else None
        if devices is None:
            because = self._pool.shortage(count)
            self._ledger.decide(
                state.run_id,
                lambda now, stamp: lifecycle.wait(now, stamp, because=because),
                principal=PRINCIPAL,
            )
            return False
        try:
            opened = self._open(state, start, devices)
        except RefusedError:  # it was cancelled or paused since we looked
            self._pool.release(state.run_id)
            return True
        if opened.open_attempt is not None:
            self._attend(opened, opened.open_attempt)
        return True

    def _open(self, state: RunState, start: Start, devices: tuple[str, ...]) -> RunState:
        """Open the attempt that ``start`` is for."""
        token_sha256 = self.tokens.sha256(state.run_id, Job(start.attempt))
        return self._ledger.decide(
            state.run_id,
            lambda now, stamp: lifecycle.open_attempt(
                now,
                stamp,
                devices=devices,
                launcher=self._launcher.name,
                token_sha256=token_sha256,
                snapshot_id=start.snapshot_id,
            ),
            principal=PRINCIPAL,
        )

    def _attend(self, state: RunState, job: OpenJob) -> None:
        """Adopt, launch, press or give up a job that is open."""
        watch = self._watches.get(state.run_id)
        if watch is None:
            self._adopt(state, job)
            return
        now = self._monotonic()
        self._pressing.press(state, _ref(state, job), now)
        if self._jobs.pop(_ref(state, job), JobState.ALIVE) is not JobState.ALIVE:
            self._launch(state, job)  # a fresh runner hands over what the dead one left
        if watch.verdict(now) is Verdict.LOST:
            self._give_up(state, job, watch)
        elif state.phase in (Phase.QUEUED, Phase.PREPARING) and watch.starts_too_slowly(now):
            self._launcher.cancel(_ref(state, job))
            self._close(state, Failure.NO_PROGRESS.ending(Exit(seen=False)), watch.heard_at)

    def _adopt(self, state: RunState, job: OpenJob) -> None:
        """Watch a job, new or from before a restart, and make sure that it exists."""
        execution = state.plan["execution"]
        now = self._monotonic()
        head = self._ledger.head(state.run_id, job.job)
        self._pool.hold(state.run_id, job.devices)
        self._watches[state.run_id] = Watch(
            lease_seconds=execution["lease"],
            startup_timeout_seconds=execution["startupTimeout"],
            heard=now,
            progressed=now,
            stepped=now,
            step=head.step,
            heard_at=head.last_at or job.opened_at,
        )
        self._launch(state, job)

    def _launch(self, state: RunState, job: OpenJob) -> None:
        request = LaunchRequest(
            ref=_ref(state, job),
            plan=state.plan,
            devices=job.devices,
            token=self.tokens.of(state.run_id, job.job),
            environment=self._environment(state, job) if isinstance(job, Attempt) else {},
        )
        try:
            self._launcher.submit(request)
        except UnreachableError:
            self._wait_for_cluster(state, job)
        except OSError:  # no room for its folder, or no process to be had
            self._close(state, Failure.NOT_STARTED.ending(Exit(seen=False)), job.opened_at)

    def _environment(self, state: RunState, attempt: Attempt) -> dict[str, str]:
        """What a worker has to know beside its plan: from where it goes on or begins."""
        said: dict[str, str] = {}
        folder = str(self._keeper.folder(state.run_id, attempt.number))
        if attempt.snapshot_id is not None:
            said["TRAINLEDGER_RESTORE"] = folder
        if state.origin is not None:
            said["TRAINLEDGER_BRANCH"] = state.origin.restore
            if attempt.snapshot_id is None:
                said["TRAINLEDGER_ORIGIN"] = folder
        return said

    def _wait_for_cluster(self, state: RunState, job: OpenJob) -> None:
        """Submit again with the next round, until the run has waited for too long."""
        watch = self._watches.pop(state.run_id)  # what is not watched is adopted, so submitted
        waited = (self._clock() - job.opened_at).total_seconds()
        if waited > watch.startup_timeout_seconds:
            self._close(state, Failure.UNREACHABLE.ending(Exit(seen=False)), job.opened_at)

    def _give_up(self, state: RunState, job: OpenJob, watch: Watch) -> None:
        """End a job that has been silent for longer than its lease.

        It may be alive all the same; it must not be, once others get its devices.
        """
        try:
            self._launcher.kill(_ref(state, job))
        except OSError:  # it does not die: nobody gets its devices before it has
            return
        head = self._ledger.head(state.run_id, job.job)
        lost = ending(head, Exit(seen=False), asked=asked(state))
        self._close(state, lost, watch.heard_at)

    def _close(self, state: RunState, how: Ending, at: datetime) -> None:
        """Write the end of a job, as of its last sign of life, and free its devices.

        What a job that was lost says afterwards is refused; it stays in its spool.
        """
        self._ledger.close_job(
            state.run_id, ending=how, last_sign_at=at, principal=PRINCIPAL, reported_at=at
        )
        self._watches.pop(state.run_id, None)
        self._pressing.forget(state.run_id)
        self._pool.release(state.run_id)

    # -- what runners say

    def hear(
        self,
        run_id: str,
        job: Job,
        *,
        runner: Runner,
        first: int,
        lines: Sequence[str],
        seen: tuple[Exit, datetime | None] | None,
    ) -> Answer:
        """Take a runner's delivery: it is a sign of life, and may hold lines and the end.

        Raises:
            NotFoundError, GapError: as ``Ledger.record`` says.
        """
        with suppress(FencedError):
            self._start(run_id, job, runner)
            head = self._ledger.record(run_id, job, first=first, lines=lines)
            with self._lock:
                self._note(run_id, head, has_lines=bool(lines))
                if seen is not None:
                    self._end(run_id, head, *seen)
                    return Answer(head.lines, None, closed=True)
            return Answer(head.lines, request(self._ledger.run(run_id)), closed=False)
        return Answer(self._ledger.head(run_id, job).lines, None, closed=True)

    def _start(self, run_id: str, job: Job, runner: Runner) -> None:
        """Note that the runner of an attempt is at work; a preparation is from its opening on."""
        state = self._ledger.run(run_id)
        if state.open_job is None or state.open_job.job != job:
            raise FencedError(f"{job} of run {run_id} is closed")
        if state.open_attempt is not None and not state.open_attempt.started:
            self._ledger.decide(
                run_id,
                lambda now, stamp: lifecycle.start_job(
                    now, stamp, host=runner.host, pid=runner.pid
                ),
                principal=job.principal,
                reported_at=runner.started_at,
            )

    def _note(self, run_id: str, head: JobHead, *, has_lines: bool) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            self._watches[run_id] = watch.hear(
                self._monotonic(), self._clock(), has_lines=has_lines, step=head.step
            )

    def _end(self, run_id: str, head: JobHead, seen: Exit, at: datetime | None) -> None:
        """Merge what the worker said with how it died."""
        state = self._ledger.run(run_id)
        if state.open_job is None:
            return
        last_sign = at or head.last_at or state.open_job.opened_at
        how = ending(head, seen, asked=asked(state))
        self._close(state, how, last_sign)

    # -- what others ask

    def cancel(self, run_id: str, *, principal: str) -> RunState:
        """Ask for a run to end.

        Raises:
            NotFoundError: there is no such run.
            EndedError: it has ended.
        """
        with self._lock:
            return self._ledger.decide(run_id, lifecycle.request_cancel, principal=principal)

    def pause(self, run_id: str, *, checkpoint: Checkpoint, principal: str) -> RunState:
        """Ask for a run to give its devices back until it is resumed.

        Raises:
            NotFoundError: there is no such run.
            EndedError: it has ended.
            RefusedError: it cannot be paused in this way.
        """
        with self._lock:
            return self._ledger.decide(
                run_id,
                lambda state, stamp: lifecycle.request_pause(state, stamp, checkpoint=checkpoint),
                principal=principal,
            )

    def resume(self, run_id: str, *, principal: str) -> RunState:
        """Have a paused run go on.

        Raises:
            NotFoundError: there is no such run.
            EndedError: it has ended.
            RefusedError: it is not paused.
        """
        with self._lock:
            return self._ledger.decide(run_id, lifecycle.resume, principal=principal)

    def liveness(self, run_id: str) -> dict[str, Any]:
        """Whether the run's job is alive, and for how long it and its steps have been silent."""
        watch = self._watches.get(run_id)
        if watch is None:
            return {"verdict": "ended" if self._ledger.run(run_id).has_ended else "none"}
        now = self._monotonic()
        return {
            "verdict": watch.verdict(now).value,
            "lastSignAt": watch.heard_at.astimezone(UTC),
            "silentSeconds": round(max(watch.silence(now), 0.0), 3),
            "stepSilentSeconds": round(max(now - watch.stepped, 0.0), 3),
        }


def _ref(state: RunState, job: OpenJob) -> JobRef:
    return JobRef(state.run_id, *job.job)

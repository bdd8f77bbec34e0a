"""What may happen to a run, from its submission to its end: decisions over its state.

Everything here is pure. A decision takes the state and answers the events that follow from it, or
raises why not; ``ledger.ledger`` stores them.
"""

from datetime import datetime
from typing import Any

from ledger.errors import EndedError, RefusedError
from ledger.events import (
    AttemptClosed,
    AttemptOpened,
    CancelRequested,
    Checkpoint,
    Event,
    JobStarted,
    PauseFailed,
    PauseRequested,
    PhaseChanged,
    PreparationClosed,
    PreparationOpened,
    Restored,
    RunAnnotated,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
)
from ledger.run import Attempt, Ending, Phase, RunState, Stamp
from ledger.story import Story


def wait(state: RunState, stamp: Stamp, *, because: str) -> list[Event]:
    """Say that the run waits, and for what; nothing when it says so already.

    It is WAITING for devices, and PREPARING while its preparation waits for that of others.
    """
    story = Story(state, stamp)
    phase = Phase.PREPARING if state.wants_preparation else Phase.WAITING
    if state.phase is not phase:
        story.enter(phase, because)
    elif state.waiting_for is None:
        story.tell(PhaseChanged, phase=phase, waiting_for=because)
    return story.events


def open_preparation(
    state: RunState, stamp: Stamp, *, launcher: str, token_sha256: str
) -> list[Event]:
    """Hand over a job that prepares the rows, before any devices are claimed.

    Raises:
        RefusedError: a job is open, or the run needs no preparation now.
    """
    if not state.wants_preparation:
        raise RefusedError(f"run {state.run_id} is {state.phase} and needs no preparation")
    story = Story(state, stamp)
    if state.phase is not Phase.PREPARING:
        story.enter(Phase.PREPARING)
    elif state.waiting_for is not None:
        story.tell(PhaseChanged, phase=Phase.PREPARING)
    story.tell(
        PreparationOpened,
        preparation=(state.preparation.number if state.preparation else 0) + 1,
        launcher=launcher,
        token_sha256=token_sha256,
    )
    return story.events


def open_attempt(
    state: RunState,
    stamp: Stamp,
    *,
    devices: tuple[str, ...],
    launcher: str,
    token_sha256: str,
    snapshot_id: str | None = None,
) -> list[Event]:
    """Claim devices for the next attempt and hand its job over.

    Every attempt but the first goes back: to a snapshot, or to the start where there is none.

    Raises:
        RefusedError: an attempt is open, or the run cannot have one now.
    """
    if state.open_job is not None:
        raise RefusedError(f"{state.open_job.job} of run {state.run_id} is open")
    number = (state.attempt.number if state.attempt else 0) + 1
    story = Story(state, stamp)
    story.tell(
        AttemptOpened,
        attempt=number,
        devices=devices,
        launcher=launcher,
        token_sha256=token_sha256,
        snapshot_id=snapshot_id,
    )
    if number > 1:
        step = state.snapshot(snapshot_id).step if snapshot_id else 0
        story.tell(Restored, attempt=number, step=step, snapshot_id=snapshot_id)
    story.enter(Phase.QUEUED)
    return story.events


def start_job(state: RunState, stamp: Stamp, *, host: str, pid: int) -> list[Event]:
    """Note that the runner of the open attempt is at work; nothing when that is known."""
    story = Story(state, stamp)
    if state.open_attempt is None or state.open_attempt.started:
        return []
    story.tell(JobStarted, attempt=state.open_attempt.number, host=host, pid=pid)
    if state.phase is Phase.QUEUED:
        story.enter(Phase.PREPARING)
    return story.events


def begin_training(state: RunState, stamp: Stamp) -> list[Event]:
    """Enter TRAINING with the worker's first word of it; nothing when it is there or ending."""
    story = Story(state, stamp)
    if state.phase in (Phase.QUEUED, Phase.PREPARING):
        story.enter(Phase.TRAINING)
    return story.events


def fail(state: RunState, stamp: Stamp, *, ending: Ending) -> list[Event]:
    """End a run that no job can be opened for; nothing when it has ended or one is open."""
    story = Story(state, stamp)
    if state.open_job is None and not state.has_ended:
        _fail(story, ending)
    return story.events


# -- what people ask for ---------------------------------------------------------------------------


def request_cancel(state: RunState, stamp: Stamp) -> list[Event]:
    """Ask for the run to end: at once when it holds nothing, else when its job has stopped.

    Raises:
        EndedError: the run has ended. Asking twice is not an error and changes nothing.
    """
    _check_open(state)
    story = Story(state, stamp)
    if state.cancel_requested:
        return []
    story.tell(CancelRequested)
    if state.open_job is not None:
        story.enter(Phase.CANCELLING)
    elif not state.offers:
        story.tell(RunCancelled)
    return story.events


def request_pause(state: RunState, stamp: Stamp, *, checkpoint: Checkpoint) -> list[Event]:
    """Ask for the run to give its devices back, after saving, or going back to what is saved.

    Raises:
        EndedError: the run has ended.
        RefusedError: it is being cancelled, or ``latest`` has nothing to go back to. Asking twice
            in the same way is not an error and changes nothing.
    """
    _check_open(state)
    if state.cancel_requested:
        raise RefusedError(f"run {state.run_id} is being cancelled")
    if state.phase is Phase.PAUSED or state.pause_requested == checkpoint:
        return []
    if checkpoint == "latest" and state.saved is None:
        raise RefusedError(
            f"run {state.run_id} holds nothing that it can be resumed from",
            "pause it with --checkpoint save",
        )
    story = Story(state, stamp)
    story.tell(PauseRequested, checkpoint=checkpoint)
    if state.open_job is None and not state.offers:
        story.enter(Phase.PAUSED)
    elif state.phase is not Phase.PAUSING:
        story.enter(Phase.PAUSING)
    return story.events


def fail_pause(state: RunState, stamp: Stamp, *, reason: str) -> list[Event]:
    """Go on with what the run did, since the save that a pause needs did not succeed."""
    story = Story(state, stamp)
    if state.phase is Phase.PAUSING and state.pause_requested == "save":
        story.tell(PauseFailed, reason=reason)
        story.enter(Phase.TRAINING)
    return story.events


def resume(state: RunState, stamp: Stamp) -> list[Event]:
    """Have a paused run go on from what is saved; nothing when it is not paused any more.

    Raises:
        EndedError: the run has ended.
        RefusedError: it was never paused.
    """
    _check_open(state)
    if state.phase is Phase.PAUSED:
        story = Story(state, stamp)
        story.tell(RunResumed)
        story.enter(Phase.PREPARING if state.must_prepare else Phase.WAITING)
        return story.events
    raise RefusedError(
        f"run {state.run_id} is {state.phase}, only a paused run can be resumed",
        "wait until it is PAUSED" if state.phase is Phase.PAUSING else "pause it first",
    )


def annotate(
    state: RunState,
    stamp: Stamp,
    *,
    name: str | None,
    description: str | None,
    labels: dict[str, str],
) -> list[Event]:
    """Put words to a run, in whatever phase it is; an empty text takes one away.

    Raises:
        RefusedError: no word was given.
    """
    if name is None and description is None and not labels:
        raise RefusedError(
            "nothing was stated that could be changed", "state a name, a description or a label"
        )
    story = Story(state, stamp)
    story.tell(RunAnnotated, name=name, description=description, labels=labels)
    return story.events


def _check_open(state: RunState) -> None:
    if state.has_ended:
        raise EndedError(
            f"run {state.run_id} has ended: it is {state.phase}", "start it again as a new run"
        )


# -- the end of a job ------------------------------------------------------------------------------


def close_job(
    state: RunState,
    stamp: Stamp,
    *,
    ending: Ending,
    lines: int,
    step: int,
    last_sign_at: datetime,
) -> list[Event]:
    """Close the open job; nothing when it is closed already.

    What follows for the run is said at once, or when the last offered snapshot is decided.
    """
    job = state.open_job
    if job is None:
        return []
    story = Story(state, stamp)
    facts = _facts(ending) | {"lines": lines, "last_sign_at": last_sign_at}
    if isinstance(job, Attempt):
        story.tell(AttemptClosed, attempt=job.number, step=step, rank=ending.rank, **facts)
    else:
        story.tell(PreparationClosed, preparation=job.number, **facts)
    if story.state.ending is None:
        _go_on_prepared(story)
    else:
        settle(story)
    return story.events


def _go_on_prepared(story: Story) -> None:
    """Wait for devices, unless somebody asked for something else."""
    if story.state.cancel_requested:
        story.tell(RunCancelled)
    else:
        story.enter(Phase.PAUSED if story.state.pause_requested else Phase.WAITING)


def _facts(ending: Ending) -> dict[str, Any]:
    """How a job ended, as the event of its end says it."""
    return {
        "outcome": ending.outcome,
        "code": ending.code,
        "end_class": ending.end_class,
        "reason": ending.reason,
        "advice": ending.advice,
        "may_retry": ending.may_retry,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
    }


def settle(story: Story) -> None:
    """Say what the end of the newest job means for the run, once nothing is left to commit."""
    state = story.state
    ending = state.ending
    if ending is None or state.open_job is not None or state.offers or state.has_ended:
        return
    if ending.outcome == "completed":
        story.tell(RunCompleted)
    elif state.cancel_requested:
        story.tell(RunCancelled)
    elif state.pause_requested and _may_go_on(ending) and _is_saved(state):
        story.enter(Phase.PAUSED)
    else:
        _go_on_or_fail(story, ending)


def _may_go_on(ending: Ending) -> bool:
    return ending.outcome == "paused" or ending.may_retry


def _is_saved(state: RunState) -> bool:
    """Whether everything that a pause has to keep is kept."""
    saved = state.saved.step if state.saved else 0
    return state.pause_requested == "latest" or saved >= state.last_step


def _go_on_or_fail(story: Story, ending: Ending) -> None:
    """Wait for another job of its kind, or end the run for the reason that the last one ended."""
    state = story.state
    if state.pause_requested:
        saved = state.saved.step if state.saved else 0
        reason = f"update {state.last_step} was not saved; the newest saved one is {saved}"
        story.tell(PauseFailed, reason=reason)
    has_tries = state.tries < state.plan["execution"]["maxAttempts"]
    if ending.outcome != "paused" and not (ending.may_retry and has_tries):
        _fail(story, ending)
    elif not state.must_prepare:
        story.enter(Phase.WAITING)


def _fail(story: Story, ending: Ending) -> None:
    story.tell(
        RunFailed,
        code=ending.code,
        end_class=ending.end_class,
        reason=ending.reason,
        advice=ending.advice,
    )

"""Makers of events with defaults: a test states only what it is about.

``recorded`` gives events their places: versions in their streams, positions in the ledger, and one
second more on the clock for each event that states no time of its own.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger import events, plan, upcast
from ledger.events import Event, Recorded

RUN = "00000000000000aa"
START = datetime(2026, 12, 1, 8, 0, 0, tzinfo=UTC)
UNTIMED = datetime(1970, 1, 1, tzinfo=UTC)  # recorded() puts a time in its place
PRINCIPAL = "tester"

Made = Event | Sequence["Made"]


def moment(seconds: float) -> datetime:
    """The time so many seconds after the start of every test."""
    return START + timedelta(seconds=seconds)


def recorded(*made: Made, after: Sequence[Recorded] = ()) -> list[Recorded]:
    """The events in this order, as they continue ``after``; only the new ones are answered."""
    versions = Counter(each.event.originator_id for each in after)
    position = after[-1].position if after else 0
    history = []
    for position, event in enumerate(_flat(made), start=position + 1):  # noqa: B020
        stream = event.originator_id
        versions[stream] += 1
        changes: dict[str, Any] = {"originator_version": versions[stream]}
        if event.timestamp == UNTIMED:
            changes["timestamp"] = moment(position - 1)
        history.append(Recorded(position, event.model_copy(update=changes)))
    return history


def _flat(made: Iterable[Made]) -> Iterable[Event]:
    for each in made:
        if isinstance(each, Event):
            yield each
        else:
            yield from _flat(each)


def _common(stream: str, at: float | None) -> dict[str, Any]:
    """Fields that every event has; ``at`` is in seconds after the start."""
    return {
        "originator_id": stream,
        "originator_version": 1,
        "timestamp": UNTIMED if at is None else moment(at),
        "principal": PRINCIPAL,
    }


def _life(run: str, at: float | None) -> dict[str, Any]:
    return _common(events.run_stream(run), at)


def _report(run: str, attempt: int, at: float | None) -> dict[str, Any]:
    return _common(events.attempt_stream(run, attempt), at)


# -- the life of a run -----------------------------------------------------------------------------


def document(**fields: Any) -> dict[str, Any]:
    """A resolved plan; ``fields`` in the plan's own words replace or add parts."""
    base: dict[str, Any] = {"baseModel": "tiny", "dataset": "rows.jsonl", "engine": "sim"}
    return plan.resolve(plan.parse(base | fields))[0]


def token(run: str) -> str:
    """The submission token that made a run."""
    return f"submission-{run}"


def submitted(
    run: str = RUN,
    at: float | None = None,
    origin: events.Origin | None = None,
    **fields: Any,
) -> events.RunSubmitted:
    base: dict[str, Any] = {"baseModel": "tiny", "dataset": "rows.jsonl", "engine": "sim"}
    resolved, stated = plan.resolve(plan.parse(base | fields))
    return events.RunSubmitted(
        **_life(run, at),
        submission_id=token(run),
        plan=resolved,
        stated=tuple(stated),
        origin=origin,
    )


def phase(
    name: events.PhaseName, run: str = RUN, at: float | None = None, waiting_for: str | None = None
) -> events.PhaseChanged:
    return events.PhaseChanged(**_life(run, at), phase=name, waiting_for=waiting_for)


def preparation_opened(
    preparation: int = 1, run: str = RUN, at: float | None = None
) -> events.PreparationOpened:
    return events.PreparationOpened(
        **_life(run, at), preparation=preparation, launcher="local", token_sha256="0" * 64
    )


def preparation_closed(
    preparation: int = 1,
    run: str = RUN,
    at: float | None = None,
    last_sign: float | None = None,
    **fields: Any,
) -> events.PreparationClosed:
    """The end of a preparation that succeeded; without ``last_sign`` it lived until then."""
    alive = moment(last_sign) if last_sign is not None else moment(10**9)
    said: dict[str, Any] = {
        "lines": 0,
        "outcome": "completed",
        "code": "completed",
        "end_class": "completed",
        "reason": "the rows are prepared",
    }
    return events.PreparationClosed(
        **_life(run, at), preparation=preparation, last_sign_at=alive, **(said | fields)
    )


def by_preparation(*reports: Event, preparation: int = 1) -> list[Event]:
    """Reports as a preparation makes them, and not an attempt."""
    job = events.Job(preparation, "preparation")
    return [
        each.model_copy(update={"originator_id": events.job_stream(each.run_id, job)})
        for each in reports
    ]


def opened(
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    devices: Sequence[str] = ("cpu:0",),
    snapshot_id: str | None = None,
) -> events.AttemptOpened:
    return events.AttemptOpened(
        **_life(run, at),
        attempt=attempt,
        devices=tuple(devices),
        launcher="local",
        token_sha256="0" * 64,
        snapshot_id=snapshot_id,
    )


def begun_from(
    step: int,
    attempt: int = 2,
    run: str = RUN,
    at: float | None = None,
    snapshot_id: str | None = None,
) -> events.Restored:
    """What an attempt begins from; without a snapshot and at 0 that is the start."""
    return events.Restored(**_life(run, at), attempt=attempt, step=step, snapshot_id=snapshot_id)


def started(attempt: int = 1, run: str = RUN, at: float | None = None) -> events.JobStarted:
    return events.JobStarted(**_life(run, at), attempt=attempt, host="here", pid=4711)


def cancel_requested(run: str = RUN, at: float | None = None) -> events.CancelRequested:
    return events.CancelRequested(**_life(run, at))


def pause_requested(
    checkpoint: events.Checkpoint = "save", run: str = RUN, at: float | None = None
) -> events.PauseRequested:
    return events.PauseRequested(**_life(run, at), checkpoint=checkpoint)


def pause_failed(reason: str, run: str = RUN, at: float | None = None) -> events.PauseFailed:
    return events.PauseFailed(**_life(run, at), reason=reason)


def resumed(run: str = RUN, at: float | None = None) -> events.RunResumed:
    return events.RunResumed(**_life(run, at))


def closed(
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    last_sign: float | None = None,
    end_class: events.EndClass = "completed",
    **fields: Any,
) -> events.AttemptClosed:
    """The end of an attempt; without ``last_sign`` it lived until it was closed."""
    common = _life(run, at)
    alive = moment(last_sign) if last_sign is not None else moment(10**9)
    outcome = upcast.outcome_of(end_class)
    said: dict[str, Any] = {"lines": 0, "reason": "the work was done", "outcome": outcome} | fields
    return events.AttemptClosed(
        **common, attempt=attempt, end_class=end_class, last_sign_at=alive, **said
    )


def completed(run: str = RUN, at: float | None = None) -> events.RunCompleted:
    return events.RunCompleted(**_life(run, at))


def failed(run: str = RUN, at: float | None = None, **fields: Any) -> events.RunFailed:
    said: dict[str, Any] = {
        "code": "deviceMemory",
        "end_class": "resource",
        "reason": "the device ran out of memory",
        "advice": "use a smaller micro-batch",
    }
    return events.RunFailed(**_life(run, at), **(said | fields))


def cancelled(run: str = RUN, at: float | None = None) -> events.RunCancelled:
    return events.RunCancelled(**_life(run, at))


# -- snapshots -------------------------------------------------------------------------------------

BOTH: tuple[events.Artifact, ...] = ("weights", "trainingState")
SIZES: dict[events.Artifact, int] = {"weights": 10, "trainingState": 20}


def snapshot_id(name: str) -> str:
    """The id of the snapshot that a test calls ``name``."""
    return hashlib.sha256(name.encode()).hexdigest()


def offered(
    step: int,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    artifacts: tuple[events.Artifact, ...] = BOTH,
) -> events.SnapshotOffered:
    return events.SnapshotOffered(
        **_life(run, at), attempt=attempt, step=step, path=f"/out/{step}", artifacts=artifacts
    )


def committed(
    name: str,
    step: int,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    *,
    artifacts: tuple[events.Artifact, ...] = BOTH,
    epoch: float | None = None,
) -> events.SnapshotCommitted:
    """The snapshot ``name``, of the files that were offered before all others that still wait."""
    return events.SnapshotCommitted(
        **_life(run, at),
        snapshot_id=snapshot_id(name),
        attempt=attempt,
        step=step,
        path=f"/out/{step}",
        artifacts=artifacts,
        epoch=epoch,
        uri=f"file:///store/{name}",
        size_bytes={kind: SIZES[kind] for kind in artifacts},
        digests={kind: snapshot_id(f"{name} {kind}") for kind in artifacts},
    )


def saved(step: int, name: str = "", attempt: int = 1, run: str = RUN) -> list[Event]:
    """The worker wrote update ``step`` out, and it became the snapshot ``name`` (its step)."""
    return [
        offered(step, attempt, run),
        snapshot_reported(step, attempt, run),
        committed(name or str(step), step, attempt, run),
    ]


def snapshot_rejected(
    step: int, reason: str, attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.SnapshotRejected:
    return events.SnapshotRejected(
        **_life(run, at), attempt=attempt, step=step, path=f"/out/{step}", reason=reason
    )


def damaged(name: str, run: str = RUN, at: float | None = None) -> events.SnapshotDamaged:
    return events.SnapshotDamaged(
        **_life(run, at), snapshot_id=snapshot_id(name), reason="a file has other bytes"
    )


def snapshots_superseded(
    step: int, run: str = RUN, at: float | None = None
) -> events.SnapshotsSuperseded:
    return events.SnapshotsSuperseded(**_life(run, at), step=step)


def pinned(name: str, run: str = RUN, at: float | None = None) -> events.SnapshotPinned:
    return events.SnapshotPinned(**_life(run, at), snapshot_id=snapshot_id(name))


def unpinned(name: str, run: str = RUN, at: float | None = None) -> events.SnapshotUnpinned:
    return events.SnapshotUnpinned(**_life(run, at), snapshot_id=snapshot_id(name))


def swept(
    name: str,
    artifacts: tuple[events.Artifact, ...] = BOTH,
    run: str = RUN,
    at: float | None = None,
) -> events.SnapshotSwept:
    freed = sum(SIZES[kind] for kind in artifacts)
    return events.SnapshotSwept(
        **_life(run, at), snapshot_id=snapshot_id(name), artifacts=artifacts, freed_bytes=freed
    )


def annotated(name: str, run: str = RUN, at: float | None = None) -> events.RunAnnotated:
    return events.RunAnnotated(**_life(run, at), name=name)


def submission(token: str, run: str, at: float | None = None) -> events.SubmissionAccepted:
    return events.SubmissionAccepted(
        **_common(events.submission_stream(token), at), created_run=run, plan_sha256="0" * 64
    )


# -- branches --------------------------------------------------------------------------------------


def origin(
    name: str, step: int, parent: str = RUN, restore: events.Restore = "weights"
) -> events.Origin:
    """The snapshot ``name`` of a parent, as what a branch begins from."""
    return events.Origin(parent=parent, snapshot_id=snapshot_id(name), step=step, restore=restore)


def branch_requested(
    child: str,
    source: events.Origin,
    steps: int = 5,
    at: float | None = None,
    config_name: str | None = None,
    description: str | None = None,
    **fields: Any,
) -> events.BranchRequested:
    """A branch is asked for with the token of its child; ``fields`` are of the child's plan."""
    config = fields.pop("config", {}) | {"maxSteps": steps}
    return events.BranchRequested(
        **_branch(child, at),
        child=child,
        origin=source,
        steps=steps,
        plan=document(**fields, config=config),
        stated=("config.maxSteps",),
        overrides={},
        request_sha256="0" * 64,
        config_name=config_name,
        description=description,
    )


def source_held(child: str, at: float | None = None) -> events.SourceHeld:
    return events.SourceHeld(**_branch(child, at))


def branch_created(child: str, at: float | None = None) -> events.BranchCreated:
    return events.BranchCreated(**_branch(child, at), child=child)


def branch_refused(child: str, reason: str, at: float | None = None) -> events.BranchRefused:
    return events.BranchRefused(**_branch(child, at), reason=reason, advice="take another snapshot")


def snapshot_held(
    source: events.Origin, holder: str, at: float | None = None
) -> events.SnapshotHeld:
    common = _common(events.snapshot_stream(source.snapshot_id), at)
    return events.SnapshotHeld(**common, run=source.parent, holder=holder)


def snapshot_released(
    source: events.Origin, holder: str, at: float | None = None
) -> events.SnapshotReleased:
    common = _common(events.snapshot_stream(source.snapshot_id), at)
    return events.SnapshotReleased(**common, run=source.parent, holder=holder)


def _branch(child: str, at: float | None) -> dict[str, Any]:
    return _common(events.submission_stream(token(child)), at)


def branched(child: str, source: events.Origin, steps: int = 5, **fields: Any) -> list[Event]:
    """A branch from its request until its child was submitted."""
    config = fields.pop("config", {}) | {"maxSteps": steps}
    return [
        branch_requested(child, source, steps, **fields, config=config),
        snapshot_held(source, child),
        source_held(child),
        submitted(child, origin=source, **fields, config=config),
        branch_created(child),
    ]


def unknown(run: str = RUN) -> events.UnknownEvent:
    """An event of a topic that only a later version knows, as the ledger reads it."""
    common = _life(run, None) | {"timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    return events.UnknownEvent(**common, topic="run.dreamt.v1", payload=b"{}")


# -- what an attempt reported ----------------------------------------------------------------------


def began(
    total_steps: int | None = None, attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.TrainingBegan:
    return events.TrainingBegan(**_report(run, attempt, at), total_steps=total_steps)


def stage(
    name: str,
    completed: int | None = None,
    total: int | None = None,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
) -> events.StageReported:
    return events.StageReported(
        **_report(run, attempt, at), stage=name, completed=completed, total=total
    )


def step(
    number: int,
    measured: dict[str, Any] | None = None,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    *,
    reward_terms: dict[str, Any] | None = None,
    step_seconds: float | None = None,
    **named: float,
) -> events.StepReported:
    """An update; its loss is 1 / step unless ``measured`` or names say something else."""
    if measured is None:
        measured = named or {"loss": 1 / number}
    return events.StepReported(
        **_report(run, attempt, at),
        step=number,
        measured=measured,
        reward_terms=reward_terms,
        step_seconds=step_seconds,
    )


def steps(to: int, first: int = 1, attempt: int = 1, run: str = RUN) -> list[events.StepReported]:
    return [step(number, attempt=attempt, run=run) for number in range(first, to + 1)]


def validation(
    number: int,
    measured: dict[str, Any] | None = None,
    dataset: str | None = None,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    **named: float,
) -> events.ValidationReported:
    return events.ValidationReported(
        **_report(run, attempt, at),
        step=number,
        dataset=dataset,
        measured=measured if measured is not None else named,
    )


def rollout(score: float, **facts: Any) -> events.Rollout:
    """What a model made of a prompt, with one term that gave all of its score."""
    said = {"prompt": "Say more.", "completion": "More.", "terms": {"correct": score}}
    return events.Rollout(**{**said, "score": score, **facts})


def scored(
    step: int,
    *rollouts: events.Rollout | float,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
) -> events.RolloutsScored:
    """Rollouts of an update; a number is the score of one."""
    every = tuple(each if isinstance(each, events.Rollout) else rollout(each) for each in rollouts)
    return events.RolloutsScored(
        **_report(run, attempt, at), step=step, count=len(every), rollouts=every
    )


def restored(
    step: int, attempt: int = 2, run: str = RUN, at: float | None = None
) -> events.Restored:
    """The trainer of an attempt went back by itself."""
    return events.Restored(**_report(run, attempt, at), step=step)


def restore_checked(
    step: int,
    verdict: events.Agreement = "exact",
    attempt: int = 2,
    run: str = RUN,
    at: float | None = None,
    within: float | None = None,
    **parts: events.Agreement,
) -> events.RestoreChecked:
    facts: dict[str, Any] = {"step": step, "verdict": verdict, "within": within, "parts": parts}
    return events.RestoreChecked(**_report(run, attempt, at), **facts)


def snapshot_reported(
    step: int,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    artifacts: tuple[events.Artifact, ...] = BOTH,
) -> events.SnapshotReported:
    return events.SnapshotReported(
        **_report(run, attempt, at), step=step, path=f"/out/{step}", artifacts=artifacts
    )


def save_failed(
    step: int, reason: str, attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.SaveFailed:
    return events.SaveFailed(**_report(run, attempt, at), step=step, reason=reason)


def rejected(
    reason: str, attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.LineRejected:
    return events.LineRejected(**_report(run, attempt, at), reason=reason, text="{")


def model(
    step: int | None = None, attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.ModelRegistered:
    return events.ModelRegistered(
        **_report(run, attempt, at),
        path="/out/model.safetensors",
        step=step,
        sha256="a" * 64,
        size_bytes=1234,
    )


def hparams(
    values: dict[str, Any], attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.HparamsResolved:
    return events.HparamsResolved(**_report(run, attempt, at), values=values)


def engine_config(
    requested: dict[str, Any],
    resolved: dict[str, Any],
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
) -> events.EngineConfigured:
    return events.EngineConfigured(
        **_report(run, attempt, at), requested=requested, resolved=resolved
    )


def memory(
    peak_bytes: dict[str, int],
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    step: int | None = None,
    breakdown: events.Breakdown | None = None,
) -> events.MemoryMeasured:
    return events.MemoryMeasured(
        **_report(run, attempt, at), step=step, peak_bytes=peak_bytes, breakdown=breakdown
    )


def start_checked(
    name: str,
    value: float,
    attempt: int = 1,
    run: str = RUN,
    at: float | None = None,
    **facts: Any,
) -> events.StartChecked:
    """A check that passed at once, with the limits 1 and 2, unless ``facts`` say otherwise."""
    said = {"warn_limit": 1, "refuse_limit": 2, "seconds": 0.0, "verdict": "passed"} | facts
    return events.StartChecked(**_report(run, attempt, at), name=name, value=value, **said)


def dataset(
    rows: int,
    validation_rows: int | None = None,
    attempt: int = 1,
    run: str = RUN,
    **identities: str,
) -> events.DatasetRead:
    said = _report(run, attempt, None)
    return events.DatasetRead(**said, rows=rows, validation_rows=validation_rows, **identities)


def data_fit(attempt: int = 1, run: str = RUN, **counts: Any) -> events.DataFitMeasured:
    said: dict[str, Any] = {"rows": 100, "reached": 0, "lost_end": 0, "dropped": 0} | counts
    return events.DataFitMeasured(**_report(run, attempt, None), **said)


def reports_closed(
    attempt: int = 1, run: str = RUN, at: float | None = None
) -> events.ReportsClosed:
    return events.ReportsClosed(**_report(run, attempt, at))


# -- whole histories -------------------------------------------------------------------------------


def training(run: str = RUN, **fields: Any) -> list[Event]:
    """A run from its submission until its first update is being computed."""
    return [
        submitted(run, **fields),
        phase("WAITING", run),
        opened(1, run),
        phase("QUEUED", run),
        started(1, run),
        phase("PREPARING", run),
        began(run=run),
        phase("TRAINING", run),
    ]


def retried(attempt: int, step: int, run: str = RUN, name: str | None = None) -> list[Event]:
    """The attempt before is lost, and ``attempt`` goes on from ``step``, the snapshot ``name``."""
    source = None if name is None else snapshot_id(name)
    return [
        *lost(attempt - 1, run),
        opened(attempt, run, snapshot_id=source),
        begun_from(step, attempt, run, snapshot_id=source),
        phase("QUEUED", run),
        started(attempt, run),
        phase("PREPARING", run),
        phase("TRAINING", run),
        began(attempt=attempt, run=run),
    ]


def lost(attempt: int, run: str = RUN, **fields: Any) -> list[Event]:
    """An attempt is lost, and the run waits for another."""
    said = {"outcome": "failed", "code": "vanished", "reason": "the job was lost"} | fields
    return [
        reports_closed(attempt, run),
        closed(attempt, run, end_class="infrastructure", **said),
        phase("WAITING", run),
    ]


class History:
    """A ledger in memory: what a projection reads from, for tests."""

    def __init__(self, *made: Made) -> None:
        self.events: list[Recorded] = recorded(*made)
        self._grown = threading.Condition()

    def add(self, *made: Made) -> list[Recorded]:
        """Append events; only the new ones are answered."""
        with self._grown:
            new = recorded(*made, after=self.events)
            self.events = self.events + new
            self._grown.notify_all()
        return new

    def position(self) -> int:
        """The newest position."""
        return self.events[-1].position if self.events else 0

    def read(self, after: int, limit: int) -> list[Recorded]:
        """Events beyond ``after``, in order."""
        return [each for each in self.events if each.position > after][:limit]

    def read_run(
        self, run_id: str, after: int, limit: int, upto: int | None = None
    ) -> list[Recorded]:
        """Events of one run beyond ``after``, in order."""
        stream = events.run_stream(run_id)
        mine = [
            each
            for each in self.events
            if after < each.position <= (self.position() if upto is None else upto)
            and f"{each.event.originator_id}/".startswith(f"{stream}/")
        ]
        return mine[:limit]

    def wait_beyond(self, position: int, timeout: float) -> bool:
        """True when there is an event beyond ``position``, or one comes in ``timeout`` seconds."""
        with self._grown:
            return self._grown.wait_for(lambda: self.position() > position, timeout)

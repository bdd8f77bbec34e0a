"""Strategies of legal histories: whatever a ledger may hold, in any order that its rules allow."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ledger import events, lifecycle, snapshots
from ledger.errors import RefusedError
from ledger.events import (
    AttemptClosed,
    Event,
    Origin,
    PreparationClosed,
    Recorded,
    RunSubmitted,
    SnapshotCommitted,
    job_of,
)
from ledger.run import Attempt, Ending, Phase, RunState, Stamp, evolve
from tests import make

NAMES = ("loss", "grad_norm", "learning_rate", "actor/grad_norm", "损失", "a b:c__MIN", "")
STAMP = Stamp(make.UNTIMED, "tester")
COMPLETED = Ending("completed", "completed", "completed", "everything is done")
LOST = Ending("failed", "infrastructure", "vanished", "it stopped", may_retry=True)
REFUSED = Ending("failed", "input", "refused", "an example ends with a user message")
PAUSED = Ending("paused", "stopped", "paused", "the run was paused")

numbers = st.floats() | st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0, 0.5])
measured: SearchStrategy[dict[str, float]] = st.dictionaries(
    st.sampled_from(NAMES), numbers, max_size=5
)
executions: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "maxAttempts": st.integers(1, 4),
        "keepTrainingState": st.integers(1, 3),
        "keepWeights": st.none() | st.integers(1, 2),
    }
)
endings = st.sampled_from([LOST, LOST, LOST, PAUSED, COMPLETED, REFUSED])


@st.composite
def histories(draw: DrawFn) -> list[Recorded]:
    """The events of one to three runs and perhaps of branches, with clocks that disagree."""
    runs = [draw(lives(make.submitted(f"run-{n}"))) for n in range(draw(st.integers(1, 3)))]
    return draw(tellings(runs, branches=draw(st.integers(0, 2)), first=()))


@st.composite
def families(draw: DrawFn) -> list[Recorded]:
    """The events of a run or two that save, and of branches of them and of those branches."""
    runs = [draw(lives(make.submitted(f"run-{n}"), SAVING)) for n in range(draw(st.integers(1, 2)))]
    return draw(tellings(runs, branches=draw(st.integers(1, 4)), first=SAVING))


@st.composite
def tellings(
    draw: DrawFn, runs: list[list[Event]], branches: int, first: Sequence[str]
) -> list[Recorded]:
    """The events of runs, and of as many branches where there are snapshots, interleaved."""
    chance = Random(draw(st.integers(0, 999)))  # cheaper than a draw for each event
    told = interleaved(runs, chance)
    for n in range(branches):
        commits = [at for at, event in enumerate(told) if isinstance(event, SnapshotCommitted)]
        if not commits:
            break
        at = draw(st.sampled_from(commits))
        branch = draw(branchings(f"run-child-{n}", told[at], first))
        told[at + 1 :] = interleaved([told[at + 1 :], branch], chance)
    return [timed(each, chance) for each in make.recorded(told)]


def interleaved(stories: list[list[Event]], chance: Random) -> list[Event]:
    """The events of all stories, each in its own order."""
    told: list[Event] = []
    rest = [list(story) for story in stories if story]
    while rest:
        story = chance.choice(rest)
        told.append(story.pop(0))
        rest = [each for each in rest if each]
    return told


@st.composite
def branchings(
    draw: DrawFn, child: str, committed: SnapshotCommitted, first: Sequence[str]
) -> list[Event]:
    """A branch from its request to the end of its child, to a refusal, or to the middle of it."""
    restore = draw(st.sampled_from(sorted(committed.artifacts)))
    source = Origin(
        parent=committed.run_id,
        snapshot_id=committed.snapshot_id,
        step=committed.step,
        restore=restore,
    )
    steps = draw(st.integers(1, 9))
    told: list[Event] = [make.branch_requested(child, source, steps)]
    is_held = draw(st.integers(0, 3)) > 0
    if is_held:
        told += [make.snapshot_held(source, child), make.source_held(child)]
    if is_held and draw(st.integers(0, 3)):
        asked = make.submitted(child, origin=source, config={"maxSteps": steps})
        submitted, *life = draw(lives(asked, first))
        told += [submitted, make.branch_created(child), *life]
    else:
        told.append(make.branch_refused(child, "the source is damaged"))
    if is_held:
        told.append(make.snapshot_released(source, child))
    if draw(st.booleans()):
        del told[draw(st.integers(1, len(told))) :]
    return told


def timed(recorded: Recorded, chance: Random) -> Recorded:
    """The event with clocks that are off: a worker's, and that of who saw an attempt last."""
    event, changes = recorded.event, {}
    is_report = job_of(event.originator_id) is not None
    if chance.random() < (0.5 if is_report else 0.1):
        changes["reported_at"] = event.timestamp + timedelta(seconds=chance.uniform(-50, 50))
    if isinstance(event, (AttemptClosed, PreparationClosed)):
        changes["last_sign_at"] = event.timestamp + timedelta(seconds=chance.uniform(-50, 10))
    return recorded._replace(event=event.model_copy(update=changes))


@st.composite
def lives(draw: DrawFn, submitted: RunSubmitted, first: Sequence[str] = ()) -> list[Event]:
    """One run, from its submission to an end or to the middle of something.

    With ``first`` its first attempt does at least that.
    """
    execution = submitted.plan["execution"] | draw(executions)
    plan = submitted.plan | {"execution": execution}
    if draw(st.integers(0, 2)) == 0:
        plan |= {"engine": "trl", "execution": execution | {"devices": 2}}
    life = Life(draw, submitted.model_copy(update={"plan": plan}))
    life.decide(lifecycle.wait, because="all devices are taken")
    while life.state.wants_preparation:
        life.prepare(must_succeed=bool(first))
    for n in range(draw(st.integers(1 if first else 0, 4))):
        if not life.state.wants_devices:
            break
        life.attempt(first if n == 0 else ())
        life.rest()
    if not life.state.has_ended and draw(st.integers(0, 3)) == 0:
        life.decide(lifecycle.request_cancel)
    if not first and draw(st.booleans()):
        del life.told[draw(st.integers(2, len(life.told))) :]
    return life.told


class Life:
    """A run that is told event by event, as the rules of the ledger have it."""

    def __init__(self, draw: DrawFn, submitted: RunSubmitted) -> None:
        self.told: list[Event] = [submitted]
        self.state: RunState = evolve(None, submitted)
        self.step = 0  # newest update
        self._draw = draw
        self._run = submitted.run_id
        self._may_add = False  # whether the newest update can be told more of
        self._saves = 0

    @property
    def now(self) -> Attempt:
        """The newest attempt."""
        assert self.state.attempt is not None
        return self.state.attempt

    def decide(self, decision: Callable[..., list[Event]], **facts: Any) -> None:
        """Tell what follows from a decision, unless it is refused."""
        with suppress(RefusedError):
            for event in decision(self.state, STAMP, **facts):
                self.told.append(event)
                self.state = evolve(self.state, event)

    def prepare(self, *, must_succeed: bool) -> None:
        """A preparation from its opening until it is closed, and what people ask meanwhile."""
        self.decide(lifecycle.open_preparation, launcher="local", token_sha256="0" * 64)
        assert self.state.preparation is not None
        number = self.state.preparation.number
        said = self._draw(st.lists(st.sampled_from(of_preparations(self._run)), max_size=4))
        self.told += make.by_preparation(*said, preparation=number)
        if not must_succeed and self._draw(st.integers(0, 5)) == 0:
            self.pause()
        ended = [make.reports_closed(run=self._run)]
        self.told += make.by_preparation(*ended, preparation=number)
        how = PAUSED if self.state.pause_requested else LOST
        self._close(COMPLETED if must_succeed else self._draw(st.just(how) | endings))
        if self.state.phase is Phase.PAUSED and self._draw(st.booleans()):
            self.decide(lifecycle.resume)

    def attempt(self, first: Sequence[str] = ()) -> None:
        """An attempt from its claim of devices until it is closed; it does ``first`` at least."""
        saved = self.state.saved
        self.decide(
            lifecycle.open_attempt,
            devices=self._draw(st.sampled_from([("cpu:0",), ("cuda:0", "cuda:1")])),
            launcher="local",
            token_sha256="0" * 64,
            snapshot_id=saved.snapshot_id if saved else None,
        )
        self.step, self._may_add = self.now.step, False
        if first or self._draw(st.integers(0, 9)):
            self.decide(lifecycle.start_job, host="here", pid=4711)
            for kind in (*first, *self._draw(st.lists(st.sampled_from(ACTS), max_size=12))):
                ACTIONS[kind](self)
        how = PAUSED if self.state.pause_requested else LOST
        self.told.append(make.reports_closed(self.now.number, self._run))
        self._close(self._draw(st.just(how) | endings))

    def _close(self, how: Ending) -> None:
        self.decide(
            lifecycle.close_job, ending=how, lines=0, step=self.step, last_sign_at=make.UNTIMED
        )

    def rest(self) -> None:
        """What happens between two attempts: offers are decided, and files are looked at."""
        while self.state.offers:
            self.settle_offer()
        seldom = st.sampled_from(["damage", "sweep", "pin", "pause"])
        for kind in self._draw(st.lists(seldom, max_size=2)):
            ACTIONS[kind](self)
        if self.state.phase is Phase.PAUSED and self._draw(st.booleans()):
            self.decide(lifecycle.resume)

    # -- what may happen while an attempt is open

    def train(self) -> None:
        self.decide(lifecycle.begin_training)
        total = self._draw(st.none() | st.integers(1, 20))
        self.told.append(make.began(total, self.now.number, self._run))

    def make_update(self) -> None:
        self.decide(lifecycle.begin_training)
        self.step += self._draw(st.integers(1, 3))
        terms = self._draw(st.none() | st.dictionaries(st.sampled_from("ab"), numbers))
        self._report_step(self._draw(measured), reward_terms=terms)
        self._may_add = True

    def add_to_update(self) -> None:
        if self._may_add:
            self._report_step({f"more/{len(self.told)}": self._draw(numbers)})

    def _report_step(self, numbers: dict[str, float], **more: Any) -> None:
        self.told.append(make.step(self.step, numbers, self.now.number, self._run, **more))

    def validate(self) -> None:
        dataset = self._draw(st.sampled_from([None, "a", "b"]))
        name = self._draw(st.sampled_from(["eval_loss", "loss", "eval_g0_loss", "accuracy"]))
        numbers_of = {name: self._draw(numbers)}
        attempt = self.now.number
        self.told.append(make.validation(self.step, numbers_of, dataset, attempt, self._run))

    def score(self) -> None:
        """Rollouts of the next update, or late ones of the newest."""
        step = max(1, self.step + self._draw(st.integers(0, 1)))
        scores = self._draw(st.lists(numbers, min_size=1, max_size=3))
        self.told.append(make.scored(step, *scores, attempt=self.now.number, run=self._run))

    def go_back(self) -> None:
        """The trainer goes back by itself."""
        self.step, self._may_add = self._draw(st.integers(0, self.step)), False
        self.decide(snapshots.supersede_snapshots, step=self.step)
        self.told.append(make.restored(self.step, self.now.number, self._run))

    def say_something_else(self) -> None:
        self.told.append(self._draw(st.sampled_from(others(self._run, self.now.number))))

    def save(self) -> None:
        number = self.now.number
        artifacts = self._draw(st.sampled_from([make.BOTH, make.BOTH, ("weights",)]))
        reported = make.snapshot_reported(self.step, number, self._run, artifacts=artifacts)
        self.decide(snapshots.offer_snapshot, attempt=number, reported=reported)
        self.told.append(reported)

    def fail_to_save(self) -> None:
        self.decide(lifecycle.fail_pause, reason="the disk is full")
        self.told.append(make.save_failed(self.step, "full", self.now.number, self._run))

    # -- what the server and people do

    def settle_offer(self) -> None:
        """The oldest offer becomes a snapshot, or is rejected."""
        if not self.state.offers:
            return
        offer = self.state.offers[0]
        if self._draw(st.integers(0, 4)) == 0:
            self.decide(snapshots.reject_snapshot, offer=offer, reason="a file is missing")
            return
        self._saves += 1
        name = f"{self._run} {self._saves}"
        self.decide(
            snapshots.commit_snapshot,
            offer=offer,
            snapshot_id=make.snapshot_id(name),
            uri=f"file:///store/{name}",
            size_bytes={kind: make.SIZES[kind] for kind in offer.artifacts},
            digests={kind: make.snapshot_id(f"{name} {kind}") for kind in offer.artifacts},
        )

    def damage(self) -> None:
        if self.state.snapshots:
            self.decide(
                snapshots.damage_snapshot, snapshot_id=self._snapshot(), reason="a file is gone"
            )

    def sweep(self) -> None:
        self.decide(snapshots.sweep_snapshots)

    def pin(self) -> None:
        if self.state.snapshots:
            pinned = self._draw(st.booleans())
            self.decide(snapshots.pin_snapshot, snapshot_id=self._snapshot(), pinned=pinned)

    def pause(self) -> None:
        checkpoint = self._draw(st.sampled_from(["save", "latest"]))
        self.decide(lifecycle.request_pause, checkpoint=checkpoint)

    def _snapshot(self) -> str:
        return self._draw(st.sampled_from([each.snapshot_id for each in self.state.snapshots]))


ACTIONS: dict[str, Callable[[Life], None]] = {
    "train": Life.train,
    "step": Life.make_update,
    "more": Life.add_to_update,
    "validation": Life.validate,
    "rollouts": Life.score,
    "restore": Life.go_back,
    "other": Life.say_something_else,
    "save": Life.save,
    "saveFailed": Life.fail_to_save,
    "offer": Life.settle_offer,
    "damage": Life.damage,
    "sweep": Life.sweep,
    "pin": Life.pin,
    "pause": Life.pause,
}
SAVING = ("train", "step", "step", "save", "offer")
ACTS = (*ACTIONS, *["step"] * 9, *["save", "offer"] * 4)  # most of it is training


def others(run: str, attempt: int) -> list[Event]:
    """Reports that belong to no update."""
    return [
        make.stage("reading rows", 5, 10, attempt, run),
        make.rejected("no JSON", attempt, run),
        make.memory({"cpu:0": 5}, attempt, run),
        make.start_checked("loss", float("nan"), attempt, run, verdict="refused"),
        make.hparams({"lr": float("nan")}, attempt, run),
        make.model(5, attempt, run),
        make.restore_checked(5, "within", attempt, run, within=0.5, rng="exact"),
    ]


def of_preparations(run: str) -> list[Event]:
    """What a preparation may report."""
    return [
        make.stage("reading rows", 5, 10, run=run),
        make.rejected("no JSON", run=run),
        make.dataset(10, 2, run=run),
        make.data_fit(run=run, rows=10),
    ]


@st.composite
def split(draw: DrawFn, history: Sequence[Recorded], most: int = 6) -> list[list[Recorded]]:
    """The history in batches, any of which may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(history)), max_size=most - 1)))
    bounds = [0, *cuts, len(history)]
    return [list(history[a:b]) for a, b in pairwise(bounds)]


def naive_series(history: Sequence[Recorded], run_id: str) -> list[tuple[int, dict[str, Any]]]:
    """Current updates by a fold that really deletes, several reports of one update merged."""
    rows: list[tuple[int, dict[str, Any]]] = []
    for _, event in history:
        if event.run_id != run_id:
            continue
        match event:
            case events.Restored():
                rows = [row for row in rows if row[0] <= event.step]
            case events.StepReported() if rows and rows[-1][0] == event.step:
                rows[-1][1].update(event.measured)
            case events.StepReported():
                rows.append((event.step, dict(event.measured)))
    return rows

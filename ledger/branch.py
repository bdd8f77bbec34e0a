"""A branch: a child run from a committed snapshot of its parent, and what may be asked of one.

The child inherits the parent's resolved plan. What a change document leaves out stays as it is;
what it may not touch is refused by name, even where it says what the parent has anyway.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ledger import ids, plan as plans
from ledger.errors import NoSnapshotError, PlanError, RefusedError
from ledger.events import (
    BranchCreated,
    BranchRefused,
    BranchRequested,
    Event,
    Origin,
    Restore,
    SourceHeld,
)
from ledger.run import RunState, Snapshot

FEW_DIGITS = 8  # fewer are the number of a step and no part of an id
NEEDS: dict[Restore, frozenset[str]] = {
    "weights": frozenset({"weights"}),
    "trainingState": frozenset({"weights", "trainingState"}),
}
INHERITED = (
    *("kind", "project", "method", "baseModel", "engine", "execution.devices"),
    *("name", "description"),
)  # fields that a change document may not name
BUDGET = ("config.epochs", "config.maxSteps")  # set by the budget of the branch alone
RATE = "config.learningRate"


class Request(NamedTuple):
    """What somebody asks for."""

    parent: str
    snapshot: str  # id, or an unambiguous beginning of one
    steps: int  # budget of additional updates
    restore: Restore = "weights"
    overrides: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple's default is never changed)
    config_name: str | None = None
    description: str | None = None


class Child(NamedTuple):
    """What would be made of a request."""

    origin: Origin
    plan: dict[str, Any]  # resolved
    stated: tuple[str, ...]  # dotted names that the change document and the request set


@dataclass(frozen=True)
class BranchState:
    """How far a branch is: requested, preparing (its source is held), created or refused."""

    token: str
    version: int
    child: str
    origin: Origin
    plan: dict[str, Any]
    stated: tuple[str, ...]
    steps: int
    request_sha256: str
    is_held: bool = False
    is_created: bool = False
    refusal: str | None = None
    advice: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.is_created or self.refusal is not None

    @property
    def state(self) -> str:
        """The state in one word."""
        if self.refusal is not None:
            return "refused"
        if self.is_created:
            return "created"
        return "preparing" if self.is_held else "requested"


def resolve(parent: RunState, request: Request) -> Child:
    """The child that ``request`` would make.

    Raises:
        NoSnapshotError: the parent has no such snapshot.
        AmbiguousIdError: it has several whose ids begin so.
        RefusedError: the snapshot cannot be branched from in this way.
        PlanError: the change document names what it may not, or makes a plan that cannot be run.
    """
    if request.steps < 1:
        raise PlanError([f"--steps is {request.steps}, and a branch makes at least 1 update"])
    _check_overrides(request)
    snapshot = find(parent, request.snapshot)
    check_source(snapshot, request.restore)
    document = _merged(parent.plan, request.overrides)
    document["config"] = document["config"] | {"epochs": None, "maxSteps": request.steps}
    said = {"name": request.config_name, "description": request.description}
    labels = {name: value for name, value in said.items() if value is not None}
    plan, _ = plans.resolve(plans.parse(document | labels))
    _check_engine(parent, request, plan)
    stated = {*_leaves(request.overrides), "config.maxSteps", *labels}
    origin = Origin(
        parent=parent.run_id,
        snapshot_id=snapshot.snapshot_id,
        step=snapshot.step,
        restore=request.restore,
    )
    return Child(origin, plan, tuple(sorted(stated)))


def find(parent: RunState, prefix: str) -> Snapshot:
    """The committed snapshot of ``parent`` whose id is or begins with ``prefix``.

    A few digits are none: they are rather the number of a step, and begin an id by chance.

    Raises:
        NoSnapshotError: there is none; the message lists those that there are.
        AmbiguousIdError: there are several.
    """
    is_id = prefix and not (prefix.isdecimal() and len(prefix) < FEW_DIGITS)
    known = {each.snapshot_id: each for each in parent.snapshots} if is_id else {}
    found = [snapshot_id for snapshot_id in known if snapshot_id.startswith(prefix)]
    snapshot_id = ids.only(prefix, sorted(found), "snapshots")
    if snapshot_id is not None:
        return known[snapshot_id]
    there = _listed(list(parent.snapshots)) or "none"
    raise NoSnapshotError(
        f"run {parent.run_id} has no committed snapshot {prefix!r:.80}; it has: {there}",
        f"trainledger runs snapshots {parent.run_id} shows them",
    )


def check_source(snapshot: Snapshot, restore: Restore) -> None:
    """Refuse a snapshot that lacks what is to be restored.

    Raises:
        RefusedError: it does.
    """
    if snapshot.is_damaged:
        raise RefusedError(f"snapshot {snapshot.snapshot_id} is damaged", "take another one")
    missing = NEEDS[restore] - snapshot.artifacts
    if missing:
        raise RefusedError(
            f"snapshot {snapshot.snapshot_id} of step {snapshot.step} does not hold "
            f"{' and '.join(sorted(missing))}",
            "take another one, or --restore weights" if restore == "trainingState" else "",
        )


def _check_overrides(request: Request) -> None:
    """Refuse every field that the change document may not name."""
    faults = []
    if not isinstance(request.overrides.get("config", {}), dict):
        faults.append("config is no mapping of fields")
    for name in _leaves(request.overrides):
        if any(name == each or name.startswith(f"{each}.") for each in BUDGET):
            faults.append(f"{name} cannot be overridden: --steps is the child's budget")
        elif any(name == each or name.startswith(f"{each}.") for each in INHERITED):
            faults.append(f"{name} cannot be overridden: a branch inherits it from its parent")
        elif request.restore == "trainingState" and name != RATE and plans.is_field(name):
            faults.append(
                f"{name} cannot be overridden with --restore trainingState, only {RATE} can"
            )
        elif not plans.is_field(name):
            faults.append(f"{name} is not a field of a plan")
    if faults:
        raise PlanError(faults)


def _check_engine(parent: RunState, request: Request, plan: dict[str, Any]) -> None:
    """Refuse what the engine of parent and child cannot do.

    Raises:
        RefusedError: it cannot.
    """
    is_foreign = isinstance(plan["engine"], dict) and "command" in plan["engine"]
    penalty = plan["config"].get("klBeta") or 0.0
    if request.restore == "trainingState":
        if is_foreign:
            raise RefusedError(
                "the snapshots of a command engine are not portable, so their training state "
                "cannot be restored",
                "use --restore weights",
            )
        if penalty > 0 and parent.origin is not None:
            raise RefusedError(
                f"run {parent.run_id} started from inherited adapter weights and has a positive "
                "klBeta, so its training state cannot be restored",
                "use --restore weights",
            )
    elif is_foreign and penalty > 0:
        raise RefusedError(
            f"config.klBeta is {penalty:g}, and this engine measures the penalty against the base "
            "model instead of the adapter that the child inherits",
            "set config.klBeta to 0 in the overrides",
        )


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the leaves of ``changes`` in their places."""
    merged = dict(base)
    if "dataset" in changes and "fraction" in base:  # of validation, which takes one of them
        merged["fraction"] = None
    for name, value in changes.items():
        inner = merged.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            value = _merged(inner, value)  # noqa: PLW2901
        merged[name] = value
    return merged


def _leaves(document: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of everything that a document says."""
    names: list[str] = []
    for name, value in document.items():
        path = f"{prefix}{name}".encode(errors="backslashreplace").decode()
        names += _leaves(value, f"{path}.") if isinstance(value, dict) and value else [path]
    return names


def _listed(snapshots: list[Snapshot]) -> str:
    return ", ".join(f"{each.snapshot_id} (step {each.step})" for each in snapshots[-20:])


def evolve(state: BranchState | None, event: Event) -> BranchState:
    """The state of a branch after one more event of its token's stream.

    Raises:
        RefusedError: the token created something else.
    """
    if isinstance(event, BranchRequested):
        return BranchState(
            token=event.originator_id.partition("/")[2],
            version=event.originator_version,
            child=event.child,
            origin=event.origin,
            plan=event.plan,
            stated=event.stated,
            steps=event.steps,
            request_sha256=event.request_sha256,
        )
    if state is None:
        raise RefusedError(f"{event.originator_id} is no submission of a branch")
    changes: dict[str, Any] = {"version": event.originator_version}
    match event:
        case SourceHeld():
            changes["is_held"] = True
        case BranchCreated():
            changes["is_created"] = True
        case BranchRefused():
            changes |= {"refusal": event.reason, "advice": event.advice}
    return replace(state, **changes)

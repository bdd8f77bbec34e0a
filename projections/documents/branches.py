"""The branches of all runs: a table beside the documents, with what each token asked for.

A branch is asked for before its child is a run, and may be refused, so it has a row of its own; the
documents of its parent and of its child say nothing of how far it is.
"""

import sqlite3
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from ledger.events import BranchCreated, BranchRefused, BranchRequested, Event, SourceHeld
from projections import wire
from projections.digest import config_sha256
from projections.documents import timing
from projections.documents.change import Change

COLUMNS = (
    "token",
    "position",
    "requested",
    "parent",
    "child",
    "snapshot_id",
    "step",
    "restore",
    "steps",
    "config_name",
    "description",
    "config_sha256",
    "state",
    "reason",
    "advice",
)


# -- what each event changes -----------------------------------------------------------------------


@singledispatch
def changes(_event: Event, _position: int) -> Iterator[Change]:
    """What an event changes. Kinds without a handler below say nothing of branches."""
    return iter(())


@changes.register
def _(event: BranchRequested, position: int) -> Iterator[Change]:
    facts = {
        "token": _token(event),
        "position": position,
        "requested": timing.millis(event.at),
        "parent": event.origin.parent,
        "child": event.child,
        "snapshot_id": event.origin.snapshot_id,
        "step": event.origin.step,
        "restore": event.origin.restore,
        "steps": event.steps,
        "config_name": event.config_name,
        "description": event.description,
        "config_sha256": config_sha256(event.plan),
        "state": "requested",
        "reason": None,
        "advice": None,
    }
    places = ", ".join(f":{name}" for name in COLUMNS)
    yield Change(f"INSERT INTO branch ({', '.join(COLUMNS)}) VALUES ({places})", facts)  # noqa: S608 (ours)


@changes.register
def _(event: SourceHeld, _: int) -> Iterator[Change]:
    yield _change(event, "preparing")


@changes.register
def _(event: BranchCreated, _: int) -> Iterator[Change]:
    yield _change(event, "created")


@changes.register
def _(event: BranchRefused, _: int) -> Iterator[Change]:
    yield _change(event, "refused", reason=event.reason, advice=event.advice)


def _change(
    event: Event, state: str, *, reason: str | None = None, advice: str | None = None
) -> Change:
    return Change(
        "UPDATE branch SET state = :state, reason = :reason, advice = :advice WHERE token = :token",
        {"token": _token(event), "state": state, "reason": reason, "advice": advice},
    )


def _token(event: Event) -> str:
    """The submission token in whose stream ``event`` is."""
    return event.originator_id.partition("/")[2]


# -- reading ---------------------------------------------------------------------------------------


def of_parent(
    connection: sqlite3.Connection, parent: str, *, before: int, limit: int
) -> list[dict[str, Any]]:
    """Branches of a run that were asked for before a position, newest first."""
    which = "WHERE parent = ? AND position < ? ORDER BY position DESC LIMIT ?"
    return _select(connection, which, parent, before, limit)


def of_token(connection: sqlite3.Connection, parent: str, token: str) -> dict[str, Any] | None:
    """The branch of a run that a token asked for; None where it asked for none of this run."""
    found = _select(connection, "WHERE token = ? AND parent = ?", token, parent)
    return found[0] if found else None


def _select(connection: sqlite3.Connection, which: str, *values: Any) -> list[dict[str, Any]]:
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM branch {which}", values)  # noqa: S608 (ours)
    return [_published(dict(zip(COLUMNS, row, strict=True))) for row in found.fetchall()]


def _published(row: dict[str, Any]) -> dict[str, Any]:
    refusal = {"reason": row["reason"], "advice": row["advice"]}
    return {
        "submissionId": row["token"],
        "childRunId": row["child"],
        "snapshotId": row["snapshot_id"],
        "sourceStep": row["step"],
        "restore": row["restore"],
        "steps": row["steps"],
        "state": row["state"],
        "refusal": refusal if row["state"] == "refused" else None,
        "configName": row["config_name"],
        "description": row["description"],
        "configHash": row["config_sha256"],
        "requestedAt": wire.moment(row["requested"]),
        "position": row["position"],
    }

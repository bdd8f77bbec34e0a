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
    "prepared",
    "decided",
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
        "prepared": None,
        "decided": None,
        "state": None,
        "reason": None,
        "advice": None,
    }
    places = ", ".join(f":{name}" for name in COLUMNS)
    yield Change(f"INSERT INTO branch ({', '.join(COLUMNS)}) VALUES ({places})", facts)  # noqa: S608 (ours)


@changes.register
def _(event: SourceHeld, position: int) -> Iterator[Change]:
    yield Change(
        "UPDATE branch SET prepared = :position WHERE token = :token",
        {"token": _token(event), "position": position},
    )


@changes.register
def _(event: BranchCreated, position: int) -> Iterator[Change]:
    yield _decided(event, position, "created")


@changes.register
def _(event: BranchRefused, position: int) -> Iterator[Change]:
    yield _decided(event, position, "refused", reason=event.reason, advice=event.advice)


def _decided(
    event: Event,
    position: int,
    state: str,
    *,
    reason: str | None = None,
    advice: str | None = None,
) -> Change:
    facts = {"decided": position, "state": state, "reason": reason, "advice": advice}
    places = ", ".join(f"{name} = :{name}" for name in facts)
    return Change(
        f"UPDATE branch SET {places} WHERE token = :token",  # noqa: S608 (ours)
        {"token": _token(event), **facts},
    )


def _token(event: Event) -> str:
    """The submission token in whose stream ``event`` is."""
    return event.originator_id.partition("/")[2]


# -- reading ---------------------------------------------------------------------------------------


def of_parent(
    connection: sqlite3.Connection, parent: str, *, before: int, limit: int, upto: int
) -> list[dict[str, Any]]:
    """Branches of a run that were asked for before a position, newest first, as of ``upto``."""
    which = "parent = ? AND position < ? ORDER BY position DESC LIMIT ?"
    return _select(connection, which, upto, parent, before, limit)


def of_token(
    connection: sqlite3.Connection, parent: str, token: str, *, upto: int
) -> dict[str, Any] | None:
    """The branch of a run that a token asked for; None where it asked for none of this run."""
    found = _select(connection, "token = ? AND parent = ?", upto, token, parent)
    return found[0] if found else None


def _select(
    connection: sqlite3.Connection, which: str, upto: int, *values: Any
) -> list[dict[str, Any]]:
    found = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM branch WHERE position <= ? AND {which}",  # noqa: S608 (ours)
        (upto, *values),
    )
    return [_published(dict(zip(COLUMNS, row, strict=True)), upto) for row in found.fetchall()]


def _state(row: dict[str, Any], upto: int) -> str:
    """How far a branch was when the ledger ended at a position."""
    if row["decided"] is not None and row["decided"] <= upto:
        return str(row["state"])
    is_prepared = row["prepared"] is not None and row["prepared"] <= upto
    return "preparing" if is_prepared else "requested"


def _published(row: dict[str, Any], upto: int) -> dict[str, Any]:
    state = _state(row, upto)
    refusal = {"reason": row["reason"], "advice": row["advice"]}
    return {
        "submissionId": row["token"],
        "childRunId": row["child"],
        "snapshotId": row["snapshot_id"],
        "sourceStep": row["step"],
        "restore": row["restore"],
        "steps": row["steps"],
        "state": state,
        "refusal": refusal if state == "refused" else None,
        "configName": row["config_name"],
        "description": row["description"],
        "configHash": row["config_sha256"],
        "requestedAt": wire.moment(row["requested"]),
        "position": row["position"],
    }

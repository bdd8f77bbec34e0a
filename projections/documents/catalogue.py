"""The snapshots of all runs: a table beside the documents, since a run may have thousands.

Each event becomes the statements that change the table; they are pure, and run in the transaction
that writes the documents. A snapshot is superseded by any restore below its step that came after
the worker offered its files, also when they were committed later, so offers have a table as well.
A third one has the runs that need a snapshot of another. Whatever changes of a snapshot is kept as
it was as well, so that the list of an earlier moment can be read.
"""

import sqlite3
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import orjson

from ledger.events import (
    Event,
    Restored,
    SnapshotCommitted,
    SnapshotDamaged,
    SnapshotHeld,
    SnapshotOffered,
    SnapshotPinned,
    SnapshotRejected,
    SnapshotReleased,
    SnapshotsSuperseded,
    SnapshotSwept,
    SnapshotUnpinned,
)
from projections import wire
from projections.documents import timing
from projections.documents.change import Change

KINDS = {"weights": "weights", "trainingState": "training_state"}  # artifact: its column
STORED = (
    "run_id",
    "snapshot_id",
    "position",
    "offered",
    "attempt",
    "step",
    "epoch",
    "weights",
    "training_state",
    "size_bytes",
    "digests",
    "uri",
    "damage",
    "superseded",
    "pinned",
    "committed",
    "swept",
    "lost",
    "changed",
)
CHANGING = ("weights", "training_state", "damage", "superseded", "pinned", "swept", "lost")
PAST_COLUMNS = ("run_id", "snapshot_id", "position", *CHANGING)
OFFER_COLUMNS = ("run_id", "position", "step", "superseded")
HOLDER_COLUMNS = ("run_id", "snapshot_id", "holder", "held", "released")
NEWEST = 2**63 - 1  # beyond every position
_OfOne = SnapshotDamaged | SnapshotPinned | SnapshotUnpinned | SnapshotSwept


class Known(NamedTuple):
    """What the record of a run says of its snapshots."""

    saved: dict[str, Any] | None  # the one that the next attempt would go on from
    steps: dict[str, int]  # of the damaged ones, by id


NO_SNAPSHOTS = Known(None, {})


# -- what each event changes -----------------------------------------------------------------------


@singledispatch
def changes(_event: Event, _position: int) -> Iterator[Change]:
    """What an event changes. Kinds without a handler below say nothing of snapshots."""
    return iter(())


@changes.register
def _(event: SnapshotOffered, position: int) -> Iterator[Change]:
    yield Change(
        "INSERT INTO snapshot_offer (run_id, position, step, superseded)"
        " VALUES (:run, :position, :step, 0)",
        {"run": event.run_id, "position": position, "step": event.step},
    )


_COMMIT = """
INSERT INTO snapshot (
    run_id, snapshot_id, position, offered, attempt, step, epoch, weights, training_state,
    size_bytes, digests, uri, damage, superseded, pinned, committed, swept, lost, changed
)
SELECT
    :run, :snapshot, :position, coalesce(o.position, :position), :attempt, :step, :epoch, :weights,
    :training_state, :size_bytes, :digests, :uri, NULL, coalesce(o.superseded, 0), 0, :committed,
    NULL, CASE WHEN coalesce(o.superseded, 0) OR NOT :training_state THEN :position END, :position
FROM (SELECT min(position) AS position, superseded FROM snapshot_offer WHERE run_id = :run) AS o
"""  # of a minimum, SQLite answers the other columns of its row; without any there is one of NULLs
_DECIDE = """
DELETE FROM snapshot_offer
WHERE run_id = :run AND position = (
    SELECT min(position) FROM snapshot_offer WHERE run_id = :run
)
"""  # offers are decided in their order
_LOSE = "lost = coalesce(lost, :position)"  # for good: what was lost never comes back
_KEEP = f"""
INSERT INTO snapshot_past ({", ".join(PAST_COLUMNS)})
SELECT run_id, snapshot_id, :position, {", ".join(CHANGING)}
FROM snapshot WHERE run_id = :run AND changed = :position
"""  # noqa: S608 (ours)


@changes.register
def _(event: SnapshotCommitted, position: int) -> Iterator[Change]:
    facts = {
        "run": event.run_id,
        "snapshot": event.snapshot_id,
        "position": position,
        "attempt": event.attempt,
        "step": event.step,
        "epoch": event.epoch,
        "size_bytes": orjson.dumps(event.size_bytes).decode(),
        "digests": orjson.dumps(event.digests).decode(),
        "uri": event.uri,
        "committed": timing.millis(event.at),
    }
    yield Change(_COMMIT, facts | {KINDS[kind]: kind in event.artifacts for kind in KINDS})
    yield _kept(event, position)
    yield Change(_DECIDE, {"run": event.run_id})


@changes.register
def _(event: SnapshotRejected, _: int) -> Iterator[Change]:
    yield Change(_DECIDE, {"run": event.run_id})


@changes.register
def _(event: Restored | SnapshotsSuperseded, position: int) -> Iterator[Change]:
    for table, more in (("snapshot", f", changed = :position, {_LOSE}"), ("snapshot_offer", "")):
        yield Change(
            f"UPDATE {table} SET superseded = 1{more}"  # noqa: S608 (ours)
            " WHERE run_id = :run AND step > :step AND NOT superseded",
            {"run": event.run_id, "step": event.step, "position": position},
        )
    yield Change(_KEEP, {"run": event.run_id, "position": position})


@changes.register
def _(event: SnapshotDamaged, position: int) -> Iterator[Change]:
    yield from _changed(event, position, f"damage = :reason, {_LOSE}", reason=event.reason)


@changes.register
def _(event: SnapshotPinned, position: int) -> Iterator[Change]:
    yield from _changed(event, position, "pinned = 1")


@changes.register
def _(event: SnapshotUnpinned, position: int) -> Iterator[Change]:
    yield from _changed(event, position, "pinned = 0")


@changes.register
def _(event: SnapshotSwept, position: int) -> Iterator[Change]:
    gone = "".join(f"{KINDS[artifact]} = 0, " for artifact in event.artifacts)
    swept = timing.millis(event.at)
    yield from _changed(event, position, f"{gone}swept = :swept, {_LOSE}", swept=swept)


_THE_HOLD = """
run_id = :run AND snapshot_id = :snapshot AND holder = :holder AND released IS NULL
"""


@changes.register
def _(event: SnapshotHeld, position: int) -> Iterator[Change]:
    yield Change(
        "INSERT INTO snapshot_holder (run_id, snapshot_id, holder, held)"  # noqa: S608 (ours)
        " SELECT :run, :snapshot, :holder, :position"
        f" WHERE NOT EXISTS (SELECT 1 FROM snapshot_holder WHERE {_THE_HOLD})",
        _hold(event, position),
    )


@changes.register
def _(event: SnapshotReleased, position: int) -> Iterator[Change]:
    yield Change(
        f"UPDATE snapshot_holder SET released = :position WHERE {_THE_HOLD}",  # noqa: S608 (ours)
        _hold(event, position),
    )


def _hold(event: SnapshotHeld | SnapshotReleased, position: int) -> dict[str, Any]:
    return {
        "run": event.run,
        "snapshot": event.originator_id.partition("/")[2],  # whose stream it is
        "holder": event.holder,
        "position": position,
    }


def _changed(event: _OfOne, position: int, assignments: str, **values: Any) -> Iterator[Change]:
    yield Change(
        f"UPDATE snapshot SET changed = :position, {assignments}"  # noqa: S608 (ours)
        " WHERE run_id = :run AND snapshot_id = :snapshot",
        {"run": event.run_id, "snapshot": event.snapshot_id, "position": position, **values},
    )
    yield _kept(event, position)


def _kept(event: _OfOne | SnapshotCommitted, position: int) -> Change:
    """The snapshot that has just changed is kept as it is from now on."""
    return Change(
        f"{_KEEP} AND snapshot_id = :snapshot",
        {"run": event.run_id, "snapshot": event.snapshot_id, "position": position},
    )


# -- reading ---------------------------------------------------------------------------------------


def of_run(connection: sqlite3.Connection, run_id: str, upto: int = NEWEST) -> list[dict[str, Any]]:
    """Every snapshot of a run, in the order in which they were committed, as of a position."""
    which = "WHERE s.run_id = :run ORDER BY s.position"
    return _select(connection, which, upto, run=run_id)


def beginning_with(
    connection: sqlite3.Connection, prefix: str, limit: int, upto: int = NEWEST
) -> list[dict[str, Any]]:
    """Snapshots of any run whose ids begin with ``prefix``, by id, as of a position."""
    return _select(
        connection,
        "WHERE s.snapshot_id >= :first AND s.snapshot_id < :beyond"
        " ORDER BY s.snapshot_id, s.position LIMIT :limit",
        upto,
        first=prefix,
        beyond=prefix + "\U0010ffff",
        limit=limit,
    )


# A snapshot as it was: what never changes of it, and the rest from the newest row of the past. One
# that was committed later has none.
_AS_OF = f"""
SELECT
    {", ".join(f"{'p' if name in CHANGING else 's'}.{name}" for name in STORED)},
    (
        SELECT json_group_array(holder) FROM (
            SELECT DISTINCT holder FROM snapshot_holder AS h
            WHERE
                h.run_id = s.run_id AND h.snapshot_id = s.snapshot_id
                AND h.held <= :upto AND (h.released IS NULL OR h.released > :upto)
            ORDER BY holder
        )
    )
FROM snapshot AS s
JOIN snapshot_past AS p
    ON
        p.run_id = s.run_id AND p.snapshot_id = s.snapshot_id AND p.position = (
            SELECT max(position) FROM snapshot_past AS o
            WHERE
                o.run_id = s.run_id AND o.snapshot_id = s.snapshot_id AND o.position <= :upto
        )
"""  # noqa: S608 (ours)


# What the next attempt would have gone on from. A record asks for the steps of damaged snapshots
# that it names itself, so those that were found damaged later do no harm.
_KNOWN = """
SELECT
    s.snapshot_id, s.step, s.epoch,
    (
        SELECT json_group_object(snapshot_id, step) FROM snapshot
        WHERE run_id = :run AND damage IS NOT NULL
    )
FROM (SELECT 1) LEFT JOIN (
    SELECT snapshot_id, step, epoch FROM snapshot
    WHERE run_id = :run AND position <= :upto AND (lost IS NULL OR lost > :upto)
    ORDER BY position DESC LIMIT 1
) AS s
"""


def known(connection: sqlite3.Connection, run_id: str, upto: int) -> Known:
    """What the record of a run said of its snapshots when the ledger ended at a position."""
    facts = {"run": run_id, "upto": upto}
    (snapshot_id, step, passes, damaged), *_ = connection.execute(_KNOWN, facts).fetchall()
    saved = None
    if snapshot_id is not None:
        saved = {"snapshotId": snapshot_id, "step": step, "epoch": epoch(passes)}
    return Known(saved, orjson.loads(damaged))


def _select(
    connection: sqlite3.Connection, which: str, upto: int, **values: Any
) -> list[dict[str, Any]]:
    found = connection.execute(f"{_AS_OF} {which}", values | {"upto": upto})
    return [
        _published(dict(zip(STORED, row, strict=True)), orjson.loads(holders))
        for *row, holders in found.fetchall()
    ]


def _published(row: dict[str, Any], holders: list[str]) -> dict[str, Any]:
    sizes = orjson.loads(row["size_bytes"])
    kept = [kind for kind, column in KINDS.items() if row[column]]
    return {
        "snapshotId": row["snapshot_id"],
        "runId": row["run_id"],
        "attempt": row["attempt"],
        "step": row["step"],
        "epoch": epoch(row["epoch"]),
        "artifacts": kept,
        "sizeBytes": sum(sizes.get(kind, 0) for kind in kept),
        "sizes": sizes,
        "digests": orjson.loads(row["digests"]),
        "uri": row["uri"],
        "status": _status(row, kept),
        "restorable": row["lost"] is None,
        "pinned": bool(row["pinned"]),
        "heldBy": holders,
        "committedAt": wire.moment(row["committed"]),
        "sweptAt": wire.moment(row["swept"]),
        "damage": row["damage"],
    }


def _status(row: dict[str, Any], kept: list[str]) -> str:
    if not kept:
        return "swept"
    if row["damage"] is not None:
        return "damaged"
    return "superseded" if row["superseded"] else "committed"


def epoch(value: float | None) -> float | str | None:
    """Passes over the rows, as JSON says them."""
    return None if value is None else wire.number(value)

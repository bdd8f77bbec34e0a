"""Which run came from which: all generations of a tree, and the line from its root to one run.

A generation is a step of a recursive query, never one of Python, so that a chain may be as long as
it likes. A branch that was refused, or that is still being prepared, has no run and is not here.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

# Every run from the root of the tree of :run on; parents before their children, and children of one
# parent in the order of their submission.
_TREE = """
WITH RECURSIVE older (run_id) AS (
    SELECT :run
    UNION
    SELECT b.parent FROM older AS o JOIN branch AS b ON b.child = o.run_id
),
tree (run_id) AS (
    SELECT run_id FROM older
    WHERE NOT EXISTS (SELECT 1 FROM branch WHERE child = older.run_id)
    UNION
    SELECT b.child FROM tree AS t JOIN branch AS b ON b.parent = t.run_id
)
SELECT d.run_id, d.name, d.phase, b.parent, b.snapshot_id, b.step, b.restore, b.steps
FROM tree AS t
JOIN document AS d ON d.run_id = t.run_id
LEFT JOIN branch AS b ON b.child = d.run_id
WHERE d.submitted <= :upto
ORDER BY d.submitted
"""

# The run and everything that it came from, the root first: each was submitted before its children.
_ANCESTRY = """
WITH RECURSIVE older (run_id) AS (
    SELECT :run
    UNION
    SELECT b.parent FROM older AS o JOIN branch AS b ON b.child = o.run_id
)
SELECT d.run_id, d.name, d.phase, b.snapshot_id, b.step, b.restore, b.steps, s.offered
FROM older AS o
JOIN document AS d ON d.run_id = o.run_id
LEFT JOIN branch AS b ON b.child = d.run_id
LEFT JOIN snapshot AS s ON s.run_id = b.parent AND s.snapshot_id = b.snapshot_id
ORDER BY d.submitted
"""
_ANCESTOR = (
    "runId",
    "name",
    "phase",
    "snapshotId",  # from here on of what the run began from; null for the root
    "step",
    "restore",
    "steps",
    "writtenPosition",
)


def tree(connection: sqlite3.Connection, run_id: str, upto: int) -> dict[str, Any] | None:
    """The root of the tree that a run is in, with its children in it; None: no such run.

    Names and phases are those of now; a run that was submitted beyond ``upto`` is not there.
    """
    nodes: dict[str, dict[str, Any]] = {}
    asked = {"run": run_id, "upto": upto}
    for run, name, phase, parent, *source, steps in connection.execute(_TREE, asked):
        origin = None
        if parent is not None:
            snapshot_id, step, restore = source
            origin = {"parent": parent, "snapshotId": snapshot_id, "step": step, "restore": restore}
        node = {"runId": run, "name": name, "phase": phase, "origin": origin, "steps": steps}
        nodes[run] = node | {"children": []}
        if parent is not None:
            nodes[parent]["children"].append(nodes[run])
    return next(iter(nodes.values())) if run_id in nodes else None


def nodes(root: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Every run of a tree, each before its children."""
    left = [root] if root else []
    while left:
        run = left.pop()
        yield run
        left += reversed(run["children"])


def ancestry(connection: sqlite3.Connection, run_id: str) -> list[dict[str, Any]]:
    """Every run from the root to this one, with what each began from; empty: no such run."""
    found = connection.execute(_ANCESTRY, {"run": run_id}).fetchall()
    line = [dict(zip(_ANCESTOR, row, strict=True)) for row in found]
    return line if line and line[-1]["runId"] == run_id else []

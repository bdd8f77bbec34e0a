"""Snapshots as a table, and one of them with its files and its writer."""

from collections.abc import Iterator

from cli.render.part import Field, part
from cli.render.settings import leaves
from cli.render.table import Column, table
from cli.render.text import count, moment, number, plain, short, size, value
from cli.wire import Json

_COLUMNS = (
    Column("step", right=True),
    Column("epoch", drop=6, right=True),
    Column("id"),
    Column("artifacts", drop=3),
    Column("swept", drop=4),
    Column("size", drop=5, right=True),
    Column("status", drop=1),
    Column("held by", drop=2),
)
_FILES = (
    Column("file"),
    Column("artifact", drop=1),
    Column("size", drop=2, right=True),
    Column("sha256", drop=3),
)


def snapshots(rows: list[Json], *, width: int | None) -> str:
    """One line for each snapshot, with as much of its id as commands take."""
    if not rows:
        return "no snapshots\n"
    return table(_COLUMNS, [_row(each) for each in rows], width)


def _row(said: Json) -> list[object]:
    return [
        count(said["step"]),
        number(said.get("epoch")),
        short(said["snapshotId"]),
        " ".join(said["artifacts"]) or "-",
        " ".join(_swept(said)) or "-",
        size(said["sizeBytes"]),
        said["status"],
        ", ".join(_holders(said)) or "-",
    ]


def _swept(said: Json) -> list[str]:
    """The kinds that were there once."""
    return [kind for kind in said["sizes"] if kind not in said["artifacts"]]


def _holders(said: Json) -> list[str]:
    """What keeps it from being swept."""
    return [*(["pinned"] if said["pinned"] else []), *map(str, said["heldBy"])]


def snapshot(said: Json, *, width: int | None) -> str:
    """One snapshot: where it is from, who wrote it, and each of its files."""
    parts = [part("Snapshot", _facts(said), width)]
    if said.get("writer"):
        written = ((plain(name), value(each)) for name, each in leaves(said["writer"]))
        parts.append(part("Writer", written, width))
    files = (said.get("manifest") or {}).get("files")
    if files:
        rows = [
            [name, each["artifact"], size(each["sizeBytes"]), each["sha256"]]
            for name, each in files.items()
        ]
        parts.append(table(_FILES, rows, width))
    return "\n".join(parts)


def _facts(said: Json) -> Iterator[Field]:
    yield "Id", plain(said["snapshotId"])
    yield "Run", plain(said["runId"])
    if said.get("asOf"):
        then = said["asOf"]
        yield "As of", f"{moment(then['at'])}, position {then['position']}"
    yield "Written by", f"attempt {count(said['attempt'])}"
    yield "Step", count(said["step"])
    yield "Epoch", number(said.get("epoch"))
    yield "Status", _status(said)
    yield "Held by", ", ".join(map(plain, _holders(said))) or "nobody"
    yield "Committed", moment(said["committedAt"])
    yield "Kept", _kinds(said, said["artifacts"])
    if _swept(said):
        yield "Swept", f"{_kinds(said, _swept(said))}, {moment(said['sweptAt'])}"
    for kind, digest in said["digests"].items():
        yield "Digest", f"{plain(kind)} sha256 {plain(digest)}"
    yield "Place", plain(said["uri"])
    if said.get("manifestFault"):
        yield "Fault", plain(said["manifestFault"])


def _status(said: Json) -> str:
    status = plain(said["status"])
    if said.get("damage"):
        return f"{status}: {plain(said['damage'])}"
    if status == "committed":
        return f"{status}, {'restorable' if said['restorable'] else 'not restorable'}"
    return status


def _kinds(said: Json, kinds: list[str]) -> str:
    sizes = said["sizes"]
    return ", ".join(f"{plain(kind)} ({size(sizes.get(kind, 0))})" for kind in kinds) or "nothing"

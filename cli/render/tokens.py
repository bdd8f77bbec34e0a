"""Tokens as a table, and whose token a call carries."""

from cli.render.table import Column, table
from cli.render.text import moment, plain
from cli.wire import Json

_COLUMNS = (
    Column("id"),
    Column("name", label=True),
    Column("role", drop=1),
    Column("status", drop=2),
    Column("expires", drop=4),
    Column("created", drop=5),
    Column("by", drop=6, label=True),
    Column("revoked", drop=7),
    Column("by", drop=8, label=True),
)


def tokens(rows: list[Json], *, width: int | None) -> str:
    """One line for each token, oldest first."""
    if not rows:
        return "no tokens\n"
    return table(_COLUMNS, [_row(each) for each in rows], width)


def _row(token: Json) -> list[object]:
    return [
        token["tokenId"],
        token["name"],
        token["role"],
        token["status"],
        moment(token["expiresAt"]) if token["expiresAt"] else "never",
        moment(token["createdAt"]),
        token["createdBy"],
        moment(token["revokedAt"]),
        token["revokedBy"] or "-",
    ]


def asker(answer: Json) -> str:
    """The principal, then its role and its token."""
    name = answer["tokenId"] or "that of the server's home"
    return (
        f"{plain(answer['principal'])}\n"
        f"  role     {plain(answer['role'])}\n"
        f"  token    {plain(name)}, {end(answer)}\n"
    )


def end(token: Json) -> str:
    """When a token ends, by itself."""
    return f"until {moment(token['expiresAt'])}" if token["expiresAt"] else "without an end"

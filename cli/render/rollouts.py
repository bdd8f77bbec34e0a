"""The rollouts of an update as a table: one rollout, one line."""

import json
from collections.abc import Iterator
from typing import Any

from cli.render.metrics import origin, origin_columns
from cli.render.table import Column, table
from cli.render.text import count, counted, number
from cli.wire import Json

NONE = "no rollouts\n"
_EMPTY = '""'


def rollouts(answer: Json, order: str, *, width: int | None) -> str:
    """Which update it is and how many are shown of how many, and a line for each.

    The terms of the reward go from the right when the terminal is narrow. ``order`` says in words
    which come first.
    """
    rows = answer["rollouts"]
    if not rows:
        return NONE
    terms = list(dict.fromkeys(name for row in rows for name in row["terms"]))
    columns = [Column("place", right=True), *origin_columns(rows), Column("score", right=True)]
    columns += [Column(name, right=True, drop=place) for place, name in enumerate(terms)]
    columns += [Column("prompt", label=True), Column("completion", label=True)]
    lines = [
        [
            row["place"],
            *origin(row, rows),
            number(row["score"]),
            *(number(row["terms"].get(name)) for name in terms),
            _line(_last(row["prompt"])),
            _line(_whole(row["completion"])),
        ]
        for row in rows
    ]
    return f"{_head(answer, order)}\n{table(columns, lines, width)}"


def _head(answer: Json, order: str) -> str:
    shown, every = len(answer["rollouts"]), answer["count"]
    told = counted(every, "rollout")
    if shown < every:
        told = f"{count(shown)} of {told}"
    return f"update {count(answer['step'])}: {told}, {order}"


def _last(prompt: Any) -> str:
    """The last message of a prompt."""
    return prompt if isinstance(prompt, str) else _content(prompt[-1])


def _whole(completion: Any) -> str:
    """Every message of a completion."""
    return completion if isinstance(completion, str) else " ".join(map(_content, completion))


def _content(message: Json) -> str:
    """What a message says; what is no text as JSON."""
    return " ".join(_said(message["content"]))


def _said(content: Any) -> Iterator[str]:
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        yield text if isinstance(text, str) else json.dumps(part, ensure_ascii=False)


def _line(text: str) -> str:
    """The words of a text on one line."""
    return " ".join(text.split()) or _EMPTY

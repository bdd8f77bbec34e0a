"""What a call makes of an answer's JSON: the whole, some fields of it, a jq result, a template."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.errors import CommandError, Exit
from cli.render.text import plain


@dataclass(frozen=True)
class Shape:
    """What is wanted of each answer; nothing stated is the whole of it."""

    fields: tuple[str, ...] = ()  # members of the answer, or of each of its rows
    rows: tuple[str, ...] = ()  # members of the answer that have its rows, where it is a list
    jq: str | None = None
    template: str | None = None


def texts(value: Any, shape: Shape, *, compact: bool) -> Iterator[str]:
    """The texts that ``value`` comes to, as JSON says them or as the person asked for them.

    Raises:
        CommandError: the jq expression or the template cannot be applied.
    """
    chosen = _chosen(value, shape)
    if shape.jq is not None:
        yield from _filtered(chosen, shape.jq, shape.template, compact=compact)
    elif shape.template is not None:
        yield from _filled(chosen, shape.template)
    else:
        yield written(chosen, compact=compact)


def written(value: Any, *, compact: bool) -> str:
    """``value`` as JSON that holds no control byte and reads the same in every locale."""
    if compact:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return json.dumps(value, indent=2, allow_nan=False)


def visible(text: str) -> str:
    """``text`` with its lines, and with every other character escaped that would not be seen."""
    return "\n".join(
        "\t".join(plain(part) for part in line.split("\t")) for line in text.split("\n")
    )


def _chosen(value: Any, shape: Shape) -> Any:
    """The fields that are asked for; of an answer with rows, a list of them."""
    if not shape.fields:
        return value
    for name in shape.rows:
        if name in value:
            return [_members(row, shape.fields) for row in value[name]]
    return _members(value, shape.fields)


def _members(value: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: value.get(name) for name in fields}


def _filtered(value: Any, expression: str, template: str | None, *, compact: bool) -> Iterator[str]:
    """Each result of a jq expression; a text comes without its quotes."""
    import jq  # noqa: PLC0415 (only this option needs it)

    try:
        results = jq.compile(expression).input_text(json.dumps(value, allow_nan=False)).all()
    except ValueError as error:
        raise CommandError(f"--jq {expression!r}: {_first_line(error)}", Exit.USAGE) from None
    for result in results:
        if template is not None:
            yield from _filled(result, template)
        else:
            yield result if isinstance(result, str) else written(result, compact=compact)


def _filled(value: Any, template: str) -> Iterator[str]:
    """The template filled in with an answer, or with each row of a list."""
    from cli.templates import fill  # noqa: PLC0415 (only this format needs jinja2)

    for row in value if isinstance(value, list) else [value]:
        yield fill(template, row)


def _first_line(error: ValueError) -> str:
    return str(error).removeprefix("jq: error: ").split("\n", maxsplit=1)[0]

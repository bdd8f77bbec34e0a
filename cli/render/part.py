"""A part of a detail: a title, and below it labels with their texts."""

from collections.abc import Iterable

from cli.render.text import wrap

_LABEL_COLUMNS = 16  # at least, so that the texts of several parts stand below one another
_TEXT_COLUMNS = 20  # at least, however narrow the terminal is

Field = tuple[str, str]  # label and text, of one or several lines


def part(title: str, fields: Iterable[Field], width: int | None) -> str:
    """The part in lines of ``width`` columns where words allow it."""
    shown = list(fields)
    labels = max([_LABEL_COLUMNS, *(len(label) for label, _ in shown)])
    space = max(_TEXT_COLUMNS, width - labels - 4) if width else None
    lines = [title]
    for label, text in shown:
        first, *more = _wrapped(text, space)
        lines.append(f"  {label:<{labels}}  {first}".rstrip())
        lines += [f"  {'':<{labels}}  {line}".rstrip() for line in more]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, space: int | None) -> list[str]:
    """Lines of a text; where it has several, what is wrapped stands further to the right."""
    lines = text.split("\n")
    if space is None:
        return lines
    indent = "  " if len(lines) > 1 else ""
    return [each for line in lines for each in wrap(line, space, indent)]

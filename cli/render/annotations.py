"""The words that people put to a run."""

from cli.render.part import part
from cli.render.text import plain
from cli.wire import Json


def annotated(answer: Json, *, width: int | None) -> str:
    """Name, description and labels as they are now."""
    fields = (
        ("Run", plain(answer["runId"])),
        ("Name", plain(answer["name"] or "-")),
        ("Description", plain(answer["description"] or "-")),
        ("Labels", labels(answer["labels"]) or "-"),
    )
    return part("Words", fields, width)


def labels(said: dict[str, str]) -> str:
    """Labels, by their keys."""
    return ", ".join(f"{plain(key)}={plain(value)}" for key, value in sorted(said.items()))

"""The hyperparameters of a run: one a line, by their own names."""

from cli.render.part import part
from cli.render.settings import leaves
from cli.render.text import count, plain, value
from cli.wire import Json


def hyperparameters(answer: Json, *, width: int | None) -> str:
    """Which attempt wrote them, the hash of settings and data, then each of them."""
    whose = (
        ("Run", plain(answer["runId"])),
        ("Attempt", count(answer["attempt"])),
        ("Hash", plain(answer["configHash"])),
    )
    named = ((plain(name), value(each)) for name, each in leaves(answer["hyperparameters"]))
    return f"{part('Settings and data', whose, width)}\n{part('Hyperparameters', named, width)}"

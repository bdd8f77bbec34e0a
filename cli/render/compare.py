"""Two runs compared: what was asked, a line for each window, what is worth a look, a reminder."""

from collections.abc import Iterator

from cli.render.table import Column, table
from cli.render.text import count, counted, number, plain, value
from cli.wire import Json

_WINDOWS = (
    Column("steps", right=True),
    Column("compared", right=True),
    Column("run loss", right=True, drop=1),
    Column("baseline loss", right=True, drop=2),
    Column("difference", right=True),
    Column(""),
)
_DIFFERENCES = (Column("field"), Column("run"), Column("baseline"))
_SPIKES = (Column("step", right=True), Column("run", right=True), Column("baseline", right=True))


def compared(answer: Json, *, width: int | None) -> str:
    """The comparison as people read it."""
    return "\n".join(_parts(answer, width))


def reported(answer: Json) -> str:
    """Which window is reported, in a sentence."""
    window, margin = answer["reported"], number(answer["margin"])
    if window is None:
        return f"no full window differs by more than {margin}"
    return (
        f"the first full window that differs by more than {margin}: steps {_range(window)}, "
        f"by {_signed(window['difference'])}"
    )


def _parts(answer: Json, width: int | None) -> Iterator[str]:
    yield "".join(f"{line}\n" for line in _head(answer))
    if answer["differences"]:
        rows = [
            [each["field"], value(each["run"]), value(each["baseline"])]
            for each in answer["differences"]
        ]
        yield "the plans differ\n" + table(_DIFFERENCES, rows, width)
    if answer["windows"]:
        rows = [_row(each, answer) for each in answer["windows"]]
        yield table(_WINDOWS, rows, width)
    if answer["spikes"]:
        rows = [
            [count(each["step"]), number(each["run"]), number(each["baseline"])]
            for each in answer["spikes"]
        ]
        factor = number(answer["spikeFactor"])
        yield f"gradient norms of {factor} times their run's median or more\n" + table(
            _SPIKES, rows, width
        )
    yield f"{reported(answer)}\n{plain(answer['reminder'])}\n"


def _head(answer: Json) -> Iterator[str]:
    yield f"run       {plain(answer['runId'])}"
    yield f"baseline  {plain(answer['baselineId'])}"
    steps = answer["steps"]
    yield f"{counted(steps['compared'], 'step')} compared, run less baseline"
    for name, whose in (("missingInRun", "the run"), ("missingInBaseline", "the baseline")):
        if steps[name]:
            yield _missing(steps[name], whose)
    if steps["notFinite"]:
        yield f"{counted(steps['notFinite'], 'step')} with a loss that is not finite"
    if answer["division"]:
        yield "the same sequences per update are divided in two ways"
        yield f"  run       {_division(answer['division']['run'])}"
        yield f"  baseline  {_division(answer['division']['baseline'])}"


def _missing(gone: Json, whose: str) -> str:
    where = f"between {count(gone['first'])} and {count(gone['last'])}"
    where = f"step {count(gone['first'])}" if gone["count"] == 1 else where
    return f"{counted(gone['count'], 'step')} missing in {whose}: {where}"


def _division(said: Json) -> str:
    return (
        f"{counted(said['devices'], 'device')}, {counted(said['microBatchSequences'], 'sequence')} "
        f"a pass, {count(said['accumulation'])} accumulated"
    )


def _row(window: Json, answer: Json) -> list[str]:
    return [
        _range(window),
        count(window["steps"]),
        number(window["run"]),
        number(window["baseline"]),
        _signed(window["difference"]),
        _note(window, answer),
    ]


def _note(window: Json, answer: Json) -> str:
    """What is to be said of a window beside its numbers."""
    notes = [] if window["isFull"] else [f"short of {count(answer['window'])}"]
    if window["notFinite"]:
        notes.append(f"{count(window['notFinite'])} not finite")
    if window == answer["reported"]:
        notes.append("reported")
    return ", ".join(notes)


def _range(window: Json) -> str:
    return f"{count(window['firstStep'])}-{count(window['lastStep'])}"


def _signed(difference: float | str) -> str:
    """A difference with its sign; what is not finite has its own."""
    return plain(difference) if isinstance(difference, str) else f"{difference:+.6g}"

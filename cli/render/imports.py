"""What became of the file of another tracker."""

from collections.abc import Iterator

from cli.render.text import count, counted, plain
from cli.wire import Json


def imported(answer: Json) -> str:
    """The run, what it has, and what of the file is not in it."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Json) -> Iterator[str]:
    run, file = plain(answer["runId"]), plain(answer["file"])
    what = counted(answer["steps"], "step")
    if answer["validations"]:
        what += f" and {counted(answer['validations'], 'validation')}"
    if answer["created"]:
        yield f"run {run} has {what} of {file}"
    else:
        yield f"{file} was imported before, as run {run} with {what}"
    if answer["beside"]:
        yield f"  final results are from {plain(answer['beside']['file'])} beside it"
    if answer["loss"] not in (None, "loss"):
        yield f"  its training loss is {plain(answer['loss'])}"
    if answer["replaced"]:
        twice = counted(answer["replaced"], "number")
        yield f"  {twice} came again, with another value, for the same step: the later one counts"
    if answer["leftOut"]:
        names = [plain(each) for each in answer["leftOut"][:10]]
        more = len(answer["leftOut"]) - len(names)
        also = f" and {count(more)} more" if more else ""
        yield f"  left out, since they are no numbers: {', '.join(names)}{also}"

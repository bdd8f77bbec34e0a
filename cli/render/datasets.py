"""What a check says of a file of rows."""

from collections.abc import Iterator

from cli.render.part import Field, part
from cli.render.run import data_fit
from cli.render.text import count, counted, plain
from cli.wire import Json

_FORMS = {"chat": "chat row", "tokens": "prepared token row"}


def verdict(answer: Json, *, width: int | None) -> str:
    """The verdict first, then what was found."""
    said = "accepted" if answer["accepted"] else "refused"
    return part(f"{plain(answer['dataset'])}: {said}", _fields(answer), width)


def _fields(answer: Json) -> Iterator[Field]:
    if answer["reason"]:
        yield "Reason", plain(answer["reason"])
    if answer["rows"] is not None:
        yield "Rows", counted(answer["rows"], _FORMS.get(answer["form"], "row"))
    fit = answer["dataFit"]
    if fit:
        yield "Data fit", data_fit(fit)
        yield "Longest row", f"{counted(fit['longest'], 'token')}, before the cut"
    yield "maxSeqLength", count(answer["maxSeqLength"])
    yield "Base model", plain(answer["baseModel"])
    if answer["identity"]:
        yield "Identity", plain(answer["identity"])

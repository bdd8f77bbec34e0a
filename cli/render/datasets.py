"""What a check says of a file of rows, and the catalogue of data sets."""

from collections.abc import Iterator

from cli.render.part import Field, part
from cli.render.run import data_fit
from cli.render.table import Column, table
from cli.render.text import count, counted, moment, plain, short, size
from cli.wire import Json

_FORMS = {"chat": "chat row", "tokens": "prepared token row"}
_COLUMNS = (
    Column("identity"),
    Column("names", label=True),
    Column("form", drop=4),
    Column("rows", drop=1),
    Column("size", drop=3),
    Column("created", drop=2),
    Column("by", drop=5, label=True),
)


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


# -- the catalogue ---------------------------------------------------------------------------------


def datasets(rows: list[Json], *, width: int | None) -> str:
    """One line for each data set, oldest first."""
    if not rows:
        return "no data sets\n"
    return table(_COLUMNS, [_row(each) for each in rows], width)


def _row(dataset: Json) -> list[object]:
    return [
        short(dataset["identity"]),
        " ".join(dataset["names"]) or "-",
        dataset["form"],
        dataset["rows"],
        size(dataset["sizeBytes"]),
        moment(dataset["createdAt"]),
        dataset["createdBy"],
    ]


def detail(dataset: Json, *, width: int | None) -> str:
    """One data set: its names first, then what it is."""
    names = ", ".join(map(plain, dataset["names"]))
    title = f"Data set {short(dataset['identity'])}" + (f": {names}" if names else "")
    return part(title, _facts(dataset), width)


def _facts(dataset: Json) -> Iterator[Field]:
    yield "Rows", counted(dataset["rows"], _FORMS.get(dataset["form"], "row"))
    yield "Size", size(dataset["sizeBytes"])
    yield "Created", f"{moment(dataset['createdAt'])} by {plain(dataset['createdBy'])}"
    yield "Identity", plain(dataset["identity"])
    for naming in dataset.get("namings", ()):
        said = f"{moment(naming['at'])} by {plain(naming['by'])}"
        yield f"Named {plain(naming['name'])}", said


def moved(answer: Json, name: str | None) -> str:
    """What became of rows that were to be a data set, and of the name that they were to have."""
    said = "taken in" if answer["created"] else "these rows were in the catalogue already"
    if name is not None and answer["movedFrom"]:
        said += f"; {plain(name)} meant {short(answer['movedFrom'])} before"
    return said

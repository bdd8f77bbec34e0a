"""Prepared rows: tokens and labels that somebody made, in the form that the trainer takes.

Their form is checked when they are read, and against the base model once its tokenizer is there:
every token is one of its vocabulary, every label is its token or is ignored, and what a row says
of the tokenizer and the chat template that made it is true of the base model's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.prepare.faults import Fault, kind

IGNORED = -100  # the label of a token that is read but not trained
SHAPE = 'write every row as {"input_ids": [...], "labels": [...]}'

_LIMIT = 2**31  # of what the trainer keeps a token in

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]


class PreparedRow(NamedTuple):
    """One example as tokens."""

    input_ids: "Ids"
    labels: "Ids"
    tokenizer: str | None  # SHA-256 of the tokenizer.json that made it, where that is stated
    chat_template: str | None  # SHA-256 of the template, where that is stated


@dataclass(frozen=True)
class Vocabulary:
    """What the base model's tokenizer is."""

    name: str  # of the base model
    size: int
    start: int | None  # the token that an example may begin with once
    tokenizer: str | None  # SHA-256 of its tokenizer.json
    chat_template: str  # SHA-256 of the text of its template


def fault(row: Any) -> Fault | None:
    """What is wrong with the form of ``row``, if anything is."""
    if not isinstance(row, dict):
        return Fault("a row is no JSON object", "row", SHAPE)
    for name in ("input_ids", "labels"):
        if (found := _list_fault(name, row)) is not None:
            return found
    if len(row["input_ids"]) != len(row["labels"]):
        said = f"labels has {len(row['labels'])} and input_ids {len(row['input_ids'])}"
        return Fault("a row has not one label for each token", said, SHAPE)
    for name in ("tokenizer", "chatTemplate"):
        if not isinstance(row.get(name), str | None):
            return Fault(
                "what made a row is not said as text",
                f"{name} is {kind(row[name])}",
                "write its SHA-256 in hexadecimal digits, or leave it out",
            )
    return _label_fault(*_arrays(row))


def row(value: dict[str, Any]) -> PreparedRow:
    """The example that a row without fault is; other members are left out."""
    return PreparedRow(*_arrays(value), value.get("tokenizer"), value.get("chatTemplate"))


def mismatch(row: PreparedRow, known: Vocabulary) -> Fault | None:
    """Where ``row`` was not made for the base model, if it was not."""
    return next((found for check in _CHECKS if (found := check(row, known))), None)


def _arrays(row: dict[str, Any]) -> "tuple[Ids, Ids]":
    import numpy as np  # noqa: PLC0415 - chat rows need none

    return np.array(row["input_ids"], np.int32), np.array(row["labels"], np.int32)


def _list_fault(name: str, row: dict[str, Any]) -> Fault | None:
    """A list of whole numbers is a list, is not empty, and holds nothing else."""
    if name not in row:
        return Fault(f"a row has no {name}", f"its fields: {', '.join(row):.200}", SHAPE)
    said = row[name]
    if not isinstance(said, list):
        return Fault(f"{name} is no list", f"{name} is {kind(said)}", SHAPE)
    if not said:
        return Fault(f"{name} is an empty list", name, "leave the row out")
    if set(map(type, said)) == {int} and min(said) > -_LIMIT and max(said) < _LIMIT:
        return None
    place, wrong = next((n, each) for n, each in enumerate(said) if not _is_token(each))
    what = wrong if type(wrong) is int else kind(wrong)
    return Fault(f"{name} holds something that is no token", f"{name}[{place}] is {what}", SHAPE)


def _is_token(value: Any) -> bool:
    return type(value) is int and abs(value) < _LIMIT


def _label_fault(input_ids: "Ids", labels: "Ids") -> Fault | None:
    wrong = ((labels != IGNORED) & (labels != input_ids)).nonzero()[0]
    if not len(wrong):
        return None
    place = wrong[0]
    return Fault(
        "a label is neither its token nor -100",
        f"labels[{place}] is {labels[place]} and input_ids[{place}] is {input_ids[place]}",
        "write the token itself where it is trained, and -100 where it is only read; labels are "
        "not shifted",
    )


def _token_fault(row: PreparedRow, known: Vocabulary) -> Fault | None:
    wrong = ((row.input_ids < 0) | (row.input_ids >= known.size)).nonzero()[0]
    if not len(wrong):
        return None
    place = wrong[0]
    return Fault(
        "a token is outside the vocabulary",
        f"input_ids[{place}] is {row.input_ids[place]}",
        f"the tokenizer of {known.name} knows {known.size} tokens; prepare the rows with that one",
    )


def _start_fault(row: PreparedRow, known: Vocabulary) -> Fault | None:
    return start_fault(row.input_ids, known.start, "input_ids")


def start_fault(input_ids: "Ids", start: int | None, where: str) -> Fault | None:
    """A second start token would make training differ from what the model is used with."""
    if start is None or len(input_ids) < 2 or not input_ids[0] == input_ids[1] == start:
        return None
    return Fault(
        "an example begins with the start token twice",
        f"{where} begins with {start}, {start}",
        "leave one out: the chat template writes one by itself",
    )


def _tokenizer_fault(row: PreparedRow, known: Vocabulary) -> Fault | None:
    if row.tokenizer in (None, known.tokenizer):
        return None
    return Fault(
        "a row was prepared with another tokenizer",
        f"tokenizer is {row.tokenizer:.64}",
        f"the tokenizer.json of {known.name} has the SHA-256 {known.tokenizer or '(there is none)'}"
        "; prepare the rows with that one",
    )


def _template_fault(row: PreparedRow, known: Vocabulary) -> Fault | None:
    if row.chat_template in (None, known.chat_template):
        return None
    return Fault(
        "a row was prepared with another chat template",
        f"chatTemplate is {row.chat_template:.64}",
        f"that of {known.name} has the SHA-256 {known.chat_template}; prepare the rows with that "
        "one",
    )


_CHECKS: tuple[Callable[[PreparedRow, Vocabulary], Fault | None], ...] = (
    _tokenizer_fault,
    _template_fault,
    _token_fault,
    _start_fault,
)

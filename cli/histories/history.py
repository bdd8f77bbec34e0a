"""What a file of another tracker says of a run: one row of each step, validations apart."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from cli.errors import CommandError, Exit
from cli.wire import Json

VALIDATIONS = ("eval", "val", "valid", "validation")  # what names of validations begin with
TRAINING_LOSS = ("loss", "train/loss")  # names of the training loss, the first that there is
EXACT = 2**53  # a larger number is no step: floats leave some out
LAST_SECOND = 253_402_300_799  # since 1970, of the year 9999: what a date can hold
SHOWN = 20  # names in one sentence
FLOATS = frozenset({float})
NUMBERS = (int, float)  # the very types: JSON has truths, which Python takes for integers
Place = tuple[int, str | None]  # step, and of a validation the set


def broken(sentence: str, hint: str) -> CommandError:
    """What to say of a file that cannot be imported; nothing of it is."""
    return CommandError(sentence, Exit.REFUSED, hint=hint)


@dataclass
class Row:
    """Everything that was measured of one step."""

    measured: dict[str, float] = field(default_factory=dict)
    at: float | None = None  # seconds since 1970, of the newest of the numbers


@dataclass
class History:
    """Rows as they are read, and what the file says of the run as a whole."""

    source: str  # the kind of file
    file: str  # its name, without folders
    sha256: str  # of its content
    facts: Json = field(default_factory=dict)  # of the run as a whole, in words of the service
    steps: dict[int, Row] = field(default_factory=dict)
    validations: dict[Place, Row] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # names of what is no number at all
    replaced: int = 0  # numbers that came again for a step and differ; the later one counts
    _seen: dict[str, str] = field(default_factory=dict)  # of each name, where it was no number
    _numbers: set[str] = field(default_factory=set)  # names that were numbers

    def add(
        self,
        place: str,
        step: int,
        values: Mapping[str, Any],
        *,
        validation: bool = False,
        dataset: str | None = None,
        at: float | None = None,
    ) -> None:
        """Merge what was measured of a step with what is known of it.

        Args:
            place: where in the file it stands, for sentences.
            step: the update.
            values: by their names; what is no number is looked at in the end.
            validation: whether it was measured on rows that are not trained.
            dataset: on which set of them.
            at: when, in seconds since 1970.
        """
        measured = dict(values)
        if not FLOATS.issuperset(map(type, measured.values())):
            measured = {name: value for name, value in values.items() if type(value) in NUMBERS}
            if len(measured) < len(values):
                self._note(place, values)
        if not measured.keys() <= self._numbers:
            self._numbers.update(measured)
        if not measured:
            return
        rows, key = (self.validations, (step, dataset)) if validation else (self.steps, step)
        self._merge(rows, key, Row(measured, at))

    def _note(self, place: str, values: Mapping[str, Any]) -> None:
        """Remember what is no number, to be looked at when all is read."""
        for name, value in values.items():
            if type(value) not in NUMBERS and value is not None:
                self._seen.setdefault(name, f"{place}: {name} is {value!r:.60}")

    def _merge(self, rows: dict[Any, Row], key: Any, new: Row) -> None:
        old = rows.setdefault(key, new)
        if old is new:
            return
        known, said = old.measured, new.measured
        self.replaced += sum(
            repr(known[name]) != repr(said[name]) for name in known.keys() & said.keys()
        )
        known |= said
        if new.at is not None:
            old.at = new.at if old.at is None else max(old.at, new.at)

    def left_out(self) -> list[str]:
        """Names that have no numbers at all.

        Raises:
            CommandError: one has numbers as well as something else.
        """
        for name, said in self._seen.items():
            if name in self._numbers:
                raise broken(
                    f"{self.file}, {said}, which is no number, and others of this name are",
                    "correct or remove the value; nothing was imported",
                )
        return sorted(self._seen.keys() | (self.others - self._numbers))

    def call_loss(self, name: str | None) -> str | None:
        """Have the numbers of ``name`` be the training loss as well; the name that it was.

        Raises:
            CommandError: there are none of this name.
        """
        names = {each for row in self.steps.values() for each in row.measured}
        if name is not None and name not in names:
            raise broken(
                f"{self.file} has no numbers named {name!r}",
                f"there are: {listed(names)}",
            )
        name = name or next((each for each in TRAINING_LOSS if each in names), None)
        if name is None or name == "loss":
            return name
        for row in self.steps.values():
            if name in row.measured:
                row.measured["loss"] = row.measured[name]
        return name

    def lines(self, stated: Json) -> Iterator[str]:
        """The lines that the service takes, in the order of steps; ``stated`` goes before facts."""
        said = {"kind": "source", "source": self.source, "file": self.file, "sha256": self.sha256}
        method = {"method": "GRPO"} if self._has_rewards() else {}
        yield _json(said | method | self.facts | stated)
        steps = [((step, 0, ""), "step", row) for step, row in self.steps.items()]
        validations = [
            ((step, 1, dataset or ""), "validation", row)
            for (step, dataset), row in self.validations.items()
        ]
        for (step, _, dataset), kind, row in sorted(
            [*steps, *validations], key=lambda each: each[0]
        ):
            facts: Json = {"dataset": dataset} if dataset else {}
            facts |= {} if row.at is None else {"at": row.at}
            yield _line({"kind": kind, "step": step, **facts, "measured": _said(row.measured)})

    def _has_rewards(self) -> bool:
        return any("reward" in row.measured for row in self.steps.values())


def _said(measured: dict[str, float]) -> dict[str, Any]:
    """The numbers as JSON has them; nearly always all are finite, and stay as they are."""
    total = sum(measured.values())
    if total - total == 0:
        return measured
    return {name: wire_number(value) for name, value in measured.items()}


def wire_number(value: float) -> float | str:
    """A number as JSON has it, or the name of one that is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def is_validation(name: str) -> bool:
    """Whether a name is that of something measured in a validation."""
    return any(name.startswith((f"{each}_", f"{each}/")) for each in VALIDATIONS)


def listed(names: Iterable[str]) -> str:
    """Names in a sentence, the first few of many."""
    every = sorted(names)
    first = [repr(each) for each in every[:SHOWN]]
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(first) + more if first else "none"


def digest(content: bytes) -> str:
    """What tells a file from others."""
    return hashlib.sha256(content).hexdigest()


def _line(row: Json) -> str:
    """A row as JSON, of numbers that are all finite."""
    try:
        return orjson.dumps(row).decode()
    except TypeError:  # an integer of more than 64 bits
        return _json(row)


_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode

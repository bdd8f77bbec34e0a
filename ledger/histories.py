"""A history that another tracker kept, as it comes in: a list of lines, read whole or not at all.

The first line says where the history is from; each other is one update or one validation, in the
words of a worker's reports.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ledger import reports
from ledger.errors import LedgerError
from ledger.plan import Label
from ledger.reports import LAST_SECOND, Count, Report, ReportError, Step

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # SHA-256
FiniteNorm = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=LAST_SECOND)]


class Beside(BaseModel):
    """Another file that was read as well."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Label  # its name, without folders
    sha256: Digest  # of its content


class Source(Report):
    """Where a history is from, and what it says of the run as a whole. ``at``: when it began."""

    kind: Literal["source"]
    source: Annotated[str, Field(pattern="^[a-z][a-z-]{0,49}$")]  # the kind of file
    file: Label  # its name, without folders
    sha256: Digest  # of its content
    beside: Beside | None = None  # with results of the end
    project: Annotated[str, Field(min_length=1, max_length=200)] = "default"
    name: Label | None = None
    description: Label | None = None
    method: Literal["SFT", "GRPO"] = "SFT"
    base_model: Label | None = None
    dataset: Label | None = None
    max_grad_norm: FiniteNorm | None = None  # gradients were clipped to it
    total_steps: Step | None = None  # updates that were planned
    observed_step: Count | None = None  # that were made; None: as many as there are rows of
    training_seconds: Seconds | None = None  # as the history has it
    hyperparameters: dict[str, Any] | None = None  # as the history has them
    is_complete: bool = True  # False: the training went on after what the history has


class ImportedStep(reports.StepReport):
    """An update; other trackers also count from 0."""

    step: Count


Row = ImportedStep | reports.ValidationReport
_LINE: TypeAdapter[Source | Row] = TypeAdapter(
    Annotated[Source | ImportedStep | reports.ValidationReport, Field(discriminator="kind")]
)


class History(NamedTuple):
    """What was read, whole and without a contradiction."""

    source: Source
    rows: list[Row]
    digest: str  # SHA-256 of all that was said, but for the name of the file

    @property
    def is_timed(self) -> bool:
        """Whether it says when its rows were measured."""
        return bool(self.rows) and self.rows[0].at is not None

    @property
    def observed_step(self) -> int:
        """The newest update."""
        made = [row.step for row in self.rows if isinstance(row, ImportedStep)]
        return max([self.source.observed_step or 0, *made])


def read(lines: Sequence[str]) -> History:
    """The history that ``lines`` are.

    Raises:
        LedgerError: one of them is wrong; the sentence has its number, from 1.
    """
    said = [_line(number, line) for number, line in enumerate(lines, 1)]
    source = said[0]
    if not isinstance(source, Source):
        raise LedgerError(
            f"the first line of a history is of kind source, this one is a {source.kind}"
        )
    rows: list[Row] = []
    for number, row in enumerate(said[1:], 2):
        if isinstance(row, Source):
            raise LedgerError(f"line {number} is of kind source, as only the first may be")
        rows.append(row)
    if not rows:
        raise LedgerError(f"{source.file} has no update and no validation: there is no history")
    _check_order(rows)
    _check_times(rows)
    rest = source.model_dump_json(exclude={"file"})
    digest = hashlib.sha256("\n".join([rest, *lines[1:]]).encode()).hexdigest()
    return History(source, rows, digest)


def _line(number: int, line: str) -> Source | Row:
    try:
        return reports.read(line, _LINE)
    except ReportError as error:
        raise LedgerError(
            f"line {number}: {error}", "correct the line; nothing was imported"
        ) from None


def _check_order(rows: Sequence[Row]) -> None:
    """Refuse two rows of one update, and rows that go back."""
    newest: dict[str | None, int] = {}  # by validation set; updates are those of the set ""
    for number, row in enumerate(rows, 2):
        place = "" if isinstance(row, ImportedStep) else f"/{row.dataset or ''}"
        if row.step <= newest.get(place, -1):
            raise LedgerError(
                f"line {number}: step {row.step} came after {newest[place]}",
                "one line has all that was measured of a step, and steps rise",
            )
        newest[place] = row.step


def _check_times(rows: Sequence[Row]) -> None:
    """Refuse times of some rows alone: the others would get one that nobody measured."""
    timed = [row.at is not None for row in rows]
    if any(timed) and not all(timed):
        first = timed.index(not timed[0]) + 2
        raise LedgerError(
            f"line {first} {'has no' if timed[0] else 'has an'} at, unlike the lines before it",
            "state the time of every line, or of none",
        )

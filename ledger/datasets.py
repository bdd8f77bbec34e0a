"""The catalogue of data sets: each is its rows, told by their identity; names can be moved.

The identity is a digest over the parsed rows (``engine/prepare/rows.py``), so a byte order mark,
the ends of lines or the order of keys make no other data set. The rows themselves lie in the home.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ledger import ids, names, references
from ledger.errors import NoDatasetError
from ledger.events import DATASETS, DatasetCreated, DatasetNamed, Event, RowForm
from ledger.ledger import Ledger
from ledger.references import MARK, Reference
from ledger.register import Register, Told
from ledger.run import Stamp


@dataclass(frozen=True)
class Dataset:
    """Rows that were taken in."""

    identity: str
    form: RowForm
    rows: int
    size_bytes: int
    created_at: datetime
    created_by: str


class Naming(NamedTuple):
    """A name, and what it has meant since a moment."""

    name: str
    identity: str
    at: datetime
    by: str


class Catalogue(NamedTuple):
    """Every data set by its identity, oldest first, and every naming, oldest first."""

    datasets: Mapping[str, Dataset]
    namings: tuple[Naming, ...]

    def names(self) -> dict[str, str]:
        """What each name means now."""
        return {each.name: each.identity for each in self.namings}


class Creation(NamedTuple):
    """What became of rows that were to be a data set."""

    dataset: Dataset
    created: bool  # False: there were these rows already
    moved_from: str | None  # the identity that the name meant before, if it meant another


class Datasets:
    """The data sets of a ledger; safe to use from any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._register = Register(ledger, DATASETS, fold)

    def all(self) -> list[Dataset]:
        """Every data set, oldest first."""
        return list(self._register.known.datasets.values())

    def names(self, identity: str) -> list[str]:
        """The names that mean a data set now, in order."""
        known = self._register.known.names()
        return sorted(name for name, meant in known.items() if meant == identity)

    def namings(self, identity: str) -> list[Naming]:
        """Every time that a name was given to a data set, oldest first."""
        return [each for each in self._register.known.namings if each.identity == identity]

    def find(self, text: str) -> Dataset:
        """The data set of a name, an identity, a beginning of one, or a reference of a plan.

        Raises:
            NoDatasetError: there is none.
            AmbiguousIdError: several identities begin so.
        """
        return _found(self._register.known, _reference(text))

    def create(self, rows: Mapping[str, Any], *, name: str | None, principal: str) -> Creation:
        """Take rows in, unless they are there, and give them a name, whatever it meant before.

        ``rows``: identity, form, rows, sizeBytes.

        Raises:
            LedgerError: this cannot be a name.
        """
        self.check_name(name)
        identity = rows["identity"]
        facts = {"identity": identity, "form": rows["form"], "rows": rows["rows"]}
        facts["size_bytes"] = rows["sizeBytes"]
        before: dict[str, str] = {}
        created = False

        def decide(known: Catalogue, _: Stamp) -> list[Told]:
            nonlocal before, created
            before, created = known.names(), identity not in known.datasets
            told = [Told(DatasetCreated, facts)] if created else []
            if name is not None and before.get(name) != identity:
                told.append(Told(DatasetNamed, {"name": name, "identity": identity}))
            return told

        self._register.tell(decide, principal=principal)
        meant = before.get(name) if name is not None else None
        moved_from = meant if meant != identity else None
        return Creation(self._register.known.datasets[identity], created, moved_from)

    @staticmethod
    def check_name(name: str | None) -> None:
        """Refuse what cannot be a name.

        Raises:
            LedgerError: it cannot.
        """
        if name is not None:
            looks = "identities look like (8 or more hexadecimal digits)"
            names.check(name, "a data set", is_id=references.is_beginning, ids=looks)

    def pinned(self, document: Any) -> Any:
        """A plan, or a part of one, in which each data set of the catalogue is named for ever.

        Raises:
            NoDatasetError, AmbiguousIdError: as ``find`` says.
        """
        if not isinstance(document, dict):
            return document
        fixed = dict(document)
        if isinstance(document.get("dataset"), str):
            fixed["dataset"] = self._pinned(document["dataset"])
        if isinstance(document.get("validation"), dict):
            fixed["validation"] = self.pinned(document["validation"])
        return fixed

    def _pinned(self, text: str) -> str:
        reference = references.parse(text)
        if reference is None:
            return text
        return str(reference._replace(identity=self.find(text).identity))


def fold(events: Iterable[Event]) -> Catalogue:
    """The catalogue that the events of the stream tell of."""
    datasets: dict[str, Dataset] = {}
    namings: list[Naming] = []
    for event in events:
        match event:
            case DatasetCreated():
                datasets[event.identity] = Dataset(
                    identity=event.identity,
                    form=event.form,
                    rows=event.rows,
                    size_bytes=event.size_bytes,
                    created_at=event.timestamp,
                    created_by=event.principal,
                )
            case DatasetNamed():
                facts = (event.name, event.identity, event.timestamp, event.principal)
                namings.append(Naming(*facts))
    return Catalogue(datasets, tuple(namings))


def _reference(text: str) -> Reference:
    reference = references.parse(text if text.startswith(MARK) else MARK + text)
    assert reference is not None  # since it is marked
    return reference


def _found(known: Catalogue, reference: Reference) -> Dataset:
    begin = reference.identity or known.names().get(reference.name or "")
    found = [each for each in known.datasets if begin is not None and each.startswith(begin)]
    identity = ids.only(begin or "", found, "data sets")
    if identity is None:
        said = str(reference).removeprefix(MARK)
        raise NoDatasetError(f"there is no data set {said[:80]!r}", NoDatasetError.HINT)
    return known.datasets[identity]

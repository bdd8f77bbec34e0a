"""The manifest of a snapshot: every file with its digest, and who wrote them of which update.

The id of a snapshot is the SHA-256 of its manifest, so whoever knows the id can tell whether any
byte of any file is another one.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from engine.dispatch.artifacts.errors import DamagedError, SaveError, StoreError
from ledger.events import Artifact
from ledger.reports import Part

VERSION: Final = 1
KINDS: tuple[Artifact, ...] = get_args(Artifact)
TRAINING_STATE_FOLDER = "trainingState/"


def checked_name(name: str) -> str:
    """The name of a file below the snapshot's folder, and never outside of it.

    Raises:
        ValueError: the name leads elsewhere, or would on some kind of disk.
    """
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\\" in name or "\0" in name:
        raise ValueError(f"{name!r:.200} is no name of a file below a folder")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!r:.200} is no name in UTF-8") from None
    return name


class Measure(NamedTuple):
    """What a file holds, as far as two of them need comparing."""

    sha256: str
    size_bytes: int


class StoredFile(Part):
    """One file of a snapshot."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size_bytes: NonNegativeInt
    artifact: Artifact

    @property
    def measure(self) -> Measure:
        """What the file has to hold."""
        return Measure(self.sha256, self.size_bytes)


class Manifest(Part):
    """Everything that a snapshot consists of."""

    version: Literal[1] = VERSION
    run: str
    facts: dict[str, JsonValue]  # attempt, step, epoch, writer
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1)]
    files: Annotated[
        dict[Annotated[str, AfterValidator(checked_name)], StoredFile], Field(min_length=1)
    ]

    @model_validator(mode="after")
    def _files_are_of_the_kinds(self) -> Self:
        for name, file in self.files.items():
            if file.artifact not in self.artifacts:
                raise ValueError(f"{name!r:.200} is of a kind that the snapshot does not hold")
        return self

    def encoded(self) -> bytes:
        """The one form in which this manifest is stored: sorted, compact, UTF-8."""
        return _canonical(json.loads(self.model_dump_json(by_alias=True)))

    def own_files(self, artifacts: Collection[Artifact]) -> dict[str, StoredFile]:
        """The files that count as one of these kinds."""
        return {name: file for name, file in self.files.items() if file.artifact in artifacts}

    def files_of(self, artifacts: Iterable[Artifact] | None) -> dict[str, StoredFile]:
        """The files that these kinds need, all kinds if None.

        A training state without files of its own is in the files of the weights.

        Raises:
            ValueError: the snapshot does not hold one of the kinds.
        """
        needed: dict[str, StoredFile] = {}
        for artifact in self.artifacts if artifacts is None else artifacts:
            if artifact not in self.artifacts:
                raise ValueError(f"the snapshot holds {', '.join(self.artifacts)}, not {artifact}")
            needed |= self.own_files([artifact]) or self.files
        return needed

    def size_bytes(self) -> dict[Artifact, int]:
        """Bytes of the files of each kind; a file counts once."""
        return {
            artifact: sum(file.size_bytes for file in self.own_files([artifact]).values())
            for artifact in self.artifacts
        }

    def digests(self) -> dict[Artifact, str]:
        """SHA-256 over names and digests of the files that each kind needs."""
        return {
            artifact: hashlib.sha256(
                _canonical({name: file.sha256 for name, file in self.files_of([artifact]).items()})
            ).hexdigest()
            for artifact in self.artifacts
        }


def describe(
    run: str,
    measures: Mapping[str, Measure],
    *,
    artifacts: Sequence[Artifact],
    facts: Mapping[str, JsonValue],
) -> Manifest:
    """The manifest of files with these names.

    Raises:
        SaveError: there is no file of a kind that is claimed, or the facts cannot be kept.
    """
    claimed = tuple(kind for kind in KINDS if kind in artifacts)
    if not claimed:
        raise SaveError("nobody says what the files hold")
    files = {
        name: StoredFile(sha256=sha256, size_bytes=size_bytes, artifact=_kind(name, claimed))
        for name, (sha256, size_bytes) in measures.items()
    }
    if "weights" in claimed and not any(file.artifact == "weights" for file in files.values()):
        raise SaveError(f"there is no file of the weights, only some below {TRAINING_STATE_FOLDER}")
    try:
        manifest = Manifest(run=run, facts=dict(facts), artifacts=claimed, files=files)
        manifest.encoded()
    except ValueError:
        raise SaveError("what is said about the files is no JSON, or nested too deep") from None
    return manifest


def _kind(name: str, claimed: tuple[Artifact, ...]) -> Artifact:
    """What a file belongs to: all to the only kind that there is, else by folder."""
    if len(claimed) == 1:
        return claimed[0]
    return "trainingState" if name.startswith(TRAINING_STATE_FOLDER) else "weights"


def identify(encoded: bytes) -> str:
    """The id of the snapshot whose manifest these bytes are."""
    return hashlib.sha256(encoded).hexdigest()


def read(encoded: bytes, *, run: str, snapshot_id: str) -> Manifest:
    """The manifest that ``encoded`` says.

    Raises:
        DamagedError: it is not the manifest of this snapshot of this run.
        StoreError: a later version of the program wrote it.
    """
    which = f"the manifest of snapshot {snapshot_id[:12]}"
    found = identify(encoded)
    if found != snapshot_id:
        raise DamagedError(f"{which} is not the one that was saved: its SHA-256 is {found}")
    try:
        said = json.loads(encoded)
        if isinstance(said, dict) and said.get("version", VERSION) != VERSION:
            raise StoreError(f"{which} has the version {said['version']}, {VERSION} is understood")
        manifest = Manifest.model_validate(said)
    except ValidationError as error:
        raise DamagedError(f"{which} cannot be read: {_sentence(error)}") from None
    except (ValueError, RecursionError):
        raise DamagedError(f"{which} cannot be read: it is not JSON") from None
    if manifest.run != run:
        raise DamagedError(f"{which} is of run {manifest.run}, not of run {run}")
    return manifest


def _canonical(value: Any) -> bytes:
    """JSON that is equal for equal values."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _sentence(error: ValidationError) -> str:
    """The first fault of ``error``, with the field that has it."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what

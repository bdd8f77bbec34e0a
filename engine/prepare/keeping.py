"""Keeping: the rows of a file as a data set of the catalogue, in a file that has their identity."""

import os
import shutil
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from engine.errors import RefusalError
from engine.prepare import rows
from engine.prepare.rows import ChatRows, PreparedRows
from engine.prepare.settings import datasets_folder
from ledger import references

AGAIN = "take them in again: trainledger datasets create FILE"


def keep(file: str, folder: Path) -> dict[str, Any]:
    """Copy a file of rows into ``folder``, if it is one; what it is, or why not, as JSON.

    Rows that are there already are not written again.
    """
    verdict: dict[str, Any] = {"accepted": False, "reason": None}
    try:
        kept = _kept(Path(file), folder)
    except RefusalError as refusal:
        return verdict | {"reason": str(refusal)}
    return verdict | {"accepted": True, **kept}


def read(dataset: str) -> ChatRows | PreparedRows:
    """The rows that a plan names: those of a file, or of the catalogue, which must be as they were.

    Raises:
        RefusalError: a row is at fault, or these are not the rows that the plan means.
    """
    reference = references.parse(dataset)
    if reference is None:
        return rows.read(Path(dataset))
    folder = datasets_folder()
    if folder is None or reference.identity is None:
        raise RefusalError(f"{dataset} is in no catalogue here; state a file of rows")
    path = _named(folder, reference.identity)
    if not path.is_file():
        raise RefusalError(f"the rows of {dataset} are not in the catalogue any more; {AGAIN}")
    found = rows.read(path, dataset)
    if found.identity() != reference.identity:
        raise RefusalError(f"the rows of {dataset} are not those that were taken in; {AGAIN}")
    return found


def identity_of(dataset: str) -> str | None:
    """Which rows a plan names, as far as that is known without reading them, and they are there."""
    reference, folder = references.parse(dataset), datasets_folder()
    if reference is None or reference.identity is None or folder is None:
        return None
    return reference.identity if _named(folder, reference.identity).is_file() else None


def _kept(file: Path, folder: Path) -> dict[str, Any]:
    found = rows.read(file)
    identity = found.identity()
    path = _named(folder, identity)
    if not path.exists():
        _copy(file, path, identity)
    return {
        "identity": identity,
        "form": found.form,
        "rows": len(found),
        "sizeBytes": path.stat().st_size,
    }


def _copy(file: Path, path: Path, identity: str) -> None:
    """Put a copy at ``path`` in one move, once it is seen to hold what was read before."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, suffix=".partial", delete=False) as copy:
        partial = Path(copy.name)
        try:
            with file.open("rb") as content:
                shutil.copyfileobj(content, copy)
            copy.flush()
            os.fsync(copy.fileno())
            _check(partial, file, identity)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _check(copy: Path, file: Path, identity: str) -> None:
    if rows.read(copy).identity() != identity:
        raise RefusalError(f"{file} changed while it was read; try again")


def _named(folder: Path, identity: str) -> Path:
    return folder / f"{identity}.jsonl"

"""Event files of runs in a folder of this machine, and kept as new as the service has them.

Imports cli.archive, and so tarfile: load it late.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cli import archive
from cli.wire import run_path

if TYPE_CHECKING:
    from cli.client import Client

NAME = "events.out.tfevents.trainledger"  # TensorBoard reads whatever has tfevents in its name
IN_MEMORY_BYTES = 2**20


@dataclass
class EventFile:
    """The event file of a run, or of one attempt, which only grows while this process has it."""

    run_id: str
    attempt: int | None
    folder: Path
    position: int = 0  # that it holds everything up to
    is_over: bool = False  # there will be nothing more
    _file: "IO[bytes] | None" = None  # open for what is new

    def begin(self, client: "Client") -> None:
        """Download the file, in the place of one that an earlier call left.

        Raises:
            PassingError: the service could not be reached.
            CommandError: the service refused.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = self.folder / ".download"
        with whole.open("wb") as file:
            self._download(client, file)
        # Whoever still reads the old file, or adds to it, goes on with that one.
        self._file = whole.rename(self.folder / NAME).open("ab", buffering=0)

    def go_on(self, client: "Client") -> None:
        """Add what is new, all of it or nothing; raises what ``begin`` does."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as new:
            self._download(client, new)
            new.seek(0)
            assert self._file is not None
            shutil.copyfileobj(new, self._file)

    def close(self) -> None:
        """Add nothing more."""
        if self._file is not None:
            self._file.close()

    def _download(self, client: "Client", to: "IO[bytes]") -> None:
        path = run_path(self.run_id, "/tensorboard")
        with client.download(path, after=self.position, attempt=self.attempt) as (said, parts):
            position, is_over = said.get("Trainledger-Position"), said.get("Trainledger-Over")
            if position is None:
                raise archive.foreign()
            for _, content in archive.members(parts):
                shutil.copyfileobj(content, to)
        self.position, self.is_over = int(position), is_over == "true"

"""What a command asks of a snapshot: one branch, or several that differ."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.options import Restore
from cli.submission import submit
from cli.wire import Json, run_path

if TYPE_CHECKING:
    from cli.client import Client


@dataclass(frozen=True)
class Branching:
    """A branch as the options of a command describe it."""

    parent: str
    snapshot: str
    steps: int
    restore: Restore
    overrides: Json
    config_name: str | None = None
    description: str | None = None

    def preview(self, client: "Client", token: str) -> Json:
        """The child that would be made, if it can be; nothing is created.

        Raises:
            CommandError: it would be refused.
        """
        return client.post(self._path(), self._body(token), dryRun="true")

    def submit(self, client: "Client", token: str, *, unseen: str) -> Json:
        """The branch that the token asked for, this time or before.

        Raises:
            CommandError: refused, or the answer was lost every time; ``unseen`` is the hint then.
        """
        return submit(client, self._path(), self._body(token), unseen=unseen)

    def _path(self) -> str:
        return run_path(self.parent, ":branch")

    def _body(self, token: str) -> Json:
        labels = {"configName": self.config_name, "description": self.description}
        return {
            "snapshot": self.snapshot,
            "steps": self.steps,
            "restore": self.restore.value,
            "overrides": self.overrides,
            "submissionId": token,
            **{name: label for name, label in labels.items() if label is not None},
        }

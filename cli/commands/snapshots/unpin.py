"""``snapshots unpin``: keep a snapshot for as long as the plan says."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import Output, OutputOption, SnapshotId
from cli.wire import snapshot_path


def unpin(
    context: typer.Context, snapshot_id: SnapshotId, output: OutputOption = Output.TEXT
) -> None:
    """Keep a snapshot for as long as the keep counts of the plan say."""
    answer = client_of(context).post(snapshot_path(snapshot_id, ":unpin"))
    if output is Output.TEXT:
        terminal.write(f"snapshot {answer['snapshotId']} is not pinned")
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)

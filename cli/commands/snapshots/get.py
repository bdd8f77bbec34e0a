"""``snapshots get``: one snapshot, what it is made of and who wrote it."""

import typer

from cli import terminal
from cli.context import client_of
from cli.options import AsOf, Output, OutputOption, SnapshotId
from cli.render.snapshots import snapshot
from cli.wire import snapshot_path


def get_snapshot(
    context: typer.Context,
    snapshot_id: SnapshotId,
    as_of: AsOf = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show one snapshot: where it is from, its files, and what wrote them."""
    answer = client_of(context).get(snapshot_path(snapshot_id), asOf=as_of)
    if output is Output.TEXT:
        terminal.write(snapshot(answer, width=terminal.width()))
    else:
        terminal.write_json(answer, compact=output is Output.JSON_COMPACT)

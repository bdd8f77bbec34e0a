"""``runs tensorboard``: the curves of runs, in a TensorBoard of this machine."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cli import tensorboard, terminal
from cli.context import client_of, settings_of
from cli.errors import CommandError, Exit, PassingError
from cli.render.text import counted
from cli.tensorboard import Board
from cli.wire import run_path

if TYPE_CHECKING:
    from cli.client import Client
    from cli.event_files import EventFile

LOOK_SECONDS = 1.0  # between two looks at what is new
PREFIX = "trainledger-tensorboard-"


def show_tensorboard(
    context: typer.Context,
    run_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Run ids, or at least 4 digits of each.", show_default=False
        ),
    ],
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="All that this attempt of the run reported."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 is one that is free.")
    ] = 0,
    logdir: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            metavar="DIR",
            help="Keep the event files here, in a folder for each run.",
        ),
    ] = None,
    download_only: Annotated[
        bool,
        typer.Option("--download-only", help="Write the event files, say where, and end."),
    ] = False,
) -> None:
    """Show runs in TensorBoard, on this machine alone, live while they train.

    The event files are downloaded with your credentials. TensorBoard asks nobody for any, so it
    listens on 127.0.0.1 only. Ctrl-C ends it.
    """
    import tempfile  # noqa: PLC0415 (0.01 s, and --help needs it not)

    if attempt is not None and len(run_ids) > 1:
        raise CommandError("--attempt is of one run, and several are named", Exit.USAGE)
    if not download_only:
        tensorboard.require()
    client = client_of(context)
    if download_only:
        folder = logdir or Path(tempfile.mkdtemp(prefix=PREFIX))
        with _downloaded(client, run_ids, attempt, folder):
            terminal.write(str(folder))
        return
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix=PREFIX) as own:
        folder, log = logdir or Path(own) / "runs", Path(own) / "tensorboard.log"
        with (
            _downloaded(client, run_ids, attempt, folder) as files,
            tensorboard.serving(folder, port, log) as board,
        ):
            terminal.write(board.url)
            if not settings_of(context).quiet:
                what = counted(len(files), "run")
                terminal.say(f"TensorBoard shows {what} on this machine alone; Ctrl-C ends it")
            _keep_new(client, files, board)


@contextmanager
def _downloaded(
    client: "Client", run_ids: list[str], attempt: int | None, folder: Path
) -> Iterator[list["EventFile"]]:
    """The event files of runs, each run once, in a folder for each."""
    from cli.event_files import EventFile  # noqa: PLC0415 (as late as tempfile)

    whole = dict.fromkeys(client.get(run_path(each))["runId"] for each in run_ids)
    with ExitStack() as opened:
        files = []
        for run_id in whole:
            place = folder / run_id / (f"a{attempt}" if attempt else "")
            file = EventFile(run_id, attempt, place)
            opened.callback(file.close)
            file.begin(client)
            files.append(file)
        yield files


def _keep_new(client: "Client", files: list["EventFile"], board: Board) -> None:
    """Add what runs report, until somebody ends us; a service that is away is waited for."""
    is_away = False
    while True:
        board.check()
        try:
            for each in files:
                if not each.is_over:
                    each.go_on(client)
            is_away = False
        except PassingError as error:
            if not is_away:
                terminal.say(f"{error.message}; TensorBoard shows what there is, and waits for it")
            is_away = True
            client.relocate()
        time.sleep(LOOK_SECONDS)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave nothing behind, neither files nor a process, whatever asks us to end.

    Raises:
        CommandError: it was Ctrl-C, SIGTERM, or the end of the terminal.
    """

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    heeded = [each for each, handler in before.items() if handler != signal.SIG_IGN]  # as nohup has
    try:
        for each in heeded:
            signal.signal(each, end)
        yield
    except KeyboardInterrupt:
        raise CommandError("TensorBoard has ended", Exit.INTERRUPTED) from None
    finally:
        for each in heeded:
            signal.signal(each, before[each])

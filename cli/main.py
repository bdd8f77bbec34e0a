"""The command ``trainledger``: global options, the tree of commands, and how every call ends."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cli import settings, terminal
from cli.commands.audit import verify
from cli.commands.info import show_info
from cli.commands.runs.cancel import cancel
from cli.commands.runs.events import show_events
from cli.commands.runs.get import get
from cli.commands.runs.list import list_runs
from cli.commands.runs.metrics import show_metrics
from cli.commands.runs.start import start
from cli.commands.runs.wait import wait_for
from cli.commands.server.logs import server_logs
from cli.commands.server.start import start_server
from cli.commands.server.status import server_status
from cli.commands.server.stop import stop_server
from cli.errors import EXIT_CODES, ClosedPipeError, CommandError, Exit

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:<3}  {meaning}" for code, meaning in EXIT_CODES.items()
)


def _group(summary: str) -> typer.Typer:
    """A group of commands; help without rich, which alone takes longer than all the rest."""
    return typer.Typer(
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # it would show the values of variables, tokens too
    )


app = _group("An event-sourced ledger of LLM fine-tuning runs.")
runs = _group("Start, follow, read and cancel runs.")
server = _group("The server of this account's own home.")
audit = _group("Whether the ledger is what was once written.")
app.add_typer(runs, name="runs")
app.add_typer(server, name="server")
app.add_typer(audit, name="audit")

runs.command("start", epilog=_EPILOG)(start)
runs.command("list")(list_runs)
runs.command("get")(get)
runs.command("wait", epilog=_EPILOG)(wait_for)
runs.command("metrics")(show_metrics)
runs.command("events")(show_events)
runs.command("cancel")(cancel)
server.command("start")(start_server)
server.command("stop")(stop_server)
server.command("status")(server_status)
server.command("logs")(server_logs)
audit.command("verify")(verify)
app.command("info")(show_info)


@app.callback(epilog=_EPILOG)
def trainledger(  # noqa: PLR0913, PLR0917 (one for each global option)
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="TRAINLEDGER_URL",
            metavar="URL",
            help="The service; without it the server of this home, started when it is needed.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TRAINLEDGER_TOKEN",
            metavar="TOKEN",
            help="The token to show the service; without it the one in this home.",
        ),
    ] = None,
    request_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long one answer may take.")
    ] = "10s",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No hints on stderr.")] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="Plain text on a terminal too, as NO_COLOR does.")
    ] = False,
    disable_prompt: Annotated[
        bool,
        typer.Option(
            "--disable-prompt", envvar="TRAINLEDGER_DISABLE_PROMPTS", help="Ask nothing, go ahead."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say each request on stderr.")] = False,
) -> None:
    """An event-sourced ledger of LLM fine-tuning runs."""
    context.obj = settings.Settings(
        url=settings.address(url),
        token=token or None,
        home=settings.home(),
        request_timeout=settings.seconds(request_timeout, "--request-timeout"),
        quiet=quiet,
        color=not (no_color or settings.no_color()),
        prompts=not disable_prompt,
        verbose=verbose,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and answer its exit code; the only place that prints an error."""
    terminal.prepare()
    try:
        code = _call(sys.argv[1:] if arguments is None else list(arguments))
    except ClosedPipeError:
        terminal.discard()
        return Exit.CLOSED_PIPE
    return code if terminal.finish() else Exit.CLOSED_PIPE


def _call(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="trainledger", standalone_mode=False)
    except CommandError as error:
        is_fault = error.code not in (Exit.TIMED_OUT, Exit.INTERRUPTED)
        _complain(f"error: {error.message}" if is_fault else error.message, error.hint)
        return error.code
    except typer.TyperException as error:
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except OSError as error:  # of this machine: the disk is full, a file of the home is not ours
        _complain(f"error: {error.strerror or error}: {error.filename or 'the output'}", None)
        terminal.discard()
        return Exit.REFUSED
    except SystemExit:  # typer's own answer to a closed pipe while it writes help
        raise ClosedPipeError from None
    return code if isinstance(code, int) else Exit.OK


def _complain(message: str, hint: str | None) -> None:
    terminal.say(message)
    if hint:
        terminal.say(f"hint: {hint}")


def _misused(error: typer.TyperException) -> int:
    """Say what was wrong with the command line; a group alone gets its help instead."""
    message = error.format_message().replace("Value error, ", "")
    path = getattr(getattr(error, "ctx", None), "command_path", "trainledger")
    if message.startswith("Usage: "):
        terminal.say(message)
    else:
        _complain(f"error: {message}", f"see `{path} --help`")
    return Exit.USAGE


if __name__ == "__main__":
    sys.exit(main())

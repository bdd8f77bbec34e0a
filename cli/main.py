"""The command ``trainledger``: global options, the tree of commands, and how every call ends."""

import sys
from collections.abc import Sequence

import typer

from cli import settings, terminal
from cli.commands.audit.keygen import make_key
from cli.commands.audit.log import show_log
from cli.commands.audit.rebuild import rebuild
from cli.commands.audit.receipt import show_receipt
from cli.commands.audit.replay import replay
from cli.commands.audit.verify import verify
from cli.commands.backup import back_up
from cli.commands.capacity import show_capacity
from cli.commands.completion import complete, completion
from cli.commands.config import list_contexts, set_context, use_context
from cli.commands.datasets.check import check
from cli.commands.datasets.create import create as create_dataset
from cli.commands.datasets.get import get_dataset
from cli.commands.datasets.list import list_datasets
from cli.commands.export import export_ledger
from cli.commands.imports.ledger import import_ledger
from cli.commands.imports.table import import_csv
from cli.commands.imports.tensorboard import import_tensorboard
from cli.commands.imports.trainer_log import import_trainer_log
from cli.commands.imports.trainer_state import import_trainer_state
from cli.commands.info import show_info
from cli.commands.restore import restore
from cli.commands.runs.ancestry import show_ancestry
from cli.commands.runs.annotate import annotate
from cli.commands.runs.branch import branch
from cli.commands.runs.branches import list_branches
from cli.commands.runs.cancel import cancel
from cli.commands.runs.compare import compare
from cli.commands.runs.engine_config import show_engine_config
from cli.commands.runs.events import show_events
from cli.commands.runs.get import get
from cli.commands.runs.grafana import link_to_grafana
from cli.commands.runs.hparams import show_hparams
from cli.commands.runs.list import list_runs
from cli.commands.runs.logs import show_logs
from cli.commands.runs.metrics import show_metrics
from cli.commands.runs.pause import pause
from cli.commands.runs.resume import resume
from cli.commands.runs.rollouts import show_rollouts
from cli.commands.runs.snapshots import show_snapshots
from cli.commands.runs.start import start
from cli.commands.runs.sweep import sweep as sweep_values
from cli.commands.runs.tensorboard import show_tensorboard
from cli.commands.runs.tree import show_tree
from cli.commands.runs.wait import wait_for
from cli.commands.server.logs import server_logs
from cli.commands.server.start import start_server
from cli.commands.server.status import server_status
from cli.commands.server.stop import stop_server
from cli.commands.snapshots.get import get_snapshot
from cli.commands.snapshots.pin import pin
from cli.commands.snapshots.sweep import sweep
from cli.commands.snapshots.unpin import unpin
from cli.commands.sql import sql
from cli.commands.tokens.create import create_token
from cli.commands.tokens.list import list_tokens
from cli.commands.tokens.revoke import revoke_token
from cli.commands.tokens.whoami import show_asker
from cli.errors import EXIT_CODES, ClosedPipeError, CommandError, Exit
from cli.habits import Habits, begin

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:<3}  {meaning}" for code, meaning in EXIT_CODES.items()
)


app = Habits(
    "An event-sourced ledger of LLM fine-tuning runs.\n\n"
    "The options below may also follow a command."
)
runs = Habits("Start, follow, read, branch, pause and cancel runs.")
snapshots = Habits("What runs saved, and how long it is kept.")
datasets = Habits("Rows to train on.")
server = Habits("The server of this account's own home.")
audit = Habits("Whether the ledger is what was once written.")
imports = Habits("Runs of other trackers, and whole ledgers, from files.", usual="ledger")
tokens = Habits("Who may ask the service for what.")
config = Habits("Services that have a name, and which of them is used.")
app.add_typer(runs, name="runs")
app.add_typer(snapshots, name="snapshots")
app.add_typer(datasets, name="datasets")
app.add_typer(server, name="server")
app.add_typer(audit, name="audit")
app.add_typer(tokens, name="tokens")
app.add_typer(config, name="config")
app.add_typer(imports, name="import")

runs.command("start", epilog=_EPILOG)(start)
runs.command("list")(list_runs)
runs.command("get")(get)
runs.command("wait", epilog=_EPILOG)(wait_for)
runs.command("metrics")(show_metrics)
runs.command("compare", epilog=_EPILOG)(compare)
runs.command("hparams")(show_hparams)
runs.command("engine-config")(show_engine_config)
runs.command("events")(show_events)
runs.command("logs")(show_logs)
runs.command("tensorboard")(show_tensorboard)
runs.command("grafana")(link_to_grafana)
runs.command("snapshots")(show_snapshots)
runs.command("rollouts")(show_rollouts)
runs.command("branch", epilog=_EPILOG)(branch)
runs.command("branches")(list_branches)
runs.command("sweep")(sweep_values)
runs.command("tree")(show_tree)
runs.command("ancestry")(show_ancestry)
runs.command("pause", epilog=_EPILOG)(pause)
runs.command("resume")(resume)
runs.command("cancel")(cancel)
runs.command("annotate")(annotate)
snapshots.command("get")(get_snapshot)
snapshots.command("pin")(pin)
snapshots.command("unpin")(unpin)
snapshots.command("sweep")(sweep)
datasets.command("check", epilog=_EPILOG)(check)
datasets.command("create", epilog=_EPILOG)(create_dataset)
datasets.command("list")(list_datasets)
datasets.command("get")(get_dataset)
server.command("start")(start_server)
server.command("stop")(stop_server)
server.command("status")(server_status)
server.command("logs")(server_logs)
imports.command("ledger")(import_ledger)
imports.command("trainer-state")(import_trainer_state)
imports.command("trainer-log")(import_trainer_log)
imports.command("tensorboard")(import_tensorboard)
imports.command("csv")(import_csv)
audit.command("verify")(verify)
audit.command("log")(show_log)
audit.command("receipt")(show_receipt)
audit.command("replay")(replay)
audit.command("rebuild")(rebuild)
audit.command("keygen")(make_key)
app.command("sql", epilog=_EPILOG)(sql)
app.command("export")(export_ledger)
app.command("backup")(back_up)
app.command("restore")(restore)
tokens.command("create")(create_token)
tokens.command("list")(list_tokens)
tokens.command("revoke")(revoke_token)
tokens.command("whoami")(show_asker)
config.command("use")(use_context)
config.command("list")(list_contexts)
config.command("set")(set_context)
app.command("info")(show_info)
app.command("capacity")(show_capacity)
app.command("completion")(completion)
app.callback(epilog=_EPILOG)(begin)


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
    instruction = settings.completing()
    if instruction:
        return complete(app, instruction)
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
    except (OSError, UnicodeEncodeError) as error:
        return _failed(error)
    except SystemExit:  # typer's own answer to a closed pipe while it writes help
        raise ClosedPipeError from None
    return code if isinstance(code, int) else Exit.OK


def _failed(error: OSError | UnicodeEncodeError) -> int:
    """Say what this machine did not do: its disk is full, a file is not ours, a word no text."""
    if isinstance(error, UnicodeEncodeError):
        _complain(
            f"error: {error.object!r:.60} has bytes that are no characters in this locale",
            "a locale of UTF-8, such as LC_ALL=C.UTF-8, has every character",
        )
        return Exit.USAGE
    _complain(f"error: {error.strerror or error}: {error.filename or 'the output'}", None)
    terminal.discard()
    return Exit.REFUSED


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

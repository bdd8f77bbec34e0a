"""The reference page of the command line, made from its own help: ``python -m cli.reference``."""

import sys
from collections.abc import Iterator

import typer

from cli.main import app

_WIDTH = 80

_HEAD = """\
# Command line

Made by `python -m cli.reference > docs/cli.md` from the help of each command; edit the help, not
this page. [Exit codes](exit-codes.md) are explained on a page of their own.

Every command writes its data to stdout and everything else to stderr. In a pipe nothing is
shortened, coloured or paged; on a narrow terminal whole columns go first and ids stay whole. A run
or a snapshot is named by its id or by at least four digits of its beginning; tables show the first
twelve digits of a snapshot's id. The options that stand before a command (`--verbose`, `--context`
and so on) may follow it as well.

## Output

- `-o json` is JSON that holds only ASCII characters, with NaN and the infinities as the strings
  `"NaN"`, `"Infinity"` and `"-Infinity"`; fields may be added, and none is ever renamed.
  `-o json-compact` is the same on one line.
- `--json runId,phase` is JSON with only these fields; of a list, of each of its rows. `--json=`
  lists the fields that a command offers, and asks nothing of any service.
- `--jq '.attempts[].reason'` filters the JSON, or what `--json` left of it, with
  [jq](https://jqlang.org). Each result is a line of its own, a text without its quotes.
- `-o 'template={{runId}} {{phase}}'` fills in a [Jinja](https://jinja.palletsprojects.com) template
  whose names are the members of the JSON: `{% for run in runs %}{{run.runId}}{{"\n"}}{% endfor %}`.
  After `--json` of a list it is filled in once for each row. A name that is not there is an error;
  what is null, true or a list stands as JSON says it. Templates run in a sandbox and reach nothing
  but the answer.
- On a terminal, text that is longer than the screen goes through `PAGER` (`less` by default);
  `--page-mode buffered` never does that, `--page-mode paged` always. `NO_COLOR` and `--no-color`
  make plain text.

What jq and templates write is not escaped in a pipe; on a terminal, characters that would act on it
are shown instead.

## Contexts

A context is a service that has a name. `trainledger config set lab --url https://lab.example
--token-file ~/lab.token` adds one, `config use lab` uses it from then on, `--context lab` once, and
`config use local` goes back to the server of this home. They stand in `config.toml` of the home
(`TRAINLEDGER_HOME`, by default `~/.trainledger`), which may be edited by hand:

```toml
current = "lab"

[contexts.lab]
url = "https://lab.example"
token_file = "~/lab.token"  # relative to this file
platform_project = "research"  # whose Grafana `runs grafana` links to
```

What an option says goes before the environment (`TRAINLEDGER_URL`, `TRAINLEDGER_TOKEN`,
`TRAINLEDGER_CONTEXT`), that before the context, and that before the default, which is the server of
this home. With `--context` the URL and the token of the environment play no part. The token of a
context is shown to the service of that context and to no other. [access.md](access.md) says how one
gets a token, and what it allows.
"""


def page() -> str:
    """The whole page."""
    root = typer.Context(
        typer.main.get_command(app), info_name="trainledger", terminal_width=_WIDTH
    )
    return "\n".join([_HEAD, *_sections(root)])


def _sections(context: typer.Context) -> Iterator[str]:
    """The help of a command and of all below it."""
    yield f"## {context.command_path}\n\n```text\n{context.get_help().rstrip()}\n```\n"
    for name, command in getattr(context.command, "commands", {}).items():
        yield from _sections(
            typer.Context(command, info_name=name, parent=context, terminal_width=_WIDTH)
        )


if __name__ == "__main__":
    sys.stdout.write(page())

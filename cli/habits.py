"""What every command takes beside its own options, wherever it stands in the line.

Options that say how to reach the service and how to talk may follow a command as well as come
before it. A command that writes JSON also takes ``--json``, ``--jq`` and ``-o template=…``.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from cli import terminal
from cli.errors import CommandError, Exit
from cli.fields import FIELDS, Fields
from cli.near import nearest
from cli.options import PageMode
from cli.settings import Given
from cli.shape import Shape
from cli.sparing import spare

Function = Callable[..., Any]
_TEMPLATE = "template="
_UNSHAPED = frozenset({"text", "wide", "table"})  # these stand back where JSON is asked for
_NONE = Fields(())
_WHOLE = 1_000  # letters, more than the first sentence of any command has


class Habits(typer.Typer):
    """A group of commands that all have the same habits."""

    def __init__(self, summary: str, *, usual: str | None = None) -> None:
        """``usual``: the command that is meant where a folder stands in the place of one."""
        super().__init__(
            help=summary,
            cls=_Group if usual is None else _with_usual(usual),
            no_args_is_help=True,
            add_completion=False,
            rich_markup_mode=None,  # rich alone takes longer than all the rest
            pretty_exceptions_enable=False,  # it would show the values of variables, tokens too
        )

    def command(  # type: ignore[override]
        self, name: str, *, epilog: str | None = None
    ) -> Callable[[Function], Function]:
        """Add a function as a command."""
        add = super().command(name, cls=_Command, epilog=epilog)

        def register(function: Function) -> Function:
            add(_with_formats(function))
            return function

        return register


class _Group(TyperGroup):
    """A group whose options are taken as those of its commands are."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 (help has further lines)
        """The whole of its sentence, where commands are listed."""
        return super().get_short_help_str(_WHOLE)

    def list_commands(self, ctx: Any) -> list[str]:
        """Its groups, and then the commands that are in none of them."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: not isinstance(self.commands[name], TyperGroup))

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options."""
        return spare(super().get_params(ctx))


def _with_usual(command: str) -> type[TyperGroup]:
    """A group that takes a folder alone for the argument of ``command``."""

    class _WithUsual(_Group):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            is_folder = self.get_command(ctx, args[0]) is None and Path(args[0]).is_dir()
            return super().resolve_command(ctx, [command, *args] if is_folder else args)

    return _WithUsual


def _say_version(value: bool) -> None:
    """The version of this command line; that of the service is said by info."""
    if value:
        from importlib.metadata import version  # noqa: PLC0415 (read where it is needed)

        terminal.write(f"trainledger {version('trainledger')}\n")
        raise typer.Exit


def begin(  # noqa: PLR0913, PLR0917 (one for each option)
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The service, else TRAINLEDGER_URL, else that of the context, else the server of "
            "this home, started when it is needed.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="The token to show the service, else TRAINLEDGER_TOKEN, else that of the context, "
            "else the one in this home.",
        ),
    ] = None,
    named: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="The context to use, else TRAINLEDGER_CONTEXT, else the one that `config use` "
            "chose.",
        ),
    ] = None,
    request_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long one answer may take; 10s by default."),
    ] = None,
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
    page_mode: Annotated[
        PageMode | None,
        typer.Option(
            metavar="MODE",
            help="paged: through PAGER; buffered: never; auto, the default: on a terminal that is "
            "too low for the text.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say each request on stderr.")] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Note what the options before a command say."""
    context.obj = Given(
        url=url,
        token=token,
        named=named,
        request_timeout=request_timeout,
        quiet=quiet,
        no_color=no_color,
        disable_prompt=disable_prompt,
        page_mode=page_mode,
        verbose=verbose,
    )


def _list_fields(context: typer.Context, text: str | None) -> str | None:
    """Say which fields there are where none is named, and do nothing else."""
    if text is None or text.strip():
        return text
    terminal.write("\n".join(_fields_of(context).names))
    raise typer.Exit


def _shaped(
    chosen: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FIELDS",
            callback=_list_fields,
            is_eager=True,
            help="JSON with only these fields, with commas between; --json= lists them.",
        ),
    ] = None,
    jq: Annotated[
        str | None, typer.Option("--jq", metavar="EXPR", help="Filter the JSON with jq.")
    ] = None,
) -> None:
    """Options of every command that writes JSON."""


class _Command(TyperCommand):
    """A command that takes what all of them take."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 (help has further lines)
        """The whole of its first sentence, where commands are listed."""
        return super().get_short_help_str(_WHOLE)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options and those of every command; what it has itself goes before."""
        *own, last = super().get_params(ctx)
        taken = {name for each in own for name in each.opts}
        shared = [*(_options(_shaped) if self._formats else ()), *_talk()]
        return spare([*own, *(each for each in shared if not taken & set(each.opts)), last])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; an option whose value stands in brackets may stand without one."""
        alone = {
            name
            for each in self.params
            if str(getattr(each, "metavar", "")).startswith("[")
            for name in each.opts
        }
        pairs = pairwise([*args, "-"])
        return super().parse_args(
            ctx,
            [
                f"{each}=" if each in alone and after.startswith("-") else each
                for each, after in pairs
            ],
        )

    def invoke(self, ctx: Any) -> Any:
        """Run the command in the manner that the options ask for."""
        root = ctx.find_root()
        root.obj = _given(root.obj, ctx.params)
        shape = _shape(ctx, self._formats) if self._formats else Shape()
        with terminal.manner(shape, root.obj.page_mode):
            return super().invoke(ctx)

    @property
    def _formats(self) -> type[StrEnum] | None:
        """The formats that the command itself can write."""
        return getattr(self.callback, "formats", None)


def _given(before: Given, parameters: dict[str, Any]) -> Given:
    """What the options before a command say, less what those after it say otherwise."""
    after = {each.name: parameters.pop(each.name, None) for each in fields(Given)}
    return replace(before, **{name: value for name, value in after.items() if value})


def _shape(ctx: Any, formats: type[StrEnum]) -> Shape:
    """What is wanted of the JSON; the command is told in which of its own formats to write.

    Raises:
        CommandError: JSON is asked for, and another format as well.
        TyperException: there is no such format or field.
    """
    text, offered = ctx.params["output"], _fields_of(ctx)
    template = text.removeprefix(_TEMPLATE) if text.startswith(_TEMPLATE) else None
    chosen = _names(ctx, ctx.params.pop("chosen", None), offered)
    shape = Shape(chosen, offered.rows, ctx.params.pop("jq", None), template)
    output = formats("json") if template is not None else _format(ctx, text, formats)
    if shape != Shape(rows=offered.rows):
        if output in _UNSHAPED:
            output = formats("json")
        elif not output.startswith("json"):
            raise CommandError(f"--json and --jq write JSON, and -o asks for {output}", Exit.USAGE)
    ctx.params["output"] = output
    return shape


def _format(ctx: Any, text: str, formats: type[StrEnum]) -> StrEnum:
    """The format of this name.

    Raises:
        TyperException: there is none.
    """
    if text in set(formats):
        return formats(text)
    names = ", ".join(f"'{each}'" for each in formats)
    raise typer.BadParameter(
        f"'{text}' is not one of {names}, '{_TEMPLATE}TEMPLATE'.",
        ctx=ctx,
        param_hint="'-o' / '--output'",
    )


def _names(ctx: Any, text: str | None, offered: Fields) -> tuple[str, ...]:
    """The fields that ``text`` names.

    Raises:
        TyperException: the command does not offer one of them.
    """
    names = tuple(name for each in (text or "").split(",") if (name := each.strip()))
    for name in names:
        if offered.names and name not in offered.names:
            near = nearest(name, offered.names)
            meant = f"did you mean '{near}'? " if near else ""
            raise typer.BadParameter(
                f"'{name}' is no field of this command, {meant}--json= lists them.",
                ctx=ctx,
                param_hint="'--json'",
            )
    return names


def _fields_of(ctx: Any) -> Fields:
    """The fields that the command at hand offers."""
    return FIELDS.get(ctx.command_path.partition(" ")[2], _NONE)


def _with_formats(function: Function) -> Function:
    """The function; what is given to ``-o`` comes as it is, to be read with the other options."""
    signature = inspect.signature(function)
    output = signature.parameters.get("output")
    if output is None:
        return function
    formats = get_args(output.annotation)[0]
    names = [*map(str, formats), f"{_TEMPLATE}TEXT"]
    option = typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help=f"{', '.join(names[:-1])} or {names[-1]}.",
        autocompletion=lambda: names,
    )

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    plain = output.replace(annotation=Annotated[str, option], default=str(output.default))
    parameters = {**signature.parameters, "output": plain}
    called.__dict__["__signature__"] = signature.replace(parameters=list(parameters.values()))
    called.__dict__["formats"] = formats
    return called


@functools.cache
def _options(function: Function) -> Sequence[TyperOption]:
    """The options that typer makes of the parameters of a function."""
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return [each for each in typer.main.get_command(app).params if isinstance(each, TyperOption)]


@functools.cache
def _talk() -> Sequence[TyperOption]:
    """The options that come before a command, as they may follow it: unsaid unless stated."""
    options = [each for each in _options(begin) if "--version" not in each.opts]
    for each in options:
        each.hidden, each.envvar = True, None
    return options

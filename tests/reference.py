"""The generated pages of ``docs/``, made from the code: ``python -m tests.reference``."""

import ast
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema

from api.access import NEEDED
from api.app import create_app
from api.problems import ALL
from api.routes import sql
from api.routes.branches import Branch
from api.routes.grafana import Wanted
from api.routes.reports import Delivery
from api.routes.runs import Pause
from api.routes.tokens import Creation
from api.settings import Settings
from api.wire import NOT_TOLD
from engine.failures import REFUSAL_ADVICE, Exit, Failure
from ledger.attempt import EVENT_OF, OF_PREPARATIONS
from ledger.events import (
    ARCHIVABLE,
    EVENTS,
    Event,
    LineRejected,
    ReportsClosed,
    UnknownEvent,
)
from ledger.tokens import ROLES
from projections.documents.schema import record_schema
from projections.wire import kind_of
from tests.answers import ATTEMPT, RECORD, ROUTES, Route
from tests.reference_sql import sql_page

DOCS = Path(__file__).parent.parent / "docs"
RENEW = "Made by `python -m tests.reference` from the code; edit the code, not this page."
WIDTH = 100
EVERY_ROUTE = (
    "bad-request",
    "foreign-host",
    "unauthorized",
    "forbidden",
    "internal",
    "storage",
)


def main() -> None:
    """Write every page."""
    for name, page in pages().items():
        (DOCS / name).write_text(page, encoding="utf-8")


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {
        "events.md": events_page(),
        "http.md": http_page(),
        "settings.md": settings_page(),
        "problems.md": problems_page(),
        "sql.md": sql_page(),
        "failures.md": failures_page(),
        "record.schema.json": json.dumps(record_schema(), indent=1, ensure_ascii=False) + "\n",
    }


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *map(list, rows)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def prose(text: str | None) -> str:
    """A docstring as Markdown."""
    return inspect.cleandoc(text or "").replace("``", "`")


# -- failures --------------------------------------------------------------------------------------

FAILURES_HEAD = f"""\
# Why a run failed

{RENEW}

A run that failed has one of these reasons, word for word, with its stable code and its class.
Except for a refusal, which is the worker's own sentence about its input, no reason holds anything
internal; what a worker printed is in its log (`trainledger runs logs RUN`). A failure that may pass
is tried again with another attempt, or another preparation of the rows, up to
`execution.maxAttempts`; the run then fails for the last reason.
"""


def failures_page() -> str:
    """Every reason that a run can fail for, with what to do."""
    refused = ("`refused`", "input", "the refusal's own words", REFUSAL_ADVICE, "no")
    rows = [
        (f"`{each.code}`", each.end_class, each.sentence, each.advice, _is_retried(each))
        for each in Failure
    ]
    return "\n".join(
        [
            FAILURES_HEAD,
            table(("code", "class", "reason", "what to do", "tried again"), [refused, *rows]),
        ]
    )


def _is_retried(failure: Failure) -> str:
    return "yes" if failure.ending(Exit()).may_retry else "no"


# -- events ----------------------------------------------------------------------------------------

EVENTS_HEAD = f"""\
# Events

{RENEW}

Everything that happened is one of these facts. An event has a topic, which the database keeps and
which never changes, and a kind, which streams say. Streams say each event as one JSON object:

- `position`: its place in the whole ledger;
- `runId`, `kind`;
- `at`: when it happened, in UTC; the worker's word where it said so, but never later than the
  server heard of it;
- `attempt` or `preparation`: the number of the job that reported it, where one did;
- and the event's own members, below. A member that is absent has no value. Numbers that are not
  finite are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.

`runCompleted`, `runFailed` and `runCancelled` end a run and its stream; they also carry
`"terminal": true` and `phase`, and a `runFailed` carries `failure` with `code`, `class`, `reason`
and `advice`.

The database keeps each event with the SHA-256 digest of its predecessor in the same stream, and
with `timestamp` (the server's clock), `reported_at` (the worker's, where it said so) and
`principal` (who caused it).

What is the life of a run (submissions, phases, attempts, restores, snapshots, results, failures) is
kept for ever. What an attempt measured along the way (marked *may be archived* below) may move to
Parquet files once its run has ended; the ledger then keeps the digest of what it gave away.
"""

TYPES = {
    "str": "text",
    "int": "integer",
    "PositiveInt": "integer from 1",
    "NonNegativeInt": "integer from 0",
    "NonNegativeFloat": "number from 0",
    "AwareDatetime": "time",
    "tuple[str, ...]": "list of text",
    "dict[str, str]": "text by name",
    "dict[str, Any]": "object",
    "dict[str, NonNegativeInt]": "integers by name",
    "Measured": "numbers by name",
    "tuple[Rollout, ...]": "list of rollouts",
    "PhaseName": "phase",
    "EndClass": "`completed`, `input`, `resource`, `infrastructure`, `stopped` or `unknown`",
    "bytes": "bytes",
    "bool": "true or false",
    "Outcome": "`completed`, `failed`, `cancelled` or `paused`",
    "Checkpoint": "`save` or `latest`",
    "tuple[Artifact, ...]": "list of `weights` and `trainingState`",
    "dict[Artifact, NonNegativeInt]": "integers by artifact",
    "dict[Artifact, str]": "text by artifact",
    "Number": "number; one that is not finite is its name",
    "CheckVerdict": "`passed`, `warned` or `refused`",
    "Breakdown": "object: `device`, `sizeBytes`, `reservedBytes`, `peak`, `other`; the last two "
    "have `phase` and the bytes of each part",
    "Origin": "object: `parent`, `snapshotId`, `step`, `restore`",
    "Agreement": "`exact`, `within` or `differs`",
    "RoleName": "`reader`, `submitter` or `operator`",
    "RowForm": "`chat` or `tokens`",
    "dict[str, Agreement]": "`exact`, `within` or `differs` by name",
    "dict[str, Head]": "`{version, digest}` by stream",
}


STREAMS = {
    "submission": "submission/{token}",
    "branch": "submission/{token}",
    "snapshot": "snapshot/{id}",
    "token": "ledger/tokens",
    "dataset": "ledger/datasets",
    "ledger": "ledger/seals",
}  # of events that are not of a run, by the begin of their topics


def events_page() -> str:
    """Every event of the ledger."""
    sections = [event_section(kind) for kind in EVENTS]
    unknown = prose(UnknownEvent.__doc__)
    return "\n".join([EVENTS_HEAD, *sections, f"## {kind_of(UnknownEvent)}\n\n{unknown}\n"])


def event_section(kind: type[Event]) -> str:
    """One event: its sentence, topic, stream and members."""
    source = next((name for name, event in EVENT_OF.items() if event is kind), None)
    report = f", from a line of kind [`{source}`](reports.md#{source.lower()})" if source else ""
    head = f"## {kind_of(kind)}\n\n{prose(kind.__doc__)}\n"
    kept = "; may be archived" if kind in ARCHIVABLE else ""
    place = f"Topic `{kind.TOPIC}`, stream `{stream_of(kind)}`{report}{kept}.\n"
    rows = [row for row in members(kind) if row]
    return "\n".join([head, place, *([table(("member", "type", "means"), rows)] if rows else [])])


_OF_EVERY_JOB = (LineRejected, ReportsClosed, *(EVENT_OF[name] for name in OF_PREPARATIONS))


def stream_of(kind: type[Event]) -> str:
    """The stream that holds events of ``kind``."""
    if not kind.TOPIC.startswith("run."):
        return STREAMS[kind.TOPIC.partition(".")[0]]
    if kind in _OF_EVERY_JOB:
        return "run/{run}/a{n}` or `run/{run}/p{n}"
    if kind in EVENT_OF.values():
        return "run/{run}/a{n}"
    return "run/{run}"


def members(kind: type[Event]) -> Iterator[tuple[str, str, str]]:
    """The own members of an event, with the comment that stands behind each in the code."""
    source = textwrap.dedent(inspect.getsource(kind))
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for line in definition.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name = line.target.id
            if name != "TOPIC":
                means = comments.get(line.end_lineno or line.lineno, "")
                stored = "; stored, and not told in streams" if name in NOT_TOLD else ""
                yield (
                    f"`{wire_name(name)}`",
                    type_name(line.annotation),
                    (means + stored).strip("; "),
                )


def wire_name(name: str) -> str:
    """A member's name as streams say it."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def type_name(annotation: ast.expr) -> str:
    """An annotation in words."""
    text = ast.unparse(annotation)
    optional = text.endswith(" | None")
    return TYPES[text.removesuffix(" | None")] + (", or absent" if optional else "")


# -- HTTP ------------------------------------------------------------------------------------------

HTTP_HEAD = f"""\
# HTTP

{RENEW}

The command line and the runners use nothing but these addresses. Where the server listens stands in
`server.json` in its home.

## Who asks

Every request but `/healthz` carries `Authorization: Bearer TOKEN`. The file `token` of the server's
home, which only its owner can read, has the token of its operator; others get tokens that have a
role. A runner reports with a token of its own, which is good for the reports of one job and for
nothing else. [access.md](access.md) says what each role may do; what it may not is answered with
403. A server that listens on this machine
only answers to its own names in `Host`: `127.0.0.1`, `localhost` and `[::1]`.

## JSON

Requests and answers are JSON in UTF-8 with names in camelCase; names of measured numbers are the
engine's own. Members may be added to answers, and none is ever renamed. Numbers that are not finite
are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. A run is named by its id, or by at least
four digits of its beginning, and so is a snapshot. A name in a query that the route does not know
is refused.

## Errors

An error is a problem document (RFC 9457, `application/problem+json`) with `type`, `title`,
`status`, `detail` (one sentence), `instance` and `hint` (what to do). [problems.md](problems.md)
has them all. Every route may answer
{", ".join(f"`{slug}`" for slug in EVERY_ROUTE)}.

## Streams

Events come as JSON lines (`application/jsonl`), or with `Accept: text/event-stream` as server-sent
events, whose `id` is the position, whose `event` is the kind (`terminal` for the one that ends the
run), and whose `data` is the same JSON. With `follow` the stream goes on as events come and ends
after the terminal one; without it, the history also has what became of the run's snapshots later.
Every ten seconds without an event an empty line, or a comment, shows that the server is there. A
stream that breaks off is resumed with `after`, or by a browser with `Last-Event-ID`: positions come
from the ledger and outlive the server. When a stream cannot go on, its last line is a problem
document, in server-sent events one of the name `problem`.
"""


BODIES: dict[str, type[BaseModel]] = {
    "pause_run": Pause,
    "branch_run": Branch,
    "run_query": sql.Query,
    "create_token": Creation,
    "link_to_grafana": Wanted,
}


def http_page() -> str:
    """Every route of the application."""
    app = create_app(Settings(home=Path("home"), devices=()))
    sections = [
        route_section(method.upper(), path, operation)
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
    ]
    return "\n".join([HTTP_HEAD, roles_section(app.openapi()["paths"]), "## Routes\n", *sections])


def roles_section(paths: dict[str, Any]) -> str:
    """Every route by the least role that it needs."""
    routes: dict[str, list[str]] = {}
    for path, operations in paths.items():
        for method, operation in operations.items():
            needed = NEEDED[operation["summary"].lower().replace(" ", "_")]
            routes.setdefault(needed, []).append(f"`{method.upper()} {path}`")
    rows = [(f"`{who}`", ", ".join(routes[who])) for who in ("anybody", *ROLES, "worker")]
    said = "Each role may do what those before it may; [access.md](access.md) explains them.\n"
    return "\n".join(["## Who may ask for what\n", said, table(("role", "routes"), rows)])


def route_section(method: str, path: str, operation: dict[str, Any]) -> str:
    """One route: what it does, takes and answers."""
    name = operation["summary"].lower().replace(" ", "_")
    route = ROUTES[name]
    parts = [f"### {method} {path}\n", f"{prose(operation['description'])}\n"]
    parameters = [each for each in operation.get("parameters", []) if each["in"] != "path"]
    if parameters:
        rows = [
            (f"`{p['name']}`", p["in"], values(p["schema"]), p["description"]) for p in parameters
        ]
        parts.append(table(("parameter", "in", "values", "means"), rows))
    if name == "submit_run":
        parts += [
            "Body: `plan` ([plan.md](plan.md)), and a `submissionId` of your choice, or none.\n"
        ]
    if name in BODIES:
        rows = [
            (f"`{field.alias or each}`", field.description or "")
            for each, field in model_fields(BODIES[name]).items()
        ]
        parts += ["Body:\n", table(("member", "means"), rows)]
    if name == "deliver":
        parts += ["Body:\n", table(("member", "type"), delivery_rows())]
    return "\n".join([*parts, *answer(route)])


def answer(route: Route) -> Iterator[str]:
    """What a route answers."""
    yield f"Answers {route.status}.{f' {route.more}' if route.more else ''}\n"
    if route.example is None:
        yield table(("member", "is"), ((f"`{name}`", text) for name, text in RECORD.items()))
        yield "[record.schema.json](record.schema.json) has all of it as a JSON Schema.\n"
        yield "Each of `attempts` has:\n"
        yield table(("member", "is"), ((f"`{name}`", text) for name, text in ATTEMPT.items()))
    elif isinstance(route.example, str):
        yield f"```text\n{route.example}```\n"
    else:
        text = json.dumps(route.example, ensure_ascii=False)
        if len(text) > WIDTH:
            text = json.dumps(route.example, indent=2, ensure_ascii=False)
        yield f"```json\n{text}\n```\n"
    if route.problems:
        yield f"Problems of its own: {', '.join(f'`{slug}`' for slug in route.problems)}.\n"


def values(schema: dict[str, Any]) -> str:
    """What a parameter may be, in words."""
    shape = next((s for s in schema.get("anyOf", []) if s["type"] != "null"), {}) | schema
    words = {"string": "text", "array": "text", "boolean": "true or false"}
    text = str(words.get(shape["type"], shape["type"]))
    if "minimum" in shape and shape.get("maximum", 2**62) < 2**62:
        text += f" from {shape['minimum']} to {shape['maximum']}"
    elif "minimum" in shape:
        text += f" from {shape['minimum']}"
    default = shape.get("default")
    if default in (None, "", [], 2**63 - 1):
        return text
    return f"{text}; {json.dumps(default) if not isinstance(default, str) else default} by default"


def delivery_rows() -> Iterator[tuple[str, str]]:
    """The members of a delivery, those of its parts with dots."""
    _, schema = models_json_schema([(Delivery, "validation")])
    yield from schema_rows(schema["$defs"], "Delivery", "")


def schema_rows(schemas: dict[str, Any], name: str, prefix: str) -> Iterator[tuple[str, str]]:
    for member, schema in schemas[name]["properties"].items():
        parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
        optional = ", or null" if len(schema.get("anyOf", [])) > 1 else ""
        part = parts[0]
        if "$ref" in part:
            yield f"`{prefix}{member}`", f"object{optional}"
            yield from schema_rows(schemas, part["$ref"].rpartition("/")[2], f"{prefix}{member}.")
        else:
            word = {"array": "list of text", "string": "text"}.get(part["type"], part["type"])
            yield f"`{prefix}{member}`", word + optional


# -- settings and problems -------------------------------------------------------------------------

SETTINGS_HEAD = f"""\
# Settings of the server

{RENEW}

A setting comes from the environment, else from `trainledger.toml` in the server's home (by the name
in the second column), else it has its default. A list in the environment is written as JSON, for
example `TRAINLEDGER_DEVICES='["cuda:0", "cuda:1"]'`; an empty value is no value. A name that begins
with `TRAINLEDGER_` and is not known is an error, and so is an unknown name in the file.
"""

DEFAULTS = {
    "home": "`~/.trainledger`",
    "devices": "every GPU that is found, else one slot for each CPU",
    "sql_memory": "`1GiB`",
}

PROBLEMS_HEAD = f"""\
# Problems

{RENEW}

Errors are problem documents (RFC 9457). The slug is the end of `type` (`/problems/run-not-found`);
slugs never change. `detail` is a sentence about this very case; the hint below stands in `hint`
where the case has none of its own.
"""

PROBLEMS_END = """
Some carry more: `plan-refused` has `faults`, one sentence for each field; `lines-do-not-follow` has
`taken`, the number of the last line that was taken; `ambiguous-id` has `candidates`, whole ids;
`not-ready` has what `GET /v1/info` answers.
"""


def settings_page() -> str:
    """Every setting of the server."""
    fields: dict[str, FieldInfo] = model_fields(Settings)
    rows = [
        (
            f"`TRAINLEDGER_{name.upper()}`",
            "" if name == "home" else f"`{name}`",
            default(name, field),
            field.description or "",
        )
        for name, field in fields.items()
    ]
    return f"{SETTINGS_HEAD}\n{table(('environment', 'file', 'default', 'means'), rows)}"


def model_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return dict(model.model_fields)


def default(name: str, field: FieldInfo) -> str:
    """The default of a setting, never that of this machine."""
    return DEFAULTS.get(name) or f"`{json.dumps(field.default)}`".replace('"', "")


def problems_page() -> str:
    """Every kind of error."""
    rows = [
        (f"`{problem.slug}`", str(problem.status), problem.title, problem.hint)
        for problem in sorted(set(ALL), key=lambda each: (each.status, each.slug))
    ]
    head = ("slug", "status", "title", "hint")
    return f"{PROBLEMS_HEAD}\n{table(head, rows)}{PROBLEMS_END}"


if __name__ == "__main__":
    main()

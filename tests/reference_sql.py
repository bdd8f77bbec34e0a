"""The page about SQL: every view and column with its comment, from a warehouse itself."""

from projections.warehouse import Warehouse

RENEW = "Made by `python -m tests.reference` from the code; edit the code, not this page."

HEAD = f"""\
# SQL

{RENEW}

Everything that runs did is in views that any client of DuckDB reads, all runs in one. These names
and columns stay; more may be added. [queries.md](queries.md) has questions that are often asked.

## Three ways to ask

**`trainledger sql "SELECT …"`**, or `POST /v1/sql` ([http.md](http.md)): the server answers, for
whoever has its token. `-o table` is for reading, `json`, `csv`, `parquet` and `arrow` (an Arrow IPC
stream) for programs. A query runs in a process of its own that can read the views and do nothing
else: no files, networks, extensions or settings, one `SELECT` at a time. It is killed after
`TRAINLEDGER_SQL_SECONDS`, may have `TRAINLEDGER_SQL_MEMORY`, and ends with Ctrl-C. An answer of
more than 1 GiB is refused.

**A client of your own on the server's machine**: `trainledger sql --path` prints the path of
`analytics.duckdb`, which DuckDB from 1.5 on opens to read at any time, in Python with
`duckdb.connect(path, read_only=True)` (1.5 needs the package pytz for times). It never fails the
server, and the server never fails it. Connect again to see what is new.

**A file of your own**: `trainledger sql --follow FILE` reads the ledger of the home itself and
keeps `FILE` at its end until Ctrl-C; no server has to work. What it is made from stands beside it
as `FILE.live`, and the next call goes on from there.

## How new it is

The first two read a copy that the server publishes every few seconds while runs go on, at once when
one has ended, and with `--fresh` before the query. A query waits for the end of every run that had
ended when it was asked, so what follows a `wait` finds the whole run. Every answer says the ledger
position that its copy goes to and when that was published; the view `newest` says it inside.

## Values

NULL means that nothing was said. NaN and the infinities are values: JSON has them as the strings
`"NaN"`, `"Infinity"` and `"-Infinity"`, and other types that JSON has no word for are strings too.
Times are in UTC. Names of the engine's numbers are the engine's own. A map is read by key:
`extra['entropy']` is NULL where there is no such key.

What a restore took back is *superseded*. It does not count in `metrics` and `validations`, and
stays in `metrics_all_attempts`. Cost and time are never taken back.
"""

TAIL = """\
## What they are made of

The views are made of tables that only ever grow: `run`, `phase`, `failure`, `attempt`,
`attempt_end`, `restore`, `metric`, `validation`, `rollout`, `branch`, `branch_state` and `event`,
with `segments`, `metrics_all`, `validations_all` and `rollouts_all`, which say what restores took
back, and `tracking`, the position of each batch. `metrics_all_until(POSITION)` and its two likes
are as of an earlier position: what a later restore took back still counts. They may change with any
version.
"""

VIEWS = """
SELECT view_name, comment FROM duckdb_views() WHERE NOT internal AND comment IS NOT NULL
ORDER BY view_oid
"""
COLUMNS = """
SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = ?
ORDER BY column_index
"""


def sql_page() -> str:
    """Every view that stays."""
    warehouse = Warehouse(":memory:")
    try:
        warehouse.make_views()
        with warehouse.read() as cursor:
            views = cursor.execute(VIEWS).fetchall()
            columns = {view: cursor.execute(COLUMNS, [view]).fetchall() for view, _ in views}
    finally:
        warehouse.close()
    sections = [_section(view, comment, columns[view]) for view, comment in views]
    return "\n".join([HEAD, "## Views\n", *sections, TAIL])


def _section(view: str, comment: str, columns: list[tuple[str, str, str]]) -> str:
    rows = [f"| `{name}` | {kind} | {means or ''} |\n" for name, kind, means in columns]
    head = "| column | type | means |\n| --- | --- | --- |\n"
    return f"### {view}\n\n{comment}\n\n{head}{''.join(rows)}"

"""A connection to the published copy that can read its tables and do nothing else.

What each setting keeps out was tried by statements (tests/integration/test_sql_sandbox.py). The
type of a statement is no defence by itself: a SELECT may hold a DELETE. Opened to read only, the
file takes none; and one SELECT or EXPLAIN is all that is run, since others could leave something
behind for the next query (a temporary table, a variable). None of this bounds time or memory
outside of DuckDB's own: the process does, and it can be killed.
"""

from pathlib import Path
from typing import Any

import duckdb

from projections.errors import QueryRefusedError

_READ = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
_CONFIG: dict[str, Any] = {
    "access_mode": "READ_ONLY",
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a name in a query is no variable of ours
    "temp_directory": "",  # a query that needs more memory fails; DuckDB would let it read there
}
_LOCKED = """
SET TimeZone = 'UTC';
SET disabled_filesystems = 'LocalFileSystem';
SET lock_configuration = true;
"""  # in this order; the first file that is read is the copy itself, which is open by now


def connect(path: Path, *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection to the copy at ``path``.

    Raises:
        duckdb.Error: it cannot be opened.
    """
    limits = {"memory_limit": f"{memory_bytes // 1024}KiB", "threads": threads}
    connection = duckdb.connect(str(path), config=_CONFIG | limits)
    connection.execute(_LOCKED)
    return connection


def check(query: str) -> None:
    """Let one statement pass that reads.

    Raises:
        QueryRefusedError: it is another one, none, or one of several.
        duckdb.Error: it cannot be parsed.
    """
    statements = duckdb.extract_statements(query)
    if len(statements) != 1:
        found = "none" if not statements else f"{len(statements)} statements"
        raise QueryRefusedError(f"one query at a time; this text has {found}")
    kind = statements[0].type
    if kind is duckdb.StatementType.MULTI:
        raise QueryRefusedError(
            "PIVOT has to say its values: PIVOT … ON column IN ('a', 'b')",
        )
    if kind not in _READ:
        raise QueryRefusedError(f"queries only read, and this is {_article(kind.name)}")


def _article(kind: str) -> str:
    words = kind.replace("_", " ")
    return f"{'an' if words[0] in 'AEIOU' else 'a'} {words}"

"""What DuckDB says of a query that fails, as people read it: no paths, and no advice to change it.

Each sentence begins in lower case and has no stop, as those of every other error.
"""

import re
from typing import NamedTuple

import duckdb

CLOSED = "queries read the tables of this copy; files, networks, extensions and settings are closed"
MEMORY = "the query needs more memory than one may have"
ROOM = "the answer is larger than one may be"

_WHERE = re.compile(r"\n+(?P<head>LINE \d+: )(?P<line>.*)\n(?P<mark> *\^+)\s*$", re.DOTALL)
_PREFIX = re.compile(r"^[A-Z][A-Za-z-]* (?:[A-Za-z-]+ )*?Error: ")
_CARRIED = re.compile(
    r"^(?:\w+::\w+\(\) failed \(\d+\): |Invalid Input Error: reading the schema .*? failed: \w+: )"
)  # what stands before it where rows went from one library to another
_PATH = re.compile(r"(?<![\w.])/(?:[\w.@~+-]+/)+[\w.@~+-]*")
_ASIDES = re.compile(
    r"\n\s*(?:Candidate functions:|Possible solutions:|Please try|Alternatively"
    r"|Use \"SET |For more).*",
    re.DOTALL,
)
_KNOWN = (
    (r"(?:Table|View) with name (.+?) does not exist", r"there is no table or view \1"),
    (
        r"(?:Scalar|Table|Aggregate|Macro) Function with name (.+?) does not exist",
        r"there is no function \1",
    ),
    (r'Referenced column "(.+?)" not found in FROM clause', r"there is no column \1 here"),
    (r'syntax error at or near "(.+?)"', r'this is no SQL from "\1" on'),
    (r"syntax error at end of input", "the query ends too early"),
    (r"Candidate bindings: ", "did you mean "),
    (r"Did you mean ", "did you mean "),
)
_CLOSED = (
    "has been locked",
    "read-only mode",
    "is not in the catalog, but it exists in the",
    "disabled by configuration",
    "disabled through configuration",
)


_MEMORY = re.compile(r"Out of Memory Error|bad.alloc|[Cc]annot allocate memory|malloc")


class Fault(NamedTuple):
    """Why a query has no answer."""

    sentence: str
    excerpt: str = ""  # two lines: of the query, and a mark below what is meant
    is_limit: bool = False  # the query is right, and asks for too much


def of(error: Exception) -> Fault:
    """The fault that ``error`` tells of: one of DuckDB, or one that came on the way of its rows."""
    text = str(error)
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or _MEMORY.search(text):
        return Fault(MEMORY, is_limit=True)
    if "File too large" in text:
        return Fault(ROOM, is_limit=True)
    if isinstance(error, duckdb.PermissionException) or any(each in text for each in _CLOSED):
        return Fault(CLOSED)
    where = _WHERE.search(text)
    if where is None:
        return Fault(_sentence(text))
    return Fault(_sentence(text[: where.start()]), _excerpt(*where.groups()))


def _sentence(text: str) -> str:
    text = _ASIDES.sub("", _PREFIX.sub("", _CARRIED.sub("", text)))
    for pattern, words in _KNOWN:
        text = re.sub(pattern, words, text)
    parts = [part.strip().rstrip("!.;") for part in text.splitlines() if part.strip()]
    sentence = _PATH.sub("…", "; ".join(parts)) or "the query failed"
    is_word = sentence[:1].isupper() and not sentence[1:2].isupper()
    return sentence[0].lower() + sentence[1:] if is_word else sentence


def _excerpt(head: str, line: str, mark: str) -> str:
    """DuckDB's own, without the words before the line, which the mark is moved by."""
    shown = _PATH.sub(lambda path: "…" * len(path[0]), line.splitlines()[-1] if line else "")
    return f"{shown}\n{mark[len(head) :]}"

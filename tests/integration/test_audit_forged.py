"""The audit against somebody who changes an event and then computes what should give it away.

Where digests of a stream, or of everything after it, were computed anew, each chain is whole again.
What is left is what nobody can compute: a signature, and what was kept elsewhere.
"""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger import codec
from ledger.events import SEALS
from tests.integration.test_audit import STEP_4, Home, faults

DIGEST_BYTES = 32


class Forger:
    """Somebody with the file, and with our own code."""

    def __init__(self, home: Home) -> None:
        self._path = home.path
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("DROP TRIGGER IF EXISTS stored_event_never_changes")
        home.edit(
            "UPDATE stored_event SET state = CAST(replace(state, '0.25', '0.26') AS BLOB)"
            f" WHERE {STEP_4}"
        )

    def chain(self, stream: str) -> None:
        """Have every event of a stream follow what is stored before it."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            digest = codec.GENESIS
            for position, version, topic, state in connection.execute(
                "SELECT position, version, topic, state FROM stored_event WHERE stream = ?"
                " ORDER BY version",
                (stream,),
            ).fetchall():
                linked = digest + state[DIGEST_BYTES:]
                _store(connection, position, linked)
                digest = codec.digest_of(stream, version, topic, linked)

    def seal(self, **stated: Any) -> None:
        """Have every seal say what is stored; ``stated``: members of it that are to be others."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            rolled = before = codec.GENESIS
            tallied = 0
            for at, version, topic, state in connection.execute(
                "SELECT position, version, topic, state FROM stored_event WHERE stream = ?"
                " ORDER BY version",
                (SEALS,),
            ).fetchall():
                said = json.loads(state[DIGEST_BYTES:])
                heads: dict[str, Any] = {}
                for row in connection.execute(
                    "SELECT stream, version, topic, state FROM stored_event"
                    " WHERE position > ? AND position <= ? ORDER BY position",
                    (tallied, said["upto"]),
                ).fetchall():
                    digest = codec.digest_of(*row)
                    rolled = hashlib.sha256(rolled + digest).digest()
                    heads[row[0]] = {"version": row[1], "digest": digest.hex()}
                tallied = said["upto"]
                said |= {"digest": rolled.hex(), "heads": heads} | stated
                kept = {name: each for name, each in said.items() if each is not None}
                linked = before + json.dumps(kept, separators=(",", ":")).encode()
                _store(connection, at, linked)
                before = codec.digest_of(SEALS, version, topic, linked)


def _store(connection: sqlite3.Connection, position: int, state: bytes) -> None:
    connection.execute("UPDATE stored_event SET state = ? WHERE position = ?", (state, position))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_stream_that_was_chained_anew_is_not_the_one_that_was_sealed(home: Home) -> None:
    """Issue 7: an event and the digests of all that follow it in its stream."""
    stream = f"run/{home.runs[0]}/a1"

    Forger(home).chain(stream)

    for verdict in (home.verify(), home.verify_run(home.runs[0])):
        (fault,) = verdict.faults
        assert fault.stream == stream
        assert fault.detail.startswith("what is stored is not what was sealed (seal 1, up to ")


def test_a_ledger_that_was_chained_and_sealed_anew_lacks_the_signatures(home: Home) -> None:
    """Issue 7: all that can be computed fits; the key is not in the file."""
    forger = Forger(home)
    forger.chain(f"run/{home.runs[0]}/a1")
    forger.seal()

    found = faults(home.verify())

    assert found.keys() == {SEALS}
    assert (found[SEALS].version, found[SEALS].detail) == (
        1,
        "its signature is not of what it says",
    )


def test_where_the_signatures_were_taken_away_too_their_count_and_the_digest_tell(
    home: Home,
) -> None:
    """docs/audit.md, What it cannot find: whoever kept the key or a receipt sees it."""
    before = home.verify()
    (kept,) = home.one(f"SELECT state FROM stored_event WHERE stream = '{SEALS}' AND version = 1")
    forger = Forger(home)
    forger.chain(f"run/{home.runs[0]}/a1")
    forger.seal(signature=None, public_key=None)
    (forged,) = home.one(f"SELECT state FROM stored_event WHERE stream = '{SEALS}' AND version = 1")

    after = home.verify()

    assert after.faults == ()
    assert (before.sealed.signed, after.sealed.signed) == (2, 0)
    assert isinstance(kept, bytes)
    assert isinstance(forged, bytes)
    digests = [json.loads(each[DIGEST_BYTES:])["digest"] for each in (kept, forged)]
    assert digests[0] != digests[1]


def test_signatures_of_another_key_name_that_key(home: Home) -> None:
    """A forger may have a key as well: the public part that was noted elsewhere is another one."""
    assert home.verify().sealed.keys == (home.key.public,)
    forger = Forger(home)
    forger.chain(f"run/{home.runs[0]}/a1")
    forger.seal(public_key="00" * 32)

    found = faults(home.verify())

    assert found[SEALS].detail == "its signature is not of what it says"
    assert home.verify().sealed.keys == ("00" * 32,)

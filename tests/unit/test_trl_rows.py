"""Chat rows, as the TRL worker reads or refuses them."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest

from engine.worker.trl import rows
from engine.worker.trl.errors import RefusalError
from engine.worker.trl.rows import ChatRow


def chat(question: str, answer: str) -> dict[str, Any]:
    """A row of one question and its answer."""
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


THREE = [chat("a", "1"), chat("b", "2"), chat("c", "3")]
PLAIN = b"".join(json.dumps(each).encode() + b"\n" for each in THREE)


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\n\n", 1) + b"\n\n",
        PLAIN.removesuffix(b"\n"),
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last newline"],
)
def test_the_same_rows_are_read_however_the_lines_end(tmp_path: Path, content: bytes) -> None:
    """C11: three rows, the same three."""
    (tmp_path / "plain.jsonl").write_bytes(PLAIN)
    (tmp_path / "other.jsonl").write_bytes(content)

    other = rows.read(tmp_path / "other.jsonl")

    assert [(row.number, row.messages) for row in other] == [
        (row.number, row.messages) for row in rows.read(tmp_path / "plain.jsonl")
    ]
    assert len(other) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (PLAIN.decode().encode("utf-16"), "line 1 of .* is not UTF-8; save the file as UTF-8"),
        (PLAIN + b'\n{"messages": [', "line 5 of .* is not JSON"),
        (b"\n\n", "holds no rows"),
        (b'{"text": "a"}\n', "a row has no messages: row 1 of .* its fields: text"),
        (b'{"messages": []}', "messages is an empty list: row 1 of"),
        (b'{"messages": [{"role": "human", "content": "a"}]}', r"messages\[0\]\.role is 'human'"),
        (
            b'{"messages": [{"role": "user", "content": ["a"]}]}',
            r"messages\[0\]\.content is a list",
        ),
        (b'{"messages": [{"role": "assistant"}]}', r"messages\[0\]\.content is null or absent"),
    ],
)
def test_a_file_at_fault_is_refused_with_place_and_field(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    """S66, C08, C10, C11, C13."""
    (tmp_path / "rows.jsonl").write_bytes(content)

    with pytest.raises(RefusalError, match=sentence):
        rows.read(tmp_path / "rows.jsonl")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """S66."""
    with pytest.raises(RefusalError, match=r"there is no file .*nowhere\.jsonl"):
        rows.read(tmp_path / "nowhere.jsonl")


def test_the_same_seed_keeps_the_same_rows_apart() -> None:
    """S13: a fraction of the rows, at least one, none of them trained."""
    made = [ChatRow("f", n, []) for n in range(1, 21)]

    first, again = (rows.split(made, 0.1, seed=3) for _ in range(2))

    assert first == again
    assert (len(first.training), len(first.validation)) == (18, 2)
    assert sorted(first.training + first.validation) == made
    assert rows.split(made, 0.1, seed=4) != first

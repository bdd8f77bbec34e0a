"""Rows of a file, as the preparation reads or refuses them before it has a tokenizer."""

import codecs
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RefusalError
from engine.prepare import rows
from engine.prepare.rows import ChatRows, PreparedRows


def chat(question: str, answer: str) -> dict[str, Any]:
    """A row of one question and its answer."""
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


def in_roles(*roles: str) -> dict[str, Any]:
    """A row of messages of these roles."""
    return {"messages": [{"role": role, "content": "text"} for role in roles]}


def as_lines(*made: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in made)


def read(folder: Path, content: bytes) -> ChatRows | PreparedRows:
    path = folder / "rows.jsonl"
    path.write_bytes(content)
    return rows.read(path)


def refused(folder: Path, content: bytes) -> str:
    with pytest.raises(RefusalError) as refusal:
        read(folder, content)
    return str(refusal.value)


# Lines.

PLAIN = as_lines(chat("a", "1"), chat("b", "2"), chat("c", "3"))


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\n\n", 1) + b"\n\n",
        PLAIN.removesuffix(b"\n"),
        PLAIN.replace(b'": "', b'" :  "').replace(b"}\n", b', "id": 7}\n'),
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last newline", "other spaces and fields"],
)
def test_the_same_rows_are_read_however_the_lines_are_written(
    tmp_path: Path, content: bytes
) -> None:
    """C11: three rows, the same three, with the same identity."""
    plain, other = read(tmp_path, PLAIN), read(tmp_path, content)

    assert isinstance(plain, ChatRows)
    assert isinstance(other, ChatRows)
    assert other.rows == plain.rows
    assert (len(other), other.identity()) == (3, plain.identity())


def test_other_rows_and_another_order_have_another_identity(tmp_path: Path) -> None:
    """C11: of the data set, which decides what a cached entry is of."""
    made = [chat("a", "1"), chat("b", "2")]
    others = (made, made[::-1], made[:1], [chat("a", "1"), chat("b", "3")])

    identities = {read(tmp_path, as_lines(*each)).identity() for each in others}

    assert len(identities) == 4


def test_a_row_is_named_by_its_number_and_by_its_line_where_blank_lines_make_them_differ(
    tmp_path: Path,
) -> None:
    """C11, C01: rows are counted without blank lines."""
    content = as_lines(chat("a", "1")) + b"\n\n" + as_lines(in_roles("user", "assistant", "user"))

    said = refused(tmp_path, content)

    assert f"row 2 on line 4 of {tmp_path / 'rows.jsonl'}" in said
    assert "(1 of 2 rows)" in said


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (PLAIN.decode().encode("utf-16"), "line 1 of FILE is not UTF-8; save the file as UTF-8"),
        (PLAIN.decode().encode("utf-16-le"), "line 1 of FILE is not UTF-8; save the file as UTF-8"),
        (PLAIN + b'{"a": "\xff"}', "line 4 of FILE is not UTF-8; save the file as UTF-8"),
        (
            PLAIN + b'\n{"messages": [',
            "line 5 of FILE is not JSON: '{\"messages\": ['; write one JSON object a line",
        ),
        (PLAIN + b'{"a": NaN}', "line 4 of FILE holds a number that is not finite, or half a"),
        (PLAIN + b'{"a": "\\ud83d"}', "line 4 of FILE holds a number that is not finite, or half"),
        (b"\n\n", "FILE holds no rows; write one JSON object a line"),
        (b"", "FILE holds no rows; write one JSON object a line"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_its_number(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    """S66, C11."""
    said = refused(tmp_path, content)

    assert said.replace(str(tmp_path / "rows.jsonl"), "FILE").startswith(sentence)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_is_refused_with_what_else_its_first_row_needs(
    tmp_path: Path, indent: int | None
) -> None:
    """C10: as the public sets glaive and identity are."""
    made = [{"conversations": [{"from": "human", "value": "hi"}], "tools": ""}] * 3

    said = refused(tmp_path, json.dumps(made, indent=indent).encode())

    assert said.startswith(f"{tmp_path / 'rows.jsonl'} is one JSON list of 3 rows and not JSON l")
    assert "write each of them on a line of its own. Also, a row has no messages: row 1" in said
    assert "its fields: conversations, tools; rename conversations to messages" in said
    assert "from to role and value to content (human is user, gpt is assistant)" in said


def test_a_missing_file_and_a_name_that_no_file_can_have_are_refused(tmp_path: Path) -> None:
    """S66."""
    for name in ("nowhere.jsonl", "no\0where.jsonl"):
        with pytest.raises(RefusalError, match=r"there is no file .*state a JSON lines file"):
            rows.read(tmp_path / name)


# Chats.


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([1], "a row is no JSON object: row 2 of FILE, row "),
        ({}, "a row has no messages: row 2 of FILE, its fields: none "),
        ({"text": "a"}, "a row has no messages: row 2 of FILE, its fields: text "),
        ({"messages": None}, "messages is no list: row 2 of FILE, messages is null or absent "),
        ({"messages": []}, "messages is an empty list: row 2 of FILE, messages "),
        (
            {"messages": json.dumps(chat("a", "1")["messages"])},
            "messages is no list: row 2 of FILE, messages is a string ",
        ),
        ({"messages": ["a"]}, "a message is no JSON object: row 2 of FILE, messages[0] "),
        (
            in_roles("human", "assistant"),
            "a role is unknown: row 2 of FILE, messages[0].role is 'human' ",
        ),
        (
            {"messages": [{"role": ["user"], "content": ""}]},
            "a role is unknown: row 2 of FILE, messages[0].role is a list ",
        ),
        (
            in_roles("user", "system", "assistant"),
            "a system message is not the first: row 2 of FILE, messages[1] ",
        ),
        (
            in_roles("user", "assistant", "user"),
            "an example ends with a user message: row 2 of FILE, messages[2].role is 'user' ",
        ),
        (
            in_roles("system", "user"),
            "an example ends with a user message: row 2 of FILE, messages[1].role is 'user' ",
        ),
        (
            in_roles("user", "assistant", "tool"),
            "an example ends with a tool message: row 2 of FILE, messages[2].role is 'tool' ",
        ),
        (
            in_roles("assistant", "user", "assistant"),
            "an example begins with an assistant message: row 2 of FILE, messages[0].role is ",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
            "the content of a message is not text: row 2 of FILE, messages[0].content is a list ",
        ),
        (
            {"messages": [{"role": "user"}]},
            "the content of a message is not text: row 2 of FILE, messages[0].content is null or",
        ),
        (
            {"messages": [{"role": "assistant", "content": "a", "reasoning_content": "b"}]},
            "a message has its reasoning apart: row 2 of FILE, messages[0].reasoning_content ",
        ),
        (
            {"messages": [{"role": "user", "content": "a", "tool_calls": [{"name": "f"}]}]},
            "a message calls tools that is no assistant's: row 2 of FILE, messages[0].tool_calls",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": {"name": "f"}}]},
            "tool_calls is no list: row 2 of FILE, messages[0].tool_calls is an object ",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "a tool call has no name: row 2 of FILE, messages[0].tool_calls[0] ",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "x"}]}]},
            "the arguments of a tool call are no JSON object: row 2 of FILE, messages[0].tool_cal",
        ),
        (
            chat("a", "1") | {"tools": "none of them"},
            "the tools of a row are no list of functions: row 2 of FILE, tools ",
        ),
    ],
)
def test_a_row_at_fault_is_refused_with_place_field_and_number(
    tmp_path: Path, row: Any, sentence: str
) -> None:
    """S66, C01, C08, C10, C13: and with what to do."""
    said = refused(tmp_path, as_lines(chat("a", "1"), row, row, chat("b", "2")))

    assert said.replace(str(tmp_path / "rows.jsonl"), "FILE").startswith(sentence)
    assert "(2 of 4 rows); " in said
    assert "None" not in said


def test_a_mixed_file_is_refused_for_the_same_row_wherever_that_stands(tmp_path: Path) -> None:
    """C10: text in one row and parts in another, tokens among chats."""
    parts = {"messages": [{"role": "user", "content": [{"type": "text", "value": "a"}]}]}
    tokens = {"input_ids": [1, 2], "labels": [-100, 2]}

    for bad, sentence in ((parts, "content is a list"), (tokens, "a row of tokens is among chat")):
        for made in permutations([chat("a", "1"), bad, chat("b", "2")]):
            said = refused(tmp_path, as_lines(*made))
            assert sentence in said
            assert f"row {made.index(bad) + 1} of" in said


@pytest.mark.parametrize("said", [{}, {"content": None}])
def test_a_tool_call_without_text_has_an_empty_text_and_its_arguments_as_an_object(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    """C08: null never reaches a template."""
    call = {"id": "7", "function": {"name": "weather", "arguments": '{"city": null}'}}
    made = {
        "messages": [
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "tool_calls": [call]} | said,
            {"role": "tool", "content": "no", "name": "weather", "tool_call_id": "7", "extra": 1},
            {"role": "assistant", "content": "No."},
        ],
        "tools": '[{"name": "weather"}]',
    }

    found = read(tmp_path, as_lines(made))

    assert isinstance(found, ChatRows)
    (row,) = found.rows
    assert row.tools == [{"name": "weather"}]
    assert row.messages[1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "7",
                "type": "function",
                "function": {"name": "weather", "arguments": {"city": None}},
            }
        ],
    }
    assert row.messages[2] == {
        "role": "tool",
        "content": "no",
        "name": "weather",
        "tool_call_id": "7",
    }


# Tokens.


def test_prepared_rows_are_read_with_what_they_say_of_their_making(tmp_path: Path) -> None:
    """S39."""
    made = {"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "tokenizer": "ab", "mask": [1, 1, 1]}

    found = read(tmp_path, as_lines(made))

    assert isinstance(found, PreparedRows)
    (row,) = found.rows
    assert (row.input_ids.tolist(), row.labels.tolist()) == ([5, 6, 7], [-100, 6, 7])
    assert (row.tokenizer, row.chat_template) == ("ab", None)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"labels": [1]}, "a row has no input_ids: row 2 of FILE, its fields: labels "),
        ({"input_ids": [1]}, "a row has no labels: row 2 of FILE, its fields: input_ids "),
        (
            {"input_ids": "1 2", "labels": [1]},
            "input_ids is no list: row 2 of FILE, input_ids is a string ",
        ),
        ({"input_ids": [], "labels": []}, "input_ids is an empty list: row 2 of FILE, input_ids "),
        (
            {"input_ids": [1, "a"], "labels": [1, 1]},
            "input_ids holds something that is no token: row 2 of FILE, input_ids[1] is a string ",
        ),
        (
            {"input_ids": [1, True], "labels": [1, 1]},
            "input_ids holds something that is no token: row 2 of FILE, input_ids[1] is a boolean ",
        ),
        (
            {"input_ids": [1, 2**40], "labels": [1, 1]},
            "input_ids holds something that is no token: row 2 of FILE, input_ids[1] is 1099511",
        ),
        (
            {"input_ids": [1, 2], "labels": [-100]},
            "a row has not one label for each token: row 2 of FILE, labels has 1 and input_ids 2 ",
        ),
        (
            {"input_ids": [1, 2, 3], "labels": [-100, 2, 4]},
            "a label is neither its token nor -100: row 2 of FILE, labels[2] is 4 and input_ids[2]",
        ),
        (
            {"input_ids": [1], "labels": [1], "chatTemplate": 7},
            "what made a row is not said as text: row 2 of FILE, chatTemplate is a number ",
        ),
    ],
)
def test_a_prepared_row_at_fault_is_refused_with_place_field_and_number(
    tmp_path: Path, row: Any, sentence: str
) -> None:
    """S39, S66."""
    good = {"input_ids": [1, 2], "labels": [-100, 2]}

    said = refused(tmp_path, as_lines(good, row, good))

    assert said.replace(str(tmp_path / "rows.jsonl"), "FILE").startswith(sentence)
    assert "(1 of 3 rows); " in said


# Keeping some apart.


def test_the_same_seed_keeps_the_same_rows_apart() -> None:
    """S13: a fraction of the rows, at least one, none of them trained."""
    first, again = (rows.divide("f", 20, 0.1, seed=3) for _ in range(2))

    assert first == again
    assert (len(first[0]), len(first[1])) == (18, 2)
    assert sorted(first[0] + first[1]) == list(range(20))
    assert rows.divide("f", 20, 0.1, seed=4) != first


def test_a_fraction_that_leaves_no_row_to_train_on_is_refused() -> None:
    """S66."""
    with pytest.raises(RefusalError, match=r"nothing left to train on: validation\.fraction 0\.9"):
        rows.divide("rows.jsonl", 2, 0.9, seed=0)

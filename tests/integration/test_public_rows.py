"""Files of rows as other people publish them: each gets a verdict that one can act on.

They are not part of this repository; without them, tests of our own rows of the same shapes remain
(``tests/unit/test_prepare_rows.py``).
"""

from pathlib import Path

import pytest

from engine.errors import RefusalError
from engine.prepare import rows

FILES = Path(__file__).parents[3] / "shared" / "cases" / "data" / "llamafactory"

pytestmark = pytest.mark.skipif(not FILES.is_dir(), reason="the published files are not here")

LIST = "is one JSON list of {} rows and not JSON lines; write each of them on a line of its own"


@pytest.mark.parametrize(
    ("file", "sentences"),
    [
        (
            "glaive_toolcall_en_demo.json",
            (
                LIST.format(300),
                "a row has no messages: row 1, its fields: conversations, tools; rename "
                "conversations to messages, and in it from to role and value to content (human is "
                "user, gpt is assistant)",
            ),
        ),
        (
            "identity.json",
            (
                LIST.format(91),
                "a row has no messages: row 1, its fields: instruction, input, output; make "
                "instruction with input a user message, and output an assistant message",
            ),
        ),
        (
            "reason_tool_use_demo_50.jsonl",
            (
                "the content of a message is not text: row 1 of ",
                "messages[0].content is a list (50 of 50 rows); write it as one string",
            ),
        ),
    ],
)
def test_a_published_file_is_refused_with_what_to_do(file: str, sentences: tuple[str, ...]) -> None:
    """C10: file, row and field, how many rows are like it, and what to write instead."""
    with pytest.raises(RefusalError) as refused:
        rows.read(FILES / file)

    said = str(refused.value)
    assert str(FILES / file) in said
    assert [each for each in sentences if each not in said] == []

"""The page about data shows rows that are taken, and a refusal as it is said."""

import re
from pathlib import Path

import pytest

from engine.errors import RefusalError
from engine.prepare import rows

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_rows_that_the_page_shows_are_taken(tmp_path: Path) -> None:
    """S39: one of each form."""
    forms = []
    for number, block in enumerate(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(block)
        forms.append(rows.read(path).form)

    assert forms == ["chat", "tokens"]


def test_the_refusal_that_the_page_quotes_is_what_is_said(tmp_path: Path) -> None:
    """S66, C01."""
    good = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}'
    path = tmp_path / "train.jsonl"
    path.write_text(f'{good}]}}\n{good}, {{"role": "user", "content": "c"}}]}}\n{good}]}}\n')
    quoted = " ".join(line[2:] for line in PAGE.splitlines() if line.startswith("> "))

    with pytest.raises(RefusalError) as refusal:
        rows.read(path)

    assert quoted == str(refusal.value).replace(str(path), "/data/train.jsonl")

"""The cache of tokenised rows: what its keys depend on, and what becomes of its entries."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.prepare import base_model, cache, rows
from engine.prepare.fit import Fit
from engine.prepare.rows import ChatRows
from engine.prepare.tokens import TokenRows, cut
from tests.trl_runs import REPOSITORY, chat, write_rows

KEY = "ab" * 32


def token_rows(first: int = 0) -> TokenRows:
    ids = np.arange(first, first + 200, dtype=np.int32)
    return TokenRows.of([cut(ids[:size], ids[:size], 150) for size in range(1, 200)])


def base(folder: Path, **files: str) -> Path:
    """A folder with the files of a base model, as far as a key looks at them."""
    folder.mkdir(parents=True)
    said = {"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "{}"} | files
    for name, text in said.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def made(tmp_path: Path) -> ChatRows:
    found = rows.read(write_rows(tmp_path / "rows.jsonl", [chat("a", "1"), chat("b", "2")]))
    assert isinstance(found, ChatRows)
    return found


def key(of: ChatRows, folder: Path, *, max_seq_length: int = 64) -> str:
    revision = base_model.revision(str(folder))
    assert revision is not None
    return cache.key(of.identity(), revision, max_seq_length=max_seq_length)


# Keys.


def test_the_key_is_the_same_wherever_files_lie_and_however_lines_are_written(
    tmp_path: Path, made: ChatRows
) -> None:
    """S36."""
    text = (tmp_path / "rows.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text("\n" + text.replace("\n", "\r\n"))
    other = rows.read(tmp_path / "other.jsonl")
    assert isinstance(other, ChatRows)
    folder = base(tmp_path / "model")
    moved = shutil.copytree(folder, tmp_path / "moved")

    assert key(made, folder) == key(other, moved)


def test_whatever_changes_the_tokens_changes_the_key(tmp_path: Path, made: ChatRows) -> None:
    """S36: rows, tokenizer, template, maximum length, weights, configuration, code."""
    other = rows.read(write_rows(tmp_path / "o.jsonl", [chat("a", "1"), chat("b", "3")]))
    assert isinstance(other, ChatRows)
    plain = base(tmp_path / "plain")
    changed = [
        base(tmp_path / name, **{name: "other"})
        for name in ("tokenizer.json", "chat_template.jinja", "model.safetensors", "config.json")
    ]
    keys = [key(made, plain), key(other, plain), key(made, plain, max_seq_length=65)]
    keys += [key(made, folder) for folder in changed]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cache, "PREPARATION", cache.PREPARATION + 1)
        keys.append(key(made, plain))

    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_folder_without_what_tells_it_from_another_has_no_revision(
    tmp_path: Path, name: str
) -> None:
    """S40."""
    folder = base(tmp_path / "model")
    assert base_model.revision(str(folder)) is not None

    (folder / name).unlink()

    assert base_model.revision(str(folder)) is None


def test_a_name_of_the_hub_has_the_commit_that_the_local_cache_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S40: and none where it has not been downloaded."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--somebody--a-model"
    assert base_model.revision("somebody/a-model") is None

    base(kept / "snapshots" / "c0ffee")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("c0ffee\n")

    found = base_model.revision("somebody/a-model")
    assert found is not None
    assert (found.commit, set(found.tokenizer)) == ("c0ffee", {"tokenizer.json"})
    assert base_model.revision("somebody/another") is None
    assert base_model.revision("no\0name") is None


def test_a_key_is_computed_without_the_libraries_that_take_seconds(
    tmp_path: Path, made: ChatRows
) -> None:
    """S36: a run whose rows are there passes at once."""
    folder = base(tmp_path / "model")
    program = f"""
import sys
from pathlib import Path
from engine.prepare import base_model, cache, rows
found = rows.read(Path({str(tmp_path / "rows.jsonl")!r}))
print(cache.key(found.identity(), base_model.revision({str(folder)!r}), max_seq_length=64))
print({{"torch", "transformers", "tokenizers", "datasets", "numpy", "pyarrow"}} & set(sys.modules))
"""
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout

    assert said.split("\n") == [key(made, folder), "set()", ""]


# Entries.


def test_what_is_put_is_what_is_got(tmp_path: Path) -> None:
    """S37: the same digest, and every row."""
    put = token_rows()

    cache.put(tmp_path, KEY, put)
    got = cache.get(tmp_path, KEY)

    assert got is not None
    assert got.digest() == put.digest()
    assert got.table.equals(put.table)
    assert cache.get(tmp_path, "cd" * 32) is None


def test_what_is_known_of_each_row_is_found_without_its_tokens(tmp_path: Path) -> None:
    """S36, S46, S47, S48: as the rows themselves say it, of all of them and of some."""
    put = token_rows()

    cache.put(tmp_path, KEY, put)
    known = cache.facts(tmp_path, KEY)

    assert known is not None
    assert known == put.facts()
    assert known.fit(100) == Fit(rows=199, reached=100, lost_end=49, dropped=0, longest=199)
    assert known.fit(100, [0, 148, 150, 198]) == put.take([0, 148, 150, 198]).fit(100)
    assert cache.facts(tmp_path, "cd" * 32) is None


def test_nothing_is_known_of_the_rows_of_a_damaged_entry_or_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S38: the first is removed, the second is read for its tokens."""
    cache.put(tmp_path, KEY, token_rows())
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    place = whole.index(cache.BEGIN) + 40
    entry.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    damaged = cache.facts(tmp_path, KEY)
    is_removed = not entry.exists()

    with monkeypatch.context() as before:
        before.setattr(cache, "BEGIN", b"none such ")
        cache.put(tmp_path, KEY, token_rows())
    older = cache.facts(tmp_path, KEY)

    assert (damaged, is_removed, older) == (None, True, None)
    assert cache.get(tmp_path, KEY) is not None


def test_an_entry_with_any_byte_flipped_is_not_used_and_is_replaced(tmp_path: Path) -> None:
    """S38: at the start, in the middle, among what describes the columns, at the end."""
    cache.put(tmp_path, KEY, token_rows())
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()

    for place in (0, len(whole) // 3, len(whole) // 2, len(whole) - 40, len(whole) - 1):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert cache.get(tmp_path, KEY) is None
        cache.put(tmp_path, KEY, token_rows())
        assert cache.get(tmp_path, KEY) is not None

    assert list(tmp_path.iterdir()) == [entry]


def test_an_entry_that_was_cut_short_is_not_used(tmp_path: Path) -> None:
    """S38."""
    cache.put(tmp_path, KEY, token_rows())
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-100])

    assert cache.get(tmp_path, KEY) is None


WRITER = """
import sys
from pathlib import Path
from engine.prepare import cache
from tests.integration.test_prepare_cache import KEY, token_rows
folder = Path(sys.argv[1])
for _ in range(20):
    cache.put(folder, KEY, token_rows())
    assert cache.get(folder, KEY).digest() == token_rows().digest()
"""


def test_processes_that_prepare_the_same_rows_do_not_disturb_each_other(tmp_path: Path) -> None:
    """S36: each always reads a whole entry, and one is left."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]

    writers = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(2)]

    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_a_killed_process_left_is_removed_a_day_later(tmp_path: Path) -> None:
    """S36: one that is being written is left alone."""
    old, new = tmp_path / "old.partial", tmp_path / "new.partial"
    for path in (old, new):
        path.write_bytes(b"half")
    day = cache.ABANDONED_SECONDS
    os.utime(old, (new.stat().st_mtime - day - 60,) * 2)

    cache.put(tmp_path, KEY, token_rows())

    assert not old.exists()
    assert new.exists()

"""Checking rows over HTTP: the verdict of a real process, which has no devices."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.dispatch.checking import Checker, CheckError
from engine.prepare import base_model, cache, rows
from engine.prepare.rows import ChatRows
from engine.prepare.tokens import TokenRows, cut
from tests import apis
from tests.answers import ROUTES
from tests.apis import Api
from tests.trl_runs import chat, write_rows

PATH = "/v1/datasets:check"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with apis.api(tmp_path / "home") as found:
        yield found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """What tells a base model from another; no library could load it."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def test_rows_that_a_run_would_refuse_are_refused_with_its_sentence(
    api: Api, model: Path, tmp_path: Path
) -> None:
    """S66, C01: the verdict is an answer and no error."""
    made = write_rows(tmp_path / "rows.jsonl", [chat("a", "1"), chat("b", "2", "c")])

    said = api.post(PATH, {"dataset": str(made), "baseModel": str(model)})

    assert said == {
        "dataset": str(made),
        "baseModel": str(model),
        "maxSeqLength": 1024,
        "accepted": False,
        "reason": f"an example ends with a user message: row 2 of {made}, messages[2].role is "
        "'user' (1 of 2 rows); end every example with an assistant message",
        "form": None,
        "rows": None,
        "identity": None,
        "dataFit": None,
    }
    assert said.keys() == ROUTES["check_dataset"].example.keys()


def test_rows_that_a_run_has_tokenised_are_checked_at_once(
    api: Api, model: Path, tmp_path: Path
) -> None:
    """S36, S46: out of the cache in the server's home, which all runs share."""
    made = write_rows(tmp_path / "rows.jsonl", [chat("a", "1"), chat("b", "2")])
    found, revision = rows.read(made), base_model.revision(str(model))
    assert isinstance(found, ChatRows)
    assert revision is not None
    ids = np.arange(30, dtype=np.int32)
    tokens = TokenRows.of([cut(ids, ids, 16), cut(ids[:9], ids[:9], 16)])
    key = cache.key(found.identity(), revision, max_seq_length=16)
    cache.put(tmp_path / "home" / "cache" / "rows", key, tokens)

    said = api.post(PATH, {"dataset": str(made), "baseModel": str(model), "maxSeqLength": 16})

    assert (said["accepted"], said["form"], said["rows"]) == (True, "chat", 2)
    assert said["identity"] == found.identity()
    assert said["dataFit"] == {"rows": 2, "reached": 1, "lostEnd": 1, "dropped": 0, "longest": 30}
    assert said["dataFit"].keys() == ROUTES["check_dataset"].example["dataFit"].keys()


def test_a_file_and_a_model_that_nobody_has_are_named(api: Api, tmp_path: Path) -> None:
    """S66: a name that no file can have, too."""
    for name in (str(tmp_path / "nowhere.jsonl"), "no\0where"):
        said = api.post(PATH, {"dataset": name, "baseModel": "none"})
        assert said["reason"].startswith("there is no file ")


def test_a_check_without_a_verdict_is_an_error_with_what_to_do(
    api: Api, model: Path, tmp_path: Path
) -> None:
    """The time is limited, and a preparation that fails is not taken for a verdict."""
    api.service.checker = Checker(tmp_path, tmp_path, limit_seconds=0.001)

    said = api.post(PATH, {"dataset": "rows.jsonl", "baseModel": str(model)}, 503)

    assert said["type"] == "/problems/dataset-not-checked"
    assert said["detail"] == "the check took longer than 0.001 seconds"
    with pytest.raises(CheckError, match="failed before it had a verdict") as error:
        Checker(tmp_path, tmp_path).verdict({})
    assert "pip install" in error.value.hint


@pytest.mark.parametrize(
    "body",
    [
        {"dataset": "a"},
        {"dataset": "", "baseModel": "b"},
        {"dataset": "a", "baseModel": "b", "maxSeqLength": 0},
        {"dataset": "a", "baseModel": "b", "validation": 0.1},
    ],
)
def test_a_question_that_is_none_is_a_bad_request(api: Api, body: dict[str, object]) -> None:
    """I26."""
    assert api.post(PATH, body, 400)["type"] == "/problems/bad-request"

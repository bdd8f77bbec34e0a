"""The catalogue of data sets: rows that never change, under names that can be moved."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import RefusalError
from engine.prepare import keeping, rows
from projections.comparison import Planned, differences
from tests import apis, ledgers
from tests.apis import Api
from tests.product import eventually
from tests.trl_runs import chat, write_rows

PATH = "/v1/datasets"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A home whose catalogue has ``support``, the rows of ``one.jsonl``."""
    folder = tmp_path_factory.mktemp("catalogue")
    with apis.api(folder / "home", devices=("cpu:0",)) as api:
        create(api, folder, "one.jsonl", "1", name="support")
        yield api


def create(
    api: Api, folder: Path, file: str, answer: str, *, name: str | None = None, status: int = 201
) -> dict[str, object]:
    path = write_rows(folder / file, [chat("a", answer)])
    made: dict[str, object] = api.post(PATH, {"file": str(path), "name": name}, status)
    return made


def enter(api: Api, digit: str, name: str) -> str:
    """The identity of rows that are in the catalogue, though nobody read them."""
    facts = {"identity": digit * 64, "form": "chat", "rows": 1, "sizeBytes": 9}
    made = api.service.datasets.create(facts, name=name, principal="user/ana")
    return made.dataset.identity


def kept(api: Api, identity: object) -> Path:
    return api.service.settings.home / "datasets" / f"{identity}.jsonl"


def test_rows_are_told_by_what_they_say_and_kept(api: Api, tmp_path: Path) -> None:
    """I14, C11: the identity is the one that a check says, and the file may go."""
    path = write_rows(tmp_path / "rows.jsonl", [chat("a", "kept")])
    identity = rows.read(path).identity()

    made = api.post(PATH, {"file": str(path)}, 201)
    path.unlink()

    assert (made["identity"], made["form"], made["rows"]) == (identity, "chat", 1)
    assert (made["names"], made["created"], made["movedFrom"]) == ([], True, None)
    assert made["sizeBytes"] == kept(api, identity).stat().st_size
    assert rows.read(kept(api, identity)).identity() == identity


def test_the_same_rows_in_other_lines_are_the_same_data_set(api: Api, tmp_path: Path) -> None:
    """C11, I14: a byte order mark, CRLF and the order of keys are no other rows."""
    first = create(api, tmp_path, "rows.jsonl", "same")
    other = tmp_path / "other.jsonl"
    messages = [{"content": "a", "role": "user"}, {"content": "same", "role": "assistant"}]
    other.write_bytes(b"\xef\xbb\xbf" + json.dumps({"messages": messages}).encode() + b"\r\n\r\n")

    again = api.post(PATH, {"file": str(other)})

    assert (again["identity"], again["created"]) == (first["identity"], False)
    assert again["sizeBytes"] == first["sizeBytes"]


def test_prepared_token_rows_are_a_form_of_their_own(api: Api, tmp_path: Path) -> None:
    """I14, S39."""
    path = tmp_path / "tokens.jsonl"
    path.write_text('{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}\n')

    made = api.post(PATH, {"file": str(path), "name": "tokens"}, 201)

    assert (made["form"], made["rows"]) == ("tokens", 1)
    assert api.get(f"{PATH}/tokens")["form"] == "tokens"


def test_a_name_is_moved_and_what_it_meant_stays(api: Api, tmp_path: Path) -> None:
    """I14: each naming is known, whatever the name means now."""
    enter(api, "3", "moving")

    new = create(api, tmp_path, "new.jsonl", "new", name="moving")

    assert new["movedFrom"] == "3" * 64
    assert api.get(f"{PATH}/moving")["identity"] == new["identity"]
    before = api.get(f"{PATH}/{'3' * 8}")
    assert before["names"] == []
    assert [(each["name"], each["by"]) for each in before["namings"]] == [("moving", "user/ana")]


def test_the_catalogue_is_listed_from_its_oldest(api: Api) -> None:
    """I14."""
    listed = api.get(PATH)["datasets"]

    assert listed[0]["names"] == ["support"]
    assert [each["createdAt"] for each in listed] == sorted(each["createdAt"] for each in listed)


def test_rows_that_no_run_would_take_are_not_taken_in(api: Api, tmp_path: Path) -> None:
    """S66: with the sentence that a run would have, and nothing is kept."""
    path = write_rows(tmp_path / "rows.jsonl", [chat("a", "1", "b")])
    before = sorted((api.service.settings.home / "datasets").iterdir())

    problem = api.post(PATH, {"file": str(path)}, 422)

    assert problem["type"] == "/problems/rows-refused"
    assert problem["detail"].startswith(f"an example ends with a user message: row 1 of {path}")
    assert sorted((api.service.settings.home / "datasets").iterdir()) == before


@pytest.mark.parametrize("name", ["", "a b", "-a", "deadbeef", "0" * 64, "x" * 101, "a/b"])
def test_what_cannot_be_a_name_is_refused(api: Api, name: str) -> None:
    """Before the file is even opened."""
    problem = api.post(PATH, {"file": "nowhere.jsonl", "name": name}, 400)

    assert problem["detail"] == f"{name[:80]!r} cannot be the name of a data set"


@pytest.mark.parametrize("which", ["nobody", "0" * 8, "support@" + "0" * 64])
def test_a_data_set_that_there_is_not_is_not_found(api: Api, which: str) -> None:
    problem = api.get(f"{PATH}/{which}", 404)

    assert problem["type"] == "/problems/dataset-not-found"
    assert problem["detail"] == f"there is no data set {which!r}"


def test_digits_that_two_identities_begin_with_name_both(api: Api) -> None:
    """I14: more of them are wanted, as of any id."""
    both = ["7" * 10 + digit * 54 for digit in "ab"]
    for identity in both:
        facts = {"identity": identity, "form": "chat", "rows": 1, "sizeBytes": 9}
        api.service.datasets.create(facts, name=None, principal="user/ana")

    problem = api.get(f"{PATH}/{'7' * 10}", 409)

    assert problem["type"] == "/problems/ambiguous-id"
    assert problem["candidates"] == both
    assert api.get(f"{PATH}/{'7' * 10}b")["identity"] == both[1]


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_keeps_what_a_name_meant_at_its_submission(api: Api) -> None:
    """I14, C11: whoever moves the name later changes nothing of it."""
    first = enter(api, "4", "train")
    validation = {"dataset": f"dataset:{first[:10]}"}
    plan = ledgers.DOCUMENT | {"dataset": "dataset:train", "validation": validation}

    run_id = api.post("/v1/runs", {"plan": plan}, 201)["runId"]
    enter(api, "5", "train")

    plan = api.service.ledger.run(run_id).plan
    assert plan["dataset"] == f"dataset:train@{first}"
    assert plan["validation"]["dataset"] == f"dataset:{first}"


def test_a_run_of_a_data_set_that_there_is_not_is_refused(api: Api) -> None:
    plan = ledgers.DOCUMENT | {"dataset": "dataset:nobody"}

    problem = api.post("/v1/runs", {"plan": plan}, 404)

    assert problem["detail"] == "there is no data set 'nobody'"


def test_a_branch_keeps_what_a_name_meant_when_it_was_asked_for(api: Api) -> None:
    """I14, S144: among the overrides, as in a plan."""
    first = enter(api, "6", "other")
    run_id = api.started(config={"maxSteps": 9})
    api.deliver(run_id, ledgers.step_lines(1, 4))
    body = {
        "snapshot": api.save(run_id, 4, line=5),
        "steps": 5,
        "overrides": {"dataset": "dataset:other"},
    }

    child = api.post(f"/v1/runs/{run_id}:branch", body, 202)["childRunId"]
    eventually(lambda: child in api.service.documents.runs())

    assert api.service.ledger.run(child).plan["dataset"] == f"dataset:other@{first}"


def test_a_data_set_is_the_same_under_another_name() -> None:
    """S104: runs of the same rows can be compared, whatever these were called."""
    identity, other = "1" * 64, "2" * 64

    def planned(dataset: str) -> Planned:
        return Planned({"method": "SFT", "baseModel": "m", "dataset": dataset, "config": {}})

    run = planned(f"dataset:train@{identity}")
    assert differences(run, planned(f"dataset:{identity}")) == []
    assert differences(run, planned(f"dataset:old@{identity}")) == []
    assert differences(run, planned(f"dataset:train@{other}")) == [
        {"field": "dataset", "run": f"dataset:{identity}", "baseline": f"dataset:{other}"}
    ]


# -- what a worker reads ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINLEDGER_DATASETS", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def test_a_worker_reads_the_rows_that_were_taken_in(folder: Path, tmp_path: Path) -> None:
    """I14, S37."""
    identity = keeping.keep(str(write_rows(tmp_path / "a.jsonl", [chat("a", "1")])), folder)[
        "identity"
    ]

    found = keeping.read(f"dataset:train@{identity}")

    assert (len(found), found.identity()) == (1, identity)
    assert found.file == f"dataset:train@{identity}"  # so that a refusal says no path of the home


def test_rows_that_somebody_edited_are_not_trained(folder: Path, tmp_path: Path) -> None:
    """Nothing silent: other rows under the same identity are a refusal."""
    identity = keeping.keep(str(write_rows(tmp_path / "a.jsonl", [chat("a", "1")])), folder)[
        "identity"
    ]
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace("1", "2"))

    with pytest.raises(RefusalError, match="are not those that were taken in; take them in again"):
        keeping.read(f"dataset:train@{identity}")


@pytest.mark.usefixtures("folder")
def test_rows_that_are_gone_are_named() -> None:
    with pytest.raises(RefusalError, match="are not in the catalogue any more"):
        keeping.read(f"dataset:train@{'1' * 64}")


def test_a_check_takes_a_data_set_by_its_name(api: Api) -> None:
    """I14: the rows pass, and the verdict is on the base model that there is not."""
    said = api.post(f"{PATH}:check", {"dataset": "dataset:support", "baseModel": "nowhere"})

    assert (said["form"], said["rows"], said["accepted"]) == ("chat", 1, False)
    assert said["identity"] == api.get(f"{PATH}/support")["identity"]
    assert said["dataset"] == f"dataset:support@{said['identity']}"

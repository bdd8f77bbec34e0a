"""The generated pages are what the code says, and examples are what the server answers."""

import re
from pathlib import Path
from typing import Any

import pytest

from api import problems
from api.settings import Settings
from engine.failures import Failure
from ledger.events import ARCHIVABLE, EVENTS
from projections.wire import kind_of
from tests import apis, ledgers
from tests.answers import ATTEMPT, RECORD, ROUTES
from tests.apis import Api
from tests.reference import DOCS, EVERY_ROUTE, pages
from tests.trl_runs import chat, write_rows

SLUGS = {problem.slug for problem in problems.ALL}
ELSEWHERE = {
    "capacity",
    "read_events",
    "read_logs",
    "get_run",
    "read_file",
    "compare_runs",
    "import_run",
    "read_hparams",
    "read_engine_config",
    "audit",
    "make_seal_key",
    "rebuild_projections",
    "read_audit_log",
    "read_receipt",
    "export_ledger",
    "back_up",
    "replay_ledger",
    "read_event_files",
    "link_to_grafana",
    "check_dataset",
    "deliver_of_preparation",
    "read_copy",
    "publish_copy",
    "run_query",
}  # routes whose answers have tests of their own
LAST_WORDS = [
    '{"kind": "step", "step": 9, "measured": {"loss": NaN}, "rewardTerms": {"length": 1.0}}',
    '{"kind": "validation", "step": 9, "measured": {"loss": 0.7}}',
    '{"kind": "rollouts", "step": 9, "rollouts": [{"prompt": [{"role": "user", "content": "?"}], '
    '"completion": "!", "score": 1.1, "terms": {"correct": 1.0, "format": 0.1}}]}',
    '{"kind": "restore", "step": 8}',
]


@pytest.mark.parametrize("name", pages())
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    """style.md 34: renew it with `make docs`."""
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name]


def test_every_event_is_documented() -> None:
    headings = re.findall(r"^## (\w+)$", (DOCS / "events.md").read_text("utf-8"), re.MULTILINE)

    assert headings == [kind_of(event) for event in EVENTS] + ["unknownEvent"]


def test_every_problem_is_documented() -> None:
    """design.md, HTTP: a frozen slug, a reason and a hint."""
    rows = re.findall(
        r"^\| `([a-z-]+)` \| \d{3} \| .+ \| .+ \|$", page("problems.md"), re.MULTILINE
    )

    assert sorted(rows) == sorted(SLUGS)
    assert all(problem.hint and problem.title for problem in problems.ALL)


def test_every_setting_is_documented_and_none_by_this_machine() -> None:
    text = page("settings.md")

    for name, field in Settings.model_fields.items():
        assert f"`TRAINLEDGER_{name.upper()}`" in text
        assert field.description
    assert str(Path.home()) not in text


def test_a_route_names_only_problems_that_there_are() -> None:
    named = {slug for route in ROUTES.values() for slug in route.problems}

    assert named | set(EVERY_ROUTE) <= SLUGS
    assert SLUGS - named - set(EVERY_ROUTE) == {
        "attempt-closed",
        "no-such-page",
        "not-allowed",
    }


def test_words_have_a_glossary() -> None:
    """style.md 11."""
    assert "| run |" in page("glossary.md")


def test_the_examples_are_what_the_server_answers(tmp_path: Path) -> None:
    """design.md, HTTP: JSON shapes that scripts rely on."""
    with apis.api(tmp_path, devices=("cpu:0",)) as api:
        made = api.post("/v1/runs", {"plan": ledgers.DOCUMENT}, 201)
        answers = {"submit_run": made, **asked(api, made["runId"])}

    for name, said in answers.items():
        assert shape(said) == shape(ROUTES[name].example), name
    assert ROUTES.keys() - answers.keys() == ELSEWHERE


def asked(api: Api, run_id: str) -> dict[str, Any]:
    """What the other routes answer about a run that trains."""
    ledgers.open_attempt(api.service.ledger, run_id)
    taken = api.deliver(run_id, [*ledgers.step_lines(1, 8), *LAST_WORDS])
    record = api.get(f"/v1/runs/{run_id}")
    assert record.keys() == RECORD.keys()
    assert record["attempts"][0].keys() == ATTEMPT.keys()
    metrics = api.get(f"/v1/runs/{run_id}/metrics", limit=1, superseded="true")
    return {
        "deliver": taken,
        "list_runs": api.get("/v1/runs"),
        "read_metrics": metrics,
        "read_rollouts": api.get(f"/v1/runs/{run_id}/rollouts", superseded="true"),
        "read_series": api.get(f"/v1/runs/{run_id}/series"),
        "read_buckets": api.get(f"/v1/runs/{run_id}/metrics/buckets", buckets=1, fields="loss"),
        "annotate_run": api.post(f"/v1/runs/{run_id}:annotate", {"labels": {"keep": "yes"}}),
        **asked_of_snapshots(api, run_id),
        **asked_of_branches(api, run_id),
        **asked_to_pause(api, run_id),
        **asked_of_tokens(api),
        **asked_of_datasets(api),
        "cancel_run": api.post(f"/v1/runs/{run_id}:cancel", status=202),
        "health": api.get("/healthz"),
        "info": api.get("/v1/info"),
    }


def asked_of_snapshots(api: Api, run_id: str) -> dict[str, Any]:
    snapshot_id = api.save(run_id, 8, line=9 + len(LAST_WORDS), epoch=0.5)
    return {
        "list_snapshots": api.get(f"/v1/runs/{run_id}/snapshots"),
        "get_snapshot": api.get(f"/v1/snapshots/{snapshot_id}"),
        "pin_snapshot": api.post(f"/v1/snapshots/{snapshot_id}:pin"),
        "unpin_snapshot": api.post(f"/v1/snapshots/{snapshot_id}:unpin"),
        "sweep_snapshots": api.post(f"/v1/runs/{run_id}:sweep"),
    }


def asked_of_datasets(api: Api) -> dict[str, Any]:
    """Answers about rows that were taken in."""
    file = write_rows(api.service.settings.home / "rows.jsonl", [chat("a", "1")])
    return {
        "create_dataset": api.post("/v1/datasets", {"file": str(file), "name": "support"}, 201),
        "list_datasets": api.get("/v1/datasets"),
        "get_dataset": api.get("/v1/datasets/support"),
    }


def asked_of_tokens(api: Api) -> dict[str, Any]:
    body = {"name": "ana", "role": "submitter", "expiresSeconds": 60}
    made = api.post("/v1/tokens", body, 201)
    return {
        "create_token": made,
        "list_tokens": api.get("/v1/tokens"),
        "revoke_token": api.post("/v1/tokens/ana:revoke"),
        "whoami": api.get("/v1/whoami"),
    }


def asked_of_branches(api: Api, run_id: str) -> dict[str, Any]:
    (snapshot,) = api.get(f"/v1/runs/{run_id}/snapshots")["snapshots"]
    body = {"snapshot": snapshot["snapshotId"], "steps": 5}
    made = api.post(f"/v1/runs/{run_id}:branch", body, 202)
    reads = {"list_branches": "branches", "read_tree": "tree", "read_ancestry": "ancestry"}
    return {
        "branch_run": made,
        "read_line": api.get(f"/v1/runs/{run_id}/line"),
        **{name: api.get(f"/v1/runs/{run_id}/{rest}") for name, rest in reads.items()},
    }


def asked_to_pause(api: Api, run_id: str) -> dict[str, Any]:
    paused = api.post(f"/v1/runs/{run_id}:pause", {"checkpoint": "latest"}, 202)
    api.deliver(run_id, first=10 + len(LAST_WORDS), exit=apis.EXIT | {"code": 143})
    return {
        "pause_run": paused,
        "resume_run": api.post(f"/v1/runs/{run_id}:resume", status=202),
    }


def shape(value: Any) -> Any:
    """The names in an answer, down to the first element of a list."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value and value[0] else None


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_what_is_kept_for_ever_is_declared() -> None:
    """U12: the life of a run stays; only what was measured along the way may be archived."""
    kept = {kind.__name__ for kind in set(EVENTS) - ARCHIVABLE}

    assert {"RunSubmitted", "Restored", "SnapshotCommitted", "AttemptClosed"} <= kept
    assert {each.__name__ for each in ARCHIVABLE} == {
        "StageReported",
        "StepReported",
        "ValidationReported",
        "RolloutsScored",
        "MemoryMeasured",
        "LineRejected",
    }
    page = (DOCS / "events.md").read_text()
    assert page.count("; may be archived.") == len(ARCHIVABLE)


@pytest.mark.parametrize("failure", list(Failure))
def test_every_reason_is_documented_with_what_to_do(failure: Failure) -> None:
    """S82: the table of the product is the table of the documentation."""
    (row,) = [
        line
        for line in (DOCS / "failures.md").read_text().splitlines()
        if line.startswith(f"| `{failure.code}` |")
    ]
    assert f"| {failure.sentence} | {failure.advice} |" in row

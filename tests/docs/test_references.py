"""The generated pages are what the code says, and examples are what the server answers."""

import re
from pathlib import Path
from typing import Any

import pytest

from api import problems
from api.settings import Settings
from api.wire import kind_of
from ledger.events import EVENTS
from tests import apis, ledgers
from tests.answers import RECORD, ROUTES
from tests.apis import Api
from tests.reference import DOCS, EVERY_ROUTE, pages

SLUGS = {problem.slug for problem in problems.ALL}
LAST_WORDS = [
    '{"kind": "step", "step": 9, "measured": {"loss": NaN}, "rewardTerms": {"length": 1.0}}',
    '{"kind": "validation", "step": 9, "measured": {"loss": 0.7}}',
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
        "ledger-corrupt",
        "no-such-page",
        "not-allowed",
        "refused",
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
    assert {"read_events", "audit", "get_run"} == ROUTES.keys() - answers.keys()


def asked(api: Api, run_id: str) -> dict[str, Any]:
    """What the other routes answer about a run that trains."""
    ledgers.open_attempt(api.service.ledger, run_id)
    taken = api.deliver(run_id, [*ledgers.step_lines(1, 8), *LAST_WORDS])
    assert api.get(f"/v1/runs/{run_id}").keys() == RECORD.keys()
    metrics = api.get(f"/v1/runs/{run_id}/metrics", limit=1, superseded="true")
    return {
        "deliver": taken,
        "list_runs": api.get("/v1/runs"),
        "read_metrics": metrics,
        "read_series": api.get(f"/v1/runs/{run_id}/series"),
        "cancel_run": api.post(f"/v1/runs/{run_id}:cancel", status=202),
        "health": api.get("/healthz"),
        "info": api.get("/v1/info"),
    }


def shape(value: Any) -> Any:
    """The names in an answer, down to the first element of a list."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value and value[0] else None


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")

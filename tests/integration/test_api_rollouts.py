"""Rollouts over HTTP: one update of a run, as scored, best or worst first."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests import apis, ledgers
from tests.apis import Api


class Run(NamedTuple):
    """A run with 250 rollouts of update 1 and some of 2, 3, 4 and 9, which is not made yet."""

    api: Api
    run_id: str

    def get(self, status: int = 200, **asked: Any) -> Any:
        return self.api.get(f"/v1/runs/{self.run_id}/rollouts", status, **asked)

    def scores(self, **asked: Any) -> list[float]:
        return [each["score"] for each in self.get(**asked)["rollouts"]]


def scored(step: int, *scores: float) -> str:
    """A line that says rollouts with these scores."""
    rollouts = [{"prompt": "?", "completion": "!", "score": score} for score in scores]
    return json.dumps({"kind": "rollouts", "step": step, "rollouts": rollouts})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as api:
        run_id = api.started()
        api.deliver(
            run_id,
            [
                *(scored(1, *range(150)), scored(1, *range(150, 250)), *ledgers.step_lines(1, 1)),
                *(scored(step, step) for step in (2, 3, 4)),
                *(*ledgers.step_lines(2, 4), scored(9, 0.25, 1.0, 0.25, 0.5)),
            ],
        )
        yield Run(api, run_id)


def test_the_newest_update_with_rollouts_is_shown_and_which_others_there_are(run: Run) -> None:
    """S126, S131, S133: update 9 was scored and not made yet."""
    answer = run.get()

    assert (answer["step"], answer["count"]) == (9, 4)
    assert [each["score"] for each in answer["rollouts"]] == [0.25, 1.0, 0.25, 0.5]
    assert answer["steps"] == [1, 2, 3, 4, 9]
    assert answer["rollouts"][0] == {
        "place": 1,
        "attempt": 1,
        "prompt": "?",
        "completion": "!",
        "score": 0.25,
        "terms": {},
    }


def test_an_answer_has_200_rollouts_at_most(run: Run) -> None:
    """S131: and says how many there are."""
    answer = run.get(step=1)

    assert answer["count"] == 250
    assert [each["score"] for each in answer["rollouts"]] == list(range(200))
    assert run.scores(step=1, worst=200) == list(range(200))
    assert run.scores(step=1, best=3) == [249, 248, 247]
    assert run.get(400, step=1, best=201)["detail"].startswith("best: ")


def test_the_best_the_worst_and_the_first_are_asked_for_one_at_a_time(run: Run) -> None:
    """S128, S129: equal scores stay in the order of scoring."""
    worst = run.get(worst=3)["rollouts"]

    assert [(each["place"], each["score"]) for each in worst] == [(1, 0.25), (3, 0.25), (4, 0.5)]
    assert run.scores(best=2) == [1.0, 0.5]
    assert run.scores(limit=2) == [0.25, 1.0]
    assert run.get(400, best=1, limit=2)["detail"] == "state one of best, worst and limit"


def test_an_update_without_rollouts_is_a_problem_that_names_those_that_have_some(run: Run) -> None:
    """S127."""
    problem = run.get(404, step=5)

    assert problem["type"] == "/problems/rollouts-not-found"
    assert problem["detail"] == (
        f"run {run.run_id} kept no rollouts of update 5, it kept those of 1 to 4, 9"
    )


def test_a_run_without_rollouts_says_so(run: Run) -> None:
    """S126: no update to show is no fault; one that is asked for is."""
    other = Run(run.api, run.api.started())

    answer = other.get()
    problem = other.get(404, step=1)

    assert (answer["step"], answer["count"], answer["rollouts"]) == (None, 0, [])
    assert problem["detail"] == f"run {other.run_id} kept no rollouts"


def test_many_gaps_are_not_all_named(run: Run) -> None:
    other = Run(run.api, run.api.started())
    run.api.deliver(other.run_id, [scored(step, 1.0) for step in range(2, 40, 2)])

    problem = other.get(404, step=3)

    assert problem["detail"].endswith("those of 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and others")


def test_what_a_restore_took_back_is_asked_for_and_as_of_then_is_there(run: Run) -> None:
    """D13, D5: by superseded, by attempt, and at the moment before."""
    api, other = run.api, Run(run.api, run.api.started())
    lines = [scored(1, 0.5), *ledgers.step_lines(1, 1), scored(2, 0.75), *ledgers.step_lines(2, 2)]
    api.deliver(other.run_id, lines)
    before = other.get()
    restore = json.dumps({"kind": "restore", "step": 1})
    api.deliver(other.run_id, [restore, scored(2, 1.0)], first=len(lines) + 1)

    every = other.get(superseded="true")

    assert other.scores() == [1.0]
    assert [each["score"] for each in every["rollouts"]] == [0.75, 1.0]
    assert [each.get("superseded") for each in every["rollouts"]] == [True, None]
    assert every["rollouts"][0]["supersededBy"]["step"] == 1
    assert other.scores(attempt=1) == [0.75, 1.0]
    assert other.get(404, attempt=2)["type"] == "/problems/attempt-not-found"
    then = other.get(asOf=before["position"])
    assert then.pop("asOf")["position"] == before["position"]
    assert then == before


def test_events_say_how_many_were_scored_and_not_their_texts(run: Run) -> None:
    """A follower of a reinforcement run would else get megabytes; docs/events.md says so."""
    told = [json.loads(line) for line in run.api.events(run.run_id).splitlines()]
    scorings = [each for each in told if each["kind"] == "rolloutsScored"]

    assert [(each["step"], each["count"]) for each in scorings][:3] == [(1, 150), (1, 100), (2, 1)]
    assert all("rollouts" not in each for each in scorings)

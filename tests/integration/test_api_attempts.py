"""The attempts of a run over HTTP: the settings of each, and what all of them cost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import apis, ledgers
from tests.apis import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apis.api(tmp_path_factory.mktemp("home"), devices=("cpu:0",)) as server:
        yield server


def configured(rank: int) -> list[str]:
    """What a worker says of the settings that it trains with."""
    return [
        f'{{"kind": "hparams", "values": {{"rank": {rank}}}}}',
        f'{{"kind": "engineConfig", "requested": {{}}, "resolved": {{"rank": {rank}}}}}',
    ]


def test_the_settings_of_an_attempt_outlive_the_next_one(api: Api) -> None:
    """U8: settings are frozen per attempt."""
    run_id = api.started()
    api.deliver(run_id, configured(8), exit=apis.KILLED)
    api.opened_again(run_id)
    api.deliver(run_id, configured(16), attempt=2)

    shown = {
        asked: api.get(f"/v1/runs/{run_id}", **({"attempt": asked} if asked else {}))["settings"]
        for asked in (None, 1, 2)
    }

    assert [shown[n]["hyperparameters"] for n in (1, 2, None)] == [
        {"rank": 8},
        {"rank": 16},
        {"rank": 16},
    ]
    assert shown[1]["engineSettings"]["resolved"] == {"rank": 8}
    problem = api.get(f"/v1/runs/{run_id}", 404, attempt=3)
    assert problem["type"] == "/problems/attempt-not-found"
    assert problem["detail"] == f"run {run_id} has no attempt 3; it has 1 to 2"


def test_the_cost_of_a_run_is_that_of_all_its_attempts(tmp_path: Path) -> None:
    """S60, S61: and each has the price of the day on which it began."""
    book = tmp_path / "prices.toml"
    book.write_text(
        "[[prices]]\nprofile = 'a100'\nperHour = 3.6\ncurrency = 'EUR'\nfrom = 2020-01-01\n"
    )
    with apis.api(tmp_path, device_profile="a100") as api:
        run_id = api.started()
        api.deliver(run_id, ledgers.step_lines(1, 5))
        api.save(run_id, 5, line=6)
        api.deliver(run_id, ledgers.step_lines(6, 8), first=7, exit=apis.KILLED)
        api.opened_again(run_id)
        open_cost = api.get(f"/v1/runs/{run_id}")["cost"]
        api.deliver(
            run_id,
            [*ledgers.step_lines(6, 8), apis.COMPLETED],
            attempt=2,
            exit=apis.EXIT,
        )
        record = api.get(f"/v1/runs/{run_id}")

    cost, attempts = record["cost"], record["attempts"]
    assert open_cost["money"]["estimate"] is True
    assert len(attempts) == 2
    total = sum(each["cost"]["deviceSeconds"] for each in attempts)
    assert cost["deviceSeconds"] == pytest.approx(total)
    money = cost["money"]
    assert (money["currency"], money["profile"], money["estimate"]) == ("EUR", "a100", False)
    assert [each["attempt"] for each in money["perAttempt"]] == [1, 2]
    assert money["amount"] == pytest.approx(total * 0.001, abs=1e-6)

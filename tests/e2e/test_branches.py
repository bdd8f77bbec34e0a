"""Branches as their user has them: asked for once, prepared, trained, and who came from whom."""

import json
import urllib.request
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.chaos.proxy import Proxy
from tests.product import ENDS, Product, eventually

TRAINING = [{"training": 40}, {"steps": 40, "saveEvery": 20}, {"model": True}]
OTHER = [{"training": 30}, {"steps": 30, "saveEvery": 30}]
SLOW = [{"training": 2000}, {"steps": 2000, "seconds": 0.1, "saveEvery": 10}]


class Parent(NamedTuple):
    """A run that is over, and its snapshots."""

    run_id: str
    at_20: str
    at_40: str


@pytest.fixture(scope="module")
def parent(shared: Product) -> Parent:
    """A run of 40 updates with snapshots of 20 and 40."""
    run_id = shared.start(TRAINING)
    completed(shared, run_id)
    at_40, at_20 = snapshots(shared, run_id)
    return Parent(run_id, at_20, at_40)


def told(product: Product, path: str) -> Any:
    """What the server answers, without the time that a command takes to start."""
    described = json.loads((product.home / "server.json").read_text())
    token = (product.home / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{described['url']}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def snapshots(product: Product, run_id: str) -> list[str]:
    """The ids of a run's snapshots, newest first."""
    listed = told(product, f"/v1/runs/{run_id}/snapshots")["snapshots"]
    return [each["snapshotId"] for each in listed]


def completed(product: Product, run_id: str) -> dict[str, Any]:
    """The record of a run once it is completed."""

    def ended() -> dict[str, Any] | None:
        record: dict[str, Any] = told(product, f"/v1/runs/{run_id}")
        return record if record["phase"] in ENDS else None

    record = eventually(ended, f"{run_id} ended")
    assert record["phase"] == "COMPLETED", record["failure"]
    return record


def holders(product: Product, snapshot_id: str) -> list[str]:
    """The runs that need a snapshot."""
    held: list[str] = told(product, f"/v1/snapshots/{snapshot_id}")["heldBy"]
    return held


def branches(product: Product, run_id: str) -> list[dict[str, Any]]:
    """The branches of a run, newest first."""
    rows: list[dict[str, Any]] = told(product, f"/v1/runs/{run_id}/branches?limit=100")["branches"]
    return rows


def words(run_id: str, snapshot: str, *more: str, steps: int = 5) -> list[str]:
    """A command that branches."""
    return ["runs", "branch", run_id, "--snapshot", snapshot, "--steps", str(steps), *more]


def ask(product: Product, run_id: str, snapshot: str, *more: str, steps: int = 5) -> dict[str, Any]:
    """What the service answered to a branch."""
    answer: dict[str, Any] = product.json(*words(run_id, snapshot, *more, steps=steps))
    return answer


def complaints(product: Product, *commands: list[str], code: int) -> list[str]:
    """What commands say that run at the same time and end with status ``code``."""
    processes = [product.popen(*each) for each in commands]
    said = [each.communicate(timeout=60) for each in processes]
    assert [each.returncode for each in processes] == [code] * len(commands), said
    return [err for _, err in said]


def created(product: Product, run_id: str, token: str) -> str:
    """The child that a token asked for, once it is a run."""

    def decided() -> dict[str, Any] | None:
        path = f"/v1/runs/{run_id}/branches?submission={token}"
        branch: dict[str, Any] = told(product, path)["branches"][0]
        return branch if branch["state"] in ("created", "refused") else None

    branch = eventually(decided, f"{token} is decided")
    assert branch["state"] == "created", branch
    child: str = branch["childRunId"]
    return child


def position(product: Product) -> int:
    """Of the newest event of the ledger."""
    newest: int = told(product, "/v1/info")["position"]
    return newest


def test_five_more_updates_are_five_and_the_parent_is_the_same_bytes(
    shared: Product, parent: Parent
) -> None:
    """C22, S28, S137, S141, S158: followed through its preparation to its end."""
    before = shared.run("runs", "get", parent.run_id, "-o", "json")

    out = shared.run(*words(parent.run_id, parent.at_20, "--wait", "--exit-status", "--force"))

    child = out.split()[1]
    record = told(shared, f"/v1/runs/{child}")
    assert f"run {child} created" in out.splitlines()
    assert f"run {parent.run_id} at step 20 (snapshot {parent.at_20[:12]})" in out
    assert (record["phase"], record["observedStep"], record["savedStep"]) == ("COMPLETED", 5, 5)
    assert record["origin"]["snapshotId"] == parent.at_20
    assert shared.run("runs", "get", parent.run_id, "-o", "json") == before


def test_what_only_the_budget_may_say_is_refused_in_the_overrides(
    shared: Product, parent: Parent
) -> None:
    """C22, S142, S147, S148: by name, from a file of YAML; and nothing is stored."""
    changes = shared.home.parent / "changes.yaml"
    changes.write_text("config: {epochs: 2, maxSteps: 9, lerningRate: 1}\n")
    before = position(shared)

    (said,) = complaints(shared, words(parent.run_id, parent.at_20, "-f", str(changes)), code=4)

    for field in ("config.epochs cannot", "config.maxSteps cannot", "config.lerningRate is not"):
        assert f"\n  {field}" in said
    assert position(shared) == before


def test_the_engine_counts_on_where_the_child_counts_from_one(
    shared: Product, parent: Parent
) -> None:
    """S28, S124, S144: both numbers, at a rate of its own."""
    changes = shared.home.parent / "lower.json"
    changes.write_text('{"config": {"learningRate": 0.001}}')
    restore = ("--restore", "trainingState", "-f", str(changes), "--submission-id", "state")

    ask(shared, parent.run_id, parent.at_20, *restore)

    child = created(shared, parent.run_id, "state")
    assert completed(shared, child)["observedStep"] == 5
    steps = told(shared, f"/v1/runs/{child}/metrics")["steps"]
    measured = [(each["step"], each["measured"]) for each in steps]
    assert [(step, said["engine_step"]) for step, said in measured] == [
        (n, 20 + n) for n in range(1, 6)
    ]
    assert {said["learning_rate"] for _, said in measured} == {0.001}


def test_a_step_that_was_not_saved_is_refused_and_a_preview_says_so_too(
    shared: Product, parent: Parent
) -> None:
    """C23, S136, S140, S154: 41, another run's, none at all; the candidates are listed."""
    other = shared.start(OTHER)
    completed(shared, other)
    wrong = ["41", *snapshots(shared, other), ""]
    before = position(shared)

    said = complaints(
        shared,
        *(words(parent.run_id, each) for each in wrong),
        words(parent.run_id, wrong[0], "--dry-run"),
        code=3,
    )
    preview = shared.run(*words(parent.run_id, parent.at_20[:9], "--dry-run"))

    candidates = f"{parent.at_20} (step 20), {parent.at_40} (step 40)"
    assert all(candidates in each for each in said)
    assert "  maxSteps: 5  # stated" in preview
    assert position(shared) == before


class Losing(Random):
    """Loses the first answers, so many of them."""

    def __init__(self, lost: int) -> None:
        super().__init__(0)
        self._left = lost

    def random(self) -> float:
        """0 for an answer that is lost."""
        self._left -= 1
        return 0.0 if self._left >= 0 else 1.0


@pytest.fixture
def proxy(shared: Product) -> Iterator[Proxy]:
    """A way to the server that loses the first two answers."""
    described = shared.home / "server.json"
    proxy = Proxy(Losing(2), lambda: json.loads(described.read_text())["url"], loss=0.5)
    yield proxy
    proxy.close()


def test_the_answer_never_came_so_the_command_asks_again(
    shared: Product, parent: Parent, proxy: Proxy
) -> None:
    """C54, S161, S162: one child; the token is unknown before, and reaches the child after."""
    state = ["runs", "branches", parent.run_id, "--submission", "lost"]
    complaints(shared, state, code=3)
    before = len(branches(shared, parent.run_id))
    again = words(parent.run_id, parent.at_20, "--submission-id", "lost")

    answer = shared.json("--url", proxy.url, *again)

    child = created(shared, parent.run_id, "lost")
    assert proxy.lost_answers == 2
    assert answer["childRunId"] == child
    assert shared.run(*again) == f"run {child} created\n"
    listed = branches(shared, parent.run_id)
    assert len(listed) == before + 1
    assert shared.json(*state)["branches"] == listed[:1]


def test_all_who_ask_at_once_with_one_token_get_one_child(shared: Product, parent: Parent) -> None:
    """C54, S160, S161, D14: another body is refused; without a token there are two."""
    same = words(parent.run_id, parent.at_40, "--submission-id", "both", "-o", "json")
    other = words(parent.run_id, parent.at_40, "-o", "json")
    processes = [shared.popen(*each) for each in (same, same, same, other, other)]

    children = [json.loads(each.communicate(timeout=60)[0])["childRunId"] for each in processes]
    third = words(parent.run_id, parent.at_40, "--submission-id", "both", steps=6)
    (said,) = complaints(shared, third, code=4)

    assert len(set(children[:3])) == 1
    assert len(set(children)) == 3
    assert "submission both asked for another branch, of 5 updates" in said


def test_a_preparation_and_a_child_that_fail_are_told_by_the_exit_status(shared: Product) -> None:
    """S157, S158, S159: 1 with --exit-status, which alone is a usage error."""
    run_id = shared.start([{"training": 2}, {"steps": 2, "saveEvery": 1, "seconds": 0.05}])
    completed(shared, run_id)
    second, first = snapshots(shared, run_id)
    complaints(shared, words(run_id, first, "--exit-status"), code=2)
    (weights,) = (shared.home / "snapshots" / run_id / first).rglob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])

    follow = ("--wait", "--exit-status")
    (said,) = complaints(shared, words(run_id, first, *follow), code=1)
    long = shared.popen(*words(run_id, second, *follow, "--submission-id", "long", steps=5_000))
    eventually(lambda: len(branches(shared, run_id)) == 2, "both were asked for")
    shared.run("runs", "cancel", created(shared, run_id, "long"), "--force")
    long.communicate(timeout=60)

    assert "the source is damaged" in said
    assert long.returncode == 1
    refused = branches(shared, run_id)[-1]
    assert (refused["state"], refused["snapshotId"]) == ("refused", first)
    assert holders(shared, first) == []


def test_a_run_that_trains_is_branched_and_so_is_its_child(shared: Product) -> None:
    """D11, S139, I7, I13: the source is held; the parent goes on; three generations."""
    run_id = shared.start(SLOW, execution={"saveEvery": 10})
    first = eventually(lambda: snapshots(shared, run_id))[-1]
    ask(shared, run_id, first, "--submission-id", "c", steps=5_000)
    child = created(shared, run_id, "c")
    source = eventually(lambda: snapshots(shared, child), "the child saved something")[-1]
    ask(shared, child, source, "--submission-id", "g")
    grandchild = created(shared, child, "g")

    tree = shared.json("runs", "tree", grandchild)["runs"]
    ancestry = shared.json("runs", "ancestry", grandchild)["runs"]
    held = holders(shared, first)
    shared.run("runs", "cancel", child, "--force")
    eventually(lambda: not holders(shared, first), "the source is released")
    at_end = told(shared, f"/v1/runs/{run_id}")
    shared.run("runs", "cancel", run_id, "--force")

    family = [run_id, child, grandchild]
    assert [(each["generation"], each["runId"]) for each in tree] == list(enumerate(family))
    assert [each["runId"] for each in ancestry] == family
    assert [each["snapshotId"] for each in ancestry] == [None, first, source]
    assert held == [child]
    assert at_end["phase"] == "TRAINING"
    assert f"   `- {grandchild}" in shared.run("runs", "tree", run_id)


def test_a_sweep_is_all_points_or_none_and_reaches_the_same_children_again(
    shared: Product, parent: Parent
) -> None:
    """S161: one token for all; a point that cannot be leaves no other one behind."""
    sweep = ["runs", "sweep", parent.run_id, "--snapshot", parent.at_20, "--steps", "2"]
    axes = ["--axis", "config.learningRate=1e-4,2e-4", "--axis", "config.seed=1,2"]
    before = position(shared)
    (said,) = complaints(shared, [*sweep, "--axis", "config.seed=1,-1"], code=4)
    shared.run(*sweep, *axes, "--dry-run")
    assert position(shared) == before

    answers = [shared.json(*sweep, *axes, "--submission-id", "grid") for _ in range(2)]

    assert "point 2 of 2 (config.seed=-1): config.seed is -1" in said
    children = [each["childRunId"] for each in answers[0]["points"]]
    assert [each["childRunId"] for each in answers[1]["points"]] == children
    configurations = [
        told(shared, f"/v1/runs/{created(shared, parent.run_id, f'grid-{n}')}")["settings"][
            "configuration"
        ]
        for n in (1, 2, 3, 4)
    ]
    assert [(each["learningRate"], each["seed"]) for each in configurations] == [
        (1e-4, 1),
        (1e-4, 2),
        (2e-4, 1),
        (2e-4, 2),
    ]

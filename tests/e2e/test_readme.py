"""What the README tells a user to type works, and the folders of its tree are there."""

import re
import shlex
from pathlib import Path

import duckdb
import pytest

from tests.product import Product, eventually

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("trainledger ")
]


def test_every_command_of_the_readme_runs(shared: Product) -> None:
    """On a scripted run in place of one that trains for minutes."""
    sim = str(ROOT / "examples" / "sim.yaml")
    run_id = shared.json("runs", "start", "--force", "-f", sim)["runId"]
    slow = shared.start([{"steps": 600, "seconds": 0.1}])
    names = {"examples/triage/plan.yaml": sim, "my-plan.yaml": sim, "RUN": run_id}
    names["BASELINE"] = run_id
    names["examples/trainer_state.json"] = str(ROOT / "examples" / "trainer_state.json")

    assert len(COMMANDS) > 8
    for command in COMMANDS:
        _, *words = shlex.split(command)
        target = names | ({"RUN": slow} if {"cancel", "pause", "resume"} & set(words) else {})
        shared.run(*[target.get(word, word) for word in words])
        if "pause" in words:
            shared.wait_for_phase(slow, "PAUSED")


@pytest.mark.parametrize(
    "name",
    re.findall(r"^([a-z_]+(?:\.py|/)?)(?= {2,})", TEXT.split("## The tree")[1], re.MULTILINE),
)
def test_every_folder_of_the_tree_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_query_of_the_readme_answers_from_the_published_copy(shared: Product) -> None:
    """C55: any DuckDB client, while the server works."""
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    run_id = shared.start(
        [{"steps": 3}, {"step": 4, "measured": {"loss": 0.125}}], project="triage"
    )
    shared.wait_for_phase(run_id, "COMPLETED")

    def last_losses() -> dict[str, float]:
        with duckdb.connect(str(shared.home / "analytics.duckdb"), read_only=True) as client:
            return dict(client.execute(query).fetchall())

    eventually((shared.home / "analytics.duckdb").exists)
    assert eventually(lambda: last_losses().get(run_id)) == 0.125


def test_the_first_screen_names_the_two_commands() -> None:
    first = TEXT.split("## Use it")[0]

    assert "make demo" in first
    assert "make test" in first

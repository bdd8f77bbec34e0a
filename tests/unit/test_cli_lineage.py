"""Branches, trees and ancestries as text."""

import pytest

from cli.render.branches import branches, previewed, said
from cli.render.lineage import ancestry, tree
from cli.render.run import detail
from cli.render.sweep import sweep
from tests.cli_answers import SAVED_AT_40, branch, record
from tests.cli_server import RUN

IDS = [f"{n}" * 16 for n in range(1, 8)]


def run(generation: int, run_id: str, **facts: object) -> dict[str, object]:
    origin = {"parent": RUN, "snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"}
    began = {"origin": origin, "steps": 5} if generation else {"origin": None, "steps": None}
    said = {"runId": run_id, "name": None, "phase": "COMPLETED", "generation": generation}
    return said | began | facts


FAMILY = [
    run(0, IDS[0], name="first try"),
    run(1, IDS[1], phase="TRAINING"),
    run(2, IDS[2], steps=1_000),
    run(3, IDS[3]),
    run(2, IDS[4]),
    run(1, IDS[5], name="a\x1b[31m name"),
    run(2, IDS[6]),
]


def test_a_tree_is_drawn_below_its_root_in_characters_that_every_terminal_has() -> None:
    """I13, C53: ids are whole."""
    drawn = tree(FAMILY, width=None)

    assert [
        line.partition("  COMPLETED")[0].partition("  TRAINING")[0].rstrip()
        for line in drawn.splitlines()[1:]
    ] == [
        IDS[0],
        f"|- {IDS[1]}",
        f"|  |- {IDS[2]}",
        f"|  |  `- {IDS[3]}",
        f"|  `- {IDS[4]}",
        f"`- {IDS[5]}",
        f"   `- {IDS[6]}",
    ]
    assert drawn.isascii()
    assert "\x1b" not in drawn
    assert drawn.splitlines()[0].split() == [
        "run",
        "phase",
        "from",
        "step",
        "restore",
        "steps",
        "name",
    ]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_on_a_narrow_terminal_columns_go_and_ids_stay(width: int) -> None:
    """C53."""
    chain = [
        {**facts, "snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"} for facts in FAMILY
    ]
    texts = [
        tree(FAMILY, width=width),
        ancestry(chain, width=width),
        branches([branch(each) for each in IDS], width=width),
    ]

    assert all(each in text for text in texts for each in IDS)
    assert all(len(line) <= max(width, 25) for text in texts for line in text.splitlines())


def test_a_chain_of_a_thousand_generations_is_drawn() -> None:
    """I13."""
    chain = [run(n, f"{n:016x}") for n in range(1_000)]

    last = tree(chain, width=80).splitlines()[-1]

    assert last == f"{' ' * 3 * 998}`- {999:016x}"


def test_an_ancestry_is_the_line_from_the_root_with_what_each_began_from() -> None:
    """I13: snapshot, step, budget."""
    root = {"runId": RUN, "name": "first try", "phase": "COMPLETED", "snapshotId": None}
    child = {"runId": IDS[0], "name": None, "phase": "TRAINING", "snapshotId": SAVED_AT_40}
    nothing = {"step": None, "restore": None, "steps": None}
    began = {"step": 40, "restore": "trainingState", "steps": 5}

    lines = ancestry([root | nothing, child | began], width=None).splitlines()

    assert lines[1].split() == [RUN, "COMPLETED", "-", "-", "-", "-", "first", "try"]
    assert lines[2].split() == [
        IDS[0],
        "TRAINING",
        SAVED_AT_40[:12],
        "40",
        "trainingState",
        "5",
        "-",
    ]


def test_branches_are_a_table_with_source_budget_and_digest() -> None:
    """I12: source step, child id, config hash, budget."""
    (titles, line) = branches([branch(IDS[0], configName="lower rate")], width=None).splitlines()

    assert titles.split()[:4] == ["run", "state", "from", "step"]
    assert line.split() == [
        IDS[0],
        "created",
        "40",
        SAVED_AT_40[:12],
        "weights",
        "5",
        "5c" * 6,
        "2026-11-29",
        "10:00:41",
        "UTC",
        "lower",
        "rate",
    ]
    assert branches([], width=None) == "no branches\n"


def test_a_refused_branch_says_why_and_what_to_do() -> None:
    """S157: below the table too, where a column would be too narrow."""
    refusal = {"reason": "the source is damaged\n", "advice": "branch from another snapshot"}
    refused = branch(IDS[0], state="refused", refusal=refusal)
    sentence = f"run {IDS[0]} refused: the source is damaged\\n; branch from another snapshot"

    assert said(refused) == sentence
    assert branches([branch(IDS[1]), refused], width=40).splitlines()[-2:] == ["", sentence]
    assert said(branch(IDS[1])) == f"run {IDS[1]} created"


def test_a_branch_shows_where_it_came_from() -> None:
    """S138: parent, snapshot, step, restore, budget; and other runs show nothing of it."""
    origin = {"parent": IDS[0], "snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"}

    shown = detail(record(origin=origin), width=80, with_settings=False)

    assert f"  Branch of         run {IDS[0]} at step 40 (snapshot 3f2a9c71bd04)\n" in shown
    assert "                    restored: weights, budget: 120 steps\n" in shown
    assert "Branch of" not in detail(record(origin=None), width=80, with_settings=False)


def test_the_head_of_a_preview_is_a_comment() -> None:
    """S154: what follows is a plan."""
    origin = {"parent": IDS[0], "snapshotId": SAVED_AT_40, "step": 40, "restore": "weights"}

    head = previewed({"origin": origin, "steps": 1})

    assert head.splitlines() == [
        f"# a branch of run {IDS[0]} from snapshot 3f2a9c71bd04",
        "# (step 40, weights), for 1 update",
    ]


def test_a_sweep_is_a_table_of_points_with_their_children() -> None:
    """Issue 6: without children it is a preview."""
    point = {"values": {"config.learningRate": 1e-4, "config.schedule.kind": "linear"}}
    made = point | {"childRunId": IDS[0], "state": "requested"}

    assert sweep([point], width=None).splitlines() == [
        "point  config.learningRate  config.schedule.kind",
        "    1  0.0001               linear",
    ]
    assert sweep([made], width=None).splitlines()[1].split() == [
        "1",
        "0.0001",
        "linear",
        IDS[0],
        "requested",
    ]
    assert sweep([made], width=20).splitlines() == ["run", IDS[0]]

"""Who came from whom: a tree of runs, and the line from its root to one of them."""

from cli.render.table import Column, table
from cli.render.text import count, plain, short
from cli.wire import Json

_TREE = (
    Column("run"),
    Column("phase", drop=1),
    Column("from step", drop=2, right=True),
    Column("restore", drop=4),
    Column("steps", drop=3, right=True),
    Column("name", drop=5, label=True),
)
_ANCESTRY = (*_TREE[:2], Column("snapshot", drop=4), *_TREE[2:])


def tree(runs: list[Json], *, width: int | None) -> str:
    """One line for each run, drawn below its parent, with its id always whole."""
    rows: list[list[object]] = []
    open_generations: set[int] = set()  # of which another run comes further below
    for run in reversed(runs):
        generation = run["generation"]
        rows.append([_branches(generation, open_generations) + plain(run["runId"]), *_facts(run)])
        open_generations = {each for each in open_generations if each < generation} | {generation}
    return table(_TREE, rows[::-1], width)


def _branches(generation: int, open_generations: set[int]) -> str:
    """What is drawn before a run."""
    if generation == 0:
        return ""
    above = ("|  " if each in open_generations else "   " for each in range(1, generation))
    return "".join(above) + ("|- " if generation in open_generations else "`- ")


def _facts(run: Json) -> list[object]:
    origin = run["origin"]
    began = [count(origin["step"]), origin["restore"]] if origin else ["-", "-"]
    return [run["phase"], *began, _budget(run), run["name"] or "-"]


def ancestry(runs: list[Json], *, width: int | None) -> str:
    """One line for each run, the root first."""
    return table(_ANCESTRY, [_ancestor(each) for each in runs], width)


def _ancestor(run: Json) -> list[object]:
    is_root = run["snapshotId"] is None
    began = ["-"] * 3 if is_root else [short(run["snapshotId"]), count(run["step"]), run["restore"]]
    return [run["runId"], run["phase"], *began, _budget(run), run["name"] or "-"]


def _budget(run: Json) -> str:
    return "-" if run["steps"] is None else count(run["steps"])

"""How far a run is, and where a branch of it begins."""

from engine.worker.trl.facts import Progress

SAVED = Progress(
    step=5,
    base_step=20,
    next_rows=(3, 1),
    tokens=500,
    cells=600,
    loss_sum=9.5,
    owes_validation=True,
)


def test_a_branch_begins_where_the_engine_was_and_counts_anew() -> None:
    """S28, S138, S144: what the parent counted, and what it owes, stays the parent's."""
    begins = SAVED.branch()

    assert (begins.step, begins.base_step, begins.engine_step) == (0, 25, 25)
    assert begins.next_rows == (3, 1)
    assert (begins.tokens, begins.cells, begins.loss_sum) == (0, 0, 0.0)
    assert not begins.owes_validation


def test_a_file_from_before_there_were_branches_is_of_a_run_that_is_none() -> None:
    """S144."""
    older = SAVED.model_dump_json(by_alias=True, exclude={"base_step"})

    assert Progress.model_validate_json(older).engine_step == 5

"""Checking: the verdict and the Data fit that a run would have, without a run."""

from typing import Any

from engine.errors import RefusalError
from engine.prepare import keeping, preparation
from engine.prepare.preparation import Means, Recipe


def check(dataset: str, recipe: Recipe, means: Means) -> dict[str, Any]:
    """The verdict on a file of rows, as JSON. Rows that are tokenised here, no run has to again."""
    verdict: dict[str, Any] = {
        "dataset": dataset,
        "baseModel": recipe.base_model,
        "maxSeqLength": recipe.max_seq_length,
        "accepted": False,
        "reason": None,
        "form": None,
        "rows": None,
        "identity": None,
        "dataFit": None,
    }
    try:
        file = keeping.read(dataset)
        verdict |= {"form": file.form, "rows": len(file), "identity": file.identity()}
        (tokens,) = preparation.tokens_of([file], recipe, means)
        fit = tokens.fit(recipe.max_seq_length)
        verdict["dataFit"] = {
            "rows": fit.rows,
            "reached": fit.reached,
            "lostEnd": fit.lost_end,
            "dropped": fit.dropped,
            "longest": fit.longest,
        }
        preparation.refuse_empty(file.file, file.form, fit, recipe.max_seq_length, to="train on")
        verdict["accepted"] = True
    except RefusalError as refusal:
        verdict["reason"] = str(refusal)
    return verdict

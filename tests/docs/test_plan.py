"""What a plan may say is documented, and what is documented is so."""

import re
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from ledger import plan
from ledger.errors import PlanError

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plan.md").read_text("utf-8")


def parts(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Every mapping that a plan may hold."""
    found: list[type[BaseModel]] = [model]
    for field in model.model_fields.values():
        for kind in _models(field.annotation):
            found += parts(kind)
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, UnionType) or get_args(annotation):
        return [model for each in get_args(annotation) for model in _models(each)]
    return []


@pytest.mark.parametrize(
    "name", sorted({to_camel(name) for part in parts(plan.Plan) for name in part.model_fields})
)
def test_every_field_of_a_plan_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT)


def test_every_default_is_filled_in_at_submission() -> None:
    """I25: what the plan stated is marked, everything else is written out."""
    resolved, stated = plan.resolve(
        plan.parse({"baseModel": "m", "dataset": "d", "config": {"lora": {"rank": 4}}})
    )

    assert stated == ["baseModel", "config.lora.rank", "dataset"]
    assert resolved["config"]["lora"] == {
        "rank": 4,
        "alpha": 32.0,
        "dropout": 0.0,
        "targetModules": "all-linear",
    }
    assert resolved["config"]["epochs"] == 1.0
    assert resolved["execution"]["microBatchSequences"] == 4


def test_resolving_a_resolved_plan_changes_nothing() -> None:
    once, _ = plan.resolve(plan.parse({"baseModel": "m", "dataset": "d", "engine": "sim"}))

    assert plan.resolve(plan.parse(once))[0] == once


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"config": {"lr": 1}}, "config.lr is not a field of a plan"),
        ({"config": {"epochs": 1, "maxSteps": 2}}, "config: state epochs or maxSteps, not both"),
        ({"engine": {"cmd": ["x"]}}, "engine is none of: trl, sim, a mapping with command"),
        ({"engine": {"sim": [{"steps": 1, "step": 2}]}}, "states exactly one action"),
        ({"execution": {"startupTimeout": "10x"}}, "'10x' is no duration; write for example"),
        ({"method": "GRPO"}, "method GRPO needs a command engine"),
        (
            {"config": {"sequencesPerUpdate": 10}, "execution": {"microBatchSequences": 4}},
            "config.sequencesPerUpdate is 10, which execution.devices times "
            "execution.microBatchSequences (4) does not divide",
        ),
    ],
)
def test_a_fault_is_named_with_its_field(document: dict[str, Any], fault: str) -> None:
    """I1: refused by name."""
    with pytest.raises(PlanError) as caught:
        plan.parse({"baseModel": "m", "dataset": "d"} | document)

    assert fault in " | ".join(caught.value.faults)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("250ms", 0.25), (7, 7)]
)
def test_a_duration_is_a_number_with_its_unit(text: object, seconds: float) -> None:
    read = plan.parse({"baseModel": "m", "dataset": "d", "execution": {"lease": text}})

    assert read.execution.lease == seconds

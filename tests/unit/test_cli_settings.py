"""Settings as people read them in a terminal of 80 columns and in a pipe."""

from typing import Any

import pytest

from cli.render.engine_config import engine_config
from cli.render.settings import settings
from cli.render.text import cells

MODULES = [f"model.layers.{n}.self_attn.{name}_proj" for n in range(4) for name in "qkv"]
REQUESTED = {"learning_rate": 0.01, "peft": {"target_modules": "all-linear"}, "report_to": "none"}
RESOLVED: dict[str, Any] = {
    "learning_rate": 0.01,
    "peft": {"target_modules": MODULES},
    "report_to": [],
}


def longest(shown: str) -> int:
    return max(map(cells, shown.split("\n")))


def test_a_value_that_the_engine_spelled_out_is_wrapped_where_the_terminal_is_narrow() -> None:
    """S119, U18: every word of it, none beyond the last column."""
    shown = engine_config({"requested": REQUESTED, "resolved": RESOLVED}, width=80)

    assert shown.startswith(
        "Requested\n"
        "  learning_rate        0.01\n"
        "  peft.target_modules  all-linear\n"
        "                       resolved to model.layers.0.self_attn.q_proj\n"
        "                         model.layers.0.self_attn.k_proj\n"
    )
    assert shown.endswith("  report_to            none\n")
    assert all(name in shown for name in MODULES)
    assert longest(shown) <= 80


def test_in_a_pipe_each_setting_is_one_line() -> None:
    """S119: what is read by a program is not wrapped; what reads the same is no second value."""
    lines = engine_config({"requested": REQUESTED, "resolved": RESOLVED}, width=None).split("\n")

    assert lines[0].split() == ["setting", "requested", "resolved"]
    assert lines[2].split() == ["peft.target_modules", "all-linear", *MODULES]
    assert lines[3].split() == ["report_to", "none"]


def test_a_long_list_among_the_settings_is_wrapped() -> None:
    """S20: the groups are whole in 80 columns too."""
    record = {"settings": {"engineSettings": {"resolved": RESOLVED}}, "stated": []}

    shown = settings(record, 80)

    assert (
        "    resolved.peft.target_modules\n"
        "      model.layers.0.self_attn.q_proj model.layers.0.self_attn.k_proj\n"
        "      model.layers.0.self_attn.v_proj model.layers.1.self_attn.q_proj\n"
    ) in shown
    assert longest(shown) <= 80
    assert f"resolved.peft.target_modules  {' '.join(MODULES)}\n" in settings(record, None)


@pytest.mark.parametrize(
    ("phase", "said"), [("TRAINING", "not reported yet"), ("COMPLETED", "not reported")]
)
def test_what_a_run_that_has_ended_never_reported_is_not_promised(phase: str, said: str) -> None:
    """S20: the engine of a run may report neither hyperparameters nor settings."""
    record = {"phase": phase, "settings": {"hyperparameters": None}, "stated": []}

    assert f"  Hyperparameters\n    {said}\n  Engine settings\n    {said}\n" in settings(record, 80)

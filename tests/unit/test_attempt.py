"""Each line of a spool becomes one event, or one rejection that says why."""

import json
import math
from typing import Any

import pytest

from ledger import attempt
from ledger.attempt import JobHead
from ledger.events import (
    Event,
    LineRejected,
    Restored,
    RolloutsScored,
    StepReported,
    TrainingBegan,
    ValidationReported,
    WorkerRefused,
)
from ledger.run import Stamp
from tests import make

STAMP = Stamp(make.moment(100), "attempt/1")
STREAM = "run/00000000000000aa/a1"


def take(*lines: dict[str, Any] | str) -> list[Event]:
    """The events of these lines, taken one after the other."""
    head, events = JobHead(STREAM), []
    for line in lines:
        text = line if isinstance(line, str) else json.dumps(line)
        events.append(attempt.take(head, text, STAMP))
        head = attempt.evolve(head, events[-1])
    return events


def step(number: int, **measured: float) -> dict[str, Any]:
    return {"kind": "step", "step": number, "measured": measured or {"loss": 1.0}}


def rejection(event: Event) -> str:
    assert isinstance(event, LineRejected), event
    return event.reason


def test_the_version_of_an_event_is_the_number_of_its_line() -> None:
    events = take({"kind": "training", "totalSteps": 2}, step(1), "nonsense", step(2))

    assert [event.originator_version for event in events] == [1, 2, 3, 4]
    assert [type(event) for event in events] == [
        TrainingBegan,
        StepReported,
        LineRejected,
        StepReported,
    ]


def test_every_number_of_the_engine_is_kept_under_its_own_name() -> None:
    """S84, C40: names with slashes, colons, blanks and letters of any script."""
    names = ["actor/grad_norm", "a b:c__MIN", "损失", "p%/[x]"]
    (event,) = take(step(1, **dict.fromkeys(names, 0.5)))

    assert isinstance(event, StepReported)
    assert event.measured == dict.fromkeys(names, 0.5)


def test_numbers_that_are_not_finite_and_numbers_that_are_absent_stay_four_things() -> None:
    """C35, U11: as strings, as Python's own tokens, and as nothing at all."""
    line = '{"kind":"step","step":1,"measured":{"a":"NaN","b":Infinity,"c":"-Infinity","d":null}}'

    (event,) = take(line)

    assert isinstance(event, StepReported)
    assert math.isnan(event.measured["a"])
    assert event.measured["b"] == math.inf
    assert event.measured["c"] == -math.inf
    assert "d" not in event.measured


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "the line is not JSON"),
        ("[1]", "the line is no JSON object"),
        ('{"kind": "dance"}', "the kind 'dance' is unknown"),
        ('{"step": 1}', "the report has no kind"),
        ('{"kind": "step", "measured": {}}', "the field step is missing"),
        ('{"kind": "step", "step": 0, "measured": {}}', "step: Input should be greater than 0"),
        ('{"kind": "step", "step": true, "measured": {}}', "step: Input should be a valid integer"),
        (
            f'{{"kind": "step", "step": {2**53 + 1}, "measured": {{}}}}',
            "step: Input should be less",
        ),
        ('{"kind": "step", "step": 1, "measured": {"loss": "low"}}', "loss is 'low', which is not"),
        ('{"kind": "step", "step": 1, "measured": {"loss": true}}', "loss is True, which is not"),
        ('{"kind": "step", "step": 1, "loss": 2, "measured": {}}', "the field loss is unknown"),
        ('{"kind": "completed", "at": 1e300}', "at: Input should be less than or equal to"),
        ('{"kind": "stage", "stage": "\\ud800"}', "half a character"),
    ],
)
def test_a_line_that_is_no_report_is_kept_with_a_sentence_that_says_why(
    line: str, reason: str
) -> None:
    """Nothing that a worker said is lost, and nothing wrong counts."""
    (event,) = take(line)

    assert reason in rejection(event)
    assert event.text == line  # type: ignore[attr-defined]


def test_a_line_that_is_too_long_is_kept_up_to_its_limit() -> None:
    (event,) = take('{"kind": "stage", "stage": "' + "x" * 1_000_000 + '"}')

    assert "at most 1000000 are taken" in rejection(event)
    assert len(event.text) == 1_000_000  # type: ignore[attr-defined]


def test_other_numbers_of_the_same_step_are_taken_and_the_same_ones_are_not() -> None:
    """U2, C34: a step is one row; its fields may come in several lines, each once."""
    events = take(step(8660, loss=0.1333), step(8660, train_loss=0.28918), step(8660, loss=0.2))

    assert isinstance(events[1], StepReported)
    assert rejection(events[2]) == "step 8660 was reported before with loss"


def test_several_validation_sets_of_one_step_stay_apart() -> None:
    """C34: step 0 is kept, and six sets of one step are six validations."""
    lines = [
        {"kind": "validation", "step": 0, "dataset": name, "measured": {"eval_loss": 1.0}}
        for name in "abcdef"
    ]

    events = take(*lines, lines[0])

    assert all(isinstance(event, ValidationReported) for event in events[:6])
    assert rejection(events[6]) == "step 0 was validated before with eval_loss"


def test_going_back_needs_a_restore() -> None:
    """U1: inside an attempt a trainer says that it went back."""
    events = take(step(1), step(2), step(1), {"kind": "restore", "step": 1}, step(1), step(2))

    assert "step 1 came after 2; going back needs a line of kind restore" in rejection(events[2])
    assert isinstance(events[3], Restored)
    assert rejection(events[4]) == "step 1 was restored, the next one is later"
    assert isinstance(events[5], StepReported)


def test_nothing_is_restored_that_was_not_reached() -> None:
    events = take(step(3), {"kind": "restore", "step": 4})

    assert rejection(events[1]) == "restored to step 4, but the newest is 3"


def test_the_head_knows_how_the_worker_ended_in_its_own_words() -> None:
    """S66: the refusal's own sentence."""
    (event,) = take({"kind": "refused", "reason": "an example ends with a user message"})

    head = attempt.evolve(JobHead(STREAM), event)

    assert isinstance(event, WorkerRefused)
    assert (head.said, head.word) == ("refused", "an example ends with a user message")


def test_a_line_that_comes_again_is_recognised_by_what_it_says() -> None:
    line = json.dumps({**step(1, loss=0.5), "at": make.moment(99).timestamp()})
    (event,) = take(line)

    assert attempt.says_the_same(event, line)
    assert not attempt.says_the_same(event, json.dumps(step(1, loss=0.25)))


def test_what_cannot_be_written_again_is_rejected() -> None:
    """Values deeper than any writer of JSON goes; 100 levels are fine."""
    deep: dict[str, Any] = {}
    for _ in range(97):
        deep = {"in": deep}
    fine, rejected = take(
        {"kind": "hparams", "values": deep}, {"kind": "hparams", "values": {"a": {"b": deep}}}
    )

    assert fine.model_dump_json()
    assert rejection(rejected) == "the line holds values more than 100 levels deep"


def rollouts(number: int, *scored: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "rollouts", "step": number, "rollouts": list(scored)}


ROLLOUT: dict[str, Any] = {"prompt": "2 * 3?", "completion": "6", "score": 1.0}


def test_rollouts_are_kept_whole_before_and_after_their_update() -> None:
    """S125, S132, C35: texts, messages, scores that are no number; and how many there are."""
    chat = [{"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "ana"}]
    odd = {"prompt": chat, "completion": "", "score": "NaN", "terms": {"format": "-Infinity"}}

    before, _, after = take(rollouts(1, ROLLOUT, odd), step(1), rollouts(1, ROLLOUT))

    assert isinstance(before, RolloutsScored)
    assert (before.step, before.count) == (1, 2)
    first, second = before.rollouts
    assert (first.prompt, first.completion, first.score, first.terms) == ("2 * 3?", "6", 1.0, {})
    assert (second.prompt, second.completion) == (chat, "")
    assert math.isnan(second.score)
    assert second.terms == {"format": -math.inf}
    assert isinstance(after, RolloutsScored)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prompt": None}, "rollouts.1.prompt: expected a text, or messages that each have a role"),
        ({"prompt": []}, "rollouts.1.prompt: expected a text, or messages that each have a role"),
        ({"completion": [{"content": "6"}]}, "rollouts.1.completion: expected a text, or messages"),
        ({"score": None}, "rollouts.1.score: it is None, which is not a number"),
        ({"score": "high"}, "rollouts.1.score: it is 'high', which is not a number"),
        ({"terms": [1.0]}, "rollouts.1.terms: expected names with numbers, got [1.0]"),
        ({"reward": 1.0}, "the field rollouts.1.reward is unknown to a report of this kind"),
    ],
)
def test_a_rollout_that_is_none_is_rejected_with_its_place(
    changes: dict[str, Any], reason: str
) -> None:
    (event,) = take(rollouts(1, ROLLOUT, ROLLOUT | changes))

    assert rejection(event).startswith(reason)


def test_rollouts_of_an_update_that_was_restored_came_too_late() -> None:
    """D5: as for steps, what a trainer goes back to is not made again."""
    events = take(step(1), step(2), {"kind": "restore", "step": 1}, *map(rescored, (1, 2)))

    assert rejection(events[3]) == "step 1 was restored, the next one is later"
    assert isinstance(events[4], RolloutsScored)


def rescored(number: int) -> dict[str, Any]:
    return rollouts(number, ROLLOUT)

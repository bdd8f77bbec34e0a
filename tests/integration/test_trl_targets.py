"""Targets, with a tokenizer and a chat template of SmolLM2's shape."""

from copy import deepcopy
from importlib import import_module
from typing import Any

import pytest

from engine.worker.trl.errors import RefusalError
from engine.worker.trl.rows import ChatRow, Message
from engine.worker.trl.targets import IGNORED, prepare, tokenize


def chat(*texts: str) -> list[Message]:
    """Messages in which user and assistant take turns, the user first."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": each} for i, each in enumerate(texts)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return import_module("tests.tiny_model").make_tokenizer()


def test_the_targets_are_each_answer_its_end_and_the_newline_after_it(tokenizer: Any) -> None:
    """C04: a template without generation marks; never nothing, never the padding's id by chance."""
    messages = chat("Hi", "It is here.", "And now?", " Gone ")

    ids, labels = tokenize(tokenizer, ChatRow("rows.jsonl", 1, messages))

    trained = [token for token, label in zip(ids, labels, strict=True) if label != IGNORED]
    assert tokenizer.decode(trained) == "It is here.<|im_end|>\n Gone <|im_end|>\n"
    assert all(label in (IGNORED, token) for token, label in zip(ids, labels, strict=True))


def test_the_start_token_stands_once_before_each_message(tokenizer: Any) -> None:
    """C07: the template writes it; tokenizing adds no second one."""
    ids, _ = tokenize(tokenizer, ChatRow("rows.jsonl", 1, chat("Hi", "Yes.")))

    assert tokenizer.decode(ids).count("<|im_start|>") == 3  # with the default system turn
    assert ids.count(tokenizer.bos_token_id) == 3


def test_a_template_that_rewrites_earlier_answers_is_refused_by_name(tokenizer: Any) -> None:
    """C04: the product never guesses the targets."""
    changed = deepcopy(tokenizer)
    changed.chat_template = (
        "{% for m in messages %}{{ m['content'] if loop.last else 'earlier' }};{% endfor %}"
    )
    row = ChatRow("rows.jsonl", 4, chat("Hi", "One.", "And?", "Two."))

    with pytest.raises(RefusalError, match=r"the chat template of .* row 4 of rows\.jsonl"):
        tokenize(changed, row)


def test_rows_whose_prompt_fills_the_window_are_refused(tokenizer: Any) -> None:
    """C02: 8 of 8 rows have nothing left to train on."""
    long = [ChatRow("rows.jsonl", n, chat("word " * 200, "ok")) for n in range(1, 9)]

    with pytest.raises(RefusalError, match=r"nothing left to train on: in 8 of 8 rows"):
        prepare(tokenizer, long, max_seq_length=64, progress=lambda done: None)  # noqa: ARG005


def test_one_good_row_among_them_trains_alone(tokenizer: Any) -> None:
    """C02, S48: dropped = 8."""
    long = [ChatRow("rows.jsonl", n, chat("word " * 200, "ok")) for n in range(1, 9)]
    good = ChatRow("rows.jsonl", 9, chat("a", "ok"))

    kept, fit = prepare(
        tokenizer,
        [*long, good],
        max_seq_length=80,
        progress=lambda done: None,  # noqa: ARG005
    )

    assert (len(kept), fit.dropped, fit.lost_end, fit.reached) == (1, 8, 8, 8)

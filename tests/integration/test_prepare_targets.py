"""Targets, tool calls and refusals, with chat templates of the shapes that models have."""

from copy import deepcopy
from importlib import import_module
from typing import Any

import pytest

from engine.prepare.chat import ChatRow, Message
from engine.prepare.faults import Fault
from engine.prepare.rendering import Renderer
from engine.prepare.tokenizing import Chunk, Tokenizing, processes_for, tokenize
from engine.prepare.tokens import TokenRow, TokenRows

IGNORED = -100

# As models have them: with turns that must alternate, with trimmed texts, with tools, and so on.
ALTERNATING = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %} {{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)
TRIMMING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n\n{{ m['content'] | trim }}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\n{% endif %}"
)
WITH_TOOLS = (
    "{% if tools %}<|im_start|>tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>"
    "{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] %}{{ m['content'] }}{% endif %}"
    "{% for c in m['tool_calls'] or [] %}<call>{{ c['function'] | tojson }}</call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WITH_PYTHON_CALLS = WITH_TOOLS.replace("c['function'] | tojson", "c['function']")
WITHOUT_THOUGHTS = TRIMMING.replace(
    "m['content'] | trim",
    "(m['content'].split('</think>') | last if m['role'] == 'assistant' and not loop.last"
    " else m['content'])",
)
WITHOUT_SYSTEM = TRIMMING.replace(
    "{% for m in messages %}", "{% for m in messages if m['role'] != 'system' %}"
)
STARTING_TWICE = "<|im_start|>" + TRIMMING
CHANGING_EARLIER_ANSWERS = (
    "{% for m in messages %}{{ m['content'] if loop.last else 'earlier' }};{% endfor %}"
)


def chat(*texts: str) -> list[Message]:
    """Messages in which user and assistant take turns, the user first."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": each} for i, each in enumerate(texts)]


def in_roles(*said: tuple[str, str]) -> list[Message]:
    return [{"role": role, "content": text} for role, text in said]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return import_module("tests.tiny_model").make_tokenizer()


def having(tokenizer: Any, template: str) -> Any:
    """The tokenizer of a model with another chat template."""
    changed = deepcopy(tokenizer)
    changed.chat_template = template
    return changed


def tokens(tokenizer: Any, *messages: list[Message], length: int = 2048) -> Chunk:
    return Tokenizing(tokenizer, length)([ChatRow(each) for each in messages])


def row(tokenizer: Any, messages: list[Message]) -> TokenRow:
    """The one row that there is, which has no fault."""
    chunk = tokens(tokenizer, messages)
    assert not chunk.faults
    return TokenRows.joined([chunk.batch])[0]


def trained(tokenizer: Any, messages: list[Message]) -> str:
    """The text that is trained."""
    ids, labels = row(tokenizer, messages)
    assert all(label in (IGNORED, token) for token, label in zip(ids, labels, strict=True))
    return str(tokenizer.decode([label for label in labels if label != IGNORED]))


def fault(tokenizer: Any, made: ChatRow | list[Message]) -> Fault:
    (found,) = Renderer(tokenizer).render([made if isinstance(made, ChatRow) else ChatRow(made)])
    assert isinstance(found, Fault), found
    return found


# What is trained.


def test_the_targets_are_each_answer_its_end_and_the_newline_after_it(tokenizer: Any) -> None:
    """C04: a template without generation marks; never nothing, never the padding's id by chance."""
    messages = chat("Hi", "It is here.", "And now?", " Gone ")

    assert trained(tokenizer, messages) == "It is here.<|im_end|>\n Gone <|im_end|>\n"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (ALTERNATING, " It is here.<|im_end|> Gone<|im_end|>"),
        (TRIMMING, "It is here.<|im_end|>Gone<|im_end|>"),
        (WITH_TOOLS, "It is here.<|im_end|>\nGone<|im_end|>\n"),
    ],
    ids=["alternating", "trimming", "with tools"],
)
def test_any_template_that_never_takes_back_what_it_wrote_will_do(
    tokenizer: Any, template: str, expected: str
) -> None:
    """C04: whatever it writes around an answer."""
    messages = chat("Hi", "It is here.", "And now?", "Gone")

    assert trained(having(tokenizer, template), messages) == expected


def test_a_text_that_the_template_trims_is_trained_as_the_template_writes_it(
    tokenizer: Any,
) -> None:
    """C04: where its frame alone does not say what is written."""
    trimming = having(tokenizer, TRIMMING)

    assert trained(trimming, chat(" Hi ", " Gone \n")) == "Gone<|im_end|>"


def test_every_way_to_find_the_targets_finds_the_same(tokenizer: Any) -> None:
    """C04: by the frame that was learnt, and by comparing; with odd texts, and with equal ones."""
    texts = ["", "a", "a", "message-000001-text", "é日本😀", "{{ x }}", "<|im_end|>", " \n "]
    made = [
        ChatRow(chat(*[texts[(n + shift * n) % len(texts)] for n in range(size)]))
        for size in (2, 4, 6)
        for shift in range(8)
    ]
    renderer = Renderer(tokenizer)

    fast = renderer.render(made)
    slow = [renderer.compare(each) for each in made]

    assert fast == slow
    assert not any(isinstance(each, Fault) for each in fast)


def test_the_start_token_stands_once_before_each_message(tokenizer: Any) -> None:
    """C07: the template writes it; tokenizing adds no second one, whatever the tokenizer would."""
    adding = deepcopy(tokenizer)
    processors = import_module("tokenizers.processors")
    adding.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", tokenizer.bos_token_id)]
    )
    assert adding("a")["input_ids"][0] == tokenizer.bos_token_id

    for each in (tokenizer, adding):
        ids, _ = row(each, chat("Hi", "Yes.", "So?", "No."))
        assert each.decode(ids).count("<|im_start|>") == 5  # with the default system turn
        assert ids.count(each.bos_token_id) == 5
        assert ids[1] != each.bos_token_id


def test_answers_that_follow_one_another_are_trained_each_by_itself(tokenizer: Any) -> None:
    """C13: as docs/data.md says; where the template takes it."""
    messages = in_roles(("user", "Hi"), ("assistant", "One."), ("assistant", "Two."))

    assert trained(tokenizer, messages) == "One.<|im_end|>\nTwo.<|im_end|>\n"
    refused = fault(having(tokenizer, ALTERNATING), messages)
    assert refused.where == "its roles are user, assistant, assistant"
    assert "alternate" in refused.advice
    assert "must" not in " ".join(refused)  # the template's own words


def test_what_the_tokenizers_file_says_of_cutting_and_padding_is_not_done(tokenizer: Any) -> None:
    """C04: the whole row is tokenised, and the tokenizer stays what it was."""
    cutting = deepcopy(tokenizer)
    cutting.backend_tokenizer.enable_truncation(4)
    cutting.backend_tokenizer.enable_padding(length=500)
    messages = chat("Where is it?", "It is on its way.")

    found = row(cutting, messages)

    assert found == row(tokenizer, messages)
    assert cutting.backend_tokenizer.truncation["max_length"] == 4
    assert cutting.backend_tokenizer.padding["length"] == 500


# What is refused.


def test_a_template_that_rewrites_earlier_answers_is_refused_by_name(tokenizer: Any) -> None:
    """C04: the product never guesses the targets."""
    changed = having(tokenizer, CHANGING_EARLIER_ANSWERS)
    changed.name_or_path = "models/odd"

    found = fault(changed, chat("Hi", "One.", "And?", "Two."))

    assert found.sentence == "the chat template of models/odd does not take an example"
    assert found.where == "messages[1]"


def test_a_template_that_leaves_out_thoughts_is_refused_for_rows_that_have_some(
    tokenizer: Any,
) -> None:
    """C04: it depends on what a message says, which the frame of another row does not show."""
    changed = having(tokenizer, WITHOUT_THOUGHTS)
    plain, thinking = chat("Hi", "One.", "And?", "Two."), chat("Hi", "x</think>1", "And?", "2")

    chunk = tokens(changed, plain, thinking, plain)

    assert set(chunk.faults) == {1}
    assert chunk.faults[1].where == "messages[1]"


def test_a_message_that_the_template_leaves_out_is_refused(tokenizer: Any) -> None:
    """C08: nothing of an example is dropped in silence."""
    changed = having(tokenizer, WITHOUT_SYSTEM)
    messages = in_roles(("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes."))

    found = fault(changed, messages)

    assert found.sentence.endswith("does not write the content of a message of role system")
    assert found.where == "messages[0].content"


def test_a_second_start_token_is_refused(tokenizer: Any) -> None:
    """C07: where the template itself writes two."""
    chunk = tokens(having(tokenizer, STARTING_TWICE), chat("Hi", "Yes."))

    assert chunk.faults[0].sentence == "an example begins with the start token twice"
    assert TokenRows.joined([chunk.batch])[0].input_ids == []


# Tools.

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}
NULL = {"type": "function", "function": {"name": "weather", "arguments": {"city": None}}}


def calling(call: dict[str, Any], tools: list[Message] | None = None) -> ChatRow:
    return ChatRow(
        [
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": '{"rain": "no"}'},
            {"role": "assistant", "content": "No."},
        ],
        tools or [],
    )


def test_tool_calls_are_trained_where_the_template_writes_them(tokenizer: Any) -> None:
    """C08: the call is a target, what the tool said is not."""
    changed = having(tokenizer, WITH_TOOLS)

    chunk = Tokenizing(changed, 2048)([calling(CALL, TOOLS), calling(NULL)])

    assert not chunk.faults
    ids, labels = TokenRows.joined([chunk.batch])[0]
    text = changed.decode(ids)
    assert '"parameters": {"type": "object"}' in text
    assert changed.decode([label for label in labels if label != IGNORED]) == (
        '<call>{"name": "weather", "arguments": {"city": "Zürich"}}</call><|im_end|>\n'
        "No.<|im_end|>\n"
    )
    second = changed.decode(TokenRows.joined([chunk.batch])[1].input_ids)
    assert '{"city": null}' in second
    assert "None" not in second


def test_tools_that_the_template_does_not_write_are_refused(tokenizer: Any) -> None:
    """C08: naming what is missing; SmolLM2's template knows no tools."""
    called = fault(tokenizer, calling(CALL))
    offered = fault(tokenizer, ChatRow(chat("Hi", "I call weather."), TOOLS))

    assert called.sentence.endswith("does not write a tool call")
    assert called.where == "messages[1].tool_calls[0]"
    assert offered.sentence.endswith("does not write the tools that a row offers")
    assert offered.where == "tools"
    assert "write that into the content of a message" in called.advice


def test_null_is_never_written_as_pythons_word_for_it(tokenizer: Any) -> None:
    """C08: unless the example itself has that word."""
    changed = having(tokenizer, WITH_PYTHON_CALLS)
    word = {"function": {"name": "weather", "arguments": {"city": "None"}}}

    assert fault(changed, calling(NULL)).sentence.endswith("does not write null as JSON")
    assert not Tokenizing(changed, 2048)([calling(word)]).faults
    assert "None of it." in trained(changed, chat("Hi", "None of it."))


# Many rows.


def test_several_processes_make_the_rows_that_one_makes_in_the_same_order(tokenizer: Any) -> None:
    """S95: deterministic, whatever the number of cores."""
    made = [ChatRow(chat(f"Where is parcel {n}?", "It is here. " * (n % 7))) for n in range(1500)]
    step = Tokenizing(tokenizer, 48)

    one, three = (
        TokenRows.joined([chunk.batch for chunk in tokenize(made, step, processes=number)])
        for number in (1, 3)
    )

    assert len(one) == 1500
    assert three.table.equals(one.table)


def test_only_work_that_is_worth_it_is_done_by_several_processes() -> None:
    """A process of its own costs more than a few rows."""
    few = [ChatRow(chat("a", "b"))] * 1000
    many = [ChatRow(chat("a" * 10_000, "b"))] * 1000
    cores = import_module("os").sched_getaffinity(0)

    assert processes_for(few) == 1
    assert processes_for(many) == len(cores)

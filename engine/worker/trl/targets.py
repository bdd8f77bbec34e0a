"""Targets: which tokens of a rendered conversation are trained, and what the cut leaves of them.

The targets of a conversation are the text of each assistant message, the end of its turn, and
what the template puts after it. They are found by comparing texts: the conversation up to the
answer, with the template's own invitation to answer, against the conversation with it. So any
template works that renders the beginning of a conversation the same however it goes on; one that
does not is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jinja2 import TemplateError

from engine.worker.trl.errors import RefusalError
from engine.worker.trl.rows import ChatRow

IGNORED = -100  # the label of a token that is read but not trained

Progress = Callable[[int], None]  # called with the rows done so far


class TokenRow(NamedTuple):
    """One example as the trainer takes it."""

    input_ids: list[int]
    labels: list[int]  # the token itself where it is a target, else IGNORED


@dataclass(frozen=True)
class Fit:
    """How the rows fit the maximum sequence length."""

    rows: int
    reached: int  # rows of at least the maximum length, before the cut
    lost_end: int  # rows with a target beyond the cut
    dropped: int  # rows without any target before the cut
    longest: int  # tokens of the longest row, before the cut


def prepare(
    tokenizer: Any, rows: list[ChatRow], *, max_seq_length: int, progress: Progress
) -> tuple[list[TokenRow], Fit]:
    """The rows as tokens and labels, cut to ``max_seq_length``, without those that teach nothing.

    Raises:
        RefusalError: the chat template does not take a row, or no row has a target left.
    """
    whole = []
    for done, row in enumerate(rows):
        progress(done)
        whole.append(tokenize(tokenizer, row))
    progress(len(rows))
    kept = [cut for row in whole if (cut := _cut(row, max_seq_length)) is not None]
    fit = _fit(whole, max_seq_length, dropped=len(whole) - len(kept))
    if not kept:
        raise RefusalError(
            f"nothing left to train on: in {fit.dropped} of {fit.rows} rows of {rows[0].file} the "
            f"answer begins after the first {max_seq_length} tokens (the longest row has "
            f"{fit.longest}); raise config.maxSeqLength or shorten the prompts"
        )
    return kept, fit


def tokenize(tokenizer: Any, row: ChatRow) -> TokenRow:
    """The whole row, uncut. The template writes the start token itself, so none is added."""
    text, spans = target_spans(tokenizer, row)
    tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids: list[int] = tokens["input_ids"]
    labels = [
        token if any(start <= first and start < last <= end for start, end in spans) else IGNORED
        for token, (first, last) in zip(ids, tokens["offset_mapping"], strict=True)
    ]
    return TokenRow(ids, labels)


def target_spans(tokenizer: Any, row: ChatRow) -> tuple[str, list[tuple[int, int]]]:
    """The conversation as text, and from where to where each of its answers reaches."""
    text = _render(tokenizer, row, upto=len(row.messages))
    spans = []
    for place, message in enumerate(row.messages):
        if message["role"] == "assistant":
            asked = _render(tokenizer, row, upto=place, inviting=True)
            answered = _render(tokenizer, row, upto=place + 1)
            if not (answered.startswith(asked) and text.startswith(answered)):
                raise _template_refusal(tokenizer, row, f"around messages[{place}]")
            spans.append((len(asked), len(answered)))
    return text, spans


def _render(tokenizer: Any, row: ChatRow, *, upto: int, inviting: bool = False) -> str:
    """The first ``upto`` messages as the template writes them."""
    try:
        return str(
            tokenizer.apply_chat_template(
                row.messages[:upto], tokenize=False, add_generation_prompt=inviting
            )
        )
    except (TemplateError, IndexError, KeyError, TypeError):
        raise _template_refusal(tokenizer, row, f"up to messages[{upto - 1}]") from None


def _template_refusal(tokenizer: Any, row: ChatRow, where: str) -> RefusalError:
    return RefusalError(
        f"the chat template of {tokenizer.name_or_path} does not take row {row.number} of "
        f"{row.file} {where}: it refuses the order of the messages, or writes an answer "
        "differently once the conversation goes on; let the messages alternate between user and "
        "assistant, or give the base model's folder another chat template"
    )


def _cut(row: TokenRow, length: int) -> TokenRow | None:
    """The beginning of the row; None if that holds no target."""
    cut = TokenRow(row.input_ids[:length], row.labels[:length])
    return cut if any(label != IGNORED for label in cut.labels) else None


def _fit(rows: list[TokenRow], length: int, *, dropped: int) -> Fit:
    lengths = [len(row.input_ids) for row in rows]
    return Fit(
        rows=len(rows),
        reached=sum(each >= length for each in lengths),
        lost_end=sum(any(label != IGNORED for label in row.labels[length:]) for row in rows),
        dropped=dropped,
        longest=max(lengths),
    )

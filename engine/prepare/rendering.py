"""Rendering: a chat as the model's template writes it, and where the targets are in that text.

The targets are the text of each assistant message, the end of its turn, and what the template puts
after it. They are found by comparing texts: the chat up to the answer, with the template's own
invitation to answer, against the chat with it. So any template works that renders the beginning of
a chat the same however it goes on; one that does not is refused, and so is one that leaves out a
part of the example.

Comparing takes two texts for each answer. Chats with the same order of roles have the same text
between their messages, unless the template looks into them; so that text is learnt once for each
order, and a chat whose one rendered text is made of it and its messages needs no other.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from jinja2 import TemplateError

from engine.prepare.chat import ChatRow, Message, strings
from engine.prepare.faults import Fault

_RAISED = (TemplateError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_NULL = re.compile(r"\bNone\b")
_OTHER_ORDER = (
    "it refuses the order of the messages, or writes an answer differently once the conversation "
    "goes on; let the messages alternate between user and assistant, or give the base model's "
    "folder another chat template"
)

Roles = tuple[str, ...]


class Rendered(NamedTuple):
    """A chat as text."""

    text: str
    spans: list[tuple[int, int]]  # from where to where each of its answers reaches


class Frame(NamedTuple):
    """What a template writes around the messages of one order of roles."""

    pieces: list[str]  # before each message, and after the last
    spans: list[tuple[tuple[int, int], tuple[int, int]]]  # ends, each as piece and place in it


class Renderer:
    """Renders chats; it remembers the frames that it has learnt."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._frames: dict[Roles, Frame | None] = {}

    def render(self, rows: Sequence[ChatRow]) -> list[Rendered | Fault]:
        """Each row as text, or what keeps it from being rendered."""
        plain = [row for row in rows if not _has_tools(row)]
        texts = iter(self._whole([row.messages for row in plain]))
        return [
            self.compare(row) if _has_tools(row) else self._fit(row, next(texts)) for row in rows
        ]

    def _whole(self, chats: Sequence[list[Message]]) -> Sequence[str | None]:
        """Each chat as one text; None for all where the template refuses one of them."""
        try:
            texts: list[str] = self._tokenizer.apply_chat_template(list(chats), tokenize=False)
        except _RAISED:
            return [None] * len(chats)
        return texts

    def _fit(self, row: ChatRow, text: str | None) -> Rendered | Fault:
        """The row by the frame of its roles, if its text is made of that."""
        frame = self._frame(tuple(message["role"] for message in row.messages))
        contents = [message["content"] for message in row.messages]
        if text is None or frame is None or text != _joined(frame.pieces, contents):
            return self.compare(row)
        return Rendered(text, _spans(frame, contents))

    def _frame(self, roles: Roles) -> Frame | None:
        """What surrounds the messages of these roles; None where it depends on what they say."""
        if roles not in self._frames:
            marks = [f"message-{number:06}-text" for number in range(len(roles))]
            made = [
                {"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)
            ]
            found = self.compare(ChatRow(made))
            self._frames[roles] = None if isinstance(found, Fault) else _frame(found, marks)
        return self._frames[roles]

    def compare(self, row: ChatRow) -> Rendered | Fault:
        """The row by comparing the text up to each answer with the text that has it."""
        text = self._text(row, upto=len(row.messages))
        if text is None:
            roles = ", ".join(message["role"] for message in row.messages)
            return self._untaken(f"its roles are {roles:.200}")
        spans = []
        for place, message in enumerate(row.messages):
            if message["role"] == "assistant":
                span = self._span(row, place, text)
                if span is None:
                    return self._untaken(f"messages[{place}]")
                spans.append(span)
        missing = (
            self._unwritten_tools(row, text)
            or _left_out(row, text, spans)
            or _foreign_null(row, text, str(self._tokenizer.chat_template))
        )
        return self._left_out(*missing) if missing else Rendered(text, spans)

    def _span(self, row: ChatRow, place: int, text: str) -> tuple[int, int] | None:
        """From where to where in ``text`` an answer reaches; None where that is not certain."""
        is_last = place + 1 == len(row.messages)
        asked = self._text(row, upto=place, inviting=True)
        answered = text if is_last else self._text(row, upto=place + 1)
        if asked is None or answered is None:
            return None
        is_stable = answered.startswith(asked) and text.startswith(answered)
        return (len(asked), len(answered)) if is_stable else None

    def _text(self, row: ChatRow, *, upto: int, inviting: bool = False) -> str | None:
        """The first ``upto`` messages as the template writes them; None where it does not."""
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    row.messages[:upto],
                    tools=row.tools or None,
                    tokenize=False,
                    add_generation_prompt=inviting,
                )
            )
        except _RAISED:
            return None

    def _unwritten_tools(self, row: ChatRow, text: str) -> tuple[str, str] | None:
        """Where tools are offered and the text is the same without them."""
        if not row.tools or text != self._text(ChatRow(row.messages), upto=len(row.messages)):
            return None
        return "the tools that a row offers", "tools"

    def _untaken(self, where: str) -> Fault:
        name = self._tokenizer.name_or_path
        return Fault(f"the chat template of {name} does not take an example", where, _OTHER_ORDER)

    def _left_out(self, what: str, where: str) -> Fault:
        name = self._tokenizer.name_or_path
        return Fault(
            f"the chat template of {name} does not write {what}",
            where,
            "write that into the content of a message, leave it out, or give the base model's "
            "folder a chat template that writes it",
        )


def _has_tools(row: ChatRow) -> bool:
    """Whether a template is given more than roles and texts."""
    return bool(row.tools) or any(len(message) > 2 for message in row.messages)


# -- frames


def _frame(found: Rendered, marks: Sequence[str]) -> Frame | None:
    """What stands between the marks; None where it is not once each of them, in their order."""
    pieces, rest = [], found.text
    for mark in marks:
        piece, _, rest = rest.partition(mark)
        pieces.append(piece)
    pieces.append(rest)
    if _joined(pieces, marks) != found.text or any("message-0" in piece for piece in pieces):
        return None
    starts = _starts(pieces, marks)
    ends = [
        (_place(pieces, starts, first), _place(pieces, starts, last)) for first, last in found.spans
    ]
    spans = [(first, last) for first, last in ends if first is not None and last is not None]
    return Frame(pieces, spans) if len(spans) == len(ends) else None


def _place(pieces: Sequence[str], starts: Sequence[int], at: int) -> tuple[int, int] | None:
    """In which piece ``at`` is, and where in it; None within a message."""
    found = ((n, at - start) for n, start in enumerate(starts))
    return next(((n, place) for n, place in found if 0 <= place <= len(pieces[n])), None)


def _starts(pieces: Sequence[str], contents: Sequence[str]) -> list[int]:
    """Where each piece begins in the text."""
    lengths = [len(piece) + len(each) for piece, each in zip(pieces, contents, strict=False)]
    return list(accumulate(lengths, initial=0))


def _joined(pieces: Sequence[str], contents: Sequence[str]) -> str:
    return "".join(_alternate(pieces, contents))


def _alternate(pieces: Sequence[str], contents: Sequence[str]) -> Iterator[str]:
    for piece, content in zip(pieces, contents, strict=False):
        yield piece
        yield content
    yield pieces[-1]


def _spans(frame: Frame, contents: Sequence[str]) -> list[tuple[int, int]]:
    starts = _starts(frame.pieces, contents)
    return [
        (starts[first] + first_place, starts[last] + last_place)
        for (first, first_place), (last, last_place) in frame.spans
    ]


# -- what a template leaves out


def _left_out(row: ChatRow, text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, str] | None:
    """A part of the example that is not in its text, and the field; None where all of it is."""
    answers = iter(spans)
    for place, message in enumerate(row.messages):
        is_answer = message["role"] == "assistant"
        part = text[slice(*next(answers))] if is_answer else text
        if not _holds(part, message["content"].strip()):
            return (
                f"the content of a message of role {message['role']}",
                f"messages[{place}].content",
            )
        for number, call in enumerate(message.get("tool_calls", [])):
            said = [call["function"]["name"], *strings(call["function"]["arguments"])]
            if not all(_holds(part, each) for each in said):
                return "a tool call", f"messages[{place}].tool_calls[{number}]"
    return None


def _holds(text: str, part: str) -> bool:
    """Whether ``part`` is in ``text``, as it is or inside a JSON string."""
    forms = (json.dumps(part, ensure_ascii=only_ascii)[1:-1] for only_ascii in (False, True))
    return part in text or any(form in text for form in forms)


def _foreign_null(row: ChatRow, text: str, template: str) -> tuple[str, str] | None:
    """Where the text has Python's word for null, which neither the example nor the template has."""
    count = len(_NULL.findall(text))
    if not count:
        return None
    known = [template, *strings([message["content"] for message in row.messages])]
    known += strings([row.tools, *(message.get("tool_calls", []) for message in row.messages)])
    if count <= sum(len(_NULL.findall(each)) for each in known):
        return None
    return "null as JSON", "messages or tools"

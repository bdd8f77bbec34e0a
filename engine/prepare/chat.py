"""Chat rows: the messages of an example in the form that chat templates take, or its fault.

Nothing here needs a tokenizer, so a refusal takes a moment.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from engine.prepare.faults import Fault, kind

ROLES = ("system", "user", "assistant", "tool")
SHAPE = 'write every row as {"messages": [{"role": "user", "content": "..."}, ...]}'
CALL = 'write every call as {"function": {"name": "...", "arguments": {...}}}'

_FROM_VALUE = (
    "rename {} to messages, and in it from to role and value to content (human is user, gpt is "
    "assistant)"
)
_ELSEWHERE = {
    "conversations": _FROM_VALUE.format("conversations"),
    "conversation": _FROM_VALUE.format("conversation"),
    "instruction": "make instruction with input a user message, and output an assistant message",
    "prompt": "make prompt a user message, and completion an assistant message",
    "question": "make question a user message, and answer an assistant message",
    "text": "divide text into the messages that it was made of",
}
_REASONING = ("reasoning_content", "reasoning", "thinking")

Message = dict[str, Any]


class ChatRow(NamedTuple):
    """One example."""

    messages: list[Message]  # with the members that a chat template is given
    tools: list[Message] = []  # noqa: RUF012 - nobody changes it


def fault(row: Any) -> Fault | None:
    """What is wrong with ``row``, if anything is."""
    if not isinstance(row, dict):
        return Fault("a row is no JSON object", "row", SHAPE)
    if "messages" not in row:
        return _nameless(row)
    messages = row["messages"]
    if not isinstance(messages, list):
        return Fault("messages is no list", f"messages is {kind(messages)}", SHAPE)
    if not messages:
        return Fault("messages is an empty list", "messages", SHAPE)
    found = (_message_fault(place, each) for place, each in enumerate(messages))
    first = next((each for each in found if each), None)
    return first or _order_fault(messages) or _tools_fault(row)


def row(value: dict[str, Any]) -> ChatRow:
    """The example that a row without fault is; members that no template reads are left out."""
    return ChatRow([_message(each) for each in value["messages"]], _tools(value) or [])


def _nameless(row: dict[str, Any]) -> Fault:
    """For a row whose messages have another name, or are none."""
    advice = next((_ELSEWHERE[name] for name in _ELSEWHERE if name in row), None)
    fields = f"its fields: {', '.join(row) or 'none'}"
    return Fault(
        "a row has no messages", f"{fields:.300}", f"{advice}; {SHAPE}" if advice else SHAPE
    )


# -- one message


def _message_fault(place: int, message: Any) -> Fault | None:
    """What is wrong with one message by itself."""
    where = f"messages[{place}]"
    if not isinstance(message, dict):
        return Fault("a message is no JSON object", where, SHAPE)
    found = (check(where, message) for check in _CHECKS)
    first = next((each for each in found if each), None)
    if first is None and message["role"] == "system" and place > 0:
        return Fault("a system message is not the first", where, "put it first or leave it out")
    return first


def _role_fault(where: str, message: Message) -> Fault | None:
    role = message.get("role")
    if role in ROLES and isinstance(role, str):
        return None
    said = f"{role!r:.40}" if isinstance(role, str) else kind(role)
    return Fault(
        "a role is unknown", f"{where}.role is {said}", f"the roles are {', '.join(ROLES)}"
    )


def _content_fault(where: str, message: Message) -> Fault | None:
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return None
    return Fault(
        "the content of a message is not text",
        f"{where}.content is {kind(content)}",
        "write it as one string",
    )


def _reasoning_fault(where: str, message: Message) -> Fault | None:
    name = next((name for name in _REASONING if message.get(name)), None)
    if name is None:
        return None
    return Fault(
        "a message has its reasoning apart",
        f"{where}.{name}",
        "write it into the content, in the form that the model is to learn",
    )


def _calls_fault(where: str, message: Message) -> Fault | None:
    calls = message.get("tool_calls")
    if not calls:
        return None
    if message["role"] != "assistant":
        said = f"{where}.tool_calls of a {message['role']} message"
        return Fault("a message calls tools that is no assistant's", said, "leave them out")
    if not isinstance(calls, list):
        return Fault("tool_calls is no list", f"{where}.tool_calls is {kind(calls)}", CALL)
    for number, call in enumerate(calls):
        at = f"{where}.tool_calls[{number}]"
        if not _name(call):
            return Fault("a tool call has no name", at, CALL)
        if _arguments(call) is None:
            return Fault("the arguments of a tool call are no JSON object", at, CALL)
    return None


_CHECKS: tuple[Callable[[str, Message], Fault | None], ...] = (
    _role_fault,
    _reasoning_fault,
    _calls_fault,
    _content_fault,
)


def _message(message: Message) -> Message:
    """The members that templates read. A call without text has an empty one: never null."""
    made: Message = {"role": message["role"], "content": message.get("content") or ""}
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [_call(each) for each in calls]
    if made["role"] == "tool":
        made |= {
            name: message[name]
            for name in ("name", "tool_call_id")
            if isinstance(message.get(name), str)
        }
    return made


# -- tools


def _inner(call: Any) -> Any:
    """What says name and arguments: the call itself, or its function."""
    return call.get("function", call) if isinstance(call, dict) else None


def _name(call: Any) -> str | None:
    inner = _inner(call)
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) and name else None


def _arguments(call: Any) -> Message | None:
    """The arguments as an object; others write them as the JSON text of one."""
    said = _inner(call).get("arguments", {})
    if isinstance(said, str):
        try:
            said = orjson.loads(said)
        except orjson.JSONDecodeError:
            return None
    return said if isinstance(said, dict) else None


def _call(call: Message) -> Message:
    """A call in the form that chat templates read."""
    named = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    inner = {"name": _name(call), "arguments": _arguments(call)}
    return {**named, "type": "function", "function": inner}


def _tools(row: dict[str, Any]) -> list[Message] | None:
    """The tools that a row offers; None where they are no list of named functions."""
    said = row.get("tools") or []
    if isinstance(said, str):
        try:
            said = orjson.loads(said) or []
        except orjson.JSONDecodeError:
            return None
    are_named = isinstance(said, list) and all(_name(each) for each in said)
    return said if are_named else None


def _tools_fault(row: dict[str, Any]) -> Fault | None:
    if _tools(row) is not None:
        return None
    return Fault(
        "the tools of a row are no list of functions",
        "tools",
        'write them as [{"type": "function", "function": {"name": "...", ...}}, ...], or leave '
        "the field out",
    )


# -- the order of messages


def _order_fault(messages: list[Message]) -> Fault | None:
    """An example begins with what is answered, and ends with what is learnt: an answer."""
    last = messages[-1]["role"]
    if last != "assistant":
        return Fault(
            f"an example ends with a {last} message",
            f"messages[{len(messages) - 1}].role is {last!r}",
            "end every example with an assistant message",
        )
    if messages[0]["role"] == "assistant":
        return Fault(
            "an example begins with an assistant message",
            "messages[0].role is 'assistant'",
            "begin every example with the message that is answered",
        )
    return None


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, the names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)

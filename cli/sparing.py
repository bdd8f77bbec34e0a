"""Plain values, read without typer's own reader.

That is pydantic, which takes 0.1 s to load (2026-11): a third of a call that shows a run. Texts,
whole numbers within their bounds and what nobody stated need none; paths, choices, other numbers
and everything that is to be refused still go its way.
"""

import re
from functools import cached_property
from typing import Any

_UNREAD = object()
_DIGITS = re.compile("[0-9]{1,18}")


class _Spared:
    """Reads the values of one parameter; typer's own reader is made when one needs it."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """The value that the command gets."""
        is_single = param.nargs == 1 and not param.multiple
        if value is None:
            return None if is_single else ()
        read = self._read(value) if is_single else _UNREAD
        return self._typers.coerce(value, param=param, ctx=ctx) if read is _UNREAD else read

    def _read(self, value: Any) -> Any:
        said = self._parameter.type_descriptor
        if value is self._parameter.default:
            return value
        if not isinstance(value, str):
            return _UNREAD
        if said.annotation is str:
            return value
        if said.annotation is int and _DIGITS.fullmatch(value):
            bounds, number = said.parameter_info, int(value)
            is_high_enough = bounds.min is None or number >= bounds.min
            if is_high_enough and (bounds.max is None or number <= bounds.max):
                return number
        return _UNREAD

    @cached_property
    def _typers(self) -> Any:
        return type(self._parameter).get_runtime_param(self._parameter)


def spare(parameters: list[Any]) -> list[Any]:
    """The parameters of a command, read without pydantic where that makes no difference."""
    for each in parameters:
        if hasattr(each, "get_runtime_param") and "get_runtime_param" not in vars(each):
            reader = _Spared(each)
            vars(each)["get_runtime_param"] = lambda reader=reader: reader
    return parameters

"""Templates of ``-o template=…``: Jinja2 in its sandbox. Imports jinja2: load it late.

The names in a template are the members of the answer. What JSON says is what is shown: ``null``,
``true``, and mappings and lists as JSON. A name that is not there is an error, not an empty text.
"""

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cli.errors import CommandError, Exit


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja2, where ``answer.items`` is the member of that name and no method of a mapping."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            return self.getitem(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping):
            return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)


def _said(value: Any) -> Any:
    """What stands in the text for a value."""
    if value is None or isinstance(value, (bool, dict, list)):
        return json.dumps(value)
    return value


_ENVIRONMENT = _Environment(
    undefined=StrictUndefined, finalize=_said, autoescape=False, keep_trailing_newline=True
)  # it makes text for a terminal or a file, never a page


def fill(template: str, answer: Any) -> str:
    """The text that ``template`` makes of ``answer``; one that is no mapping is called ``value``.

    Raises:
        CommandError: it is no template, or names what is not there.
    """
    names = answer if isinstance(answer, Mapping) else {"value": answer}
    try:
        return _ENVIRONMENT.from_string(template).render(names)
    except (TemplateError, TypeError, ArithmeticError) as error:
        raise CommandError(f"the template {template!r}: {error}", Exit.USAGE) from None

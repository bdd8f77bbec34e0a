"""Plans as YAML, read without its surprises. Imports yaml: load it late."""

from typing import Any

import yaml

from cli.errors import CommandError, Exit


class _PlanLoader(yaml.SafeLoader):
    """YAML's safe loader, less its dates: 2026-11-29 is a name here."""


_PlanLoader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str, what: str) -> Any:
    """The document that ``text``, which is ``what``, says.

    Raises:
        CommandError: it is no YAML; the sentence has the line.
    """
    try:
        return yaml.load(text, Loader=_PlanLoader)  # noqa: S506 (it is a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it holds a character that YAML forbids"
        raise CommandError(
            f"{what}{line} is neither JSON nor YAML: {problem}", Exit.USAGE
        ) from None

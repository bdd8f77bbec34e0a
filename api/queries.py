"""The names in a query: what a route does not know is refused, so that a slip is noticed."""

from fastapi import Request

from api.problems import BAD_REQUEST, ProblemError

SHOWN_CHARACTERS = 80  # of a name that is not known
NOTHING = "nothing may stand after the ?"
AS_OF = "this is read as it is now; docs/audit.md has what can be read as of an earlier moment"


def refuse_unknown_names(request: Request) -> None:
    """Let only those names pass that the route documents.

    Raises:
        ProblemError: one is not known here.
    """
    known = _names(request)
    for name in request.query_params:
        if name not in known:
            hint = f"known here are {', '.join(known)}" if known else NOTHING
            if name == "asOf" and request.method == "GET":
                hint = AS_OF
            raise ProblemError(BAD_REQUEST, f"{name[:SHOWN_CHARACTERS]} is not known here", hint)


def _names(request: Request) -> list[str]:
    """What the route that was asked knows, as its own description has it."""
    path, method = request.scope["route"].path, request.method.lower()
    described = request.app.openapi()["paths"][path][method].get("parameters", [])
    return [each["name"] for each in described if each["in"] == "query"]

"""Errors as RFC 9457 problem documents: a frozen slug, a sentence, and what to do.

Source: RFC 9457, section 3. The slugs are interface and never change.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from eventsourcing.persistence import PersistenceError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.wire import Json
from ledger.errors import (
    AmbiguousIdError,
    CorruptError,
    EndedError,
    FencedError,
    GapError,
    LedgerError,
    NotFoundError,
    PlanError,
    RefusedError,
    TokenReusedError,
)


class Problem(NamedTuple):
    """A kind of error."""

    slug: str
    status: int
    title: str


NOT_FOUND = Problem("run-not-found", 404, "There is no such run")
INTERNAL = Problem("internal", 500, "The server failed")
BAD_REQUEST = Problem("bad-request", 400, "The request cannot be understood")
UNAUTHORIZED = Problem("unauthorized", 401, "Who asks is not known")
NOT_READY = Problem("not-ready", 503, "The server is not ready")

PROBLEMS: dict[type[Exception], Problem] = {
    PlanError: Problem("plan-refused", 422, "The plan cannot be run"),
    TokenReusedError: Problem("submission-token-reused", 409, "The token named another plan"),
    FencedError: Problem("attempt-closed", 410, "The attempt is closed"),
    GapError: Problem("lines-do-not-follow", 409, "Lines do not follow what was taken"),
    AmbiguousIdError: Problem("ambiguous-id", 409, "Several runs have an id that begins so"),
    EndedError: Problem("run-has-ended", 409, "The run has ended"),
    RefusedError: Problem("refused", 409, "The rules of the run do not allow it now"),
    NotFoundError: NOT_FOUND,
    CorruptError: Problem("ledger-corrupt", 500, "The stored events are not what was written"),
    LedgerError: BAD_REQUEST,
    PersistenceError: Problem("storage", 503, "The ledger cannot be written or read just now"),
}
ALL = (*PROBLEMS.values(), INTERNAL, UNAUTHORIZED, NOT_READY)


class ProblemError(Exception):
    """An error that a route raises by its problem."""

    def __init__(
        self, problem: Problem, detail: str, hint: str = "", more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.problem = problem
        self.hint = hint
        self.more = more or {}


def install(app: FastAPI) -> None:
    """Have every error of ``app`` answered as a problem document."""
    for kind in PROBLEMS:
        app.add_exception_handler(kind, _ours)
    app.add_exception_handler(ProblemError, _raised)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _internal)


def document(
    problem: Problem,
    request: Request,
    detail: str,
    hint: str = "",
    more: Mapping[str, Any] | None = None,
) -> Json:
    """The answer for one problem."""
    body = {
        "type": f"/problems/{problem.slug}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        "instance": request.url.path,
        "hint": hint,
        **(more or {}),
    }
    return Json(body, problem.status, media_type="application/problem+json")


def _ours(request: Request, error: Exception) -> Json:
    problem = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    more: dict[str, Any] = {}
    if isinstance(error, PlanError):
        more["faults"] = error.faults
    if isinstance(error, GapError):
        more["taken"] = error.taken
    if isinstance(error, PersistenceError):
        return document(problem, request, "the event database did not answer", "try again later")
    return document(problem, request, str(error), getattr(error, "hint", ""), more)


def _raised(request: Request, error: Exception) -> Json:
    assert isinstance(error, ProblemError)
    return document(error.problem, request, str(error), error.hint, error.more)


def _invalid(request: Request, error: Exception) -> Json:
    assert isinstance(error, RequestValidationError)
    faults = [
        f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}"
        for each in error.errors()
    ]
    return document(BAD_REQUEST, request, "; ".join(faults), "correct the request")


def _http(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    problem = Problem(
        "no-such-page" if error.status_code == 404 else "not-allowed",
        error.status_code,
        str(error.detail),
    )
    return document(problem, request, f"{request.method} {request.url.path}: {error.detail}")


def _internal(request: Request, _: Exception) -> Json:
    return document(INTERNAL, request, "the server failed", "trainledger server logs says more")

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
from engine.dispatch.artifacts import ArtifactError
from engine.dispatch.checking import CheckError
from ledger.errors import (
    AmbiguousIdError,
    CorruptError,
    EndedError,
    FencedError,
    GapError,
    LedgerError,
    NameTakenError,
    NoDatasetError,
    NoSnapshotError,
    NotFoundError,
    NoTokenError,
    PlanError,
    RefusedError,
    TokenReusedError,
)
from projections.errors import (
    NoCopyError,
    QueryBusyError,
    QueryLimitError,
    QueryRefusedError,
)


class Problem(NamedTuple):
    """A kind of error."""

    slug: str
    status: int
    title: str
    hint: str  # what to do, where the error itself does not say


BAD_REQUEST = Problem("bad-request", 400, "The request cannot be understood", "correct the request")
FOREIGN_HOST = Problem(
    "foreign-host",
    400,
    "The request was sent to another name",
    "ask for 127.0.0.1, localhost or [::1]",
)
UNAUTHORIZED = Problem(
    "unauthorized",
    401,
    "Who asks is not known",
    "send the token of the server's home, or one that was made for you and has neither expired nor "
    "been revoked: Authorization: Bearer …, or --token and --context of trainledger",
)
FORBIDDEN = Problem(
    "forbidden",
    403,
    "The role does not allow it",
    "docs/access.md says what each role may do",
)
NO_SUCH_PAGE = Problem(
    "no-such-page", 404, "Nothing has this address", "docs/http.md has every address"
)
NOT_ALLOWED = Problem(
    "not-allowed",
    405,
    "This address does not know the method",
    "docs/http.md has the methods of every address",
)
ATTEMPT_NOT_FOUND = Problem(
    "attempt-not-found",
    404,
    "The run has no such attempt",
    "trainledger runs get RUN shows its attempts",
)
PREPARATION_NOT_FOUND = Problem(
    "preparation-not-found",
    404,
    "The run has no such preparation",
    "trainledger runs get RUN shows its preparations",
)
SUBMISSION_NOT_FOUND = Problem(
    "submission-not-found",
    404,
    "The token asked for no branch of this run",
    "trainledger runs branches RUN shows what was asked for",
)
ROLLOUTS_NOT_FOUND = Problem(
    "rollouts-not-found",
    404,
    "The run kept no rollouts of this update",
    "trainledger runs rollouts RUN shows the newest ones",
)
HPARAMS_NOT_FOUND = Problem(
    "hyperparameters-not-found",
    404,
    "The run has no hyperparameters",
    "trainledger runs get RUN --settings shows what the plan itself says",
)
ENGINE_CONFIG_NOT_FOUND = Problem(
    "engine-config-not-found",
    404,
    "The run has no engine configuration",
    "trainledger runs get RUN --settings shows what the plan itself says",
)
NOT_COMPARABLE = Problem(
    "not-comparable",
    409,
    "The runs cannot be compared",
    "compare supervised runs whose plans decide the same",
)
ROWS_REFUSED = Problem(
    "rows-refused", 422, "These rows cannot be trained on", "correct the rows; docs/data.md"
)
TENSORBOARD_MISSING = Problem(
    "tensorboard-missing",
    501,
    "The server cannot write event files",
    "install trainledger[tensorboard] where the server runs, and start it again",
)
PLATFORM_PROJECT_NOT_FOUND = Problem(
    "platform-project-not-found",
    404,
    "The platform project has no dashboard here",
    "the server's setting grafana_dashboards has those that have one",
)
GRAFANA_NOT_SET_UP = Problem(
    "grafana-not-set-up",
    501,
    "The server makes no links to Grafana",
    "docs/grafana.md says how its operator sets it up",
)
INTERNAL = Problem("internal", 500, "The server failed", "trainledger server logs says more")
NOT_READY = Problem(
    "not-ready", 503, "The server is not ready", "trainledger server logs says more"
)

PROBLEMS: dict[type[Exception], Problem] = {
    PlanError: Problem(
        "plan-refused", 422, "The plan cannot be run", "correct the plan and submit it again"
    ),
    TokenReusedError: Problem(
        "submission-token-reused",
        409,
        "The token asked for something else",
        "use a new token for another submission",
    ),
    FencedError: Problem(
        "attempt-closed", 410, "The attempt is closed", "end the worker: its word no longer counts"
    ),
    GapError: Problem(
        "lines-do-not-follow",
        409,
        "Lines do not follow what was taken",
        "send again from the line after the last one taken",
    ),
    EndedError: Problem("run-has-ended", 409, "The run has ended", "start it again as a new run"),
    RefusedError: Problem(
        "refused", 409, "The rules of the run do not allow it now", "look at the phase of the run"
    ),
    NoTokenError: Problem("token-not-found", 404, "There is no such token", NoTokenError.HINT),
    NoDatasetError: Problem(
        "dataset-not-found", 404, "There is no such data set", NoDatasetError.HINT
    ),
    AmbiguousIdError: Problem("ambiguous-id", 409, "Several ids begin so", "write more of the id"),
    NoSnapshotError: Problem(
        "snapshot-not-found", 404, "There is no such snapshot", NoSnapshotError.HINT
    ),
    NameTakenError: Problem(
        "token-name-taken", 409, "A token of this name is in use", "choose another name"
    ),
    NotFoundError: Problem("run-not-found", 404, "There is no such run", NotFoundError.HINT),
    CorruptError: Problem(
        "ledger-corrupt",
        500,
        "The stored events are not what was written",
        "trainledger audit verify says what else is damaged",
    ),
    ArtifactError: Problem(
        "snapshot-store",
        503,
        "The files of the snapshots cannot be used just now",
        "trainledger info says more; what is damaged stays readable under runs snapshots",
    ),
    QueryRefusedError: Problem(
        "query-refused",
        422,
        "The query cannot be run",
        "docs/sql.md has every view; DESCRIBE view shows its columns",
    ),
    QueryLimitError: Problem(
        "query-limit",
        422,
        "The query asks for more than one may have",
        "ask for fewer rows or runs, or query the published copy on a machine of your own "
        "(trainledger sql --path)",
    ),
    QueryBusyError: Problem(
        "queries-busy", 503, "Too many queries are asked at once", "try again in a moment"
    ),
    NoCopyError: NOT_READY,
    CheckError: Problem(
        "dataset-not-checked",
        503,
        "The rows could not be checked just now",
        "trainledger server logs says more",
    ),
    LedgerError: BAD_REQUEST,
    PersistenceError: Problem(
        "storage", 503, "The ledger cannot be written or read just now", "try again later"
    ),
}
ALL = (
    *PROBLEMS.values(),
    FOREIGN_HOST,
    UNAUTHORIZED,
    FORBIDDEN,
    NO_SUCH_PAGE,
    ATTEMPT_NOT_FOUND,
    PREPARATION_NOT_FOUND,
    ROLLOUTS_NOT_FOUND,
    HPARAMS_NOT_FOUND,
    ENGINE_CONFIG_NOT_FOUND,
    NOT_COMPARABLE,
    ROWS_REFUSED,
    SUBMISSION_NOT_FOUND,
    NOT_ALLOWED,
    TENSORBOARD_MISSING,
    PLATFORM_PROJECT_NOT_FOUND,
    GRAFANA_NOT_SET_UP,
    INTERNAL,
    NOT_READY,
)


class ProblemError(Exception):
    """An error that a route raises by its problem."""

    def __init__(
        self, problem: Problem, detail: str, hint: str = "", more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.problem = problem
        self.hint = hint
        self.more = more or {}


TOLD: tuple[type[Exception], ...] = (*PROBLEMS, ProblemError)  # with a sentence of their own


def install(app: FastAPI) -> None:
    """Have every error of ``app`` answered as a problem document."""
    for kind in TOLD:
        app.add_exception_handler(kind, _ours)
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
        "instance": request.scope["path"],
        "hint": hint or problem.hint,
        **(more or {}),
    }
    challenge = {"WWW-Authenticate": "Bearer"} if problem is UNAUTHORIZED else None
    return Json(body, problem.status, challenge, media_type="application/problem+json")


def of(error: Exception, request: Request) -> Json:
    """The answer for one of ``PROBLEMS``, or for a ``ProblemError``."""
    if isinstance(error, ProblemError):
        return document(error.problem, request, str(error), error.hint, error.more)
    problem = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    more: dict[str, Any] = {}
    if isinstance(error, PlanError):
        more["faults"] = error.faults
    if isinstance(error, AmbiguousIdError):
        more["candidates"] = error.candidates
    if isinstance(error, GapError):
        more["taken"] = error.taken
    if isinstance(error, QueryRefusedError) and error.excerpt:
        more["excerpt"] = error.excerpt
    if isinstance(error, PersistenceError):
        return document(problem, request, "the event database did not answer")
    return document(problem, request, str(error), getattr(error, "hint", ""), more)


def _ours(request: Request, error: Exception) -> Json:
    return of(error, request)


def _invalid(request: Request, error: Exception) -> Json:
    assert isinstance(error, RequestValidationError)
    return document(BAD_REQUEST, request, "; ".join(_fault(each) for each in error.errors()))


def _fault(error: Mapping[str, Any]) -> str:
    """One sentence that names the field and what is wrong with it."""
    where = ".".join(str(part) for part in error["loc"][1:]) or error["loc"][0]
    if error["type"] == "json_invalid":
        return f"the {error['loc'][0]} is not JSON"
    if error["type"] == "extra_forbidden":
        return f"{where} is not known here"
    return f"{where}: {error['msg']}"


def _http(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    problem = {404: NO_SUCH_PAGE, 405: NOT_ALLOWED}.get(error.status_code, BAD_REQUEST)
    return document(problem, request, f"{request.method} {request.scope['path']}: {error.detail}")


def _internal(request: Request, _: Exception) -> Json:
    return document(INTERNAL, request, "the server failed")

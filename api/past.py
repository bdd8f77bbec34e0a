"""What was said at an earlier moment: everything that is read, as of a position or a time.

It is made of what the ledger held then, so a restore that came later takes nothing back yet, and an
attempt that was open is open. The clock is that moment. Two things are not in the ledger: prices
are those of the book as it is now, and of beats nothing is kept, so whether a silent attempt was
alive is not known.
"""

from datetime import datetime
from typing import Any

from api.problems import ATTEMPT_NOT_FOUND, NOT_READY, ProblemError
from api.service import Service, utc_now
from ledger import moments
from ledger.errors import NoSnapshotError, NotFoundError
from ledger.moments import Moment
from ledger.run import TERMINAL
from projections import wire
from projections.documents import timing
from projections.errors import UnknownAttemptError

Answer = dict[str, Any]


def moment_of(service: Service, text: str, *projections: str) -> Moment:
    """The moment that ``text`` means, once these projections have reached it.

    Raises:
        LedgerError: it means none, or one that is still to come.
        ProblemError: a projection is not there in time.
    """
    moment = moments.past(service.ledger, text, utc_now())
    if not all(service.catch_up(each, moment.position) for each in projections):
        raise ProblemError(NOT_READY, f"position {moment.position} cannot be read just now")
    return moment


def moment_of_run(service: Service, run_id: str, text: str | None) -> Moment | None:
    """The moment that ``text`` means, at which a run was there; None, up to date, of no text.

    Raises:
        LedgerError: it means none, or one that is still to come.
        NotFoundError: the run was submitted later.
        ProblemError: the documents are not there in time.
    """
    if text is None:
        service.catch_up("documents", service.ledger.position())
        return None
    moment = moment_of(service, text, "documents")
    check(service, run_id, moment, attempt=None)
    return moment


def upto(moment: Moment | None) -> int | None:
    """The position that projections are read to; None where they are read as they are."""
    return None if moment is None else moment.position


def said(moment: Moment | None) -> Answer:
    """What an answer says of the moment that it is of; nothing where it is of now."""
    if moment is None:
        return {}
    return {"asOf": {"position": moment.position, "at": wire.moment(timing.millis(moment.at))}}


def record(service: Service, run_id: str, moment: Moment, *, attempt: int | None = None) -> Answer:
    """The record of a run as it was.

    Raises:
        NotFoundError: it was submitted later.
        ProblemError: it had no such attempt, whose settings are asked for.
    """
    try:
        found = service.documents.get(run_id, attempt, upto=moment.position)
    except UnknownAttemptError as error:
        sentence = f"as of position {moment.position}, {error}"
        raise ProblemError(ATTEMPT_NOT_FOUND, sentence) from None
    if found is None:
        raise _not_yet(service, run_id, moment)
    return service.priced(found) | {"liveness": _liveness(found, moment.at)} | said(moment)


def snapshot(service: Service, newest: Answer, moment: Moment) -> Answer:
    """A snapshot as it was; ``newest``: as it is.

    Raises:
        NoSnapshotError: it was committed later.
    """
    snapshot_id = newest["snapshotId"]
    found = service.documents.snapshot(snapshot_id, upto=moment.position)
    if not found:
        raise NoSnapshotError(
            f"snapshot {snapshot_id[:12]} did not exist as of "
            f"{wire.moment(timing.millis(moment.at))}: it was committed at {newest['committedAt']}",
            "ask for a later moment",
        )
    return found[0]


def check(service: Service, run_id: str, moment: Moment, *, attempt: int | None) -> None:
    """Refuse a run, or an attempt of it, that did not exist yet.

    Raises:
        NotFoundError: the run was submitted later.
        ProblemError: it had no such attempt.
    """
    if attempt is not None:
        record(service, run_id, moment, attempt=attempt)
        return
    row = service.documents.row(run_id)
    if row is None or row.submitted > moment.position:
        raise _not_yet(service, run_id, moment)


def _not_yet(service: Service, run_id: str, moment: Moment) -> NotFoundError:
    row = service.documents.row(run_id)
    if row is None:
        return NotFoundError(f"there is no run {run_id}", NotFoundError.HINT)
    since = wire.moment(row.state["submitted"])
    return NotFoundError(
        f"run {run_id} did not exist as of {wire.moment(timing.millis(moment.at))}: it was "
        f"submitted at {since}, position {row.submitted}",
        f"ask for position {row.submitted} or a later one",
    )


def _liveness(found: Answer, at: datetime) -> Answer:
    """What the ledger knows of it: the last line that an open attempt had said."""
    newest = found["attempts"][-1] if found["attempts"] else None
    if found["phase"] in TERMINAL:
        return {"verdict": "ended"}
    if newest is None or newest["closedAt"] is not None:
        return {"verdict": "none"}
    silent = timing.millis(at) - timing.millis(datetime.fromisoformat(newest["lastSignAt"]))
    return {
        "verdict": "unknown",
        "lastSignAt": newest["lastSignAt"],
        "silentSeconds": max(silent, 0) / 1000,
    }

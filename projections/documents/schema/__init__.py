"""The record of a run as a JSON Schema: every member that there is, what it means, and its unit.

``docs/record.schema.json`` is made of it. A member that is added to a record is added here, since
a record with a member that is not here fails the tests. ``cost.money``, ``liveness`` and ``asOf``
are added to the document when it is served.
"""

from typing import get_args

from ledger.events import Checkpoint, EndClass, PhaseName, Restore
from projections.documents.schema.attempts import history
from projections.documents.schema.figures import figures
from projections.documents.schema.kinds import (
    Node,
    amount,
    count,
    flag,
    moment,
    names,
    number,
    of_type,
    one_of,
    part,
    rows,
    share,
    text,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def record_schema() -> Node:
    """What every record of a run validates against, as it is served."""
    members = {**_identity(), **_state(), **figures(), **history()}
    return {
        "$schema": DIALECT,
        "title": "Record of a run",
        **part("What GET /v1/runs/{run} answers, and runs get -o json prints.", members),
        "$defs": {
            "number": {
                "description": "A number; one that is not finite is its name.",
                "anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}],
            },
            "moment": {
                "description": "RFC 3339 in UTC.",
                "type": "string",
                "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$",
            },
        },
    }


# -- what the run is -------------------------------------------------------------------------------


def _identity() -> Node:
    return {
        "runId": of_type("string", "The run: 16 hexadecimal digits.", pattern="^[0-9a-f]{16}$"),
        "project": text("Label of the plan."),
        "name": text("Label of the plan, or what it was changed to; never a key.", null=True),
        "description": text("Of the plan, or what it was changed to.", null=True),
        "labels": names("Labels that were put to the run, by name.", text("A label.")),
        "origin": part(
            "What a branch begins from; null: it is no branch.",
            {
                "parent": text("The run whose snapshot it is."),
                "snapshotId": text("SHA-256 of the snapshot's manifest."),
                "step": count("Update of the parent that the snapshot holds the state of."),
                "restore": one_of("What is restored of it.", get_args(Restore)),
            },
            null=True,
        ),
        "imported": part(
            "Where a run is from that another tracker recorded; null: it is our own.",
            {
                "source": text("Kind of file, for example trainer-state."),
                "file": text("Its name, without folders."),
                "sha256": text("Of its content."),
                "beside": part(
                    "Another file that was read as well, with results of the end.",
                    {"file": text("Its name."), "sha256": text("Of its content.")},
                    null=True,
                ),
                "isTimed": flag("Whether its rows have times."),
                "trainingSeconds": amount("Length that it states itself, in seconds.", null=True),
            },
            null=True,
        ),
        "method": one_of("Supervised, or reinforcement.", ("SFT", "GRPO")),
        "baseModel": text("As the plan names it; null: not known, of an import.", null=True),
        "dataset": text("As the plan names it; null: not known, of an import.", null=True),
        "datasetRows": count("Rows read, before anything was dropped.", null=True),
        "datasetIdentity": text("SHA-256 over the parsed rows, in hexadecimal.", null=True),
        "validationRows": count("Rows that were kept apart.", null=True),
        "validationIdentity": text("The same of a validation data set.", null=True),
        "stated": rows("Names that the plan set itself.", text("A dotted name.")),
        "submissionId": text("The token that created it."),
    }


def _state() -> Node:
    return {
        "phase": one_of("Published state; the last three never change.", get_args(PhaseName)),
        "waitingFor": text("What holds it up, as a sentence.", null=True),
        "stage": part(
            "The current action inside a phase.",
            {
                "name": text("In the worker's words."),
                "completed": count("Rows done, where they can be counted.", null=True),
                "total": count("Rows to do.", null=True),
            },
            null=True,
        ),
        "pause": part(
            "A pause that was asked for; null: it is to go on.",
            {
                "checkpoint": one_of("What becomes of unsaved updates.", get_args(Checkpoint)),
                "requestedAt": moment("When."),
                "resourcesReleased": flag("Whether no attempt holds devices."),
                "failed": text("Why it could not be paused, as a sentence.", null=True),
            },
            null=True,
        ),
        "progress": part(
            "How far it is.",
            {
                "completed": count("Updates made that count."),
                "total": count("Updates to make; null: not known.", null=True),
                "share": share("From 0 to 1; null: not known.", null=True),
                "lastLoss": number("Newest training loss.", null=True),
            },
        ),
        "observedStep": count("Newest update that counts; 0: none."),
        "savedStep": count("Update that the next attempt would go on from.", null=True),
        "saved": part(
            "The snapshot that holds it.",
            {
                "snapshotId": text("SHA-256 of its manifest."),
                "step": count("Update that it holds the state of."),
                "epoch": amount("Passes over the rows until then.", null=True),
            },
            null=True,
        ),
        "failure": part(
            "Why a FAILED run failed.",
            {
                "code": text("Stable, for programs."),
                "class": one_of("Who can do something about it.", get_args(EndClass)),
                "reason": text("The same as a sentence."),
                "advice": text("What to do about it; may be empty."),
            },
            null=True,
        ),
        "liveness": _liveness(),
        "submittedAt": moment("When it was submitted; of a timed import, when it began."),
        "position": count("Of the newest event in the record.", least=1),
        "asOf": part(
            "The earlier moment that was asked for; null: the record is of now.",
            {"position": count("In the ledger.", least=1), "at": moment("The time.")},
            null=True,
        ),
    }


def _liveness() -> Node:
    verdicts = ("alive", "silent", "lost", "ended", "none", "unknown")
    members = {
        "verdict": one_of("Of the open attempt; none: none is open.", verdicts),
        "lastSignAt": moment("When it was last known to be alive.", null=True),
        "silentSeconds": amount("Since then, in seconds.", null=True),
        "stepSilentSeconds": amount("Since its newest step, in seconds."),
    }
    return part("Whether it is at work.", members) | {"required": ["verdict"]}

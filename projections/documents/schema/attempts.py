"""Attempts and settings in the record of a run."""

from typing import get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from ledger.events import Agreement, EndClass, Outcome
from ledger.plan import Config, Execution
from projections.documents.schema.figures import cost
from projections.documents.schema.kinds import (
    Node,
    amount,
    count,
    moment,
    names,
    number,
    of_type,
    one_of,
    part,
    rows,
    text,
)


def history() -> Node:
    """What came to pass, and with which settings."""
    return {
        "preparations": rows(
            "Each job that prepared the rows before devices were claimed, oldest first.",
            _preparation(),
        ),
        "attempts": rows("Each job of the run, oldest first.", _attempt()),
        "settings": part(
            "What was asked for, and what an attempt made of it.",
            {
                "configuration": _fields(Config, "config."),
                "hyperparameters": names("As the worker used them.", True, null=True),
                "engineSettings": part(
                    "What the engine was asked for, and what it made of it.",
                    {
                        "requested": names("In the engine's words.", True),
                        "resolved": names("In the engine's words.", True),
                    },
                    null=True,
                ),
                "runtime": _runtime(),
                "run": _run_settings(),
            },
        ),
    }


def _preparation() -> Node:
    return part(
        "One preparation.",
        {
            "preparation": count("Its number in the run, from 1.", least=1),
            "launcher": text("What started its job."),
            **_end("process"),
            **_rejections(),
            "openedAt": moment("When it was handed over."),
            "closedAt": moment("When it was over.", null=True),
            "lastSignAt": moment("When it was last known to be alive."),
            "hostSeconds": amount("Seconds of a host, without devices, from then to that moment."),
        },
    )


def _end(of: str) -> Node:
    """How a job ended."""
    return {
        "outcome": one_of("How it ended.", get_args(Outcome), null=True),
        "code": text("Why it ended: stable, for programs.", null=True),
        "reason": text("The same as a sentence.", null=True),
        "endClass": one_of("Who can do something about it.", get_args(EndClass), null=True),
        "exitCode": of_type("integer", f"Of its {of}, where it was seen.", null=True),
        "signal": count(f"That ended its {of}, where it was seen.", null=True),
    }


def _rejections() -> Node:
    return {
        "rejectedLines": count("Lines of its spool that were no reports."),
        "rejections": rows("Why, the first of them.", text("A sentence.")),
    }


def _attempt() -> Node:
    taken_back = {
        "fromStep": count("First of them."),
        "toStep": count("Last of them."),
        "steps": count("How many."),
    }
    return part(
        "One attempt.",
        {
            "attempt": count("Its number in the run, from 1.", least=1),
            "devices": rows("Devices that it claimed.", text("A name.")),
            "launcher": text("What started its job."),
            "host": text("Where its job began to work.", null=True),
            **_end("worker"),
            "rank": count("Of several of its worker's, the one that ended the others.", null=True),
            "firstStep": count("First update that it reported.", null=True),
            "lastStep": count("Newest update that it reported.", null=True),
            "highestStep": count("Highest update that it reported.", null=True),
            "superseded": part("What a later restore took back.", taken_back, null=True),
            **_rejections(),
            "failedSaves": count("Snapshots that could not be made."),
            "saveFailures": rows("Why, the newest of them.", text("A sentence.")),
            "restoredFrom": _restored_from(),
            "note": text("Why it began from something else than the newest save.", null=True),
            "restoreCheck": _restore_check(),
            "openedAt": moment("When its devices were claimed."),
            "closedAt": moment("When it was known to be over.", null=True),
            "lastSignAt": moment("When it was last known to be alive."),
            "deviceSeconds": amount("Devices x seconds held; null: it holds them.", null=True),
            "cost": cost(of_run=False),
        },
    )


def _restored_from() -> Node:
    skipped = {
        "snapshotId": text("The damaged snapshot."),
        "reason": text("What is wrong with it."),
        "step": count("Update that it held the state of.", null=True),
    }
    return part(
        "What it began from; null: the start, as the first attempt.",
        {
            "snapshotId": text("Null: from the start.", null=True),
            "step": count("Update that it began from."),
            "skipped": rows("Newer ones that are damaged.", part("One.", skipped)),
        },
        null=True,
    )


def _restore_check() -> Node:
    loss = {
        "step": count("First update after the restore."),
        "before": number("Its loss before."),
        "after": number("Its loss now."),
        "verdict": one_of("Whether they agree.", get_args(Agreement)),
        "within": number("Relative difference, where there is one.", null=True),
    }
    return part(
        "Whether what was restored is what was saved.",
        {
            "verdict": one_of("The worst of all.", get_args(Agreement)),
            "within": number("Largest difference, where there is one.", null=True),
            "parts": names("Of each part.", one_of("The verdict.", get_args(Agreement))),
            "firstLoss": part("The loss that bears it out.", loss, null=True),
        },
        null=True,
    )


def _runtime() -> Node:
    claimed = {
        "launcher": text("What started the attempt's job.", null=True),
        "host": text("Where it began to work.", null=True),
        "claimedDevices": of_type(
            "array", "Devices that it claimed.", null=True, items=text("A name.")
        ),
    }
    plan = _fields(Execution, "execution.")
    return plan | {
        "description": "How the run was carried out.",
        "properties": {**plan["properties"], **claimed},
        "required": list(claimed),
    }


def _run_settings() -> Node:
    said = ("kind", "project", "name", "description", "method", "baseModel", "dataset")
    labels = {name: text(f"{name} of the plan.", null=True) for name in said}
    validation = names("validation of the plan.", True, null=True)
    engine = {"description": "engine of the plan.", "type": ["string", "object"]}
    return part("The rest of the plan.", {**labels, "validation": validation, "engine": engine})


def _fields(model: type[BaseModel], path: str) -> Node:
    """The fields of a part of the plan. Runs of an earlier version lack later ones."""
    members = {
        to_camel(name): _fields(kind, f"{path}{to_camel(name)}.")
        if isinstance(kind := field.annotation, type) and issubclass(kind, BaseModel)
        else {"description": f"{path}{to_camel(name)} of the plan, as docs/plan.md has it."}
        for name, field in model.model_fields.items()
    }
    return part(f"{path.rstrip('.')} of the plan.", members) | {"required": []}

"""What each route answers, by its name in the code: an example, and the problems of its own.

The reference page prints them; a test compares their members with those of real answers.
"""

from typing import Any, NamedTuple

Example = Any

RUN = "e95710117ddb67d5"


class Route(NamedTuple):
    """What the reference says of a route beside its docstring and parameters."""

    status: str
    example: Example  # None: the sentence in ``more`` says it
    problems: tuple[str, ...] = ()  # slugs, beside those that every route has
    more: str = ""


RECORD = {
    "runId": "16 hexadecimal digits",
    "project": "label of the plan",
    "name": "label of the plan, or null",
    "description": "label of the plan, or null",
    "method": "`SFT` or `GRPO`",
    "baseModel": "as the plan names it",
    "dataset": "as the plan names it",
    "datasetRows": "rows that were read, before anything was dropped; null until that is known",
    "validationRows": "rows kept apart; null until that is known",
    "phase": "`SUBMITTED`, `PREPARING`, `WAITING`, `QUEUED`, `TRAINING`, `CANCELLING`, "
    "`COMPLETED`, `FAILED` or `CANCELLED`; the last three never change",
    "waitingFor": "what holds the run up, as a sentence, or null",
    "stage": "the current action: `{name, completed, total}`, or null",
    "progress": "`{completed, total, share, lastLoss}` in steps",
    "observedStep": "the newest step that was reported",
    "savedStep": "the newest step that could be gone on from, or null",
    "failure": "`{code, class, reason, advice}` of a FAILED run, or null",
    "results": "`model {path, sha256, step, sizeBytes}`, `validationLoss {value, step, dataset, "
    "perplexity}`, `validationLosses` by data set where there are several, `trainingLoss {first, "
    "last, mean, steps, notFinite}`",
    "cost": "`deviceSeconds` = the time that all attempts held devices, times their number; "
    "while `estimate` is true, the training time so far, times the devices; `deviceKind` is `cpu` "
    "or `gpu`",
    "timing": "`startedAt`, `endedAt`, `lastSignAt`, `durationMillis`, `phaseMillis` by phase, "
    "`visits` in order, `split` of the whole time",
    "memory": "`peakBytes` of each device, or null where none was measured",
    "dataFit": "how the rows fit the maximum sequence length, or null",
    "latest": "the newest `{step, measured}`, or null",
    "attempts": "each job of the run: devices, end, class of the end, exit code or signal, steps, "
    "cost, and lines of its spool that were rejected",
    "settings": "`configuration`, `hyperparameters`, `engineSettings`, `runtime` and `run`: the "
    "resolved plan, and what the engine made of it",
    "stated": "dotted names that the plan itself set",
    "submittedAt": "time of the submission",
    "submissionId": "the token that it was submitted with",
    "position": "of the newest event in the record",
    "liveness": "`verdict` `alive`, `silent`, `lost`, `ended` or `none` (no attempt is open), with "
    "`lastSignAt` and `silentSeconds` while an attempt is open",
}

SUMMARY = {
    "runId": RUN,
    "project": "triage",
    "name": "first try",
    "method": "SFT",
    "baseModel": "./models/smollm2",
    "phase": "TRAINING",
    "stage": None,
    "progress": {"completed": 3, "total": 60, "share": 0.05, "lastLoss": 0.33},
    "observedStep": 3,
    "latest": {"step": 3, "measured": {"loss": 0.33}},
    "submittedAt": "2026-11-29T17:58:04.979Z",
    "failure": None,
    "endedAt": None,
}

ROUTES = {
    "submit_run": Route(
        "201; 200 when the token had created the run before",
        {
            "runId": RUN,
            "submissionId": "night-7",
            "created": True,
            "phase": "SUBMITTED",
            "position": 2,
        },
        ("plan-refused", "submission-token-reused"),
        "With `dryRun` it answers 200 and `{resolved, stated}`: the plan with every default filled "
        "in, and the dotted names that it set itself.",
    ),
    "list_runs": Route(
        "200",
        {"runs": [SUMMARY], "next": 1},
        (),
        "`next` is null on the last page. `phase` is one of the phases, or `open`: whatever has "
        "not ended.",
    ),
    "get_run": Route("200", None, ("run-not-found", "ambiguous-id")),
    "cancel_run": Route(
        "202",
        {"runId": RUN, "phase": "CANCELLING"},
        ("run-not-found", "ambiguous-id", "run-has-ended"),
        "Asking again changes nothing.",
    ),
    "read_events": Route(
        "200",
        {
            "position": 9,
            "runId": RUN,
            "kind": "stepReported",
            "at": "2026-11-29T17:58:05.010Z",
            "attempt": 1,
            "step": 2,
            "measured": {"loss": 0.5},
        },
        ("run-not-found", "ambiguous-id"),
        "[events.md](events.md) has every kind and its members; [Streams](#streams) are explained "
        "above.",
    ),
    "read_metrics": Route(
        "200",
        {
            "runId": RUN,
            "position": 23,
            "steps": [
                {
                    "step": 3,
                    "attempt": 1,
                    "measured": {"loss": "NaN"},
                    "rewardTerms": {"length": 1.0},
                    "superseded": True,
                }
            ],
            "validations": [
                {
                    "step": 3,
                    "attempt": 1,
                    "dataset": None,
                    "measured": {"loss": 0.7},
                    "superseded": True,
                }
            ],
        },
        ("run-not-found", "ambiguous-id"),
        "`measured` has the engine's own names. `rewardTerms` and `superseded` are there where "
        "they say something.",
    ),
    "read_series": Route(
        "200",
        {"runId": RUN, "field": "loss", "step": [1, 2, 3], "value": [1.0, "NaN", 0.33]},
        ("run-not-found", "ambiguous-id"),
    ),
    "deliver": Route(
        "200",
        {"taken": 7, "request": None, "closed": False},
        ("run-not-found", "lines-do-not-follow"),
        "For runners, with the token of their attempt. `taken` is the number of the last line that "
        "the ledger has, `request` is `stop` when the worker should end, and after `closed` "
        "nothing counts any more.",
    ),
    "health": Route("200", {"ok": True}, (), "Needs no token."),
    "info": Route(
        "200",
        {
            "version": "0.1.0",
            "backend": "sqlite",
            "home": "~/.trainledger",
            "position": 23,
            "projections": {"documents": {"position": 23}, "warehouse": {"position": 23}},
            "devices": {"slots": ["cuda:0"], "free": ["cuda:0"]},
            "ready": True,
            "checks": [{"name": "disk", "ok": True, "detail": "79148 MiB free"}],
        },
        ("not-ready",),
        "The problem `not-ready` has the same members.",
    ),
    "audit": Route(
        "200, also when there are faults",
        {
            "ok": False,
            "position": 23,
            "events": 23,
            "streams": 3,
            "seconds": 0.23,
            "faults": [
                {
                    "verdict": "eventChanged",
                    "stream": f"run/{RUN}/a1",
                    "version": 5,
                    "position": 14,
                    "detail": "version 5 of … does not follow what is stored before it: …",
                }
            ],
        },
        (),
        "A fault of the verdict `projectionDiffers` has `projection`, `runId` and `detail`.",
    ),
}

"""What several answers are made of."""

from typing import Any, NamedTuple

Example = Any

RUN = "e95710117ddb67d5"
ID = "3f2a9c71bd04e68a92fe18c3510d77b46f0c21e8a9d35b7c4e1f60d2938a5b7c"


class Route(NamedTuple):
    """What the reference says of a route beside its docstring and parameters."""

    status: str
    example: Example  # None: the sentence in ``more`` says it
    problems: tuple[str, ...] = ()  # slugs, beside those that every route has
    more: str = ""


RECORD = {
    "runId": "16 hexadecimal digits",
    "project": "label of the plan",
    "name": "label of the plan, or what `:annotate` put in its place, or null",
    "description": "the same",
    "labels": "that people put to the run, by their keys",
    "origin": "`{parent, snapshotId, step, restore}` of a branch, or null",
    "imported": "`{source, file, sha256, beside, isTimed, trainingSeconds}` of a run that another "
    "tracker recorded ([imports](imports.md)), or null",
    "method": "`SFT` or `GRPO`",
    "baseModel": "as the plan names it",
    "dataset": "as the plan names it",
    "datasetRows": "rows that were read, before anything was dropped; null until that is known",
    "datasetIdentity": "SHA-256 over the parsed rows, whatever file they came from; null until it "
    "is known",
    "validationRows": "rows kept apart; null until that is known",
    "validationIdentity": "the same of a validation data set; null where there is none",
    "phase": "`SUBMITTED`, `PREPARING`, `WAITING`, `QUEUED`, `TRAINING`, `PAUSING`, `PAUSED`, "
    "`CANCELLING`, `COMPLETED`, `FAILED` or `CANCELLED`; the last three never change",
    "waitingFor": "what holds the run up, as a sentence, or null",
    "stage": "the current action: `{name, completed, total}`, or null",
    "pause": "`{checkpoint, requestedAt, resourcesReleased, failed}` of a pause that was asked "
    "for, or null; `failed` is a sentence where what the run did could not be saved",
    "progress": "`{completed, total, share, lastLoss}` in steps",
    "observedStep": "the newest step that was reported, and that no restore took back",
    "savedStep": "the step that the next attempt would go on from, or null",
    "saved": "`{snapshotId, step, epoch}` of the snapshot that holds it, or null",
    "failure": "`{code, class, reason, advice}` of a FAILED run, or null",
    "results": "`model {path, sha256, step, sizeBytes}`, `validationLoss {value, step, dataset, "
    "perplexity}`, `validationLosses` by data set where there are several, `trainingLoss {first, "
    "last, mean, steps, notFinite}`, `startChecks {passed, total, seconds, checks}` or null, with "
    "`{name, value, warnLimit, refuseLimit, unit, seconds, verdict, attempt}` for each check",
    "cost": "`deviceSeconds` of all attempts, of which an open one is an `estimate`; `deviceKind` "
    "is `cpu` or `gpu`; `split {usefulSeconds, repeatedSeconds, preparingSeconds, waitingSeconds, "
    "idleSeconds}`; `throughput {attempt, tokensPerSecond, tokensPerSecondPerDevice}` of the "
    "newest attempt, or null where it is not measured; `money {amount, currency, profile, "
    "estimate, perAttempt}`, or null where the [price book](cost.md#money) has no price",
    "timing": "`startedAt`, `endedAt`, `lastSignAt`, `durationMillis`, `phaseMillis` by phase, "
    "`visits` in order, `split` of the whole time",
    "memory": "`peakBytes` of each device, and `breakdown {attempt, step, device, sizeBytes, "
    "reservedBytes, peak, other}` of the step that reserved the most, or null where none was "
    "measured; `peak` and `other` are its phases, with `weightsBytes`, `adapterBytes`, "
    "`gradientsBytes`, `generationBytes`, `activationsBytes`, `optimizerStateBytes`, "
    "`overheadBytes` and `freeBytes`, null where not measured",
    "dataFit": "how the rows fit the maximum sequence length, or null",
    "latest": "the newest `{step, measured}`, or null",
    "preparations": "each job that prepared the rows before devices were claimed, oldest first: "
    "`{preparation, launcher, openedAt, closedAt, lastSignAt, hostSeconds, outcome, code, reason, "
    "endClass, exitCode, signal, rejectedLines, rejections}`",
    "attempts": "each attempt at the run, oldest first; the members stand below",
    "settings": "`configuration`, `hyperparameters`, `engineSettings`, `runtime` and `run`: the "
    "resolved plan, and what the engine made of it in the attempt that is asked for",
    "stated": "dotted names that the plan itself set",
    "submittedAt": "time of the submission",
    "submissionId": "the token that it was submitted with",
    "position": "of the newest event in the record",
    "liveness": "`verdict` `alive`, `silent`, `lost`, `ended`, `none` (no job is open) or "
    "`unknown` (of an earlier moment), with `lastSignAt` and `silentSeconds` while a job is open",
    "asOf": "`{position, at}` of the earlier moment that was asked for, or null",
}

ATTEMPT = {
    "attempt": "its number, from 1",
    "devices": "that it claimed",
    "launcher": "what started its job",
    "host": "where its job began to work, or null",
    "openedAt": "when the devices were claimed",
    "closedAt": "when it was over, or null",
    "lastSignAt": "when it was last known to be alive",
    "outcome": "`completed`, `failed`, `cancelled`, `paused`, or null while it is open",
    "code": "why it ended, for programs; null while it is open",
    "reason": "the same as a sentence",
    "endClass": "`completed`, `input`, `resource`, `infrastructure`, `stopped`, `unknown`, or null",
    "exitCode": "of its worker, where it was seen",
    "signal": "that ended its worker, where it was seen",
    "rank": "of several processes of its worker, the one that ended the others, from 0, or null",
    "firstStep": "the first step that it reported, or null",
    "lastStep": "the newest step that it reported, or null",
    "highestStep": "the highest one, which a trainer that goes back by itself may have left",
    "restoredFrom": "`{snapshotId, step, skipped}` for every attempt but the first; `skipped` are "
    "newer snapshots that were damaged, `{snapshotId, step, reason}`; without a snapshot the "
    "attempt began from the start",
    "note": "a sentence where the attempt began from something else than the newest save, or null",
    "restoreCheck": "`{verdict, within, parts, firstLoss}`: whether what was restored is what was "
    "saved, `exact`, `within` a small difference, or `differs`; `firstLoss` compares the first "
    "step after the restore with the same step before it, where there was one",
    "superseded": "`{fromStep, toStep, steps}` that a later restore took back, or null",
    "failedSaves": "snapshots that could not be made",
    "saveFailures": "why, the newest of them",
    "rejectedLines": "lines of its spool that were no reports",
    "rejections": "why, the first of them",
    "deviceSeconds": "that it held its devices, times their number; null while it holds them",
    "cost": "`{deviceSeconds, estimate, split}`, as that of the run",
}

SNAPSHOT = {
    "snapshotId": ID,
    "runId": RUN,
    "attempt": 1,
    "step": 40,
    "epoch": 0.5,
    "artifacts": ["weights", "trainingState"],
    "sizeBytes": 60_338_176,
    "sizes": {"weights": 19_876_544, "trainingState": 40_461_632},
    "digests": {"weights": "9c1e…", "trainingState": "07ab…"},
    "uri": f"file:///home/me/.trainledger/snapshots/{RUN}/{ID}",
    "status": "committed",
    "restorable": True,
    "pinned": False,
    "heldBy": [],
    "committedAt": "2026-11-29T17:59:10.100Z",
    "sweptAt": None,
    "damage": None,
}
COPY = {
    "path": "/home/me/.trainledger/analytics.duckdb",
    "position": 23,
    "publishedAt": "2026-11-29T17:59:12.000Z",
    "ledgerPosition": 23,
    "seconds": 30.0,
    "memoryBytes": 1_073_741_824,
    "workers": 2,
}
WRITER = {
    "engine": "trl",
    "engineVersion": "1.16.0",
    "worldSize": 1,
    "baseModel": "./models/smollm2",
    "adapter": {"rank": 16, "alpha": 32.0, "targetModules": ["q_proj", "v_proj"]},
}
WHOLE_SNAPSHOT = SNAPSHOT | {
    "writer": WRITER,
    "manifest": {
        "version": 1,
        "run": RUN,
        "facts": {"attempt": 1, "step": 40, "epoch": 0.5, "writer": WRITER},
        "artifacts": ["weights", "trainingState"],
        "files": {
            "adapter_model.safetensors": {
                "sha256": "9c1e…",
                "sizeBytes": 19_876_544,
                "artifact": "weights",
            },
            "trainingState/optimizer.pt": {
                "sha256": "41d8…",
                "sizeBytes": 40_461_632,
                "artifact": "trainingState",
            },
        },
    },
}

CHILD = "7d496e82c3a15f04"
BRANCH = {
    "submissionId": "night-8",
    "childRunId": CHILD,
    "snapshotId": ID,
    "sourceStep": 40,
    "restore": "weights",
    "steps": 200,
    "state": "created",
    "refusal": None,
    "configName": "lower rate",
    "description": None,
    "configHash": "5c41…",
    "requestedAt": "2026-11-29T18:02:00.000Z",
    "position": 24,
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

SUPERSEDED_BY = {"attempt": 2, "step": 2, "position": 20, "at": "2026-11-29T17:59:40.000Z"}

COMPARED = {
    "firstStep": 1,
    "lastStep": 10,
    "steps": 10,
    "isFull": True,
    "notFinite": 0,
    "run": 1.53,
    "baseline": 1.25,
    "difference": 0.28,
}

DATASET = {
    "identity": "39418e9c…",
    "names": ["support"],
    "form": "chat",
    "rows": 360,
    "sizeBytes": 98304,
    "createdAt": "2026-11-29T17:40:02.000Z",
    "createdBy": "user/ana",
}

TOKEN = {
    "tokenId": "1f0c9a3e",
    "name": "ana",
    "principal": "user/ana",
    "role": "submitter",
    "status": "active",
    "createdAt": "2026-11-29T18:00:00.000Z",
    "createdBy": "operator",
    "expiresAt": "2026-12-29T18:00:00.000Z",
    "revokedAt": None,
    "revokedBy": None,
}

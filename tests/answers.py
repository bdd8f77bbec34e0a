"""What each route answers, by its name in the code: an example, and the problems of its own.

The reference page prints them; a test compares their members with those of real answers.
"""

from typing import Any, NamedTuple

from projections.comparison import REMINDER

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
    "import_run": Route(
        "201; 200 when the same lines had made the run before",
        {
            "runId": RUN,
            "submissionId": "import-" + ID,
            "created": True,
            "phase": "COMPLETED",
            "position": 876,
            "steps": 866,
            "validations": 13,
        },
        ("submission-token-reused",),
        "The body is lines of JSON, of which [imports](imports.md#over-http) has every member. "
        "Nothing is stored unless every line is right.",
    ),
    "list_runs": Route(
        "200",
        {"runs": [SUMMARY], "next": 1},
        (),
        "`next` is null on the last page. `phase` is one of the phases, or `open`: whatever has "
        "not ended. An answer `asOf` an earlier moment has `asOf` with `position` and `at` as "
        "well: ask for the next page as of this position. [audit.md](audit.md#as-of) says more.",
    ),
    "get_run": Route(
        "200",
        None,
        ("run-not-found", "ambiguous-id", "attempt-not-found"),
        "As of a moment before its submission, a run is not found, and the sentence says since "
        "when it is there. A moment that is still to come is a `bad-request`.",
    ),
    "cancel_run": Route(
        "202",
        {"runId": RUN, "phase": "CANCELLING"},
        ("run-not-found", "ambiguous-id", "run-has-ended"),
        "Asking again changes nothing.",
    ),
    "pause_run": Route(
        "202",
        {
            "runId": RUN,
            "phase": "PAUSING",
            "pause": {
                "checkpoint": "save",
                "requestedAt": "2026-11-29T18:00:00.000Z",
                "resourcesReleased": False,
                "failed": None,
            },
        },
        ("run-not-found", "ambiguous-id", "run-has-ended", "refused"),
        "Asking again in the same way changes nothing. `latest` is refused where nothing was saved "
        "that the run can be resumed from. Where what the run did cannot be saved, the pause has "
        "failed (`pauseFailed`) and the run goes on.",
    ),
    "resume_run": Route(
        "202",
        {"runId": RUN, "phase": "WAITING"},
        ("run-not-found", "ambiguous-id", "run-has-ended", "refused"),
        "The next attempt repeats the updates after the step that is saved.",
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
                    "supersededBy": SUPERSEDED_BY,
                }
            ],
            "validations": [
                {
                    "step": 3,
                    "attempt": 1,
                    "dataset": None,
                    "measured": {"loss": 0.7},
                    "superseded": True,
                    "supersededBy": SUPERSEDED_BY,
                }
            ],
            "next": None,
        },
        ("run-not-found", "ambiguous-id", "attempt-not-found"),
        "`measured` has the engine's own names. `rewardTerms`, `superseded` and `supersededBy` "
        "(the restore that was the first to take the row back) are there where they say something. "
        "An answer has 10,000 steps at most; `next` is the step that the next one begins `from`, "
        "or null where there is none (ask for it without `limit`).",
    ),
    "read_buckets": Route(
        "200",
        {
            "runId": RUN,
            "position": 23,
            "buckets": [
                {
                    "from": 1,
                    "to": 10,
                    "measured": {
                        "loss": {"min": 0.33, "max": 1.0, "mean": 0.5, "steps": 9, "notFinite": 1}
                    },
                }
            ],
        },
        ("run-not-found", "ambiguous-id"),
        "Without `fields` it is the numbers that every run has. `min`, `max` and `mean` are of the "
        "finite values, null where there are none; a field is absent from a bucket where no step "
        "has it, and so is a bucket without any.",
    ),
    "read_file": Route(
        "200",
        None,
        ("run-not-found", "ambiguous-id", "attempt-not-found"),
        "The answer is `text/csv` or `application/vnd.apache.parquet`: `step`, `attempt`, with "
        "`superseded` or `attempt` also `superseded`, and a column for each number under the "
        "engine's own name, `terms:` before that of a reward term. An absent number is empty in "
        "CSV, null in Parquet; where two names differ in case alone, Parquet has the second with a "
        "suffix.",
    ),
    "compare_runs": Route(
        "200",
        {
            "runId": RUN,
            "baselineId": "53915490cf0346d3",
            "position": 940,
            "window": 10,
            "margin": 0.03,
            "spikeFactor": 10.0,
            "acrossPlans": False,
            "differences": [],
            "division": {
                "run": {"devices": 1, "microBatchSequences": 4, "accumulation": 4},
                "baseline": {"devices": 2, "microBatchSequences": 4, "accumulation": 2},
            },
            "steps": {
                "compared": 10,
                "notFinite": 0,
                "missingInRun": {"count": 110, "first": 11, "last": 120},
                "missingInBaseline": None,
            },
            "windows": [COMPARED],
            "reported": COMPARED,
            "spikes": [{"step": 7, "run": 11.5, "baseline": None}],
            "reminder": REMINDER,
        },
        ("run-not-found", "ambiguous-id", "not-comparable"),
        "[comparison.md](comparison.md) explains it. `differences` are `{field, run, baseline}` of "
        "the plans; where there are any and `acrossPlans` is not set, the problem `not-comparable` "
        "has them. `division` is null where both divide an update in the same way.",
    ),
    "read_hparams": Route(
        "200",
        {
            "runId": RUN,
            "attempt": 1,
            "configHash": "9c1e…",
            "hyperparameters": {"learningRate": 0.0002, "adamBeta1": 0.9, "totalSteps": 120},
        },
        ("run-not-found", "ambiguous-id", "attempt-not-found", "hyperparameters-not-found"),
        "`configHash` is the same for runs of the same method, base model, data set and "
        "configuration, whatever they are called and however they are carried out.",
    ),
    "read_engine_config": Route(
        "200",
        {
            "runId": RUN,
            "attempt": 1,
            "requested": {"max_steps": -1, "peft": {"target_modules": "all-linear"}},
            "resolved": {
                "max_steps": -1,
                "adam_beta1": 0.9,
                "peft": {"target_modules": ["k_proj", "q_proj"]},
                "trainable_parameters": 921_600,
            },
        },
        ("run-not-found", "ambiguous-id", "attempt-not-found", "engine-config-not-found"),
    ),
    "annotate_run": Route(
        "200",
        {
            "runId": RUN,
            "name": "first try",
            "description": "rank 16 is enough",
            "labels": {"keep": "yes"},
        },
        ("run-not-found", "ambiguous-id", "refused"),
        "What is not stated stays, and an empty text takes a word away. Refused where nothing is "
        "stated.",
    ),
    "read_series": Route(
        "200",
        {"runId": RUN, "field": "loss", "step": [1, 2, 3], "value": [1.0, "NaN", 0.33]},
        ("run-not-found", "ambiguous-id"),
    ),
    "read_logs": Route(
        "200",
        "Loading the base model\n{'loss': 0.33}\n",
        ("run-not-found", "ambiguous-id", "attempt-not-found", "preparation-not-found"),
        "The answer is `text/plain`. It is empty while the worker has printed nothing, and where "
        "its machine is another one.",
    ),
    "read_event_files": Route(
        "200",
        f"{RUN}/events.out.tfevents.0000000000000000117\n",
        ("run-not-found", "ambiguous-id", "attempt-not-found", "tensorboard-missing"),
        "The answer is a tar archive, `application/x-tar`, whose files are made while it is sent; "
        "it is empty where nothing is new. The header `Trainledger-Position` is what the next call "
        "says as `after`, and `Trainledger-Over` is `true` when that would answer nothing. "
        "[tensorboard.md](tensorboard.md) has the names of the curves.",
    ),
    "link_to_grafana": Route(
        "200",
        {
            "runId": RUN,
            "platformProject": "research",
            "attempt": None,
            "url": f"https://grafana.example/d/ab12cd?from=1795975200000&to=now&var-run={RUN}…",
            "expiresAt": "2026-11-29T19:00:00Z",
        },
        (
            *("run-not-found", "ambiguous-id", "attempt-not-found"),
            *("platform-project-not-found", "grafana-not-set-up"),
        ),
        "The token is in the `url`, and the answer is not to be stored. [grafana.md](grafana.md) "
        "says what the address holds.",
    ),
    "read_copy": Route(
        "200",
        COPY,
        ("not-ready",),
        "`position` is that of the copy, `ledgerPosition` that of the ledger. `seconds` and "
        "`memoryBytes` are of one query, and `workers` queries run at the same time.",
    ),
    "publish_copy": Route("200", COPY, ("not-ready",), "The same, afterwards."),
    "run_query": Route(
        "200",
        {
            "position": 23,
            "publishedAt": "2026-11-29T17:59:12.000Z",
            "columns": [
                {"name": "run_id", "type": "VARCHAR"},
                {"name": "phase", "type": "VARCHAR"},
            ],
            "rows": [{"run_id": RUN, "phase": "COMPLETED"}],
            "rowCount": 1,
            "isCut": False,
        },
        ("query-refused", "query-limit", "queries-busy", "not-ready"),
        "The headers `Trainledger-Position` and `Trainledger-Published-At` say in every format "
        "which copy was read. `isCut`: there are more rows than `limit`. An answer is whole before "
        "it begins, so a query that fails on the way is a problem. Of `query-refused`, `excerpt` "
        "has two lines: one of the query, and a mark below what is meant.",
    ),
    "branch_run": Route(
        "202; 200 when the token had asked for the same before",
        {
            "submissionId": "night-8",
            "state": "requested",
            "refusal": None,
            "childRunId": CHILD,
            "parentRunId": RUN,
            "origin": {"parent": RUN, "snapshotId": ID, "step": 40, "restore": "weights"},
            "steps": 200,
            "position": 24,
        },
        (
            *("run-not-found", "ambiguous-id", "snapshot-not-found", "plan-refused"),
            *("refused", "submission-token-reused"),
        ),
        "`state` is `requested`, `preparing`, `created` or `refused`, and then `refusal` is "
        "`{reason, advice}`. There is no run `childRunId` before it is `created`. With `dryRun` it "
        "answers 200 and `{resolved, stated, origin, steps, note, position}`, and nothing is "
        "stored. [branches.md](branches.md) explains it.",
    ),
    "list_branches": Route(
        "200",
        {"runId": RUN, "branches": [BRANCH], "next": None},
        ("run-not-found", "ambiguous-id", "submission-not-found"),
        "`next` is null on the last page, and with `submission` it is absent. With `submission` "
        "the branch is as it is in the ledger, which the list may show a moment later; `position` "
        "is null until then. `configHash` is equal where settings and data are. An answer `asOf` "
        "an earlier moment has `asOf` as well: ask for the next page as of that position.",
    ),
    "read_tree": Route(
        "200",
        {
            "runId": CHILD,
            "runs": [
                {
                    "runId": RUN,
                    "name": "first try",
                    "phase": "COMPLETED",
                    "origin": None,
                    "steps": None,
                    "generation": 0,
                }
            ],
        },
        ("run-not-found", "ambiguous-id"),
        "`origin` is as in the record of a run, `steps` the budget of a branch, and `generation` "
        "how far it is from the root.",
    ),
    "read_ancestry": Route(
        "200",
        {
            "runId": CHILD,
            "runs": [
                {
                    "runId": RUN,
                    "name": "first try",
                    "phase": "COMPLETED",
                    "snapshotId": None,
                    "step": None,
                    "restore": None,
                    "steps": None,
                }
            ],
        },
        ("run-not-found", "ambiguous-id"),
        "`snapshotId`, `step` and `restore` say what a run began from, and `steps` is its budget; "
        "all are null for the root.",
    ),
    "read_line": Route(
        "200",
        {
            "runId": CHILD,
            "field": "loss",
            "runs": [{"runId": RUN, "before": 0}],
            "step": [1, 2, 3],
            "value": [1.0, "NaN", 0.33],
        },
        ("run-not-found", "ambiguous-id"),
        "`before` is the number of updates of the line that come before a run's own first one.",
    ),
    "list_snapshots": Route(
        "200",
        {"runId": RUN, "snapshots": [SNAPSHOT]},
        ("run-not-found", "ambiguous-id"),
        "`artifacts` are the kinds that are kept now. `status` is `committed`, `damaged`, "
        "`superseded` (the run went back below its step) or `swept` (nothing of it is kept); "
        "`restorable` says whether the run may go on from it, `heldBy` what keeps it from being "
        "swept, beside `pinned`.",
    ),
    "get_snapshot": Route(
        "200",
        WHOLE_SNAPSHOT,
        ("snapshot-not-found", "ambiguous-id", "snapshot-store"),
        "`manifest` and `writer` are absent once nothing of the snapshot is kept. Where the "
        "manifest is not the one that was committed it is null, and `manifestFault` says why.",
    ),
    "pin_snapshot": Route(
        "200",
        WHOLE_SNAPSHOT | {"pinned": True},
        ("snapshot-not-found", "ambiguous-id", "refused", "snapshot-store"),
        "Asking again changes nothing. Refused where nothing is left to keep.",
    ),
    "unpin_snapshot": Route(
        "200",
        WHOLE_SNAPSHOT,
        ("snapshot-not-found", "ambiguous-id", "snapshot-store"),
        "Nothing is deleted before the next save or sweep.",
    ),
    "sweep_snapshots": Route(
        "200",
        {"runId": RUN, "freedBytes": 60_338_176},
        ("run-not-found", "ambiguous-id", "snapshot-store"),
        "Never deleted are the saved snapshot, pinned ones, and the one that the open attempt "
        "began from. Asking again is safe.",
    ),
    "deliver": Route(
        "200",
        {"taken": 7, "request": None, "closed": False},
        ("run-not-found", "lines-do-not-follow"),
        "For runners, with the token of their attempt. `taken` is the number of the last line that "
        "the ledger has, `request` is `stop` when the worker should end, `pause` when it should "
        "save first, and after `closed` nothing counts any more.",
    ),
    "deliver_of_preparation": Route(
        "200",
        {"taken": 7, "request": None, "closed": False},
        ("run-not-found", "lines-do-not-follow"),
        "For runners, with the token of their preparation, as for an attempt.",
    ),
    "health": Route("200", {"ok": True}, (), "Needs no token."),
    "capacity": Route(
        "200",
        {
            "devices": [
                {
                    "device": "cuda:0",
                    "heldBy": {
                        "runId": "1f0c9a3e5b7d2846",
                        "project": "default",
                        "name": "triage",
                        "phase": "TRAINING",
                        "attempt": 1,
                        "since": "2026-11-29T18:00:03.120Z",
                    },
                    "model": "NVIDIA A100-SXM4-40GB",
                    "memoryBytes": 42949672960,
                },
                {
                    "device": "cuda:1",
                    "heldBy": None,
                    "model": "NVIDIA A100-SXM4-40GB",
                    "memoryBytes": 42949672960,
                },
            ],
            "waiting": [
                {
                    "runId": "8d2b4c6e0f1a3957",
                    "project": "default",
                    "name": None,
                    "phase": "WAITING",
                    "devices": 2,
                    "waitingFor": "2 devices; cuda:0 is held by run 1f0c9a3e5b7d2846",
                }
            ],
        },
        (),
        "`heldBy` is null where a device is free, `model` and `memoryBytes` where it is no GPU of "
        "this machine. `waiting` has the runs in the order of their "
        "turn; `waitingFor` is null until a run was looked at for the first time.",
    ),
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
        "The problem `not-ready` has the same members. A fault of the `price book` is shown among "
        "the checks, and hinders nothing.",
    ),
    "audit": Route(
        "200, also when there are faults",
        {
            "ok": False,
            "runId": None,
            "position": 23,
            "events": 23,
            "streams": 3,
            "seals": {
                "count": 1,
                "upto": 20,
                "signed": 1,
                "keys": ["281ae3b9…"],
                "signaturesChecked": True,
            },
            "unknownTopics": {},
            "seconds": 0.23,
            "chainSeconds": 0.01,
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
        ("run-not-found", "ambiguous-id"),
        "`chainSeconds` is the part of `seconds` that the events took. A fault of the verdict "
        "`projectionDiffers` has `projection`, `runId` and `detail`; `stream`, `version` and "
        "`position` of an `eventChanged` are null where nothing tells them. `unknownTopics` counts "
        "events that only a later version knows, which is no fault. [audit.md](audit.md) explains "
        "it.",
    ),
    "make_seal_key": Route(
        "201",
        {"publicKey": "281ae3b9…", "file": "/home/me/.trainledger/seal.key"},
        ("refused",),
        "Refused where there is a key already, and where the server has no package `cryptography`.",
    ),
    "read_audit_log": Route(
        "200",
        {
            "runId": RUN,
            "position": 20,
            "events": [
                {
                    "position": 20,
                    "stream": f"run/{RUN}",
                    "version": 10,
                    "topic": "run.cancel_requested.v1",
                    "kind": "cancelRequested",
                    "at": "2026-11-29T17:58:05.010Z",
                    "storedAt": "2026-11-29T17:58:05.010Z",
                    "principal": "operator",
                    "facts": {},
                }
            ],
        },
        ("run-not-found", "ambiguous-id", "ledger-corrupt"),
        "It has the run's own stream, its submission, and who held its snapshots. `facts` are the "
        "event's own [members](events.md), digests of tokens included.",
    ),
    "read_receipt": Route(
        "200",
        {
            "runId": RUN,
            "project": "triage",
            "name": "first try",
            "phase": "COMPLETED",
            "submittedAt": "2026-11-29T17:58:04.979Z",
            "endedAt": "2026-11-29T17:59:10.100Z",
            "plan": {
                "method": "SFT",
                "baseModel": "./models/smollm2",
                "dataset": "./data/train.jsonl",
                "sha256": "e998d946…",
            },
            "heads": [
                {"stream": f"run/{RUN}", "version": 10, "position": 22, "digest": "76957fb4…"}
            ],
            "snapshots": [
                {
                    name: SNAPSHOT[name]
                    for name in (
                        "snapshotId",
                        "step",
                        "status",
                        "committedAt",
                        "sizeBytes",
                        "digests",
                    )
                }
            ],
            "model": None,
            "bill": {
                "deviceSeconds": 64.0,
                "estimate": False,
                "deviceKind": "gpu",
                "split": {
                    "usefulSeconds": 50.0,
                    "repeatedSeconds": 0.0,
                    "preparingSeconds": 12.0,
                    "waitingSeconds": 1.5,
                    "idleSeconds": 0.5,
                },
                "throughput": None,
                "money": None,
            },
            "principals": [{"principal": "operator", "did": {"runSubmitted": 1}}],
            "seal": {
                "version": 1,
                "position": 23,
                "at": "2026-11-29T17:59:10.200Z",
                "upto": 22,
                "events": 22,
                "digest": "1967379b…",
                "signature": "ce0bec97…",
                "publicKey": "281ae3b9…",
            },
        },
        ("run-not-found", "ambiguous-id", "ledger-corrupt"),
        "`heads` are the newest events of the streams that tell of the run. `seal` is the first "
        "one that covers them, or null; `signature` and `publicKey` are null where it is "
        "unsigned.",
    ),
    "check_dataset": Route(
        "200",
        {
            "dataset": "/data/train.jsonl",
            "baseModel": "/models/smollm2",
            "maxSeqLength": 1024,
            "accepted": True,
            "reason": None,
            "form": "chat",
            "rows": 360,
            "identity": "39418e9c…",
            "dataFit": {"rows": 360, "reached": 12, "lostEnd": 3, "dropped": 1, "longest": 1190},
        },
        ("dataset-not-checked",),
        "`reason` is the sentence that a run would be refused with, or null. `form` is `chat` or "
        "`tokens`; `identity` is over the parsed rows, so it does not depend on how the lines are "
        "written. `form`, `rows`, `identity` and `dataFit` are null as far as the check did not "
        "come. [data.md](data.md) has the rules.",
    ),
    "create_dataset": Route(
        "201",
        DATASET | {"created": True, "movedFrom": None},
        ("rows-refused", "dataset-not-checked"),
        "200, and `created` false, where the catalogue had these rows; a name is moved all the "
        "same. `movedFrom` is the identity that it meant before, or null. A plan names the data "
        "set as `dataset:NAME`, or by its identity; what the run keeps is "
        "`dataset:NAME@IDENTITY`.",
    ),
    "list_datasets": Route(
        "200",
        {"datasets": [DATASET]},
        (),
        "`names` are those that mean it now. `form` is `chat` or `tokens`.",
    ),
    "get_dataset": Route(
        "200",
        DATASET
        | {"namings": [{"name": "support", "at": "2026-11-29T17:40:02.000Z", "by": "user/ana"}]},
        ("dataset-not-found", "ambiguous-id"),
        "`namings` has every time that a name was given to it, whatever the name means now.",
    ),
    "create_token": Route(
        "201",
        TOKEN | {"token": "tlk_3Zb4…"},
        ("token-name-taken",),
        "`token` is in this answer alone. A name is free again once its token has expired or was "
        "revoked.",
    ),
    "list_tokens": Route(
        "200",
        {"tokens": [TOKEN]},
        (),
        "`status` is `active`, `expired` or `revoked`. The token of the home is not among them.",
    ),
    "revoke_token": Route(
        "200",
        TOKEN
        | {
            "status": "revoked",
            "revokedAt": "2026-11-30T09:00:00.000Z",
            "revokedBy": "operator",
        },
        ("token-not-found",),
        "Asking again changes nothing. Of several tokens with a name, the newest is meant.",
    ),
    "whoami": Route(
        "200",
        {
            "principal": "user/ana",
            "role": "submitter",
            "tokenId": "1f0c9a3e",
            "expiresAt": "2026-12-29T18:00:00.000Z",
        },
        (),
        "For the token of the server's home, `tokenId` and `expiresAt` are null.",
    ),
    "export_ledger": Route(
        "200",
        "events.jsonl\nviews/runs.parquet\nviews/metrics.parquet\nmanifest.json\n",
        ("not-ready",),
        "The answer is a tar archive, `application/x-tar`. [audit.md](audit.md#export-and-import) "
        "has its files; the manifest comes last, so an archive without one broke off.",
    ),
    "back_up": Route(
        "200",
        "ledger.db\nmanifest.json\n",
        (),
        "The answer is a tar archive, `application/x-tar`, with an SQLite database.",
    ),
    "replay_ledger": Route(
        "200",
        "documents.db\nwarehouse.duckdb\nmanifest.json\n",
        (),
        "The answer is a tar archive, `application/x-tar`. What lies beyond the end of the ledger "
        "means its end.",
    ),
}

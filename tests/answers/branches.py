"""Branches, and the snapshots that they begin from."""

from tests.answers.parts import BRANCH, CHILD, ID, RUN, SNAPSHOT, WHOLE_SNAPSHOT, Route

ROUTES = {
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
}

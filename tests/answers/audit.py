"""Whether the ledger is what was written, and how it leaves the server and comes back."""

from tests.answers.parts import RUN, SNAPSHOT, Route

ROUTES = {
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
    "rebuild_projections": Route(
        "200",
        {"rebuilt": ["documents", "warehouse"], "position": 23, "seconds": 0.8},
        ("refused", "ledger-corrupt", "internal"),
        "The answer is lines of JSON: how far each projection has come, with `projection`, "
        "`position` and `upto`, again and again, and at last what the example shows. Readers have "
        "the old ones until each new one takes its place. A fault on the way is a last line that "
        "is a problem. Refused where the ledger itself is not what was written, and while another "
        "request does the same. [audit.md](audit.md#when-a-projection-differs) says when it is "
        "needed.",
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

"""The service itself: its health, its devices, its data sets, and who may ask it for what."""

from tests.answers.parts import DATASET, TOKEN, Route

ROUTES = {
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
}

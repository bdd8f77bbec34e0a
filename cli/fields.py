"""What ``--json`` can choose of each command's answer; ``--json=`` prints these lists.

They name members of the published JSON, so none is ever taken away. What is deeper in an answer, or
in some events only, is read with ``--jq``.
"""

from typing import NamedTuple


class Fields(NamedTuple):
    """The members that a command offers."""

    names: tuple[str, ...]
    rows: tuple[str, ...] = ()  # members of the answer that have rows with them; none: it has them


_RECORD = (
    *("runId", "project", "name", "description", "labels", "origin", "imported", "method"),
    "baseModel",
    *("dataset", "datasetRows", "datasetIdentity", "validationRows", "validationIdentity"),
    *("phase", "waitingFor", "stage", "pause"),
    *("progress", "observedStep", "savedStep", "saved", "failure", "results", "cost", "timing"),
    *("memory", "dataFit", "latest", "preparations", "attempts"),
    *("settings", "stated", "submittedAt"),
    *("submissionId", "position", "liveness", "asOf"),
)
_EVENT = (
    *("position", "runId", "kind", "at", "attempt", "preparation", "phase", "terminal"),
    "failure",
    "step",
    "measured",
)
_SNAPSHOT = (
    *("snapshotId", "runId", "attempt", "step", "epoch", "artifacts", "sizeBytes", "sizes"),
    *("digests", "uri", "status", "restorable", "pinned", "heldBy", "committedAt", "sweptAt"),
    "damage",
)
_WHOLE_SNAPSHOT = Fields((*_SNAPSHOT, "writer", "manifest"))
_BRANCH = (
    *("submissionId", "childRunId", "snapshotId", "sourceStep", "restore", "steps", "state"),
    *("refusal", "configName", "description", "configHash", "requestedAt", "position"),
)
_TOKEN = (
    *("tokenId", "name", "principal", "role", "status", "createdAt", "createdBy", "expiresAt"),
    *("revokedAt", "revokedBy"),
)
_DATASET = ("identity", "names", "form", "rows", "sizeBytes", "createdAt", "createdBy")
_PHASE = Fields(("runId", "phase"))
_IMPORTED = Fields(
    (
        *("runId", "submissionId", "created", "phase", "position", "steps", "validations", "file"),
        *("sha256", "beside", "loss", "leftOut", "replaced"),
    )
)
_HOME = Fields(("home", "events", "snapshots", "datasets", "position", "openRuns"))

FIELDS = {
    "runs start": Fields(("runId", "submissionId", "created", "phase", "position")),
    "runs list": Fields(
        (
            *("runId", "project", "name", "method", "baseModel", "phase", "stage", "progress"),
            *("observedStep", "latest", "submittedAt", "failure", "endedAt"),
        ),
        rows=("runs",),
    ),
    "runs get": Fields(_RECORD),
    "runs wait": Fields(tuple(dict.fromkeys((*_EVENT, *_RECORD)))),
    "runs metrics": Fields(
        (
            *("step", "attempt", "measured", "rewardTerms", "superseded", "supersededBy"),
            *("from", "to"),  # of --buckets
        ),
        rows=("steps", "buckets"),
    ),
    "runs compare": Fields(
        (
            *("runId", "baselineId", "position", "window", "margin", "spikeFactor", "acrossPlans"),
            *("differences", "division", "steps", "windows", "reported", "spikes", "reminder"),
        )
    ),
    "runs hparams": Fields(("runId", "attempt", "configHash", "hyperparameters")),
    "runs engine-config": Fields(("runId", "attempt", "requested", "resolved")),
    "runs grafana": Fields(("runId", "platformProject", "attempt", "url", "expiresAt")),
    "runs events": Fields(_EVENT),
    "runs rollouts": Fields(
        (
            *("place", "attempt", "prompt", "completion", "score", "terms"),
            *("superseded", "supersededBy"),
        ),
        rows=("rollouts",),
    ),
    "runs snapshots": Fields(_SNAPSHOT, rows=("snapshots",)),
    "runs branch": Fields(
        (
            *("submissionId", "state", "refusal", "childRunId", "parentRunId", "origin", "steps"),
            "position",
        )
    ),
    "runs branches": Fields(_BRANCH, rows=("branches",)),
    "runs sweep": Fields(("submissionId", "points")),
    "runs tree": Fields(
        ("runId", "name", "phase", "origin", "steps", "generation"), rows=("runs",)
    ),
    "runs ancestry": Fields(
        ("runId", "name", "phase", "snapshotId", "step", "restore", "steps"), rows=("runs",)
    ),
    "runs pause": Fields((*_PHASE.names, "pause")),
    "runs resume": Fields(tuple(dict.fromkeys((*_PHASE.names, *_EVENT, *_RECORD)))),
    "runs cancel": _PHASE,
    "runs annotate": Fields(("runId", "name", "description", "labels")),
    "snapshots get": _WHOLE_SNAPSHOT,
    "snapshots pin": _WHOLE_SNAPSHOT,
    "snapshots unpin": _WHOLE_SNAPSHOT,
    "snapshots sweep": Fields(("runId", "freedBytes")),
    "datasets check": Fields(
        (
            *("dataset", "baseModel", "maxSeqLength", "accepted", "reason", "form", "rows"),
            *("identity", "dataFit"),
        )
    ),
    "datasets create": Fields((*_DATASET, "created", "movedFrom")),
    "datasets list": Fields(_DATASET, rows=("datasets",)),
    "datasets get": Fields((*_DATASET, "namings")),
    "server status": Fields(("pid", "url", "home", "startedAt", "version", "running")),
    "audit verify": Fields(
        (
            *("ok", "runId", "position", "events", "streams", "seals", "unknownTopics"),
            *("seconds", "chainSeconds", "faults"),
        )
    ),
    "audit log": Fields(
        (
            *("position", "stream", "version", "topic", "kind", "at", "storedAt", "principal"),
            "facts",
        ),
        rows=("events",),
    ),
    "audit receipt": Fields(
        (
            *("runId", "project", "name", "phase", "submittedAt", "endedAt", "plan", "heads"),
            *("snapshots", "model", "bill", "principals", "seal"),
        )
    ),
    "audit replay": Fields(("position", "into")),
    "audit rebuild": Fields(("rebuilt", "position", "seconds")),
    "audit keygen": Fields(("publicKey", "file")),
    "tokens create": Fields((*_TOKEN, "token")),
    "tokens list": Fields(_TOKEN, rows=("tokens",)),
    "tokens revoke": Fields(_TOKEN),
    "tokens whoami": Fields(("principal", "role", "tokenId", "expiresAt")),
    "config list": Fields(
        ("name", "url", "tokenFile", "platformProject", "current"), rows=("contexts",)
    ),
    "capacity": Fields(("devices", "waiting")),
    "info": Fields(
        (
            *("version", "backend", "home", "position", "projections", "devices", "ready"),
            "checks",
        )
    ),
    "sql": Fields((), rows=("rows",)),
    "export": Fields(("position", "events", "views", "snapshots", "datasets", "into")),
    "import ledger": _HOME,
    "import trainer-state": _IMPORTED,
    "import trainer-log": _IMPORTED,
    "import tensorboard": _IMPORTED,
    "import csv": _IMPORTED,
    "backup": Fields(("file", "sizeBytes")),
    "restore": _HOME,
}

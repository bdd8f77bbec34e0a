"""What runs measured, step by step, and what is made of it."""

from projections.comparison import REMINDER
from tests.answers.parts import COMPARED, COPY, RUN, SUPERSEDED_BY, Route

ROUTES = {
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
    "read_rollouts": Route(
        "200",
        {
            "runId": RUN,
            "position": 23,
            "step": 7,
            "count": 8,
            "rollouts": [
                {
                    "place": 1,
                    "attempt": 1,
                    "prompt": [{"role": "user", "content": "What is 2 times 3?"}],
                    "completion": "6",
                    "score": 1.1,
                    "terms": {"correct": 1.0, "format": 0.1},
                    "superseded": True,
                    "supersededBy": SUPERSEDED_BY,
                }
            ],
            "steps": [5, 6, 7],
        },
        ("run-not-found", "ambiguous-id", "attempt-not-found", "rollouts-not-found"),
        "`steps` are the updates that have rollouts, `count` is how many this one has. An answer "
        "has 200 at most: the first that were scored, or those that `best` or `worst` puts first; "
        "equal scores stay in the order of scoring, and a score that is no number comes last. "
        "`prompt` and `completion` are texts, or messages with role and content, as the trainer "
        "said them. `superseded` and `supersededBy` (the restore that was the first to take the "
        "update back) are there where they say something. A run without rollouts has null for "
        "`step`.",
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
    "read_series": Route(
        "200",
        {"runId": RUN, "field": "loss", "step": [1, 2, 3], "value": [1.0, "NaN", 0.33]},
        ("run-not-found", "ambiguous-id"),
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
}

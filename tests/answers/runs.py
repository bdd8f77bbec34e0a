"""What is asked of runs: to begin, to go on and to end, and what there is to know of one."""

from tests.answers.parts import ID, RUN, SUMMARY, Route

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
    "read_logs": Route(
        "200",
        "Loading the base model\n{'loss': 0.33}\n",
        ("run-not-found", "ambiguous-id", "attempt-not-found", "preparation-not-found"),
        "The answer is `text/plain`. It is empty while the worker has printed nothing, and where "
        "its machine is another one.",
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
}

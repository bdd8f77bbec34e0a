-- What analysts read. Tables only ever grow: truncation at a restore is a view, never a delete, and
-- no table has a key or an index. Statements are in the dialect of DuckDB 1.5, whose clients read
-- published copies. NULL means absent; NaN and the infinities are values.

CREATE TABLE schema_version (
    version INTEGER NOT NULL  -- of these statements and of what apply.py makes
);

CREATE TABLE tracking (
    position BIGINT NOT NULL  -- ledger position that a batch reached, written with its rows
);

CREATE TABLE run (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- 16 hexadecimal digits
    happened_at TIMESTAMPTZ NOT NULL, -- when it was submitted
    project VARCHAR NOT NULL,         -- label of the plan
    name VARCHAR,                     -- label of the plan, never a key
    method VARCHAR NOT NULL,          -- SFT or GRPO
    base_model VARCHAR NOT NULL,      -- as the plan names it
    dataset VARCHAR NOT NULL,         -- as the plan names it
    plan JSON NOT NULL                -- resolved, every default filled in
);

CREATE TABLE phase (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    happened_at TIMESTAMPTZ NOT NULL, -- when the phase was entered
    phase VARCHAR NOT NULL,           -- published state of the run
    waiting_for VARCHAR               -- what held the run up, as a sentence
);

CREATE TABLE failure (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    happened_at TIMESTAMPTZ NOT NULL, -- when it failed
    code VARCHAR NOT NULL,            -- stable, for programs
    end_class VARCHAR NOT NULL,       -- input, resource, infrastructure, stopped or unknown
    reason VARCHAR NOT NULL           -- the published sentence
);

CREATE TABLE attempt (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- from 1
    happened_at TIMESTAMPTZ NOT NULL, -- when its devices were claimed
    devices VARCHAR[] NOT NULL,       -- their names
    launcher VARCHAR NOT NULL         -- what started its job
);

CREATE TABLE attempt_end (
    position BIGINT NOT NULL,          -- of the event in the ledger
    run_id VARCHAR NOT NULL,           -- the run
    attempt INTEGER NOT NULL,          -- from 1
    happened_at TIMESTAMPTZ NOT NULL,  -- when it was closed
    last_sign_at TIMESTAMPTZ NOT NULL, -- when it was last known to be alive
    end_class VARCHAR NOT NULL,        -- completed, input, resource, infrastructure, ...
    reason VARCHAR NOT NULL,           -- one sentence
    exit_code INTEGER,                 -- of the worker, where it was seen
    signal INTEGER                     -- that ended the worker, where it was seen
);

CREATE TABLE restore (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that went back
    happened_at TIMESTAMPTZ NOT NULL, -- when
    step BIGINT NOT NULL              -- the update that it went back to
);

CREATE TABLE metric (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that reported it
    step BIGINT NOT NULL,             -- update of the run, from 1
    happened_at TIMESTAMPTZ NOT NULL, -- when
    step_seconds DOUBLE,              -- that the update took
    loss DOUBLE,                      -- from here on the engine's numbers, under its own names
    grad_norm DOUBLE,                 -- before clipping
    grad_clip_factor DOUBLE,          -- maxGradNorm / grad_norm, at most 1
    adapter_norm DOUBLE,              -- of the trained weights, after the update
    update_ratio DOUBLE,              -- norm of the update / norm of the weights before it
    learning_rate DOUBLE,             -- that the update used
    epoch DOUBLE,                     -- passes over the rows
    num_tokens DOUBLE,                -- seen so far
    extra MAP(VARCHAR, DOUBLE),       -- every other number
    reward_terms MAP(VARCHAR, DOUBLE) -- what each term gave to the reward; NULL without rewards
);

CREATE TABLE validation (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that reported it
    step BIGINT NOT NULL,             -- update after which it was measured; 0: before the first
    happened_at TIMESTAMPTZ NOT NULL, -- when
    dataset VARCHAR,                  -- which rows, where there are several sets
    measured MAP(VARCHAR, DOUBLE)     -- the engine's numbers, under its own names
);

-- Stretches of positions between two restores of a run, for runs that were restored. A row is current
-- iff its step is at most valid_to, which is the lowest step that any later restore went back to.
CREATE VIEW segments AS
SELECT run_id, 1 AS segment, 0 AS opened, min(position) AS closed, min(step) AS valid_to
FROM restore
GROUP BY run_id
UNION ALL
SELECT
    run_id,
    1 + row_number() OVER (PARTITION BY run_id ORDER BY position) AS segment,
    position AS opened,
    lead(position) OVER (PARTITION BY run_id ORDER BY position) AS closed,
    min(step) OVER (
        PARTITION BY run_id ORDER BY position
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS valid_to
FROM restore;

-- Every report of an update, superseded ones too. (An ASOF join took twice as long, measured 2026-11-29.)
CREATE VIEW metrics_all AS
SELECT
    m.*,
    coalesce(s.segment, 1) AS segment,
    coalesce(m.step > s.valid_to, false) AS superseded
FROM metric AS m
LEFT JOIN segments AS s
    ON m.run_id = s.run_id
    AND m.position > s.opened
    AND m.position <= coalesce(s.closed, 9223372036854775807);

-- the current series: one row per update, several reports of one update merged
CREATE VIEW metrics AS
SELECT
    run_id,
    step,
    max(attempt) AS attempt,
    max(position) AS position,
    max(happened_at) AS happened_at,
    arg_max(step_seconds, position) AS step_seconds,
    arg_max(loss, position) AS loss,
    arg_max(grad_norm, position) AS grad_norm,
    arg_max(grad_clip_factor, position) AS grad_clip_factor,
    arg_max(adapter_norm, position) AS adapter_norm,
    arg_max(update_ratio, position) AS update_ratio,
    arg_max(learning_rate, position) AS learning_rate,
    arg_max(epoch, position) AS epoch,
    arg_max(num_tokens, position) AS num_tokens,
    list_reduce(
        list(extra ORDER BY position), lambda older, newer: map_concat(older, newer)
    ) AS extra,
    list_reduce(
        list(reward_terms ORDER BY position) FILTER (reward_terms IS NOT NULL),
        lambda older, newer: map_concat(older, newer)
    ) AS reward_terms
FROM metrics_all
WHERE NOT superseded
GROUP BY run_id, step;

-- every validation, superseded ones too
CREATE VIEW validations_all AS
SELECT
    v.*,
    coalesce(s.segment, 1) AS segment,
    coalesce(v.step > s.valid_to, false) AS superseded
FROM validation AS v
LEFT JOIN segments AS s
    ON v.run_id = s.run_id
    AND v.position > s.opened
    AND v.position <= coalesce(s.closed, 9223372036854775807);

-- current validations: one row per update and data set
CREATE VIEW validations AS
SELECT
    run_id,
    step,
    dataset,
    max(attempt) AS attempt,
    max(position) AS position,
    max(happened_at) AS happened_at,
    list_reduce(
        list(measured ORDER BY position), lambda older, newer: map_concat(older, newer)
    ) AS measured
FROM validations_all
WHERE NOT superseded
GROUP BY run_id, step, dataset;

-- visits of phases, in order; left_at is NULL while a visit lasts
CREATE VIEW phases AS
WITH changes AS (
    SELECT
        run_id, position, phase, waiting_for,
        max(happened_at) OVER (PARTITION BY run_id ORDER BY position) AS entered_at
    FROM phase
    QUALIFY phase IS DISTINCT FROM lag(phase) OVER (PARTITION BY run_id ORDER BY position)
), visits AS (
    SELECT
        *, lead(entered_at) OVER (PARTITION BY run_id ORDER BY position) AS left_at
    FROM changes
)
SELECT run_id, position, phase, waiting_for, entered_at, left_at
FROM visits
WHERE phase NOT IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- one row per attempt; device_seconds is NULL while it holds its devices
CREATE VIEW attempts AS
SELECT
    a.run_id,
    a.attempt,
    a.devices,
    a.launcher,
    a.happened_at AS opened_at,
    e.happened_at AS closed_at,
    e.end_class,
    e.reason,
    e.exit_code,
    e.signal,
    CASE WHEN e.happened_at IS NOT NULL THEN
        len(a.devices) * greatest(
            epoch_ms(least(e.last_sign_at, e.happened_at)) - epoch_ms(a.happened_at), 0
        ) / 1000.0
    END AS device_seconds
FROM attempt AS a
LEFT JOIN attempt_end AS e ON a.run_id = e.run_id AND a.attempt = e.attempt;

-- one row per run
CREATE VIEW runs AS
SELECT
    r.run_id,
    r.project,
    r.name,
    r.method,
    r.base_model,
    r.dataset,
    r.plan,
    r.happened_at AS submitted_at,
    p.phase,
    CASE WHEN p.phase IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN p.happened_at END AS ended_at,
    f.code AS failure_code,
    f.end_class AS failure_class,
    f.reason AS failure_reason,
    coalesce(a.device_seconds, 0) AS device_seconds
FROM run AS r
LEFT JOIN (
    SELECT run_id, arg_max(phase, position) AS phase, max(happened_at) AS happened_at
    FROM phase GROUP BY run_id
) AS p ON r.run_id = p.run_id
LEFT JOIN failure AS f ON r.run_id = f.run_id
LEFT JOIN (
    SELECT run_id, sum(device_seconds) AS device_seconds FROM attempts GROUP BY run_id
) AS a ON r.run_id = a.run_id;

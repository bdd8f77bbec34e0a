-- What analysts read, views.sql, is made of these tables. They only ever grow: truncation at a restore
-- is a view, never a delete, and no table has a key or an index. Statements are in the dialect of
-- DuckDB 1.5, whose clients read published copies. NULL means absent; NaN and the infinities are
-- values.

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
    base_model VARCHAR,               -- as the plan names it; NULL: an imported run's is not known
    dataset VARCHAR,                  -- the same
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
    released_at TIMESTAMPTZ NOT NULL,  -- when its devices were free: its last sign, in run's time
    end_class VARCHAR NOT NULL,        -- completed, input, resource, infrastructure, ...
    reason VARCHAR NOT NULL,           -- one sentence
    exit_code INTEGER,                 -- of the worker, where it was seen
    signal INTEGER                     -- that ended the worker, where it was seen
);

CREATE TABLE restore (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that went back, or that began so
    happened_at TIMESTAMPTZ NOT NULL, -- when
    step BIGINT NOT NULL,             -- the update that it went back to; 0: the start
    snapshot_id VARCHAR               -- that was restored; NULL: the start, or the trainer's own
);

CREATE TABLE metric (
    position BIGINT NOT NULL,         -- of the event in the ledger
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that reported it
    step BIGINT NOT NULL,             -- update of the run, from 1; imported ones may begin at 0
    happened_at TIMESTAMPTZ NOT NULL, -- when
    version BIGINT NOT NULL,          -- line of the spool that the attempt said it in
    principal VARCHAR NOT NULL,       -- who caused the event
    reached_at TIMESTAMPTZ NOT NULL,  -- how far the run's time had come, to the millisecond
    spent_ms BIGINT NOT NULL,         -- since the update before it, or since training began
    step_seconds DOUBLE,              -- that the update took, in the engine's words
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

CREATE TABLE rollout (
    position BIGINT NOT NULL,         -- of the event in the ledger, which holds several
    run_id VARCHAR NOT NULL,          -- the run
    attempt INTEGER NOT NULL,         -- that scored it
    step BIGINT NOT NULL,             -- update that it was made for
    happened_at TIMESTAMPTZ NOT NULL, -- when
    part_place INTEGER NOT NULL,      -- in the event, from 1
    prompt JSON NOT NULL,             -- a text, or messages
    completion JSON NOT NULL,         -- the same
    score DOUBLE NOT NULL,            -- that the grader gave
    terms MAP(VARCHAR, DOUBLE)        -- the weighted share of each term of the reward
);

CREATE TABLE branch (
    position BIGINT NOT NULL,         -- of the request in the ledger
    token VARCHAR NOT NULL,           -- of the submission, which asks for one branch
    happened_at TIMESTAMPTZ NOT NULL, -- when it was requested
    parent VARCHAR NOT NULL,          -- the run whose snapshot the child begins from
    child VARCHAR NOT NULL,           -- the run that it makes; there is none when it is refused
    snapshot_id VARCHAR NOT NULL,     -- that the child begins from
    step BIGINT NOT NULL,             -- update of the parent that the snapshot holds the state of
    restore VARCHAR NOT NULL,         -- weights or trainingState
    steps BIGINT NOT NULL,            -- budget of the child in updates
    config_name VARCHAR,              -- label that the request gave to the child
    description VARCHAR,              -- the same
    config_sha256 VARCHAR NOT NULL    -- of settings and data; equal for equal ones
);

CREATE TABLE branch_state (
    position BIGINT NOT NULL,         -- of the event in the ledger
    token VARCHAR NOT NULL,           -- of the submission
    happened_at TIMESTAMPTZ NOT NULL, -- when the state was entered
    state VARCHAR NOT NULL,           -- requested, preparing, created or refused
    reason VARCHAR,                   -- why it was refused, as a sentence
    advice VARCHAR                    -- what to do about it
);

-- Every event but updates, which are rows of metric.
CREATE TABLE event (
    position BIGINT NOT NULL,         -- in the ledger
    stream VARCHAR NOT NULL,          -- whose story it belongs to
    version BIGINT NOT NULL,          -- place in the stream, from 1
    topic VARCHAR NOT NULL,           -- what the ledger calls its kind
    kind VARCHAR NOT NULL,            -- what streams and docs/events.md call it
    run_id VARCHAR,                   -- the run; NULL: it is of none
    attempt INTEGER,                  -- that said it, or that it is about
    happened_at TIMESTAMPTZ,          -- when; NULL: of a kind that only a later version knows
    reached_at TIMESTAMPTZ,           -- how far the run's time had come; NULL: it tells no time
    spent_ms BIGINT,                  -- since the update before it; NULL: it is no part of training
    principal VARCHAR,                -- who caused it; NULL: as for happened_at
    payload JSON                      -- its own members
);

-- Stretches of positions between two restores of a run, for runs that were restored. A row is current
-- iff its step is at most valid_to, which is the lowest step that any later restore went back to.
-- These and the next two are as they were when the ledger ended at position upto: what a later
-- restore took back is not taken back yet.
CREATE MACRO segments_until(upto) AS TABLE
SELECT run_id, 1 AS segment, 0 AS opened, min(position) AS closed, min(step) AS valid_to
FROM restore
WHERE position <= upto
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
FROM restore
WHERE position <= upto;

-- Every report of an update, superseded ones too. (An ASOF join took twice as long, measured 2026-11-29.)
CREATE MACRO metrics_all_until(upto) AS TABLE
SELECT
    m.*,
    coalesce(s.segment, 1) AS segment,
    coalesce(m.step > s.valid_to, false) AS superseded
FROM metric AS m
LEFT JOIN segments_until(upto) AS s
    ON m.run_id = s.run_id
    AND m.position > s.opened
    AND m.position <= coalesce(s.closed, 9223372036854775807)
WHERE m.position <= upto;

-- every validation, superseded ones too
CREATE MACRO validations_all_until(upto) AS TABLE
SELECT
    v.*,
    coalesce(s.segment, 1) AS segment,
    coalesce(v.step > s.valid_to, false) AS superseded
FROM validation AS v
LEFT JOIN segments_until(upto) AS s
    ON v.run_id = s.run_id
    AND v.position > s.opened
    AND v.position <= coalesce(s.closed, 9223372036854775807)
WHERE v.position <= upto;

-- every rollout, superseded ones too; its place is among those of its update
CREATE MACRO rollouts_all_until(upto) AS TABLE
SELECT
    r.*,
    coalesce(s.segment, 1) AS segment,
    coalesce(r.step > s.valid_to, false) AS superseded,
    row_number() OVER (
        PARTITION BY r.run_id, r.step, coalesce(s.segment, 1) ORDER BY r.position, r.part_place
    ) AS place
FROM rollout AS r
LEFT JOIN segments_until(upto) AS s
    ON r.run_id = s.run_id
    AND r.position > s.opened
    AND r.position <= coalesce(s.closed, 9223372036854775807)
WHERE r.position <= upto;

-- the same as they are
CREATE VIEW segments AS SELECT * FROM segments_until(9223372036854775807);

CREATE VIEW metrics_all AS SELECT * FROM metrics_all_until(9223372036854775807);

CREATE VIEW validations_all AS SELECT * FROM validations_all_until(9223372036854775807);

CREATE VIEW rollouts_all AS SELECT * FROM rollouts_all_until(9223372036854775807);

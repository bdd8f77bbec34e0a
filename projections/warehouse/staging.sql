-- Steps on their way into the table metric. The appender takes plain columns several times as fast as
-- maps (24,000 rows a second with a map, 45,000 this way, measured 2026-11-29), so maps are made in
-- SQL, from values here and names that many rows share.

CREATE TEMP TABLE metric_staged (
    position BIGINT,        -- as in metric, to num_tokens
    run_id VARCHAR,
    attempt INTEGER,
    step BIGINT,
    micros BIGINT,          -- happened_at, since 1970
    version BIGINT,
    principal VARCHAR,
    reached_ms BIGINT,      -- reached_at, since 1970
    spent_ms BIGINT,
    step_seconds DOUBLE,
    loss DOUBLE,
    grad_norm DOUBLE,
    grad_clip_factor DOUBLE,
    adapter_norm DOUBLE,
    update_ratio DOUBLE,
    learning_rate DOUBLE,
    epoch DOUBLE,
    num_tokens DOUBLE,
    extra_names INTEGER,    -- which names the values of extra have
    extra_values DOUBLE[],
    term_names INTEGER,     -- the same of reward_terms; NULL: none were reported
    term_values DOUBLE[]
);

CREATE TEMP TABLE names_staged (
    id INTEGER,
    names VARCHAR[]         -- in the order of the values
);

-- what was staged becomes rows of metric
INSERT INTO metric
SELECT
    m.position,
    m.run_id,
    m.attempt,
    m.step,
    make_timestamptz(m.micros),
    m.version,
    m.principal,
    make_timestamptz(1000 * m.reached_ms),
    m.spent_ms,
    m.step_seconds,
    m.loss,
    m.grad_norm,
    m.grad_clip_factor,
    m.adapter_norm,
    m.update_ratio,
    m.learning_rate,
    m.epoch,
    m.num_tokens,
    map(extra.names, m.extra_values),
    map(terms.names, m.term_values)
FROM metric_staged AS m
LEFT JOIN names_staged AS extra ON extra.id = m.extra_names
LEFT JOIN names_staged AS terms ON terms.id = m.term_names;

TRUNCATE metric_staged;

TRUNCATE names_staged;

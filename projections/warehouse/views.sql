-- What analysts read: views that stay, and what each column of them means. docs/sql.md is made of the
-- comments, and any client shows them: SELECT * FROM duckdb_columns().

CREATE VIEW runs AS
WITH said AS (  -- words that were put to the run later; an empty text takes one away
    SELECT
        run_id,
        arg_max(payload ->> 'name', position) AS name,
        arg_max(payload ->> 'description', position) AS description
    FROM event
    WHERE kind = 'runAnnotated'
    GROUP BY run_id
), labelled AS (
    SELECT
        run_id,
        position,
        unnest(map_entries(CAST(payload -> 'labels' AS MAP(VARCHAR, VARCHAR)))) AS label
    FROM event
    WHERE kind = 'runAnnotated'
), labels AS (
    SELECT run_id, map_from_entries(list({'key': name, 'value': value} ORDER BY name)) AS labels
    FROM (
        SELECT run_id, label.key AS name, arg_max(label.value, position) AS value
        FROM labelled
        GROUP BY run_id, label.key
    )
    WHERE value <> ''
    GROUP BY run_id
), newest AS (
    SELECT
        p.run_id,
        arg_max(p.phase, p.position) AS phase,
        max(e.reached_at) AS reached_at
    FROM phase AS p
    JOIN event AS e ON p.position = e.position
    GROUP BY p.run_id
), paid AS (
    SELECT
        a.run_id,
        sum(nullif(len(a.devices), 0) * (epoch_ms(e.released_at) - epoch_ms(o.reached_at)))
        / 1000.0 AS device_seconds
    FROM attempt AS a
    JOIN event AS o ON a.position = o.position
    JOIN attempt_end AS e ON a.run_id = e.run_id AND a.attempt = e.attempt
    GROUP BY a.run_id
)
SELECT
    r.run_id,
    r.project,
    CASE WHEN s.name IS NULL THEN r.name ELSE nullif(s.name, '') END AS name,
    CASE
        WHEN s.description IS NULL THEN r.plan ->> 'description' ELSE nullif(s.description, '')
    END AS description,
    coalesce(l.labels, CAST(map() AS MAP(VARCHAR, VARCHAR))) AS labels,
    r.method,
    r.base_model,
    r.dataset,
    r.plan,
    r.happened_at AS submitted_at,
    o.principal AS submitted_by,
    n.phase,
    CASE
        WHEN n.phase IN ('COMPLETED', 'FAILED', 'CANCELLED')
        AND coalesce(r.plan ->> '$.engine.imported.isTimed', 'true') = 'true'
        THEN n.reached_at
    END AS ended_at,
    f.code AS failure_code,
    f.end_class AS failure_class,
    f.reason AS failure_reason,
    CASE WHEN d.run_id IS NULL THEN 0 ELSE d.device_seconds END AS device_seconds
FROM run AS r
JOIN event AS o ON r.position = o.position
LEFT JOIN newest AS n ON r.run_id = n.run_id
LEFT JOIN said AS s ON r.run_id = s.run_id
LEFT JOIN labels AS l ON r.run_id = l.run_id
LEFT JOIN failure AS f ON r.run_id = f.run_id
LEFT JOIN paid AS d ON r.run_id = d.run_id;

COMMENT ON VIEW runs IS 'One row for each run.';
COMMENT ON COLUMN runs.run_id IS '16 hexadecimal digits: the key of nearly every view';
COMMENT ON COLUMN runs.project IS 'label of the plan';
COMMENT ON COLUMN runs.name IS 'label of the plan, or what it was changed to; never a key';
COMMENT ON COLUMN runs.description IS 'of the plan, or what it was changed to';
COMMENT ON COLUMN runs.labels IS 'that were put to the run after it was submitted, by name';
COMMENT ON COLUMN runs.method IS 'SFT or GRPO';
COMMENT ON COLUMN runs.base_model IS 'as the plan names it; NULL: not known, of an imported run';
COMMENT ON COLUMN runs.dataset IS 'as the plan names it; NULL: not known, of an imported run';
COMMENT ON COLUMN runs.plan IS 'resolved, every default filled in: plan ->> ''$.config.learningRate''';
COMMENT ON COLUMN runs.submitted_at IS 'when it was accepted';
COMMENT ON COLUMN runs.submitted_by IS 'the principal who submitted it';
COMMENT ON COLUMN runs.phase IS
'SUBMITTED, PREPARING, WAITING, QUEUED, TRAINING, PAUSING, PAUSED, CANCELLING, COMPLETED, FAILED or CANCELLED; the last three never change';
COMMENT ON COLUMN runs.ended_at IS
'NULL while it goes on, and of an imported run whose history has no times';
COMMENT ON COLUMN runs.failure_code IS 'of a FAILED run: stable, for programs';
COMMENT ON COLUMN runs.failure_class IS 'of a FAILED run: input, resource, infrastructure, stopped or unknown';
COMMENT ON COLUMN runs.failure_reason IS 'of a FAILED run: the published sentence';
COMMENT ON COLUMN runs.device_seconds IS
'devices x time held, of attempts that are closed; run_cost also has estimates for open ones; NULL: not known, of an imported run';

CREATE VIEW attempts AS
WITH began_from AS (  -- what each attempt but the first began from
    SELECT
        run_id,
        attempt,
        CAST(payload ->> 'step' AS BIGINT) AS step,
        payload ->> 'snapshotId' AS snapshot_id
    FROM event
    WHERE kind = 'restored' AND stream = 'run/' || run_id
), hosts AS (
    SELECT run_id, attempt, any_value(payload ->> 'host') AS host
    FROM event
    WHERE kind = 'jobStarted'
    GROUP BY run_id, attempt
), updates AS (
    SELECT run_id, attempt, arg_min(step, position) AS first, arg_max(step, position) AS last
    FROM metric
    GROUP BY run_id, attempt
)
SELECT
    a.run_id,
    a.attempt,
    a.devices,
    a.launcher,
    h.host,
    o.reached_at AS opened_at,
    e.released_at,
    c.reached_at AS closed_at,
    c.payload ->> 'outcome' AS outcome,
    e.end_class,
    nullif(c.payload ->> 'code', '') AS code,
    e.reason,
    e.exit_code,
    e.signal,
    (c.payload ->> 'rank')::INTEGER AS rank,
    b.step AS restored_step,
    b.snapshot_id AS restored_snapshot_id,
    u.first AS first_step,
    u.last AS last_step,
    nullif(len(a.devices), 0) * (epoch_ms(e.released_at) - epoch_ms(o.reached_at)) / 1000.0
        AS device_seconds
FROM attempt AS a
JOIN event AS o ON a.position = o.position
LEFT JOIN attempt_end AS e ON a.run_id = e.run_id AND a.attempt = e.attempt
LEFT JOIN event AS c ON e.position = c.position
LEFT JOIN began_from AS b ON a.run_id = b.run_id AND a.attempt = b.attempt
LEFT JOIN hosts AS h ON a.run_id = h.run_id AND a.attempt = h.attempt
LEFT JOIN updates AS u ON a.run_id = u.run_id AND a.attempt = u.attempt;

COMMENT ON VIEW attempts IS 'One row for each job of a run.';
COMMENT ON COLUMN attempts.run_id IS 'the run';
COMMENT ON COLUMN attempts.attempt IS 'its number in the run, from 1';
COMMENT ON COLUMN attempts.devices IS 'names of the devices that it claimed';
COMMENT ON COLUMN attempts.launcher IS 'what started its job';
COMMENT ON COLUMN attempts.host IS 'where its job began to work; NULL: it never did';
COMMENT ON COLUMN attempts.opened_at IS 'when its devices were claimed';
COMMENT ON COLUMN attempts.released_at IS
'when its devices were free again: with its last sign of life; NULL while they are held';
COMMENT ON COLUMN attempts.closed_at IS 'when it was known to be over; NULL while it is open';
COMMENT ON COLUMN attempts.outcome IS 'completed, failed, cancelled or paused; NULL while it is open';
COMMENT ON COLUMN attempts.end_class IS
'completed, input, resource, infrastructure, stopped or unknown; NULL while it is open';
COMMENT ON COLUMN attempts.code IS 'why it ended: stable, for programs';
COMMENT ON COLUMN attempts.reason IS 'the same as a sentence';
COMMENT ON COLUMN attempts.exit_code IS 'of its worker, where it was seen';
COMMENT ON COLUMN attempts.signal IS 'that ended its worker, where it was seen';
COMMENT ON COLUMN attempts.rank IS
'of several processes of its worker, the one that ended the others, from 0';
COMMENT ON COLUMN attempts.restored_step IS
'the update that it went on from; 0: the start; NULL for the first attempt';
COMMENT ON COLUMN attempts.restored_snapshot_id IS 'the snapshot that it went on from, if any';
COMMENT ON COLUMN attempts.first_step IS 'the first update that it reported';
COMMENT ON COLUMN attempts.last_step IS 'the newest update that it reported';
COMMENT ON COLUMN attempts.device_seconds IS
'devices x time held; NULL while they are held, and of an imported run';

CREATE VIEW phases AS
WITH changes AS (
    SELECT p.run_id, p.position, p.phase, p.waiting_for, e.reached_at AS entered_at
    FROM phase AS p
    JOIN event AS e ON p.position = e.position
    QUALIFY p.phase IS DISTINCT FROM lag(p.phase) OVER (PARTITION BY p.run_id ORDER BY p.position)
), visits AS (
    SELECT
        *,
        lead(entered_at) OVER (PARTITION BY run_id ORDER BY position) AS left_at,
        -- PAUSING and CANCELLING go on with what the run did before
        last_value(CASE WHEN phase NOT IN ('PAUSING', 'CANCELLING') THEN phase END IGNORE NULLS)
            OVER (PARTITION BY run_id ORDER BY position ROWS UNBOUNDED PRECEDING) AS doing
    FROM changes
)
SELECT
    run_id,
    position,
    phase,
    CASE
        WHEN phase IN ('WAITING', 'QUEUED', 'PREPARING', 'TRAINING') THEN lower(phase)
        WHEN phase IN ('PAUSING', 'CANCELLING') AND doing = 'TRAINING' THEN 'training'
        ELSE 'other'
    END AS part,
    waiting_for,
    entered_at,
    left_at,
    (epoch_ms(left_at) - epoch_ms(entered_at)) / 1000.0 AS seconds
FROM visits
WHERE phase NOT IN ('COMPLETED', 'FAILED', 'CANCELLED');

COMMENT ON VIEW phases IS
'One row for each visit of a phase: a run may come to a phase several times. They leave no gap.';
COMMENT ON COLUMN phases.run_id IS 'the run';
COMMENT ON COLUMN phases.position IS 'of the event that entered the phase: the order of visits';
COMMENT ON COLUMN phases.phase IS 'SUBMITTED, PREPARING, WAITING, QUEUED, TRAINING, PAUSING, PAUSED or CANCELLING';
COMMENT ON COLUMN phases.part IS
'what the time counts as: waiting, queued, preparing, training or other; a run that trained goes on to train while it is PAUSING or CANCELLING';
COMMENT ON COLUMN phases.waiting_for IS 'what held the run up, as a sentence';
COMMENT ON COLUMN phases.entered_at IS 'when the phase was entered';
COMMENT ON COLUMN phases.left_at IS 'when it was left; NULL while the run is in it';
COMMENT ON COLUMN phases.seconds IS 'from one to the other';

CREATE VIEW run_timing AS
WITH said AS (
    SELECT run_id, reached_at FROM event WHERE reached_at IS NOT NULL
    UNION ALL
    SELECT run_id, reached_at FROM metric
), reached AS (
    SELECT run_id, max(reached_at) AS reached_at FROM said GROUP BY run_id
), imported AS (  -- with what their history says of their length, if it does
    SELECT
        run_id,
        plan ->> '$.engine.imported.isTimed' = 'true' AS is_timed,
        CAST(plan ->> '$.engine.imported.trainingSeconds' AS DOUBLE) * 1000 AS millis
    FROM run
    WHERE plan ->> '$.engine.imported.isTimed' IS NOT NULL
), spent AS (
    SELECT
        p.run_id,
        p.part,
        epoch_ms(coalesce(p.left_at, n.reached_at)) - epoch_ms(p.entered_at) AS millis
    FROM phases AS p
    JOIN reached AS n ON p.run_id = n.run_id
    LEFT JOIN imported AS i ON p.run_id = i.run_id
    WHERE coalesce(i.is_timed, true)
    UNION ALL
    SELECT run_id, 'training', millis FROM imported WHERE NOT is_timed
)
SELECT
    s.run_id,
    any_value(r.submitted_at) AS submitted_at,
    any_value(r.ended_at) AS ended_at,
    CASE WHEN coalesce(any_value(i.is_timed), true) THEN any_value(n.reached_at) END
        AS last_sign_at,
    sum(s.millis) / 1000.0 AS seconds,
    CASE
        WHEN any_value(i.run_id) IS NULL
        THEN coalesce(sum(s.millis) FILTER (s.part = 'waiting'), 0)
    END / 1000.0 AS waiting_seconds,
    CASE
        WHEN any_value(i.run_id) IS NULL
        THEN coalesce(sum(s.millis) FILTER (s.part = 'queued'), 0)
    END / 1000.0 AS queued_seconds,
    CASE
        WHEN any_value(i.run_id) IS NULL
        THEN coalesce(sum(s.millis) FILTER (s.part = 'preparing'), 0)
    END / 1000.0 AS preparing_seconds,
    CASE
        WHEN any_value(i.run_id) IS NULL
        THEN coalesce(sum(s.millis) FILTER (s.part = 'training'), 0)
        ELSE sum(s.millis) FILTER (s.part = 'training')
    END / 1000.0 AS training_seconds,
    CASE
        WHEN any_value(i.run_id) IS NULL
        THEN coalesce(sum(s.millis) FILTER (s.part = 'other'), 0)
    END / 1000.0 AS other_seconds
FROM spent AS s
JOIN runs AS r ON s.run_id = r.run_id
JOIN reached AS n ON s.run_id = n.run_id
LEFT JOIN imported AS i ON s.run_id = i.run_id
GROUP BY s.run_id;

COMMENT ON VIEW run_timing IS
'One row for each run: how long it took by the clock, and what it did. A run that goes on lasts to its last sign of life. Of an imported run only training is known: its length is that of its history, if that says so.';
COMMENT ON COLUMN run_timing.run_id IS 'the run';
COMMENT ON COLUMN run_timing.submitted_at IS 'when it was accepted';
COMMENT ON COLUMN run_timing.ended_at IS 'NULL while it goes on';
COMMENT ON COLUMN run_timing.last_sign_at IS 'the newest moment that is known of it';
COMMENT ON COLUMN run_timing.seconds IS 'in all: the sum of the five parts';
COMMENT ON COLUMN run_timing.waiting_seconds IS 'waiting for devices';
COMMENT ON COLUMN run_timing.queued_seconds IS 'handed over to where it runs, and not yet begun';
COMMENT ON COLUMN run_timing.preparing_seconds IS 'reading rows, loading the model, restoring';
COMMENT ON COLUMN run_timing.training_seconds IS 'training';
COMMENT ON COLUMN run_timing.other_seconds IS 'submitted and not yet looked at, or paused';

-- The parts of projections/documents/cost.py, in milliseconds of one device until the last line.
CREATE VIEW attempt_cost AS
WITH chain AS (  -- what the time of training is divided by: updates, and a trainer that goes back
    SELECT run_id, attempt, position, step, reached_at, spent_ms, superseded AS is_lost
    FROM metrics_all
    UNION ALL
    SELECT run_id, attempt, position, NULL, reached_at, spent_ms, kind = 'restored'
    FROM event
    WHERE spent_ms IS NOT NULL
), trained AS (
    SELECT
        run_id,
        attempt,
        epoch_ms(min(reached_at)) AS began,
        epoch_ms(max(reached_at)) AS counted,
        coalesce(sum(spent_ms) FILTER (NOT is_lost), 0) AS useful,
        coalesce(sum(spent_ms) FILTER (is_lost), 0) AS repeated,
        arg_max(step, position) AS last_step
    FROM chain
    GROUP BY run_id, attempt
), signs AS (
    SELECT run_id, attempt, epoch_ms(max(reached_at)) AS signed
    FROM event
    WHERE
        reached_at IS NOT NULL
        AND (stream <> 'run/' || run_id OR kind IN ('attemptOpened', 'jobStarted'))
    GROUP BY run_id, attempt
), opened AS (
    SELECT
        a.run_id,
        a.attempt,
        a.position,
        nullif(len(a.devices), 0) AS devices,  -- none are known of an imported run
        bool_and(starts_with(d.device, 'cpu')) AS on_cpu,
        any_value(epoch_ms(o.reached_at)) AS opened,
        any_value(e.position) AS closed_position,
        any_value(epoch_ms(e.released_at)) AS released,
        any_value(e.end_class) AS end_class,
        any_value(c.payload ->> 'outcome') AS outcome
    FROM attempt AS a
    JOIN event AS o ON a.position = o.position
    LEFT JOIN attempt_end AS e ON a.run_id = e.run_id AND a.attempt = e.attempt
    LEFT JOIN event AS c ON e.position = c.position
    LEFT JOIN LATERAL unnest(a.devices) AS d (device) ON true
    GROUP BY ALL
), changes AS (
    SELECT
        o.run_id,
        o.attempt,
        p.position,
        p.phase,
        epoch_ms(e.reached_at) AS entered,
        min(p.position) FILTER (p.phase = 'QUEUED')
            OVER (PARTITION BY o.run_id, o.attempt) AS first_queued
    FROM opened AS o
    JOIN phase AS p
        ON o.run_id = p.run_id
        AND p.position > o.position
        AND p.position < coalesce(o.closed_position, 9223372036854775807)
    JOIN event AS e ON p.position = e.position
    WHERE p.phase NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
), queue AS (
    SELECT
        run_id,
        attempt,
        max(entered) FILTER (phase = 'QUEUED') AS queued,
        min(entered) FILTER (phase <> 'QUEUED' AND position > first_queued) AS left_queue
    FROM changes
    GROUP BY run_id, attempt
), offers AS (
    SELECT
        run_id,
        attempt,
        max(position) AS position,
        arg_max(CAST(payload ->> 'step' AS BIGINT), position) AS step
    FROM event
    WHERE
        kind = 'snapshotOffered'
        AND list_contains(CAST(payload -> 'artifacts' AS VARCHAR[]), 'trainingState')
    GROUP BY run_id, attempt
), written AS (  -- the newest update that could be gone on from, if the trainer is still beyond it
    SELECT o.run_id, o.attempt, o.step
    FROM offers AS o
    ANTI JOIN (
        SELECT run_id, attempt, position, CAST(payload ->> 'step' AS BIGINT) AS step
        FROM event
        WHERE kind = 'restored' AND stream <> 'run/' || run_id
    ) AS r
        ON o.run_id = r.run_id
        AND o.attempt = r.attempt
        AND r.position > o.position
        AND r.step < o.step
), undone AS (  -- attempts whose end a later restore took back
    SELECT DISTINCT o.run_id, o.attempt
    FROM opened AS o
    JOIN trained AS t ON o.run_id = t.run_id AND o.attempt = t.attempt
    JOIN restore AS r
        ON o.run_id = r.run_id AND r.position > o.closed_position AND r.step < t.last_step
), held AS (
    SELECT
        o.run_id,
        o.attempt,
        o.devices,
        o.on_cpu,
        o.opened,
        o.released,
        t.began,
        t.counted,
        t.useful,
        t.repeated,
        greatest(s.signed, t.counted) AS signed,
        o.closed_position IS NULL
        OR (
            u.attempt IS NULL
            AND (
                o.end_class = 'completed'
                OR (o.outcome = 'paused' AND coalesce(w.step = t.last_step, false))
            )
        ) AS keeps_its_end,
        q.queued,
        q.left_queue
    FROM opened AS o
    LEFT JOIN signs AS s ON o.run_id = s.run_id AND o.attempt = s.attempt
    LEFT JOIN trained AS t ON o.run_id = t.run_id AND o.attempt = t.attempt
    LEFT JOIN queue AS q ON o.run_id = q.run_id AND o.attempt = q.attempt
    LEFT JOIN written AS w ON o.run_id = w.run_id AND o.attempt = w.attempt
    LEFT JOIN undone AS u ON o.run_id = u.run_id AND o.attempt = u.attempt
), waited AS (
    SELECT
        *,
        coalesce(released, signed) AS until,
        coalesce(began, released, signed) AS begin_or_end,
        CASE
            WHEN queued IS NULL THEN 0
            ELSE greatest(
                least(coalesce(left_queue, begin_or_end), begin_or_end) - queued, 0
            )
        END AS waiting
    FROM held
), parts AS (
    SELECT
        *,
        coalesce(useful, 0)
        + CASE WHEN began IS NOT NULL AND keeps_its_end THEN signed - counted ELSE 0 END
            AS useful_ms,
        coalesce(repeated, 0)
        + CASE WHEN began IS NOT NULL AND NOT keeps_its_end THEN signed - counted ELSE 0 END
            AS repeated_ms,
        CASE
            WHEN began IS NULL THEN greatest(signed - opened - waiting, 0)
            ELSE began - opened - waiting
        END AS preparing_ms
    FROM waited
), now AS (
    SELECT run_id, max(reached) AS now
    FROM (
        SELECT run_id, epoch_ms(reached_at) AS reached FROM event WHERE reached_at IS NOT NULL
        UNION ALL
        SELECT run_id, counted FROM trained
    )
    GROUP BY run_id
), estimates AS (  -- of open attempts: training time x devices requested
    SELECT
        o.run_id,
        o.attempt,
        CAST(any_value(r.plan -> '$.execution.devices') AS BIGINT) * sum(
            greatest(
                coalesce(epoch_ms(p.left_at), n.now) - greatest(epoch_ms(p.entered_at), o.opened),
                0
            )
        ) AS millis
    FROM opened AS o
    JOIN run AS r ON o.run_id = r.run_id
    JOIN now AS n ON o.run_id = n.run_id
    JOIN phases AS p ON o.run_id = p.run_id AND p.part = 'training'
    WHERE o.released IS NULL
    GROUP BY o.run_id, o.attempt
)
SELECT
    p.run_id,
    p.attempt,
    p.devices,
    CASE WHEN p.on_cpu THEN 'cpu' WHEN NOT p.on_cpu THEN 'gpu' END AS device_kind,
    CASE
        WHEN p.released IS NULL THEN coalesce(e.millis, 0)
        ELSE p.devices * (p.released - p.opened)
    END / 1000.0 AS device_seconds,
    p.released IS NULL AS estimate,
    p.devices * p.useful_ms / 1000.0 AS useful_seconds,
    p.devices * p.repeated_ms / 1000.0 AS repeated_seconds,
    p.devices * p.preparing_ms / 1000.0 AS preparing_seconds,
    p.devices * p.waiting / 1000.0 AS waiting_seconds,
    p.devices * (
        p.until - p.opened - p.useful_ms - p.repeated_ms - p.preparing_ms - p.waiting
    ) / 1000.0 AS idle_seconds
FROM parts AS p
LEFT JOIN estimates AS e ON p.run_id = e.run_id AND p.attempt = e.attempt;

COMMENT ON VIEW attempt_cost IS
'One row for each attempt: the time for which it held its devices, times their number, and what that was for. docs/cost.md defines the parts.';
COMMENT ON COLUMN attempt_cost.run_id IS 'the run';
COMMENT ON COLUMN attempt_cost.attempt IS 'its number in the run, from 1';
COMMENT ON COLUMN attempt_cost.devices IS
'how many it claimed; NULL, as everything that follows from it: not known, of an imported run';
COMMENT ON COLUMN attempt_cost.device_kind IS 'cpu or gpu';
COMMENT ON COLUMN attempt_cost.device_seconds IS
'devices x time held; while it holds them an estimate: training time x devices that the plan asks for';
COMMENT ON COLUMN attempt_cost.estimate IS 'whether device_seconds is one';
COMMENT ON COLUMN attempt_cost.useful_seconds IS 'of updates that count';
COMMENT ON COLUMN attempt_cost.repeated_seconds IS
'of updates that a later restore took back, and of work that came to no update';
COMMENT ON COLUMN attempt_cost.preparing_seconds IS 'before training began, but for the queue';
COMMENT ON COLUMN attempt_cost.waiting_seconds IS 'in which its job was handed over and had not begun';
COMMENT ON COLUMN attempt_cost.idle_seconds IS 'after the last word of its worker';

CREATE VIEW run_cost AS
SELECT
    r.run_id,
    count(c.attempt) AS attempts,
    CASE WHEN bool_and(c.device_kind = 'cpu') THEN 'cpu' WHEN count(c.devices) > 0 THEN 'gpu' END
        AS device_kind,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.device_seconds) ELSE 0 END AS device_seconds,
    CASE
        WHEN count(c.attempt) > 0 THEN bool_or(c.estimate) ELSE any_value(r.ended_at) IS NULL
    END AS estimate,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.useful_seconds) ELSE 0 END AS useful_seconds,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.repeated_seconds) ELSE 0 END AS repeated_seconds,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.preparing_seconds) ELSE 0 END AS preparing_seconds,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.waiting_seconds) ELSE 0 END AS waiting_seconds,
    CASE WHEN count(c.attempt) > 0 THEN sum(c.idle_seconds) ELSE 0 END AS idle_seconds
FROM runs AS r
LEFT JOIN attempt_cost AS c ON r.run_id = c.run_id
GROUP BY r.run_id;

COMMENT ON VIEW run_cost IS
'One row for each run: what attempt_cost says of all its attempts. Nothing is ever taken back from it: work that has to be repeated is paid for twice.';
COMMENT ON COLUMN run_cost.run_id IS 'the run';
COMMENT ON COLUMN run_cost.attempts IS 'how many it opened';
COMMENT ON COLUMN run_cost.device_kind IS 'cpu or gpu; NULL while none was opened';
COMMENT ON COLUMN run_cost.device_seconds IS
'devices x time held, of all attempts, of which an open one is an estimate; NULL, as its parts: not known, of an imported run';
COMMENT ON COLUMN run_cost.estimate IS 'whether device_seconds will still grow into something else';
COMMENT ON COLUMN run_cost.useful_seconds IS 'of updates that count';
COMMENT ON COLUMN run_cost.repeated_seconds IS
'of updates that a later restore took back, and of work that came to no update';
COMMENT ON COLUMN run_cost.preparing_seconds IS 'before training began, but for the queue';
COMMENT ON COLUMN run_cost.waiting_seconds IS 'in which jobs were handed over and had not begun';
COMMENT ON COLUMN run_cost.idle_seconds IS 'after the last word of a worker';

-- Nearly every update is reported once, and only others need their maps merged: sorting and merging
-- the lists of all took ten times as long (1 M updates, measured 2026-11-29).
CREATE VIEW metrics AS
WITH merged AS (
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
        list({'position': position, 'names': extra}) AS extra,
        list({'position': position, 'names': reward_terms})
            FILTER (reward_terms IS NOT NULL) AS reward_terms
    FROM metrics_all
    WHERE NOT superseded
    GROUP BY run_id, step
)
SELECT * REPLACE (
    CASE
        WHEN len(extra) = 1 THEN extra[1].names
        ELSE list_reduce(
            list_transform(list_sort(extra), lambda report: report.names),
            lambda older, newer: map_concat(older, newer)
        )
    END AS extra,
    CASE
        WHEN len(reward_terms) = 1 THEN reward_terms[1].names
        WHEN len(reward_terms) > 1 THEN list_reduce(
            list_transform(list_sort(reward_terms), lambda report: report.names),
            lambda older, newer: map_concat(older, newer)
        )
    END AS reward_terms
)
FROM merged;

COMMENT ON VIEW metrics IS
'One row for each update that counts: what a restore took back is not here. Several reports of one update are merged.';
COMMENT ON COLUMN metrics.run_id IS 'the run';
COMMENT ON COLUMN metrics.step IS 'the update, from 1';
COMMENT ON COLUMN metrics.attempt IS 'that reported it';
COMMENT ON COLUMN metrics.position IS 'of its newest event in the ledger';
COMMENT ON COLUMN metrics.happened_at IS 'when it was made';
COMMENT ON COLUMN metrics.step_seconds IS 'that the update took, where the engine says so';
COMMENT ON COLUMN metrics.loss IS 'from here on the engine''s numbers, under its own names';
COMMENT ON COLUMN metrics.grad_norm IS 'norm of the gradient before clipping';
COMMENT ON COLUMN metrics.grad_clip_factor IS 'maxGradNorm / grad_norm, at most 1';
COMMENT ON COLUMN metrics.adapter_norm IS 'norm of the trained weights after the update';
COMMENT ON COLUMN metrics.update_ratio IS 'norm of the update / norm of the weights before it';
COMMENT ON COLUMN metrics.learning_rate IS 'that the update used';
COMMENT ON COLUMN metrics.epoch IS 'passes over the rows';
COMMENT ON COLUMN metrics.num_tokens IS 'seen so far';
COMMENT ON COLUMN metrics.extra IS 'every other number by name: extra[''entropy'']';
COMMENT ON COLUMN metrics.reward_terms IS
'what each term gave to the reward, by name; NULL where there are no rewards';

CREATE VIEW metrics_all_attempts AS
WITH later AS (  -- of each segment the restores after it, in order
    SELECT
        s.run_id,
        s.segment,
        list(
            {'attempt': r.attempt, 'step': r.step, 'happened_at': r.happened_at}
            ORDER BY r.position
        ) AS restores
    FROM segments AS s
    JOIN restore AS r ON s.run_id = r.run_id AND r.position > s.opened
    GROUP BY s.run_id, s.segment
), marked AS (
    SELECT
        m.*,
        CASE
            WHEN m.superseded THEN list_filter(l.restores, lambda r: r.step < m.step)[1]
        END AS superseder
    FROM metrics_all AS m
    LEFT JOIN later AS l ON m.run_id = l.run_id AND m.segment = l.segment
)
SELECT
    run_id,
    step,
    attempt,
    segment,
    superseded,
    superseder.attempt AS superseded_by_attempt,
    superseder.step AS superseded_by_step,
    superseder.happened_at AS superseded_at,
    position,
    version,
    principal,
    happened_at,
    spent_ms / 1000.0 AS spent_seconds,
    step_seconds,
    loss,
    grad_norm,
    grad_clip_factor,
    adapter_norm,
    update_ratio,
    learning_rate,
    epoch,
    num_tokens,
    extra,
    reward_terms
FROM marked;

COMMENT ON VIEW metrics_all_attempts IS
'One row for each report of an update, also of those that a restore took back.';
COMMENT ON COLUMN metrics_all_attempts.run_id IS 'the run';
COMMENT ON COLUMN metrics_all_attempts.step IS 'the update, from 1';
COMMENT ON COLUMN metrics_all_attempts.attempt IS 'that reported it';
COMMENT ON COLUMN metrics_all_attempts.segment IS 'from 1: each restore of the run begins another one';
COMMENT ON COLUMN metrics_all_attempts.superseded IS 'whether a later restore took it back';
COMMENT ON COLUMN metrics_all_attempts.superseded_by_attempt IS
'the attempt that was the first to go back below it';
COMMENT ON COLUMN metrics_all_attempts.superseded_by_step IS 'the update that it went back to';
COMMENT ON COLUMN metrics_all_attempts.superseded_at IS 'when';
COMMENT ON COLUMN metrics_all_attempts.position IS 'of the event in the ledger';
COMMENT ON COLUMN metrics_all_attempts.version IS 'of the event in the stream of the attempt';
COMMENT ON COLUMN metrics_all_attempts.principal IS 'who caused the event';
COMMENT ON COLUMN metrics_all_attempts.happened_at IS 'when it was made';
COMMENT ON COLUMN metrics_all_attempts.spent_seconds IS
'since the update before it, or since training began: what cost is counted by';
COMMENT ON COLUMN metrics_all_attempts.step_seconds IS
'that the update took, where the engine says so';
COMMENT ON COLUMN metrics_all_attempts.loss IS
'from here on the engine''s numbers, under its own names';
COMMENT ON COLUMN metrics_all_attempts.grad_norm IS 'norm of the gradient before clipping';
COMMENT ON COLUMN metrics_all_attempts.grad_clip_factor IS 'maxGradNorm / grad_norm, at most 1';
COMMENT ON COLUMN metrics_all_attempts.adapter_norm IS 'norm of the trained weights after the update';
COMMENT ON COLUMN metrics_all_attempts.update_ratio IS
'norm of the update / norm of the weights before it';
COMMENT ON COLUMN metrics_all_attempts.learning_rate IS 'that the update used';
COMMENT ON COLUMN metrics_all_attempts.epoch IS 'passes over the rows';
COMMENT ON COLUMN metrics_all_attempts.num_tokens IS 'seen so far';
COMMENT ON COLUMN metrics_all_attempts.extra IS 'every other number by name';
COMMENT ON COLUMN metrics_all_attempts.reward_terms IS
'what each term gave to the reward, by name; NULL where there are no rewards';

CREATE VIEW metrics_long AS
WITH measured AS (
    SELECT
        run_id,
        step,
        attempt,
        happened_at,
        unnest(
            list_concat(
                [
                    {'key': 'step_seconds', 'value': step_seconds},
                    {'key': 'loss', 'value': loss},
                    {'key': 'grad_norm', 'value': grad_norm},
                    {'key': 'grad_clip_factor', 'value': grad_clip_factor},
                    {'key': 'adapter_norm', 'value': adapter_norm},
                    {'key': 'update_ratio', 'value': update_ratio},
                    {'key': 'learning_rate', 'value': learning_rate},
                    {'key': 'epoch', 'value': epoch},
                    {'key': 'num_tokens', 'value': num_tokens}
                ],
                map_entries(extra),
                list_transform(
                    map_entries(reward_terms),
                    lambda term: {'key': 'terms:' || term.key, 'value': term.value}
                )
            )
        ) AS number
    FROM metrics
)
SELECT run_id, step, attempt, happened_at, number.key AS name, number.value AS value
FROM measured
WHERE number.value IS NOT NULL;

COMMENT ON VIEW metrics_long IS
'One row for each number of each update that counts: metrics, turned on its side.';
COMMENT ON COLUMN metrics_long.run_id IS 'the run';
COMMENT ON COLUMN metrics_long.step IS 'the update, from 1';
COMMENT ON COLUMN metrics_long.attempt IS 'that reported it';
COMMENT ON COLUMN metrics_long.happened_at IS 'when it was made';
COMMENT ON COLUMN metrics_long.name IS
'the engine''s own name of the number; terms: and its name for a term of the reward';
COMMENT ON COLUMN metrics_long.value IS 'never NULL; NaN and the infinities are values';

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

COMMENT ON VIEW validations IS
'One row for each evaluation that counts: what a restore took back is not here.';
COMMENT ON COLUMN validations.run_id IS 'the run';
COMMENT ON COLUMN validations.step IS 'the update after which it was measured; 0: before the first';
COMMENT ON COLUMN validations.dataset IS 'which rows, where there are several sets';
COMMENT ON COLUMN validations.attempt IS 'that reported it';
COMMENT ON COLUMN validations.position IS 'of its newest event in the ledger';
COMMENT ON COLUMN validations.happened_at IS 'when it was measured';
COMMENT ON COLUMN validations.measured IS 'numbers under the engine''s own names: measured[''eval_loss'']';

CREATE VIEW snapshots AS
WITH decided AS (  -- offers are decided in their order
    SELECT
        run_id, position, kind,
        row_number() OVER (PARTITION BY run_id ORDER BY position) AS place
    FROM event
    WHERE kind IN ('snapshotCommitted', 'snapshotRejected')
), offered AS (
    SELECT
        run_id, position, row_number() OVER (PARTITION BY run_id ORDER BY position) AS place
    FROM event
    WHERE kind = 'snapshotOffered'
), committed AS (
    SELECT
        e.run_id,
        e.position,
        e.attempt,
        e.happened_at,
        e.payload ->> 'snapshotId' AS snapshot_id,
        CAST(e.payload ->> 'step' AS BIGINT) AS step,
        CAST(e.payload ->> 'epoch' AS DOUBLE) AS epoch,
        CAST(e.payload -> 'artifacts' AS VARCHAR[]) AS artifacts,
        CAST(e.payload -> 'sizeBytes' AS MAP(VARCHAR, BIGINT)) AS bytes,
        e.payload ->> 'uri' AS uri,
        coalesce(o.position, e.position) AS written_position
    FROM event AS e
    JOIN decided AS d ON e.position = d.position
    LEFT JOIN offered AS o
        ON d.run_id = o.run_id AND d.place = o.place AND o.position < d.position
    WHERE d.kind = 'snapshotCommitted'
), gone_back AS (
    SELECT run_id, position, step FROM restore
    UNION ALL
    SELECT run_id, position, CAST(payload ->> 'step' AS BIGINT)
    FROM event
    WHERE kind = 'snapshotsSuperseded'
), superseded AS (
    SELECT DISTINCT c.run_id, c.snapshot_id
    FROM committed AS c
    JOIN gone_back AS g
        ON c.run_id = g.run_id AND g.position > c.written_position AND g.step < c.step
), told AS (
    SELECT run_id, position, kind, happened_at, payload, payload ->> 'snapshotId' AS snapshot_id
    FROM event
    WHERE kind IN ('snapshotDamaged', 'snapshotPinned', 'snapshotUnpinned', 'snapshotSwept')
), became AS (
    SELECT
        run_id,
        snapshot_id,
        arg_max(payload ->> 'reason', position) FILTER (kind = 'snapshotDamaged') AS damage,
        arg_max(kind = 'snapshotPinned', position)
            FILTER (kind IN ('snapshotPinned', 'snapshotUnpinned')) AS pinned,
        max_by(happened_at, position) FILTER (kind = 'snapshotSwept') AS swept_at,
        flatten(
            list(CAST(payload -> 'artifacts' AS VARCHAR[])) FILTER (kind = 'snapshotSwept')
        ) AS swept
    FROM told
    GROUP BY run_id, snapshot_id
), needed AS (
    SELECT run_id, snapshot_id, list(holder ORDER BY holder) AS held_by
    FROM (
        SELECT
            payload ->> 'run' AS run_id,
            split_part(stream, '/', 2) AS snapshot_id,
            payload ->> 'holder' AS holder,
            arg_max(kind, position) AS newest
        FROM event
        WHERE kind IN ('snapshotHeld', 'snapshotReleased')
        GROUP BY ALL
    )
    WHERE newest = 'snapshotHeld'
    GROUP BY run_id, snapshot_id
), kept AS (
    SELECT
        c.*,
        list_filter(
            c.artifacts, lambda kind: NOT coalesce(list_contains(b.swept, kind), false)
        ) AS kinds,
        b.damage,
        coalesce(b.pinned, false) AS pinned,
        b.swept_at,
        s.snapshot_id IS NOT NULL AS superseded,
        coalesce(n.held_by, CAST([] AS VARCHAR[])) AS held_by
    FROM committed AS c
    LEFT JOIN became AS b ON c.run_id = b.run_id AND c.snapshot_id = b.snapshot_id
    LEFT JOIN superseded AS s ON c.run_id = s.run_id AND c.snapshot_id = s.snapshot_id
    LEFT JOIN needed AS n ON c.run_id = n.run_id AND c.snapshot_id = n.snapshot_id
)
SELECT
    run_id,
    snapshot_id,
    attempt,
    step,
    epoch,
    CASE
        WHEN len(kinds) = 0 THEN 'swept'
        WHEN damage IS NOT NULL THEN 'damaged'
        WHEN superseded THEN 'superseded'
        ELSE 'committed'
    END AS status,
    list_contains(kinds, 'trainingState')
    AND swept_at IS NULL AND damage IS NULL AND NOT superseded AS restorable,
    kinds AS artifacts,
    CAST(coalesce(list_sum(list_transform(kinds, lambda kind: bytes[kind])), 0) AS BIGINT)
        AS size_bytes,
    bytes AS committed_bytes,
    superseded,
    damage,
    pinned,
    held_by,
    uri,
    position,
    happened_at AS committed_at,
    swept_at
FROM kept;

COMMENT ON VIEW snapshots IS
'One row for each snapshot that was committed, also when its files are given up since.';
COMMENT ON COLUMN snapshots.run_id IS 'the run that made it';
COMMENT ON COLUMN snapshots.snapshot_id IS 'SHA-256 of its manifest; tables elsewhere show the first 12 digits';
COMMENT ON COLUMN snapshots.attempt IS 'that wrote it';
COMMENT ON COLUMN snapshots.step IS 'the update that it holds the state of';
COMMENT ON COLUMN snapshots.epoch IS 'passes over the rows until then';
COMMENT ON COLUMN snapshots.status IS 'committed, superseded, damaged or swept';
COMMENT ON COLUMN snapshots.restorable IS 'whether its run may go on from it';
COMMENT ON COLUMN snapshots.artifacts IS 'what is kept of it: weights, trainingState';
COMMENT ON COLUMN snapshots.size_bytes IS 'of what is kept';
COMMENT ON COLUMN snapshots.committed_bytes IS 'of each artifact, as it was committed';
COMMENT ON COLUMN snapshots.superseded IS 'whether the run went back below it';
COMMENT ON COLUMN snapshots.damage IS 'why it cannot be used; NULL while nobody found it damaged';
COMMENT ON COLUMN snapshots.pinned IS 'whether somebody wants it kept whatever the plan says';
COMMENT ON COLUMN snapshots.held_by IS 'runs that need it until they have ended';
COMMENT ON COLUMN snapshots.uri IS 'where its files are, or were';
COMMENT ON COLUMN snapshots.position IS 'of its commit in the ledger';
COMMENT ON COLUMN snapshots.committed_at IS 'when it was committed';
COMMENT ON COLUMN snapshots.swept_at IS 'when files of it were given up the last time';

CREATE VIEW branches AS
SELECT
    b.position,
    b.token,
    b.parent,
    b.child,
    b.snapshot_id,
    b.step,
    b.restore,
    b.steps,
    b.config_name,
    b.description,
    b.config_sha256,
    b.happened_at AS requested_at,
    s.state,
    CASE WHEN s.state IN ('created', 'refused') THEN s.happened_at END AS decided_at,
    s.reason,
    s.advice
FROM branch AS b
LEFT JOIN (
    SELECT
        token,
        arg_max(state, position) AS state,
        arg_max(happened_at, position) AS happened_at,
        any_value(reason) AS reason,
        any_value(advice) AS advice
    FROM branch_state GROUP BY token
) AS s ON b.token = s.token;

COMMENT ON VIEW branches IS
'One row for each branch that was asked for. Its child is a run once the state is created, and never when it is refused.';
COMMENT ON COLUMN branches.position IS 'of the request in the ledger';
COMMENT ON COLUMN branches.token IS 'of the submission that asked for it';
COMMENT ON COLUMN branches.parent IS 'the run whose snapshot the child begins from';
COMMENT ON COLUMN branches.child IS 'the run that it makes';
COMMENT ON COLUMN branches.snapshot_id IS 'the snapshot that the child begins from';
COMMENT ON COLUMN branches.step IS 'the update of the parent that the snapshot holds the state of';
COMMENT ON COLUMN branches.restore IS 'weights or trainingState';
COMMENT ON COLUMN branches.steps IS 'budget of the child in updates';
COMMENT ON COLUMN branches.config_name IS 'label that the request gave to the child';
COMMENT ON COLUMN branches.description IS 'the same, in more words';
COMMENT ON COLUMN branches.config_sha256 IS 'of the child''s settings and data: equal for equal ones';
COMMENT ON COLUMN branches.requested_at IS 'when it was asked for';
COMMENT ON COLUMN branches.state IS 'requested, preparing, created or refused';
COMMENT ON COLUMN branches.decided_at IS 'when it was created or refused';
COMMENT ON COLUMN branches.reason IS 'why it was refused, as a sentence';
COMMENT ON COLUMN branches.advice IS 'what to do about that';

CREATE VIEW rollouts_all_attempts AS
SELECT
    run_id,
    step,
    attempt,
    segment,
    superseded,
    place,
    happened_at,
    CASE json_type(prompt)
        WHEN 'VARCHAR' THEN prompt ->> '$'
        ELSE CAST(prompt AS VARCHAR)
    END AS prompt,
    CASE json_type(completion)
        WHEN 'VARCHAR' THEN completion ->> '$'
        ELSE CAST(completion AS VARCHAR)
    END AS completion,
    score,
    terms
FROM rollouts_all;

COMMENT ON VIEW rollouts_all_attempts IS
'One row for each rollout that was scored, also for updates that a restore took back.';
COMMENT ON COLUMN rollouts_all_attempts.run_id IS 'the run';
COMMENT ON COLUMN rollouts_all_attempts.step IS 'the update that it was made for';
COMMENT ON COLUMN rollouts_all_attempts.attempt IS 'that scored it';
COMMENT ON COLUMN rollouts_all_attempts.segment IS 'from 1: each restore of the run begins another one';
COMMENT ON COLUMN rollouts_all_attempts.superseded IS 'whether a later restore took its update back';
COMMENT ON COLUMN rollouts_all_attempts.place IS 'in the order of scoring among those of the update, from 1';
COMMENT ON COLUMN rollouts_all_attempts.happened_at IS 'when it was scored';
COMMENT ON COLUMN rollouts_all_attempts.prompt IS
'what the model was asked: a text, or messages with role and content as JSON';
COMMENT ON COLUMN rollouts_all_attempts.completion IS 'what it made of that, likewise';
COMMENT ON COLUMN rollouts_all_attempts.score IS 'that the grader gave';
COMMENT ON COLUMN rollouts_all_attempts.terms IS
'the weighted share of each term of the reward, by name: terms[''format'']';

CREATE VIEW rollouts AS
SELECT run_id, step, attempt, place, happened_at, prompt, completion, score, terms
FROM rollouts_all_attempts
WHERE NOT superseded;

COMMENT ON VIEW rollouts IS
'One row for each rollout that counts: a prompt, what the model made of it and its score. What a restore took back is not here.';
COMMENT ON COLUMN rollouts.run_id IS 'the run';
COMMENT ON COLUMN rollouts.step IS 'the update that it was made for';
COMMENT ON COLUMN rollouts.attempt IS 'that scored it';
COMMENT ON COLUMN rollouts.place IS 'in the order of scoring among those of the update, from 1';
COMMENT ON COLUMN rollouts.happened_at IS 'when it was scored';
COMMENT ON COLUMN rollouts.prompt IS
'what the model was asked: a text, or messages with role and content as JSON';
COMMENT ON COLUMN rollouts.completion IS 'what it made of that, likewise';
COMMENT ON COLUMN rollouts.score IS 'that the grader gave';
COMMENT ON COLUMN rollouts.terms IS
'the weighted share of each term of the reward, by name: terms[''format'']';

CREATE VIEW stages AS
WITH said AS (
    SELECT
        run_id,
        attempt,
        stream,
        position,
        reached_at,
        CASE WHEN kind = 'stageReported' THEN payload ->> 'stage' END AS stage,
        CAST(payload ->> 'completed' AS BIGINT) AS completed,
        CAST(payload ->> 'total' AS BIGINT) AS total
    FROM event
    WHERE kind IN ('stageReported', 'trainingBegan')
), numbered AS (
    SELECT *, count(*) FILTER (is_other) OVER (
        PARTITION BY stream ORDER BY position ROWS UNBOUNDED PRECEDING
    ) AS number
    FROM (
        SELECT *, stage IS DISTINCT FROM lag(stage) OVER (
            PARTITION BY stream ORDER BY position
        ) AS is_other
        FROM said
    )
), visits AS (
    SELECT
        run_id,
        attempt,
        stream,
        any_value(stage) AS stage,
        min(position) AS position,
        min(reached_at) AS entered_at,
        lead(min(reached_at)) OVER (PARTITION BY stream ORDER BY min(position)) AS left_at,
        arg_max(completed, position) AS completed,
        arg_max(total, position) AS total
    FROM numbered
    GROUP BY run_id, attempt, stream, number
), prepared AS (
    SELECT 'run/' || run_id || '/p' || (payload ->> 'preparation') AS stream, reached_at
    FROM event
    WHERE kind = 'preparationClosed'
), ended AS (
    SELECT v.* REPLACE (coalesce(v.left_at, e.released_at, p.reached_at) AS left_at)
    FROM visits AS v
    LEFT JOIN attempt_end AS e ON v.run_id = e.run_id AND v.attempt = e.attempt
    LEFT JOIN prepared AS p ON v.stream = p.stream
    WHERE v.stage IS NOT NULL
)
SELECT
    run_id,
    attempt,
    stage,
    position,
    entered_at,
    left_at,
    (epoch_ms(left_at) - epoch_ms(entered_at)) / 1000.0 AS seconds,
    completed,
    total
FROM ended;

COMMENT ON VIEW stages IS 'One row for each action of a worker inside a phase, for example reading rows.';
COMMENT ON COLUMN stages.run_id IS 'the run';
COMMENT ON COLUMN stages.attempt IS 'whose worker it is; NULL: a preparation''s, before any attempt';
COMMENT ON COLUMN stages.stage IS 'the action, in the worker''s words';
COMMENT ON COLUMN stages.position IS 'of the first event that says it';
COMMENT ON COLUMN stages.entered_at IS 'when the worker first said it';
COMMENT ON COLUMN stages.left_at IS
'when it said another, began to train, or ended; NULL while it goes on';
COMMENT ON COLUMN stages.seconds IS 'from one to the other';
COMMENT ON COLUMN stages.completed IS 'what it had done, where that can be counted';
COMMENT ON COLUMN stages.total IS 'of so many';

CREATE VIEW start_checks AS
SELECT
    run_id,
    attempt,
    position,
    payload ->> 'name' AS name,
    CAST(payload ->> 'value' AS DOUBLE) AS value,
    CAST(payload ->> 'warnLimit' AS DOUBLE) AS warn_limit,
    CAST(payload ->> 'refuseLimit' AS DOUBLE) AS refuse_limit,
    payload ->> 'unit' AS unit,
    CAST(payload ->> 'seconds' AS DOUBLE) AS seconds,
    payload ->> 'verdict' AS verdict,
    happened_at AS checked_at
FROM event
WHERE kind = 'startChecked';

COMMENT ON VIEW start_checks IS
'One row for each thing that an attempt checked before its first update. Where the warn limit is above the refuse limit, less is worse, else more is.';
COMMENT ON COLUMN start_checks.run_id IS 'the run';
COMMENT ON COLUMN start_checks.attempt IS 'that checked it';
COMMENT ON COLUMN start_checks.position IS 'of the event in the ledger: the order of checks';
COMMENT ON COLUMN start_checks.name IS 'what was checked';
COMMENT ON COLUMN start_checks.value IS 'what was found';
COMMENT ON COLUMN start_checks.warn_limit IS 'beyond it, the check warns';
COMMENT ON COLUMN start_checks.refuse_limit IS 'beyond it, nothing is trained';
COMMENT ON COLUMN start_checks.unit IS 'of the value and both limits; NULL: a plain number';
COMMENT ON COLUMN start_checks.seconds IS 'that the check took';
COMMENT ON COLUMN start_checks.verdict IS 'passed, warned or refused';
COMMENT ON COLUMN start_checks.checked_at IS 'when it was done';

CREATE VIEW events AS
SELECT
    position, stream, version, kind, topic, run_id, attempt, happened_at, principal, payload
FROM event
UNION ALL
SELECT
    position,
    'run/' || run_id || '/a' || attempt,
    version,
    'stepReported',
    'run.step_reported.v1',
    run_id,
    attempt,
    happened_at,
    principal,
    NULL
FROM metric;

COMMENT ON VIEW events IS 'One row for each event of the ledger.';
COMMENT ON COLUMN events.position IS 'in the whole ledger';
COMMENT ON COLUMN events.stream IS 'whose story it belongs to: run/RUN, run/RUN/aATTEMPT, run/RUN/pPREPARATION, submission/TOKEN, ...';
COMMENT ON COLUMN events.version IS 'place in the stream, from 1, without gaps';
COMMENT ON COLUMN events.kind IS 'as streams say it: docs/events.md has every kind';
COMMENT ON COLUMN events.topic IS 'as the ledger says it';
COMMENT ON COLUMN events.run_id IS 'the run; NULL: it is of none';
COMMENT ON COLUMN events.attempt IS 'that said it, or that it is about';
COMMENT ON COLUMN events.happened_at IS
'when, in the words of whoever said it; NULL where only a later version knows the kind';
COMMENT ON COLUMN events.principal IS 'who caused it';
COMMENT ON COLUMN events.payload IS
'its own members, under the names of docs/events.md: payload ->> ''reason''; NULL for stepReported, whose numbers are in metrics_all_attempts';

CREATE VIEW newest AS
SELECT max(position) AS position, arg_max(happened_at, position) AS happened_at
FROM events;

COMMENT ON VIEW newest IS 'One row: how far this copy of the ledger goes.';
COMMENT ON COLUMN newest.position IS 'of the newest event in it';
COMMENT ON COLUMN newest.happened_at IS 'when that happened';

-- The ledger's only table of truth. Nothing in it is ever changed or removed.
CREATE TABLE IF NOT EXISTS stored_event (
    position INTEGER PRIMARY KEY,  -- place in the whole ledger, from 1
    stream   TEXT    NOT NULL,     -- whose story: run/{run}, run/{run}/a{n}, submission/{token}
    version  INTEGER NOT NULL,     -- place in the stream, from 1, without holes
    topic    TEXT    NOT NULL,     -- what happened, for example run.step_reported.v1
    state    BLOB    NOT NULL,     -- 32 bytes: digest of the predecessor; then the event as JSON
    UNIQUE (stream, version)
) STRICT;

-- Finds the beginning and the end of every run without reading its steps.
CREATE INDEX IF NOT EXISTS stored_event_life ON stored_event (topic, position)
WHERE topic IN ('run.submitted.v1', 'run.completed.v1', 'run.failed.v1', 'run.cancelled.v1');

CREATE TRIGGER IF NOT EXISTS stored_event_never_changes BEFORE UPDATE ON stored_event
BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;

CREATE TRIGGER IF NOT EXISTS stored_event_never_goes BEFORE DELETE ON stored_event
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;

CREATE TRIGGER IF NOT EXISTS stored_event_leaves_no_hole BEFORE INSERT ON stored_event
WHEN NEW.version <> 1 AND NOT EXISTS (
    SELECT 1 FROM stored_event WHERE stream = NEW.stream AND version = NEW.version - 1
)
BEGIN SELECT RAISE(ABORT, 'a version of a stream was left out'); END;

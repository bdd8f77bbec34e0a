-- Documents of runs: folded from the ledger, beside it, and rebuilt whenever their version changes.

CREATE TABLE IF NOT EXISTS document (
    run_id TEXT PRIMARY KEY,      -- 16 hexadecimal digits
    submitted INTEGER NOT NULL,   -- ledger position of the submission: the order of lists
    project TEXT NOT NULL,        -- label of the plan
    phase TEXT NOT NULL,          -- published state of the run
    state BLOB NOT NULL           -- folded state as JSON (projections/documents/fold.py)
);

CREATE INDEX IF NOT EXISTS document_by_submission ON document (submitted);
CREATE INDEX IF NOT EXISTS document_by_project ON document (project, submitted);
CREATE INDEX IF NOT EXISTS document_by_phase ON document (phase, submitted);

CREATE TABLE IF NOT EXISTS document_tracking (
    one INTEGER PRIMARY KEY CHECK (one = 1),  -- a single row
    version INTEGER NOT NULL,                 -- of what the fold makes; another one is rebuilt
    position INTEGER NOT NULL                 -- of the newest event that the documents hold
);

-- Documents of runs: folded from the ledger, beside it, and rebuilt whenever their version changes.

CREATE TABLE IF NOT EXISTS document (
    run_id TEXT PRIMARY KEY,      -- 16 hexadecimal digits
    submitted INTEGER NOT NULL,   -- ledger position of the submission: the order of lists
    project TEXT NOT NULL,        -- label of the plan
    name TEXT,                    -- newest label of the run, never a key
    phase TEXT NOT NULL,          -- published state of the run
    position INTEGER NOT NULL,    -- of the newest event of the run in the ledger
    state BLOB NOT NULL           -- folded state as JSON (projections/documents/fold.py)
);

CREATE INDEX IF NOT EXISTS document_by_submission ON document (submitted);
CREATE INDEX IF NOT EXISTS document_by_project ON document (project, submitted);
CREATE INDEX IF NOT EXISTS document_by_phase ON document (phase, submitted);

-- Documents as they once were (projections/documents/milestones.py); a row never changes.
CREATE TABLE IF NOT EXISTS milestone (
    run_id TEXT NOT NULL,         -- the run
    position INTEGER NOT NULL,    -- in the ledger: the state is that of the run's events up to here
    state BLOB NOT NULL,          -- as in document, compressed with zlib
    PRIMARY KEY (run_id, position)
);

CREATE TABLE IF NOT EXISTS document_tracking (
    one INTEGER PRIMARY KEY CHECK (one = 1),  -- a single row
    version INTEGER NOT NULL,                 -- of what the fold makes; another one is rebuilt
    position INTEGER NOT NULL                 -- of the newest event that the documents hold
);

-- Snapshots of all runs (projections/documents/catalogue.py); a row stays when its files are swept.
CREATE TABLE IF NOT EXISTS snapshot (
    run_id TEXT NOT NULL,             -- the run that made it
    snapshot_id TEXT NOT NULL,        -- SHA-256 of its manifest
    position INTEGER NOT NULL,        -- of its commit in the ledger: the order of lists
    offered INTEGER NOT NULL,         -- where in the ledger its worker had written it
    attempt INTEGER NOT NULL,         -- that wrote it, from 1
    step INTEGER NOT NULL,            -- update that it holds the state of
    epoch REAL,                       -- passes over the rows until then
    weights INTEGER NOT NULL,         -- 1: they are kept, 0: swept or never there
    training_state INTEGER NOT NULL,  -- the same of what training can go on from
    size_bytes TEXT NOT NULL,         -- JSON: bytes of each kind, as they were committed
    digests TEXT NOT NULL,            -- JSON: SHA-256 of each kind
    uri TEXT NOT NULL,                -- where its files are, or were
    damage TEXT,                      -- why it cannot be used; NULL while nobody found it damaged
    superseded INTEGER NOT NULL,      -- 1: the run went back below its step
    pinned INTEGER NOT NULL,          -- 1: kept whatever the plan says
    committed INTEGER NOT NULL,       -- milliseconds since 1970
    swept INTEGER,                    -- when files of it were given up the last time
    lost INTEGER,                     -- position from which on the run can no longer go on from it:
                                      -- damaged, superseded, swept, or never with training state
    changed INTEGER NOT NULL,         -- position of what changed the row last
    PRIMARY KEY (run_id, snapshot_id)
);

CREATE INDEX IF NOT EXISTS snapshot_by_id ON snapshot (snapshot_id);
CREATE INDEX IF NOT EXISTS snapshot_by_position ON snapshot (run_id, position);
CREATE INDEX IF NOT EXISTS snapshot_damaged
ON snapshot (run_id, position) WHERE damage IS NOT NULL;

-- What changes of snapshots, as it was from a position on; a row never changes.
CREATE TABLE IF NOT EXISTS snapshot_past (
    run_id TEXT NOT NULL,             -- the run that made it
    snapshot_id TEXT NOT NULL,        -- SHA-256 of its manifest
    position INTEGER NOT NULL,        -- from which on the row is true, until the next one
    weights INTEGER NOT NULL,         -- as in snapshot, like all below
    training_state INTEGER NOT NULL,
    damage TEXT,
    superseded INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    swept INTEGER,
    lost INTEGER,
    PRIMARY KEY (run_id, snapshot_id, position)
);

CREATE TABLE IF NOT EXISTS snapshot_offer (
    run_id TEXT NOT NULL,          -- the run whose worker wrote files
    position INTEGER NOT NULL,     -- of the offer in the ledger: they are decided in this order
    step INTEGER NOT NULL,         -- update that they hold the state of
    superseded INTEGER NOT NULL,   -- 1: the run went back below it meanwhile
    PRIMARY KEY (run_id, position)
);

-- Which runs need a snapshot of another, or did once.
CREATE TABLE IF NOT EXISTS snapshot_holder (
    run_id TEXT NOT NULL,       -- the run that made the snapshot
    snapshot_id TEXT NOT NULL,  -- SHA-256 of its manifest
    holder TEXT NOT NULL,       -- the run that needs it, from before it is submitted to its end
    held INTEGER NOT NULL,      -- position from which on it does
    released INTEGER,           -- position from which on it does no longer; NULL while it does
    PRIMARY KEY (run_id, snapshot_id, holder, held)
);

-- Branches of all runs (projections/documents/branches.py), refused ones too.
CREATE TABLE IF NOT EXISTS branch (
    token TEXT PRIMARY KEY,       -- of the submission
    position INTEGER NOT NULL,    -- of the request in the ledger: the order of lists
    requested INTEGER NOT NULL,   -- milliseconds since 1970
    parent TEXT NOT NULL,         -- the run whose snapshot the child begins from
    child TEXT NOT NULL,          -- its id, which no run has before it is created, or when refused
    snapshot_id TEXT NOT NULL,    -- SHA-256 of the manifest
    step INTEGER NOT NULL,        -- update of the parent that the snapshot holds the state of
    restore TEXT NOT NULL,        -- weights or trainingState
    steps INTEGER NOT NULL,       -- budget of the child in updates
    config_name TEXT,             -- label that the request gave to the child
    description TEXT,             -- the same
    config_sha256 TEXT NOT NULL,  -- of the child's settings and data (projections/digest.py)
    prepared INTEGER,             -- position from which on its source is held; NULL before
    decided INTEGER,              -- position of what became of it; NULL before
    state TEXT,                   -- what that was: created or refused
    reason TEXT,                  -- why it was refused, as a sentence
    advice TEXT                   -- what to do about it
);

CREATE INDEX IF NOT EXISTS branch_by_parent ON branch (parent, position);
CREATE INDEX IF NOT EXISTS branch_by_child ON branch (child);

-- Sessions, turns with their journals, interrupts, replies kept for idempotency keys, events.
--
-- Ids are 16-byte UUIDs, times are milliseconds since 1970 in UTC, everything structured is compact JSON. A `seq` is
-- the order of arrival: ids may be chosen by clients, so they are not ordered. Rows refer to each other by `seq`, which
-- takes 1 to 4 bytes where an id takes 16.

CREATE TABLE sessions (
    -- Never used twice, so that a page's cursor cannot skip a later session.
    seq             INTEGER PRIMARY KEY,
    id              BLOB NOT NULL UNIQUE,
    agent           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    total_messages  INTEGER NOT NULL,
    status          TEXT NOT NULL,
    -- running, interrupted: the open turn's id; error: that of the suspended turn, where it can be retried
    turn            BLOB,
    -- with a turn: the pending interrupts' ids one after the other, in order of arrival
    pending         BLOB,
    -- idle: the last response
    response        TEXT,
    -- error: why
    failure_code    TEXT,
    failure_message TEXT
) STRICT;

CREATE INDEX sessions_by_status ON sessions (status);
-- What `--ttl` may sweep, longest unchanged first.
CREATE INDEX sessions_settled ON sessions (updated_at) WHERE status IN ('idle', 'error');

-- How many sessions there are (counting a million rows for every new one would take longer than storing it), and the
-- last seq that was given away.
CREATE TABLE session_counters (
    total    INTEGER NOT NULL,
    last_seq INTEGER NOT NULL
) STRICT;
INSERT INTO session_counters (total, last_seq) VALUES (0, 0);
CREATE TRIGGER session_added AFTER INSERT ON sessions BEGIN
    UPDATE session_counters SET total = total + 1, last_seq = new.seq;
END;
CREATE TRIGGER session_removed AFTER DELETE ON sessions BEGIN
    UPDATE session_counters SET total = total - 1;
END;

-- One row a message, so that a turn writes what it adds and not the whole conversation again.
CREATE TABLE messages (
    session INTEGER NOT NULL REFERENCES sessions (seq) ON DELETE CASCADE,
    idx     INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    seq            INTEGER PRIMARY KEY,
    id             BLOB NOT NULL UNIQUE,
    session        INTEGER NOT NULL REFERENCES sessions (seq) ON DELETE CASCADE,
    message        TEXT NOT NULL,
    webhook        TEXT,
    epoch          INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    ended_at       INTEGER,
    -- only while it is open
    parked         INTEGER NOT NULL,
    -- only while it is parked
    wake_at        INTEGER,
    recoveries     INTEGER NOT NULL,
    worked_ms      INTEGER NOT NULL,
    impure_at      TEXT,
    warnings       TEXT,
    -- suspended: the code it failed under; ended_at is set too
    suspended_code TEXT,
    -- what there is to do with it: 0 when it is open and not parked, ended_at when its journal is to be compacted some
    -- time; NULL for nothing: parked, suspended, compacted
    todo           INTEGER
) STRICT;

CREATE INDEX turns_of_session ON turns (session);
-- However many are parked, they cost nothing here.
CREATE INDEX turns_todo ON turns (todo) WHERE todo IS NOT NULL;
CREATE INDEX turns_waking ON turns (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX turns_suspended ON turns (session) WHERE suspended_code IS NOT NULL;

CREATE TABLE journal (
    turn      INTEGER NOT NULL REFERENCES turns (seq) ON DELETE CASCADE,
    idx       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    -- which kind: step, ask, answer and so on
    entry     TEXT NOT NULL,
    -- of a step, except path, which a timer has too
    path      TEXT,
    kind      TEXT,
    name      TEXT,
    location  TEXT,
    arguments TEXT,
    interrupt BLOB,
    -- what else there is to it, such as the result of a step
    body      TEXT,
    PRIMARY KEY (turn, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE interrupts (
    seq               INTEGER PRIMARY KEY,
    id                BLOB NOT NULL UNIQUE,
    session           INTEGER NOT NULL REFERENCES sessions (seq) ON DELETE CASCADE,
    turn              BLOB NOT NULL,
    type              TEXT NOT NULL,
    payload           TEXT NOT NULL,
    status            TEXT NOT NULL,
    message           TEXT,
    -- 1: the schema is the one its type brings along, and is not stored
    built_in_schema   INTEGER NOT NULL,
    response_schema   TEXT,
    allowed_decisions TEXT,
    -- a tool approval's tool, from its payload
    tool              TEXT,
    tool_call_id      TEXT,
    agent             TEXT,
    rule              TEXT,
    args_digest       TEXT,
    created_at        INTEGER NOT NULL,
    expires_at        INTEGER,
    -- expires_at while it is pending and its turn is not suspended
    due_at            INTEGER,
    -- JSON `null` is an answer, SQL NULL is none
    value             TEXT,
    resolved_by       TEXT,
    resolved_at       INTEGER,
    metadata          TEXT
) STRICT;

CREATE INDEX interrupts_of_session ON interrupts (session, status);
CREATE INDEX interrupts_by_tool ON interrupts (tool) WHERE tool IS NOT NULL;
-- The inbox: what waits, in order of arrival.
CREATE INDEX interrupts_pending ON interrupts (status) WHERE status = 'pending';
CREATE INDEX interrupts_due ON interrupts (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE replies (
    scope          TEXT NOT NULL,
    key            TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    body           TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX replies_by_age ON replies (created_at);

-- Events outlive their session: a listener still has to hear that it ended.
CREATE TABLE events (
    number    INTEGER PRIMARY KEY,
    session   BLOB NOT NULL,
    -- the new status: of the interrupt where there is one, of the session otherwise
    status    TEXT NOT NULL,
    -- its id; the record is looked up when the event is read
    interrupt BLOB,
    -- why the session failed
    error     TEXT,
    stored_at INTEGER NOT NULL
) STRICT;

CREATE INDEX events_of_session ON events (session);

-- What webhooks are told: a row is written in the transaction of its event, and outlives its session.

-- a session's own webhook, as JSON
ALTER TABLE sessions ADD COLUMN webhook TEXT;

CREATE TABLE outbox (
    -- The order of the events; of a reminder, of joining its lane.
    seq        INTEGER PRIMARY KEY,
    -- both together are the webhook-id
    id         BLOB NOT NULL,
    reminder   INTEGER NOT NULL,
    session    BLOB NOT NULL,
    interrupt  BLOB,
    event      TEXT NOT NULL,
    url        TEXT NOT NULL,
    -- scheme, host and port of the url
    origin     TEXT NOT NULL,
    token      TEXT,
    -- the exact JSON; NULL for a scheduled reminder, and once it is delivered
    body       TEXT,
    status     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- scheduled; pending, and the first of its session and url: when it is tried next, or until when it is leased
    due_at     INTEGER,
    leased     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    last_error TEXT,
    -- delivered, failed
    settled_at INTEGER,
    UNIQUE (id, reminder)
) STRICT;

CREATE INDEX outbox_by_status ON outbox (status);
CREATE INDEX outbox_of_session ON outbox (session);
CREATE INDEX outbox_lane ON outbox (session, url) WHERE status = 'pending';
CREATE INDEX outbox_due ON outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_settled ON outbox (settled_at) WHERE settled_at IS NOT NULL;

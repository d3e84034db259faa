-- Everything of a session is keyed by it, so that its rows can live where it does. Ids are UUIDs, times are milliseconds
-- since 1970 in UTC, everything structured is compact JSON as text: jsonb would order members anew. A `seq` is the order of
-- arrival. There are no foreign keys: whatever changes anything of a session writes its row too, which is compared then.

-- Whoever was given an empty one need not be allowed to make any, and IF NOT EXISTS asks for that all the same.
DO $$ BEGIN
    IF to_regnamespace('hitl') IS NULL THEN
        CREATE SCHEMA hitl;
    END IF;
END $$;

-- One row.
CREATE TABLE hitl.meta (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- whose schema this is
    program    text NOT NULL,
    -- which store: drawn when the table is made
    id         uuid NOT NULL,
    schema     int NOT NULL,
    -- What numbers of events begin at: more than 0 once the database was restored elsewhere, where transactions are
    -- counted anew.
    event_base bigint NOT NULL,
    -- The first event that was left when events were swept last: what journals tell of before is told no more.
    events_swept bigint NOT NULL DEFAULT 0
);
INSERT INTO hitl.meta (program, id, schema, event_base) VALUES ('hitl', gen_random_uuid(), 1, 0);

-- Processes that have the store, each for one life. Whose row is gone is dead: it changes nothing any more.
CREATE TABLE hitl.servers (
    id         uuid PRIMARY KEY,
    -- server: for itself; run: beside others that run agents without a server
    kind       text NOT NULL,
    host       text NOT NULL,
    pid        bigint NOT NULL,
    -- which machine, and which process of all that it ever had: whoever is there can look whether it still runs
    machine    text,
    process    text,
    -- counted up while it lives, and when that was last, for people
    beat       bigint NOT NULL,
    beat_at    bigint NOT NULL,
    started_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE hitl.sessions (
    id              uuid PRIMARY KEY,
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    -- Which of all its states: how often it was written, and what its last writer drew.
    version         bigint NOT NULL,
    token           bigint NOT NULL,
    -- who claimed its newest turn
    owner           uuid,
    agent           text NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    total_messages  bigint NOT NULL,
    status          text NOT NULL,
    -- running, interrupted: the open turn's id; error: that of the suspended turn, where it can be retried
    turn            uuid,
    -- with a turn: the pending interrupts' ids one after the other, in order of arrival
    pending         bytea,
    -- idle: the last response
    response        text,
    -- error: why
    failure_code    text,
    failure_message text,
    rules           text,
    grants          text,
    webhook         text,
    -- what turns did that nobody took up again, until a turn that was told of it has ended
    abandoned       text,
    -- idle, error: since when. The column updated_at, which every write changes, is in no index.
    settled_at      bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX sessions_by_seq ON hitl.sessions (seq);
CREATE INDEX sessions_by_status ON hitl.sessions (status, seq);
CREATE INDEX sessions_settled ON hitl.sessions (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE hitl.messages (
    session uuid NOT NULL,
    idx     bigint NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (session, idx)
);

CREATE TABLE hitl.turns (
    id             uuid PRIMARY KEY,
    seq            bigint GENERATED ALWAYS AS IDENTITY,
    session        uuid NOT NULL,
    message        text NOT NULL,
    webhook        text,
    sent_by        text,
    owner          uuid,
    epoch          bigint NOT NULL,
    created_at     bigint NOT NULL,
    ended_at       bigint,
    -- only while it is open
    parked         boolean NOT NULL,
    -- only while it is parked
    wake_at        bigint,
    recoveries     bigint NOT NULL,
    worked_ms      bigint NOT NULL,
    impure_at      text,
    warnings       text,
    -- suspended: the code it failed under; ended_at is set too
    suspended_code text,
    -- whether its journal was removed
    compacted      boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);
CREATE INDEX turns_of_session ON hitl.turns (session, seq);
-- However many are parked, they cost nothing here.
CREATE INDEX turns_under_way ON hitl.turns (seq) WHERE ended_at IS NULL AND NOT parked;
CREATE INDEX turns_waking ON hitl.turns (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX turns_suspended ON hitl.turns (session) WHERE suspended_code IS NOT NULL;
CREATE INDEX turns_to_compact ON hitl.turns (ended_at)
    WHERE ended_at IS NOT NULL AND suspended_code IS NULL AND NOT compacted;

CREATE TABLE hitl.journal (
    session   uuid NOT NULL,
    turn      uuid NOT NULL,
    idx       bigint NOT NULL,
    at        bigint NOT NULL,
    -- which kind: step, ask, answer and so on
    entry     text NOT NULL,
    -- of a step, except path, which a timer has too
    path      text,
    kind      text,
    name      text,
    location  text,
    arguments text,
    interrupt uuid,
    -- what else there is to it, such as the result of a step
    body      text,
    -- of one that listeners are told of, which has no row among the events: its number among theirs
    event     bigint,
    PRIMARY KEY (session, turn, idx)
);
CREATE UNIQUE INDEX journal_told ON hitl.journal (event) WHERE event IS NOT NULL;

CREATE TABLE hitl.interrupts (
    id                uuid PRIMARY KEY,
    seq               bigint GENERATED ALWAYS AS IDENTITY,
    session           uuid NOT NULL,
    turn              uuid NOT NULL,
    type              text NOT NULL,
    payload           text NOT NULL,
    status            text NOT NULL,
    message           text,
    -- the schema is the one its type brings along, and is not stored
    built_in_schema   boolean NOT NULL,
    response_schema   text,
    allowed_decisions text,
    -- a tool approval's tool, from its payload
    tool              text,
    tool_call_id      text,
    agent             text,
    rule              text,
    args_digest       text,
    created_at        bigint NOT NULL,
    expires_at        bigint,
    -- expires_at while it is pending and its turn is not suspended
    due_at            bigint,
    -- JSON `null` is an answer, SQL NULL is none
    value             text,
    resolved_by       text,
    resolved_at       bigint,
    metadata          text,
    tool_source       text,
    args_schema       text,
    claimed_by        text,
    claimed_until     bigint,
    snoozed_by        text,
    snoozed_until     bigint,
    sent_by           text,
    approvers         text,
    rule_failed       text,
    tool_approvers    text,
    lets_run          boolean
) WITH (fillfactor = 80);
CREATE INDEX interrupts_of_session ON hitl.interrupts (session);
CREATE UNIQUE INDEX interrupts_by_seq ON hitl.interrupts (seq);
CREATE INDEX interrupts_by_tool ON hitl.interrupts (tool, seq) WHERE tool IS NOT NULL;
-- The inbox: what waits, in order of arrival.
CREATE INDEX interrupts_pending ON hitl.interrupts (seq) WHERE status = 'pending';
CREATE INDEX interrupts_due ON hitl.interrupts (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX interrupts_claimed ON hitl.interrupts (claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE hitl.replies (
    scope          text NOT NULL,
    key            text NOT NULL,
    request_digest text NOT NULL,
    body           text NOT NULL,
    created_at     bigint NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX replies_by_age ON hitl.replies (created_at);

-- Turns that came from elsewhere, or went there, in a signed run state. Rows outlive the sessions.
CREATE TABLE hitl.carried_turns (
    turn    uuid PRIMARY KEY,
    -- where the turn stood when its session was deleted; NULL where it is here, or has ended
    entries bigint,
    digest  text
);

-- Events outlive their session: a listener still has to hear that it ended. Numbers are made of the transaction's, so that
-- nobody has to count, and whatever lies below the oldest transaction that still runs is complete.
CREATE TABLE hitl.events (
    number    bigint PRIMARY KEY,
    session   uuid NOT NULL,
    -- the new status: of the interrupt where there is one, of the session otherwise
    status    text NOT NULL,
    interrupt uuid,
    -- why the session failed
    error     text,
    stored_at bigint NOT NULL
);
CREATE INDEX events_of_session ON hitl.events (session, number);

-- What the audit tells, as it was told: nothing here is ever changed. Nothing refers to sessions: what was done outlives them.
CREATE TABLE hitl.deeds (
    number    bigint PRIMARY KEY,
    at        bigint NOT NULL,
    action    text NOT NULL,
    session   uuid,
    interrupt uuid,
    actor     text,
    address   text,
    details   text NOT NULL
);
CREATE INDEX deeds_of_session ON hitl.deeds (session) WHERE session IS NOT NULL;
CREATE INDEX deeds_about ON hitl.deeds (interrupt) WHERE interrupt IS NOT NULL;
CREATE INDEX deeds_of_actor ON hitl.deeds (actor) WHERE actor IS NOT NULL;
-- Two servers may find at once that somebody sees it for the first time.
CREATE UNIQUE INDEX deeds_seen ON hitl.deeds (interrupt, actor) WHERE action = 'seen';

-- The rows of the audit in order, each bound to the one before it. Rows are linked after they were told, by any server: the
-- primary key lets one of two that link at once do so.
CREATE TABLE hitl.audit_chain (
    seq    bigint PRIMARY KEY,
    number bigint NOT NULL UNIQUE,
    prev   text NOT NULL,
    hash   text NOT NULL
);

CREATE TABLE hitl.keys (
    id         uuid PRIMARY KEY,
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    name       text NOT NULL,
    -- JSON lists of words
    scopes     text NOT NULL,
    key_groups text NOT NULL,
    -- SHA-256 of the secret, which is nowhere
    digest     bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    created_by text,
    revoked_at bigint
);
-- A name can be given again once its key is revoked.
CREATE UNIQUE INDEX keys_by_name ON hitl.keys (name) WHERE revoked_at IS NULL;

CREATE TABLE hitl.sign_ins (
    -- SHA-256 of the cookie's token
    token   bytea PRIMARY KEY,
    -- the digest of the key, which may be one of `--api-key`
    key     bytea NOT NULL,
    ends_at bigint NOT NULL
);

-- What webhooks are told: a row is written in the transaction of its event, and outlives its session.
CREATE TABLE hitl.outbox (
    -- both together are the webhook-id
    id         uuid NOT NULL,
    reminder   bigint NOT NULL,
    -- The order of the events; of a reminder, of joining its lane.
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    session    uuid NOT NULL,
    interrupt  uuid,
    event      text NOT NULL,
    url        text NOT NULL,
    -- scheme, host and port of the url
    origin     text NOT NULL,
    token      text,
    -- the exact JSON; NULL for a scheduled reminder, and once it is delivered
    body       text,
    status     text NOT NULL,
    created_at bigint NOT NULL,
    -- scheduled; pending, and the first of its session and url: when it is tried next, or until when it is leased
    due_at     bigint,
    leased     boolean NOT NULL,
    attempts   bigint NOT NULL,
    last_error text,
    -- delivered, failed
    settled_at bigint,
    PRIMARY KEY (id, reminder)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX outbox_by_seq ON hitl.outbox (seq);
CREATE INDEX outbox_by_status ON hitl.outbox (status, seq);
CREATE INDEX outbox_of_session ON hitl.outbox (session);
CREATE INDEX outbox_lane ON hitl.outbox (session, url, seq) WHERE status = 'pending';
CREATE INDEX outbox_due ON hitl.outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_settled ON hitl.outbox (settled_at) WHERE settled_at IS NOT NULL;

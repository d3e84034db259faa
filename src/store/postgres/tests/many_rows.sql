-- Sessions, of which one in a hundred waits, one in a thousand has something due, and one is at work. Tests put in how many.
CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT md5(kind || n)::uuid $$;

INSERT INTO hitl.sessions (id, version, token, agent, created_at, updated_at, total_messages, status, settled_at)
SELECT pg_temp.id('session', n), 1, n, 'm:a', n, n, 2, CASE WHEN n % 100 = 0 THEN 'interrupted' ELSE 'idle' END,
       CASE WHEN n % 100 = 0 THEN NULL ELSE n END
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.turns (id, session, message, epoch, created_at, ended_at, parked, wake_at, recoveries, worked_ms, suspended_code, code)
SELECT pg_temp.id('turn', n), pg_temp.id('session', n), '{}', 1, n, CASE WHEN n % 100 = 0 THEN NULL ELSE n END,
       n % 100 = 0 AND n < 100000, CASE WHEN n % 1000 = 0 THEN n END, 0, 0, CASE WHEN n % 1000 = 1 THEN 'old' END, 'v' || n % 2
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.messages (session, idx, message)
SELECT pg_temp.id('session', n), i, '{}' FROM generate_series(1, 100000) AS n, generate_series(0, 1) AS i;

INSERT INTO hitl.journal (session, turn, idx, at, entry, path, interrupt)
SELECT pg_temp.id('session', n), pg_temp.id('turn', n), i, n, CASE WHEN i = 1 THEN 'ask' ELSE 'step' END, '1', NULL
FROM generate_series(1, 100000) AS n, generate_series(0, 2) AS i;

INSERT INTO hitl.interrupts (id, session, turn, type, payload, status, built_in_schema, tool, agent, created_at, due_at, claimed_by, claimed_until)
SELECT pg_temp.id('interrupt', n), pg_temp.id('session', n), pg_temp.id('turn', n), 'tool_approval', '{}',
       CASE WHEN n % 100 = 0 THEN 'pending' ELSE 'answered' END, true, 'tool ' || n % 50, 'm:a', n,
       CASE WHEN n % 1000 = 0 THEN n END, CASE WHEN n % 1000 = 0 THEN 'ada' END, CASE WHEN n % 1000 = 0 THEN n END
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.replies (scope, key, request_digest, body, created_at)
SELECT 'messages:' || n, 'k', 'd', '{}', n FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.events (number, session, status, stored_at)
SELECT n * 4096, pg_temp.id('session', n), 'idle', n FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.deeds (number, at, action, session, interrupt, actor, details)
SELECT n * 4096, n, CASE WHEN n % 2 = 0 THEN 'seen' ELSE 'asked' END, pg_temp.id('session', n), pg_temp.id('interrupt', n),
       'actor ' || n % 1000, '{}'
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.audit_chain (seq, number, prev, hash) SELECT n, n * 4096, '', '' FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.outbox (id, reminder, session, event, url, origin, status, created_at, due_at, leased, attempts, settled_at)
SELECT pg_temp.id('notice', n), 0, pg_temp.id('session', n), 'session.idle', 'https://a.test/' || n % 10, 'https://a.test',
       CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'delivered' END, n, CASE WHEN n % 1000 = 0 THEN n END, false, 1,
       CASE WHEN n % 1000 = 0 THEN NULL ELSE n END
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.carried_turns (turn) SELECT pg_temp.id('turn', n) FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.graph_checkpoints (thread, namespace, id, run, channels, versions, body_type, body, metadata_type, metadata)
SELECT 't' || n / 10, '', 'c' || n, 'r' || n / 10, ARRAY['a', 'b'], ARRAY['' || n, '1'], '', '', '', ''
FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.graph_values (thread, namespace, channel, version, type, value)
SELECT 't' || n / 10, '', 'a', '' || n, '', '' FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.graph_writes (thread, namespace, checkpoint, task, place, path, channel, type, value)
SELECT 't' || n / 10, '', 'c' || n, 'task', 0, '', 'a', '', '' FROM generate_series(1, 100000) AS n;

INSERT INTO hitl.sign_ins (token, key, ends_at) SELECT decode(md5('' || n), 'hex'), '\x00', n FROM generate_series(1, 100000) AS n;

ANALYZE;

SELECT seq, id, reminder, session, interrupt, event, url, NULL::text, NULL::text, status, created_at, due_at, leased, attempts,
       last_error, settled_at, origin
FROM hitl.outbox

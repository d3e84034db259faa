SELECT seq, id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased, attempts,
       last_error, settled_at, origin
FROM outbox

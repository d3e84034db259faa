INSERT INTO outbox (id, reminder, session, interrupt, event, url, token, body, status, created_at, due_at, leased,
                    attempts, last_error, settled_at, origin)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)

SELECT min(due_at) FROM outbox WHERE due_at IS NOT NULL

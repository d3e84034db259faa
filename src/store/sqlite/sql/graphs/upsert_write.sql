INSERT INTO graph_writes (thread, namespace, checkpoint, task, place, path, channel, type, value)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (thread, namespace, checkpoint, task, place) DO UPDATE
SET path = excluded.path, channel = excluded.channel, type = excluded.type, value = excluded.value
WHERE excluded.place < 0

INSERT INTO hitl.graph_writes (thread, namespace, checkpoint, task, place, path, channel, type, value)
SELECT $2, namespace, checkpoint, task, place, path, channel, type, value FROM hitl.graph_writes WHERE thread = $1
ON CONFLICT (thread, namespace, checkpoint, task, place) DO UPDATE
SET path = excluded.path, channel = excluded.channel, type = excluded.type, value = excluded.value

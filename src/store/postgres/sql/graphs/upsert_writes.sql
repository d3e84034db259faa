INSERT INTO hitl.graph_writes (thread, namespace, checkpoint, task, place, path, channel, type, value)
SELECT $1, $2, $3, task, place, path, channel, type, value
FROM unnest($4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bytea[])
     AS n(task, place, path, channel, type, value)
ON CONFLICT (thread, namespace, checkpoint, task, place) DO UPDATE
SET path = excluded.path, channel = excluded.channel, type = excluded.type, value = excluded.value
WHERE excluded.place < 0

INSERT INTO hitl.graph_values (thread, namespace, channel, version, type, value)
SELECT $1, $2, channel, version, type, value
FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[]) AS n(channel, version, type, value)
ON CONFLICT (thread, namespace, channel, version) DO UPDATE SET type = excluded.type, value = excluded.value

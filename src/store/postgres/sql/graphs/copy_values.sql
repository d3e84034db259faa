INSERT INTO hitl.graph_values (thread, namespace, channel, version, type, value)
SELECT $2, namespace, channel, version, type, value FROM hitl.graph_values WHERE thread = $1
ON CONFLICT (thread, namespace, channel, version) DO UPDATE SET type = excluded.type, value = excluded.value

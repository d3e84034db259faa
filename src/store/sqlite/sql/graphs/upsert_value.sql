INSERT INTO graph_values (thread, namespace, channel, version, type, value)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (thread, namespace, channel, version) DO UPDATE SET type = excluded.type, value = excluded.value

INSERT OR REPLACE INTO graph_values (thread, namespace, channel, version, type, value)
SELECT ?2, namespace, channel, version, type, value FROM graph_values WHERE thread = ?1

INSERT OR REPLACE INTO graph_writes (thread, namespace, checkpoint, task, place, path, channel, type, value)
SELECT ?2, namespace, checkpoint, task, place, path, channel, type, value FROM graph_writes WHERE thread = ?1

SELECT task, place, path, channel, type, value
FROM graph_writes
WHERE thread = ?1 AND namespace = ?2 AND checkpoint = ?3
ORDER BY path, task, place

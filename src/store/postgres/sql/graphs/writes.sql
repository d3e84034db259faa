SELECT w.thread, w.namespace, w.checkpoint, w.task, w.place, w.path, w.channel, w.type, w.value
FROM page p
     JOIN hitl.graph_writes w ON w.thread = p.thread AND w.namespace = p.namespace AND w.checkpoint = p.id
ORDER BY w.path, w.task, w.place

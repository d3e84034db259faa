DELETE FROM hitl.graph_writes w
USING unnest($2::text[], $3::text[]) AS n(namespace, id)
WHERE w.thread = $1 AND w.namespace = n.namespace AND w.checkpoint = n.id

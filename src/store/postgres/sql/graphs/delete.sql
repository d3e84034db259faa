DELETE FROM hitl.graph_checkpoints c
USING unnest($2::text[], $3::text[]) AS n(namespace, id)
WHERE c.thread = $1 AND c.namespace = n.namespace AND c.id = n.id

DELETE FROM hitl.graph_values v
WHERE v.thread = $1 AND NOT EXISTS (
    SELECT 1
    FROM hitl.graph_checkpoints c CROSS JOIN LATERAL unnest(c.channels, c.versions) AS n(channel, version)
    WHERE c.thread = $1 AND c.namespace = v.namespace AND n.channel = v.channel AND n.version = v.version)

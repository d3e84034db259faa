DELETE FROM graph_values
WHERE thread = ?1 AND (namespace, channel, version) NOT IN (
    SELECT c.namespace, n.key, n.value
    FROM graph_checkpoints c CROSS JOIN json_each(c.versions) AS n
    WHERE c.thread = ?1)

SELECT v.channel, v.version, v.type, v.value
FROM graph_checkpoints c CROSS JOIN json_each(c.versions) AS n
     CROSS JOIN graph_values v
WHERE c.thread = ?1 AND c.namespace = ?2 AND c.id = ?3
      AND v.thread = ?1 AND v.namespace = ?2 AND v.channel = n.key AND v.version = n.value
ORDER BY v.channel

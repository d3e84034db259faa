INSERT OR REPLACE INTO graph_checkpoints
    (thread, namespace, id, parent, run, versions, body_type, body, metadata_type, metadata)
SELECT ?2, namespace, id, parent, run, versions, body_type, body, metadata_type, metadata
FROM graph_checkpoints WHERE thread = ?1

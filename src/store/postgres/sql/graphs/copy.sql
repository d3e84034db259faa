INSERT INTO hitl.graph_checkpoints
    (thread, namespace, id, parent, run, channels, versions, body_type, body, metadata_type, metadata)
SELECT $2, namespace, id, parent, run, channels, versions, body_type, body, metadata_type, metadata
FROM hitl.graph_checkpoints WHERE thread = $1
ON CONFLICT (thread, namespace, id) DO UPDATE
SET parent = excluded.parent, run = excluded.run, channels = excluded.channels, versions = excluded.versions,
    body_type = excluded.body_type, body = excluded.body, metadata_type = excluded.metadata_type,
    metadata = excluded.metadata

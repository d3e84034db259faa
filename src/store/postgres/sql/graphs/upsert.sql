INSERT INTO hitl.graph_checkpoints
    (thread, namespace, id, parent, run, channels, versions, body_type, body, metadata_type, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (thread, namespace, id) DO UPDATE
SET parent = excluded.parent, run = excluded.run, channels = excluded.channels, versions = excluded.versions,
    body_type = excluded.body_type, body = excluded.body, metadata_type = excluded.metadata_type,
    metadata = excluded.metadata

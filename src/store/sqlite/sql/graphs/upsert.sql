INSERT INTO graph_checkpoints
    (thread, namespace, id, parent, run, versions, body_type, body, metadata_type, metadata)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (thread, namespace, id) DO UPDATE
SET parent = excluded.parent, run = excluded.run, versions = excluded.versions, body_type = excluded.body_type,
    body = excluded.body, metadata_type = excluded.metadata_type, metadata = excluded.metadata

SELECT thread, namespace, id, parent, body_type, body, metadata_type, metadata
FROM graph_checkpoints

DELETE FROM graph_checkpoints WHERE thread = ?1 AND namespace = ?2 AND id = ?3

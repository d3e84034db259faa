DELETE FROM graph_checkpoints WHERE thread = ?1

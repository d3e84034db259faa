DELETE FROM hitl.graph_checkpoints WHERE thread = $1

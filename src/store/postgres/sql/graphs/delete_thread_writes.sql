DELETE FROM hitl.graph_writes WHERE thread = $1

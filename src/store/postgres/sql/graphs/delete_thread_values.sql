DELETE FROM hitl.graph_values WHERE thread = $1

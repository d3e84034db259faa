SELECT session FROM hitl.turns WHERE id = $1

SELECT sent_by FROM hitl.turns WHERE id = $1

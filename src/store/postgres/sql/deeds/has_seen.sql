SELECT EXISTS (SELECT 1 FROM hitl.deeds WHERE interrupt = $1 AND action = 'seen' AND actor = $2)

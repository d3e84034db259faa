(SELECT due_at, id, true AS is_interrupt, seq FROM hitl.interrupts WHERE due_at <= $1 ORDER BY due_at, seq LIMIT $2)
UNION ALL
(SELECT wake_at, id, false, seq FROM hitl.turns WHERE wake_at <= $1 ORDER BY wake_at, seq LIMIT $2)
ORDER BY 1, 3 DESC, 4 LIMIT $2

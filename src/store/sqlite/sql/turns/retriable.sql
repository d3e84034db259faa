SELECT turns.seq, turns.id, sessions.id, failure_code
FROM turns INDEXED BY turns_suspended CROSS JOIN sessions ON sessions.seq = turns.session
WHERE suspended_code IS NOT NULL AND suspended_code <> ?1 AND agent = ?3 AND turns.seq > ?4
ORDER BY turns.seq LIMIT ?2

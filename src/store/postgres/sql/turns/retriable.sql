-- By a subquery that is no join, for its LIMIT: however many sessions there are, those of suspended turns are looked at.
SELECT t.seq, t.id, t.session, s.failure_code
FROM hitl.turns t
CROSS JOIN LATERAL (SELECT agent, failure_code FROM hitl.sessions WHERE sessions.id = t.session LIMIT 1) s
WHERE t.suspended_code IS NOT NULL AND t.suspended_code <> $1 AND s.agent = $3 AND t.seq > $4
ORDER BY t.seq LIMIT $2

-- Turns that nobody has, of agents that a server is there for, without those that wait for people and timers: how many of each
-- code, and since when the first of them could go on. By subqueries that are no joins, for their LIMIT: however many sessions there
-- are, those of the turns under way are looked at, and no others.
SELECT t.code, count(*), min(greatest(t.created_at, last.at, s.updated_at))
FROM hitl.turns t
CROSS JOIN LATERAL (SELECT agent, updated_at FROM hitl.sessions WHERE sessions.id = t.session LIMIT 1) s
LEFT JOIN LATERAL (SELECT entry, at FROM hitl.journal WHERE journal.session = t.session AND journal.turn = t.id
                   ORDER BY idx DESC LIMIT 1) last ON true
WHERE t.ended_at IS NULL AND NOT t.parked AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = t.owner)
  AND last.entry IS DISTINCT FROM 'pause'
  AND EXISTS (SELECT FROM hitl.servers WHERE servers.kind = 'server' AND servers.agent = s.agent)
GROUP BY t.code

-- Of these turns those that are under way, each with its session, whose columns are as in sessions/select, and with the last entry
-- of its journal where that is a pause, whose columns are as in journal/last. By subqueries that are no joins, for their LIMIT.
SELECT t.id, t.epoch,
       s.seq, s.id, s.agent, s.created_at, s.updated_at, s.total_messages,
       s.status, s.turn, s.pending, s.response, s.failure_code, s.failure_message, s.rules, s.grants, s.webhook,
       s.abandoned,
       last.at, last.entry, last.path, last.kind, last.name, last.location, last.arguments, last.interrupt, last.body
FROM hitl.turns t
CROSS JOIN LATERAL (SELECT * FROM hitl.sessions WHERE sessions.id = t.session LIMIT 1) s
LEFT JOIN LATERAL (SELECT * FROM hitl.journal WHERE journal.session = t.session AND journal.turn = t.id
                   ORDER BY idx DESC LIMIT 1) last ON last.entry = 'pause'
WHERE t.id = ANY ($1::uuid[]) AND t.ended_at IS NULL AND NOT t.parked

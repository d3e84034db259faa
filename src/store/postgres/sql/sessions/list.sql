-- With the beginning of the message that the title is from: of the first turn, or, before there is one, the first of a person
-- among those that the session began with. They are stored with the role first.
SELECT seq, id, agent, created_at, updated_at, total_messages,
       status, turn,
       left(coalesce(
           (SELECT t.message FROM hitl.turns t WHERE t.session = s.id ORDER BY t.seq LIMIT 1),
           (SELECT m.message FROM hitl.messages m
            WHERE m.session = s.id AND m.idx < 8 AND m.message LIKE '{"role":"user"%'
            ORDER BY m.idx LIMIT 1)), 4096) AS first_message
FROM hitl.sessions s

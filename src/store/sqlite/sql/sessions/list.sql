-- With the beginning of the message that the title is from: of the first turn, or, before there is one, the first of a person
-- among those that the session began with. They are stored with the role first.
SELECT seq, id, agent, created_at, updated_at, total_messages,
       status, turn,
       substr(coalesce(
           (SELECT message FROM turns WHERE turns.session = sessions.seq ORDER BY turns.seq LIMIT 1),
           (SELECT message FROM messages
            WHERE messages.session = sessions.seq AND idx < 8 AND message GLOB '{"role":"user"*'
            ORDER BY idx LIMIT 1)), 1, 4096) AS first_message
FROM sessions

-- What was swept of the events is swept of these.
SELECT journal.event, sessions.id, turns.id, journal.at, journal.entry, journal.path, journal.kind, journal.name, journal.location,
       journal.arguments, journal.interrupt, journal.body
FROM journal INDEXED BY journal_told
JOIN turns ON turns.seq = journal.turn
JOIN sessions ON sessions.seq = turns.session
WHERE journal.event > ?1 AND journal.event > (SELECT swept FROM last_told)
ORDER BY journal.event LIMIT ?2

-- The numbers are gone through, and not the journals of the session: whoever comes back was away for a moment, so that there are few.
SELECT journal.event, sessions.id, turns.id, journal.at, journal.entry, journal.path, journal.kind, journal.name, journal.location,
       journal.arguments, journal.interrupt, journal.body
FROM journal INDEXED BY journal_told
JOIN turns ON turns.seq = journal.turn
JOIN sessions ON sessions.seq = turns.session
WHERE journal.event > ?1 AND journal.event > (SELECT swept FROM last_told)
  AND journal.turn IN (SELECT seq FROM turns WHERE session = (SELECT seq FROM sessions WHERE id = ?3))
ORDER BY journal.event LIMIT ?2

-- The journals of the session are gone through, and not the numbers of all: first for the numbers alone, as most of an entry may be
-- long.
SELECT journal.event, sessions.id, turns.id, journal.at, journal.entry, journal.path, journal.kind, journal.name, journal.location,
       journal.arguments, journal.interrupt, journal.body
FROM (
    SELECT own.event AS number FROM turns AS of_session CROSS JOIN journal AS own ON own.turn = of_session.seq
    WHERE of_session.session = (SELECT seq FROM sessions WHERE id = ?3)
      AND +own.event > ?1 AND +own.event > (SELECT swept FROM last_told)
    ORDER BY number LIMIT ?2
) AS told
CROSS JOIN journal INDEXED BY journal_told ON journal.event = told.number
CROSS JOIN turns ON turns.seq = journal.turn
CROSS JOIN sessions ON sessions.seq = turns.session
ORDER BY told.number

INSERT INTO carried_turns (turn, entries, digest)
VALUES (?1, ?2, ?3)
ON CONFLICT (turn) DO UPDATE SET entries = excluded.entries, digest = excluded.digest

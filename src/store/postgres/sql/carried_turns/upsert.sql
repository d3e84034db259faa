INSERT INTO hitl.carried_turns (turn, entries, digest)
SELECT turn, entries, digest
FROM unnest($1::uuid[], $2::bigint[], $3::text[])
     WITH ORDINALITY AS n(turn, entries, digest, place)
ORDER BY place
ON CONFLICT (turn) DO UPDATE SET entries = excluded.entries, digest = excluded.digest

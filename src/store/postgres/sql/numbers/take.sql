-- A transaction that writes after a savepoint is given one more number for that: above its own, and nobody else's. Where it is told is
-- the row that was written (xmin, which has 32 bits of the number's 64). It is kept for the statements that follow.
WITH taken AS (
    INSERT INTO hitl.replies (scope, key, request_digest, body, created_at)
    VALUES ('numbers', $1, '', '', 0)
    RETURNING xmin::text::bigint AS number
), own AS (
    SELECT pg_current_xact_id()::text::bigint AS number
)
SELECT set_config('hitl.numbers',
                  coalesce(nullif(current_setting('hitl.numbers', true), ''), own.number::text) || ','
                  || own.number + (taken.number - own.number % 4294967296 + 4294967296) % 4294967296,
                  true)
FROM taken, own

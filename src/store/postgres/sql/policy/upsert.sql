-- Fails the whole transaction where another one is there than was seen, with the digest $5: NULL where there was none.
WITH n AS (
    SELECT text, digest, pushed_at, pushed_by
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS n(text, digest, pushed_at, pushed_by)
), replaced AS (
    UPDATE hitl.policy p
    SET text = n.text, digest = n.digest, pushed_at = n.pushed_at, pushed_by = n.pushed_by
    FROM n
    WHERE p.digest = $5::text
    RETURNING 1
), added AS (
    INSERT INTO hitl.policy (text, digest, pushed_at, pushed_by)
    SELECT text, digest, pushed_at, pushed_by FROM n WHERE $5::text IS NULL
    RETURNING 1
)
SELECT 1 / ((SELECT count(*) FROM replaced) + (SELECT count(*) FROM added))::int

INSERT INTO hitl.policy (text, digest, pushed_at, pushed_by)
SELECT text, digest, pushed_at, pushed_by
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS n(text, digest, pushed_at, pushed_by)
ON CONFLICT (place) DO UPDATE
SET text = excluded.text, digest = excluded.digest, pushed_at = excluded.pushed_at, pushed_by = excluded.pushed_by

WHERE due_at <= $1 AND origin <> ALL ($3::text[]) AND (SELECT home = here FROM hitl.meta, hitl.place)
ORDER BY due_at, seq LIMIT $2

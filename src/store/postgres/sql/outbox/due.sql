WHERE due_at <= $1 AND origin <> ALL ($3::text[]) ORDER BY due_at, seq LIMIT $2

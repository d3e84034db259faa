-- By the index alone: what is passed over is not read.
WHERE seq = ANY (ARRAY(
    SELECT seq FROM hitl.outbox
    WHERE due_at <= $1 AND (origin = ANY ($3::text[])) = $5::boolean AND event = ANY ($4::text[])
      AND status IN ('scheduled', 'pending', 'delivered', 'failed') AND (SELECT at_home FROM hitl.whereabouts)
    ORDER BY due_at, seq LIMIT $2
))
ORDER BY due_at, seq

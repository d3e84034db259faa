SELECT due_at FROM hitl.outbox
WHERE due_at IS NOT NULL AND (origin = ANY ($1::text[])) = $3::boolean AND event = ANY ($2::text[])
  AND status IN ('scheduled', 'pending', 'delivered', 'failed') AND (SELECT at_home FROM hitl.whereabouts)
ORDER BY due_at LIMIT 1

-- Nobody could be told of an expiry while a turn is suspended: its interrupts are due again once it is not.
UPDATE hitl.interrupts i
SET due_at = CASE WHEN NOT n.is_suspended THEN i.expires_at END
FROM unnest($1::uuid[], $2::uuid[], $3::boolean[]) AS n(session, turn, is_suspended)
WHERE i.session = n.session AND i.turn = n.turn AND i.status = 'pending'

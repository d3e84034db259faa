-- Nobody could be told of an expiry while a turn is suspended: its interrupts are due again once it is not.
WITH n AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bigint[],
                         $7::bigint[], $8::bigint[], $9::boolean[], $10::bigint[], $11::bigint[],
                         $12::text[], $13::text[], $14::text[])
        AS n(id, session, owner, impure_at, warnings, epoch, recoveries, worked_ms, parked, wake_at,
             ended_at, suspended_code, code, refused_by)
), resumed AS (
    SELECT t.id, t.session FROM hitl.turns t JOIN n ON n.id = t.id
    WHERE t.suspended_code IS NOT NULL AND n.suspended_code IS NULL
), released AS (
    UPDATE hitl.interrupts i SET due_at = i.expires_at
    FROM resumed
    WHERE i.session = resumed.session AND i.turn = resumed.id AND i.status = 'pending'
), held AS (
    UPDATE hitl.interrupts i SET due_at = NULL
    FROM n
    WHERE n.suspended_code IS NOT NULL AND i.session = n.session AND i.turn = n.id AND i.due_at IS NOT NULL
)
UPDATE hitl.turns t
SET impure_at = n.impure_at, warnings = n.warnings, epoch = n.epoch, recoveries = n.recoveries,
    worked_ms = n.worked_ms, parked = n.parked, wake_at = n.wake_at, ended_at = n.ended_at,
    suspended_code = n.suspended_code, code = n.code, refused_by = n.refused_by,
    owner = coalesce(n.owner, t.owner)
FROM n
WHERE t.id = n.id

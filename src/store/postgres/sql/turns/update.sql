UPDATE hitl.turns t
SET impure_at = n.impure_at, warnings = n.warnings, epoch = n.epoch, recoveries = n.recoveries,
    worked_ms = n.worked_ms, claimed = n.claimed, parked = n.parked, wake_at = n.wake_at, ended_at = n.ended_at,
    suspended_code = n.suspended_code, code = n.code, refused_by = n.refused_by,
    owner = coalesce(n.owner, t.owner)
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::boolean[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[])
     AS n(id, owner, impure_at, warnings, epoch, recoveries, worked_ms, claimed, parked, wake_at, ended_at,
      suspended_code, code, refused_by)
WHERE t.id = n.id

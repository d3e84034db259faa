INSERT INTO hitl.turns (id, session, message, webhook, created_at, sent_by, owner, impure_at, warnings, epoch, recoveries,
    worked_ms, claimed, parked, wake_at, ended_at, suspended_code, code, refused_by)
SELECT id, session, message, webhook, created_at, sent_by, owner, impure_at, warnings, epoch, recoveries,
       worked_ms, claimed, parked, wake_at, ended_at, suspended_code, code, refused_by
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::uuid[], $8::text[],
            $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[], $15::bigint[],
            $16::bigint[], $17::text[], $18::text[], $19::text[])
     WITH ORDINALITY AS n(id, session, message, webhook, created_at, sent_by, owner, impure_at, warnings, epoch, recoveries,
      worked_ms, claimed, parked, wake_at, ended_at, suspended_code, code, refused_by, place)
ORDER BY place

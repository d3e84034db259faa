SELECT seq, id, session, message, webhook, created_at, impure_at, warnings, sent_by,
       epoch, recoveries, worked_ms, claimed, parked, wake_at, ended_at, suspended_code, compacted,
       coalesce((SELECT max(idx) + 1 FROM hitl.journal j WHERE j.session = turns.session AND j.turn = turns.id), 0) AS entries,
       code, refused_by
FROM hitl.turns

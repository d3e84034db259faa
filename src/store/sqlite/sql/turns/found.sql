-- What jobs ask of a turn, all at once: most ask for several of these, and every append for some.
SELECT seq, (SELECT coalesce(max(idx) + 1, 0) FROM journal WHERE turn = turns.seq), sent_by, webhook,
       epoch, recoveries, worked_ms, claimed, parked, wake_at, ended_at, suspended_code
FROM turns WHERE id = ?1

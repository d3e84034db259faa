UPDATE hitl.servers
SET beat = beat + 1, beat_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint, at_work = $2, draining = draining OR $3,
    code = $4, policy = $5
WHERE id = $1 RETURNING draining

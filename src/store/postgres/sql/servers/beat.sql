UPDATE hitl.servers SET beat = beat + 1, beat_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint WHERE id = $1 RETURNING 1

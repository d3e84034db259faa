SELECT id, kind, host, pid, machine, process, beat, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - beat_at FROM hitl.servers WHERE id <> $1 ORDER BY started_at, id

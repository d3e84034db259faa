SELECT id, kind, host, pid, machine, process, version, agent, serves_http, workers, beat,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint - beat_at, at_work, draining, started_at, code, options, policy
FROM hitl.servers WHERE id <> $1 ORDER BY started_at, id

INSERT INTO hitl.servers (id, kind, host, pid, machine, process, version, agent, serves_http, workers, beat, beat_at, started_at, code,
    options, policy)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, now_ms, now_ms, $11, $12, $13 FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS n
WHERE NOT EXISTS (SELECT FROM hitl.servers WHERE (kind, $2) IN (('server', 'run'), ('run', 'server')))
-- Its own row is there where the reply to an earlier try was lost.
ON CONFLICT (id) DO UPDATE SET beat = hitl.servers.beat
RETURNING 1

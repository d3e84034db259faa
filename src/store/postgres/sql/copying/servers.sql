-- Those that live: others take one for dead that has said nothing for ten seconds.
SELECT kind, host, pid FROM hitl.servers
WHERE beat_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 10000
ORDER BY started_at LIMIT 1

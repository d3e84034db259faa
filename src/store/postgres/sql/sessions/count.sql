-- Of many only about how many there are: counting them would take longer the more there are.
SELECT CASE WHEN reltuples < 10000 THEN (SELECT count(*) FROM hitl.sessions) ELSE reltuples::bigint END
FROM pg_class WHERE oid = 'hitl.sessions'::regclass

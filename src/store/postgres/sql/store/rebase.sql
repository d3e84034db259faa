-- A database that was restored elsewhere counts transactions anew: numbers go on above those that are there.
UPDATE hitl.meta SET event_base = (last | 4095) + 1
FROM (SELECT greatest((SELECT max(number) FROM hitl.events), (SELECT max(number) FROM hitl.deeds),
                      (SELECT max(event) FROM hitl.journal), 0) AS last) AS l
WHERE last >= event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 12)

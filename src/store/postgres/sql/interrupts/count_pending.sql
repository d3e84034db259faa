-- By age: after $1, after $2, after $3, and before.
SELECT type, count(*) FILTER (WHERE created_at > $1), count(*) FILTER (WHERE created_at <= $1 AND created_at > $2),
       count(*) FILTER (WHERE created_at <= $2 AND created_at > $3), count(*) FILTER (WHERE created_at <= $3)
FROM hitl.interrupts
WHERE status = 'pending'
GROUP BY type
ORDER BY type COLLATE "C"

-- By age: after ?1, after ?2, after ?3, and before.
SELECT type, sum(created_at > ?1), sum(created_at <= ?1 AND created_at > ?2), sum(created_at <= ?2 AND created_at > ?3),
       sum(created_at <= ?3)
FROM interrupts
WHERE status = 'pending'
GROUP BY type
ORDER BY type

-- Fails where the server is dead (2201E): then nothing of its transaction counts.
WITH held AS (
    SELECT count(*) AS servers FROM hitl.servers WHERE id = $1
)/* parts */
SELECT ln(servers)/* numbers */
FROM held

-- The first of those that wait for a living server with the code that recorded them, and which others take once they have
-- starved: without those that this code has failed with.
SELECT id, epoch FROM (
    -- what is no list of codes stops nobody but its own turn, once that is read
    SELECT *, CASE WHEN refused_by ~ '^\["([^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u00(0[1-9a-f]|1[0-9a-f]))*"(,"([^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u00(0[1-9a-f]|1[0-9a-f]))*")*\]$'
                   THEN refused_by::jsonb END AS refused
    FROM hitl.turns
) turns
WHERE ended_at IS NULL AND NOT parked AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = turns.owner)
  AND code <> $2
  AND code = ANY (ARRAY(SELECT code FROM hitl.servers WHERE kind = 'server' AND agent = $1 AND workers > 0 AND NOT draining AND code IS NOT NULL))
  AND NOT coalesce(refused ?| ARRAY[code, $2], false)
  AND (SELECT agent FROM hitl.sessions WHERE sessions.id = turns.session) = $1
ORDER BY seq LIMIT 1024

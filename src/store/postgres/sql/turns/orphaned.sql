-- Those whose owner is gone, or that were let go of, without those of an agent that are a living server's of another code
-- (`TurnCode::may_be_taken`). However many are parked, they cost nothing.
SELECT id, epoch FROM (
    -- what is no list of codes stops nobody but its own turn, once that is read
    SELECT *, CASE WHEN refused_by ~ '^\["([^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u00(0[1-9a-f]|1[0-9a-f]))*"(,"([^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u00(0[1-9a-f]|1[0-9a-f]))*")*\]$'
                   THEN refused_by::jsonb END AS refused
    FROM hitl.turns
) turns
WHERE ended_at IS NULL AND NOT parked AND NOT EXISTS (SELECT FROM hitl.servers WHERE servers.id = turns.owner)
  AND ((SELECT agent FROM hitl.sessions WHERE sessions.id = turns.session) IS DISTINCT FROM $1
      OR CASE WHEN refused ? $2 THEN refused ?& ARRAY(SELECT code FROM hitl.servers WHERE kind = 'server' AND agent = $1 AND workers > 0 AND NOT draining AND code IS NOT NULL)
                 ELSE code IS NULL OR code = $2 OR id = ANY ($3::uuid[]) OR coalesce(refused ? code, false)
                   OR code <> ALL (ARRAY(SELECT code FROM hitl.servers WHERE kind = 'server' AND agent = $1 AND workers > 0 AND NOT draining AND code IS NOT NULL)) END)
ORDER BY seq

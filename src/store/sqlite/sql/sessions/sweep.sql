DELETE FROM sessions WHERE seq IN (
    SELECT old.seq FROM sessions AS old INDEXED BY sessions_settled
    WHERE old.status IN ('idle', 'error') AND old.updated_at < ?1
      AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session = old.seq AND turns.suspended_code IS NOT NULL)
    ORDER BY old.updated_at, old.seq
    LIMIT ?2
)
RETURNING seq, id

DELETE FROM sign_ins WHERE token IN (
    SELECT old.token FROM sign_ins AS old
    WHERE old.ends_at <= ?1
    ORDER BY old.ends_at, old.token
    LIMIT ?2
)

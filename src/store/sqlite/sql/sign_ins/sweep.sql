DELETE FROM sign_ins WHERE ends_at <= ?1

DELETE FROM sign_ins WHERE token = ?1

DELETE FROM hitl.sign_ins WHERE token = ANY ($1::bytea[])

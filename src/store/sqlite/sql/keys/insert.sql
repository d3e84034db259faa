INSERT INTO keys (id, name, scopes, key_groups, digest, created_at, created_by, revoked_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

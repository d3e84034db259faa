SELECT id, name, scopes, key_groups, digest, created_at, created_by, revoked_at FROM hitl.keys ORDER BY seq

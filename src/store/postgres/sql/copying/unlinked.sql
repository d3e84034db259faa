-- Whether something was told that has no place in the chain yet.
SELECT coalesce((SELECT max(number) FROM hitl.deeds), 0) > coalesce((SELECT max(number) FROM hitl.audit_chain), 0)

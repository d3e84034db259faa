DELETE FROM hitl.policy

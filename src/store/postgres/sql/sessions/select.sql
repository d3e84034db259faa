SELECT seq, id, agent, created_at, updated_at, total_messages,
       status, turn, pending, response, failure_code, failure_message, rules, grants, webhook,
       abandoned
FROM hitl.sessions

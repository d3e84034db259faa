INSERT INTO sessions (id, agent, created_at, updated_at, total_messages,
                      status, turn, pending, response, failure_code, failure_message, rules, grants, webhook, abandoned,
                      seq)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, (SELECT last_seq + 1 FROM session_counters))

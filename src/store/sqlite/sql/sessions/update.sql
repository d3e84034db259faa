UPDATE sessions
SET agent = ?2, created_at = ?3, updated_at = ?4, total_messages = ?5,
    status = ?6, turn = ?7, pending = ?8, response = ?9, failure_code = ?10, failure_message = ?11,
    rules = ?12, grants = ?13, webhook = ?14, abandoned = ?15
WHERE id = ?1

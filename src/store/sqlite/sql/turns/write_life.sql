UPDATE turns
SET epoch = ?2, recoveries = ?3, worked_ms = ?4, parked = ?5, wake_at = ?6, ended_at = ?7, suspended_code = ?8, todo = ?9
WHERE id = ?1

UPDATE turns
SET epoch = ?2, recoveries = ?3, worked_ms = ?4, claimed = ?5, parked = ?6, wake_at = ?7, ended_at = ?8, suspended_code = ?9,
    todo = ?10
WHERE id = ?1

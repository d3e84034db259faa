SELECT seq, epoch, recoveries, worked_ms, parked, wake_at, ended_at, suspended_code FROM turns WHERE id = ?1

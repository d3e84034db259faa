SELECT seq, epoch FROM turns WHERE id = ?1 AND ended_at IS NULL

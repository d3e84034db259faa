SELECT webhook FROM turns WHERE id = ?1

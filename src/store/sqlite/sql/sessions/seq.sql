SELECT seq FROM sessions WHERE id = ?1

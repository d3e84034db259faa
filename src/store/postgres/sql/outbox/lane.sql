WHERE status = 'pending' AND session = $1 AND url = $2 ORDER BY seq LIMIT $3

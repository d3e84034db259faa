SELECT total FROM session_count

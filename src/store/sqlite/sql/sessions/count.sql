SELECT total FROM session_counters

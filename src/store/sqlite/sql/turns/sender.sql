SELECT sent_by FROM turns WHERE id = ?1

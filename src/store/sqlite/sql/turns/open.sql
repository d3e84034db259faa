-- Every append comes by here: what tells the owner of an open turn, and nothing else.
SELECT seq, epoch, parked FROM turns WHERE id = ?1 AND ended_at IS NULL

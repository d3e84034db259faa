-- Of the turns that a server has in memory: those that are another one's, or over, and those to whom others have written.
SELECT n.turn FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) AS n(turn, session, epoch, known)
LEFT JOIN hitl.turns t ON t.id = n.turn
WHERE t.id IS NULL OR t.ended_at IS NOT NULL OR t.parked OR t.epoch <> n.epoch
   OR EXISTS (SELECT FROM hitl.journal j
              WHERE j.session = n.session AND j.turn = n.turn AND j.idx >= n.known AND j.entry IN ('answer', 'expire'))

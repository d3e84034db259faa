WHERE id IN (
    SELECT interrupt FROM hitl.journal
    WHERE session = (SELECT session FROM hitl.turns WHERE id = $1) AND turn = $1 AND entry = 'ask'
) AND approvers IS NOT NULL
ORDER BY (
    SELECT max(idx) FROM hitl.journal j
    WHERE j.session = interrupts.session AND j.turn = $1 AND j.entry = 'ask' AND j.interrupt = interrupts.id
) DESC

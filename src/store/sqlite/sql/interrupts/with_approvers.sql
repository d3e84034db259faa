-- By the journal, the last first: whoever looks for one of them goes no further than to it.
SELECT interrupts.id
FROM journal JOIN interrupts ON interrupts.id = journal.interrupt
WHERE journal.turn = (SELECT seq FROM turns WHERE id = ?1) AND journal.entry = 'ask' AND interrupts.approvers IS NOT NULL
ORDER BY journal.idx DESC

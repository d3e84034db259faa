//! How an interrupt is settled, whoever settles it.

use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::session::{self, Session};
use crate::domain::{Error, Timestamp};
use crate::engine::telling::after_commit::AfterCommit;
use crate::store::Transaction;

/// Writes a settled interrupt of `session` with its journal entry, its event and what becomes of the session: the entry's
/// index, and the session from then on.
pub(in crate::engine) fn close(
    tx: &mut dyn Transaction,
    session: &Session,
    settled: &Interrupt,
    entry: &Entry,
    after_commit: &mut AfterCommit,
    now: Timestamp,
) -> Result<(u64, Session), Error> {
    tx.update_outcome(settled)?;
    let index = tx.append_foreign(settled.turn_id, entry, now)?;
    after_commit.tell_of(tx, session, settled, now)?;
    let event = session::Event::InterruptClosed { turn: settled.turn_id, interrupt: settled.interrupt_id };
    Ok((index, after_commit.change(tx, session, event, now)?))
}

//! Whose a turn or an interrupt is: that decides in which line a job about it stands.
//!
//! Of those that were written lately it is known. Of the others the database is asked once, and whoever comes meanwhile
//! waits for the same answer: jobs about one row begin in the order in which they were called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::changes::Changes;
use super::lanes::QueuedJob;
use super::question::StoreQuestion;
use crate::domain::{Error, InterruptId, SessionId, TurnId};

/// How many rows are remembered, twice.
const MOST: usize = 4096;

/// A row of which a job is about, and not yet whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnedRow {
    /// A turn.
    Turn(TurnId),
    /// An interrupt.
    Interrupt(InterruptId),
}

impl OwnedRow {
    /// What tells whose it is.
    pub fn question(self) -> StoreQuestion {
        match self {
            Self::Turn(turn) => StoreQuestion::SessionOfTurn(turn),
            Self::Interrupt(interrupt) => StoreQuestion::SessionOfInterrupt(interrupt),
        }
    }
}

/// Where a job about a row is to go.
pub enum Direction {
    /// Into the line of this session.
    To(SessionId, QueuedJob),
    /// Whoever called asks whose the row is.
    Ask(SessionLookUp),
    /// Somebody asks already.
    Waits,
}

/// Whoever has this asks whose a row is. Where that ends in a panic, those who waited for the answer are told that nothing
/// came of it, and who comes later asks again.
pub struct SessionLookUp {
    index: Arc<SessionIndex>,
    row: OwnedRow,
    is_answered: bool,
}

/// See the module.
#[derive(Default)]
pub struct SessionIndex {
    inner: Mutex<KnownOwners>,
}

#[derive(Default)]
struct KnownOwners {
    /// Those that were written, or asked for, lately.
    young: HashMap<OwnedRow, SessionId>,
    /// Those before them.
    old: HashMap<OwnedRow, SessionId>,
    /// Jobs about rows of which the database is asked.
    waiting: HashMap<OwnedRow, Vec<QueuedJob>>,
}

impl SessionIndex {
    /// Where `job` is to go.
    pub fn direct(self: &Arc<Self>, row: OwnedRow, job: QueuedJob) -> Direction {
        let mut known = self.lock();
        if let Some(waiting) = known.waiting.get_mut(&row) {
            waiting.push(job);
            return Direction::Waits;
        }
        match known.look_up(row) {
            Some(session) => Direction::To(session, job),
            None => {
                known.waiting.insert(row, vec![job]);
                Direction::Ask(SessionLookUp { index: Arc::clone(self), row, is_answered: false })
            }
        }
    }

    /// Remembers whose the rows are that are written: that never changes.
    pub fn remember(&self, changes: &Changes) {
        let turns = changes.turns.iter().map(|change| (OwnedRow::Turn(change.turn.id), change.turn.session_id));
        let asked = changes.interrupts.iter().map(|(it, _)| (OwnedRow::Interrupt(it.interrupt_id), it.session_id));
        let mut known = self.lock();
        for (row, session) in turns.chain(asked) {
            known.remember(row, session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownOwners> {
        // A panic elsewhere cannot leave a map half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionLookUp {
    /// The database has told whose the row is, or nothing. `send` gets the jobs that waited for it, in order, before one that
    /// comes after them can be directed anywhere.
    pub fn found(&mut self, session: Option<SessionId>, send: impl FnMut(QueuedJob)) {
        let mut known = self.index.lock();
        self.is_answered = true;
        if let Some(session) = session {
            known.remember(self.row, session);
        }
        known.waiting.remove(&self.row).into_iter().flatten().for_each(send);
    }
}

impl Drop for SessionLookUp {
    fn drop(&mut self) {
        if self.is_answered {
            // Whoever waits for the row now waits for another look-up.
            return;
        }
        let left = self.index.lock().waiting.remove(&self.row);
        for job in left.into_iter().flatten() {
            // Whoever wanted it may be gone.
            drop(job.reply.send(Err(Error::Internal("asking whose the row is has panicked".to_owned()))));
        }
    }
}

impl KnownOwners {
    fn look_up(&mut self, row: OwnedRow) -> Option<SessionId> {
        if let Some(session) = self.young.get(&row) {
            return Some(*session);
        }
        let session = self.old.get(&row).copied()?;
        self.remember(row, session);
        Some(session)
    }

    fn remember(&mut self, row: OwnedRow, session: SessionId) {
        if self.young.len() >= MOST && !self.young.contains_key(&row) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(row, session);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;

    fn job(at: u64) -> QueuedJob {
        QueuedJob { job: Box::new(|_| Ok(())), at, reply: oneshot::channel().0 }
    }

    fn row(number: u128) -> OwnedRow {
        OwnedRow::Turn(TurnId(Uuid::from_u128(number)))
    }

    const SESSION: SessionId = SessionId(Uuid::from_u128(1));

    #[test]
    fn jobs_about_one_row_go_on_in_the_order_in_which_they_came() {
        let index = Arc::new(SessionIndex::default());
        let Direction::Ask(mut look_up) = index.direct(row(1), job(1)) else { panic!("nobody has asked yet") };
        // Somebody writes the row while the database is asked.
        index.lock().remember(row(1), SESSION);
        assert!(matches!(index.direct(row(1), job(2)), Direction::Waits));
        let mut sent = Vec::new();
        look_up.found(Some(SESSION), |job| sent.push(job.at));
        assert_eq!(sent, [1, 2]);
        assert!(matches!(index.direct(row(1), job(3)), Direction::To(SESSION, _)));
    }

    #[test]
    fn where_asking_ends_in_a_panic_nobody_waits_for_ever() {
        let index = Arc::new(SessionIndex::default());
        let (reply, mut told) = oneshot::channel();
        let first = QueuedJob { job: Box::new(|_| Ok(())), at: 1, reply };
        let Direction::Ask(look_up) = index.direct(row(1), first) else { panic!("nobody has asked yet") };
        drop(look_up);
        assert!(matches!(told.try_recv(), Ok(Err(Error::Internal(_)))));
        assert!(matches!(index.direct(row(1), job(2)), Direction::Ask(_)), "the next one asks again");
    }

    #[test]
    fn whoever_comes_after_the_answer_waits_for_its_own() {
        let index = Arc::new(SessionIndex::default());
        let Direction::Ask(mut first) = index.direct(row(1), job(1)) else { panic!("nobody has asked yet") };
        first.found(None, drop);
        let (reply, mut told) = oneshot::channel();
        let later = QueuedJob { job: Box::new(|_| Ok(())), at: 2, reply };
        let Direction::Ask(mut second) = index.direct(row(1), later) else { panic!("there is no such row") };
        drop(first);
        assert!(told.try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Empty), "told of a panic");
        let mut sent = Vec::new();
        second.found(None, |job| sent.push(job.at));
        assert_eq!(sent, [2]);
    }

    #[test]
    fn what_is_asked_for_again_and_again_is_not_forgotten() {
        let index = Arc::new(SessionIndex::default());
        index.lock().remember(row(1), SESSION);
        for number in 2..3 * MOST as u128 {
            index.lock().remember(row(number), SESSION);
            assert!(matches!(index.direct(row(1), job(1)), Direction::To(..)), "after {number}");
        }
        assert!(matches!(index.direct(row(2), job(1)), Direction::Ask(_)));
        let known = index.lock();
        assert!(known.young.len() + known.old.len() <= 2 * MOST);
    }
}

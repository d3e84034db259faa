//! Commits of several sessions that go as one.
//!
//! A database takes so many commits of a server at once ([`Backend::commits_at_once`]). What comes meanwhile waits, and what is of one
//! form then goes together: the database is asked to compare, to write and to sync once for all of them.
//!
//! Nobody's commit depends on another's. A group that comes to nothing is taken apart, and each of it is committed by itself;
//! where nobody knows what came of it, each session tells of its own, and what did not happen goes by itself then: a session that somebody
//! else holds would hold up the others of its group again. Where others are first all the time, groups get small.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::backend::{Backend, Committed};
use super::changes::{Changes, CommitForm};
use crate::domain::Error;

/// How many commits go as one, at most.
const MOST_TOGETHER: usize = 16;
/// How long a commit waits until it goes, and for the end of it where it goes with another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The commits of a server that are under way, and those that wait.
pub struct CommitQueue {
    at_once: usize,
    state: Mutex<QueueState>,
}

struct QueueState {
    under_way: usize,
    waiting: VecDeque<WaitingCommit>,
    /// How many go as one now, at most.
    together: usize,
}

/// A commit that waits.
struct WaitingCommit {
    changes: Changes,
    /// Of what others it may go with; `None` where it goes by itself.
    form: Option<CommitForm>,
    reply: oneshot::Sender<CommitReply>,
}

/// What a commit that waits is told.
enum CommitReply {
    /// It is the first of those that go now.
    Goes(Box<CommitBatch>),
    /// It went with another one.
    Outcome(Result<Committed, Error>),
}

/// A commit that goes, and those that go with it.
struct CommitBatch {
    place: CommitPlace,
    changes: Changes,
    others: Vec<WaitingCommit>,
}

/// One of those that are under way. Dropped, it is the next one's.
struct CommitPlace(Arc<CommitQueue>);

impl CommitQueue {
    /// For a database that takes so many `at_once`.
    pub fn new(at_once: usize) -> Arc<Self> {
        let state = QueueState { under_way: 0, waiting: VecDeque::new(), together: MOST_TOGETHER };
        Arc::new(Self { at_once: at_once.max(1), state: Mutex::new(state) })
    }

    /// Commits, together with others where it `may_join` them.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    pub async fn commit(
        self: &Arc<Self>,
        backend: &impl Backend,
        changes: Changes,
        may_join: bool,
    ) -> Result<Committed, Error> {
        let batch = match self.enter(changes, may_join) {
            Ok(batch) => batch,
            Err(waiting) => match timeout(PATIENCE, waiting).await {
                Ok(Ok(CommitReply::Goes(batch))) => *batch,
                Ok(Ok(CommitReply::Outcome(outcome))) => return outcome,
                // Whoever committed for both is gone, or has not come back.
                Ok(Err(_)) | Err(_) => {
                    return Err(Error::StoreUnavailable("nobody knows what came of a commit".to_owned()));
                }
            },
        };
        batch.commit(backend).await
    }

    /// `changes` go now, or wait.
    fn enter(
        self: &Arc<Self>,
        changes: Changes,
        may_join: bool,
    ) -> Result<CommitBatch, oneshot::Receiver<CommitReply>> {
        let mut state = self.state();
        if state.under_way < self.at_once {
            state.under_way += 1;
            return Ok(CommitBatch { place: CommitPlace(Arc::clone(self)), changes, others: Vec::new() });
        }
        let (reply, waiting) = oneshot::channel();
        state.waiting.push_back(WaitingCommit { form: changes.form().filter(|_| may_join), changes, reply });
        Err(waiting)
    }

    /// Those that go next, the one that has waited longest first; none where nobody waits, and one less is under way.
    fn next(&self) -> Option<(WaitingCommit, Vec<WaitingCommit>)> {
        let mut state = self.state();
        // Whoever does not wait any more has no use for it.
        let first = loop {
            match state.waiting.pop_front() {
                Some(gone) if gone.reply.is_closed() => drop(gone),
                first => break first,
            }
        };
        let Some(first) = first else {
            state.under_way -= 1;
            return None;
        };
        let mut others: Vec<WaitingCommit> = Vec::new();
        let mut index = 0;
        while first.form.is_some() && others.len() + 1 < state.together {
            let Some(next) = state.waiting.get(index) else { break };
            if next.reply.is_closed() {
                drop(state.waiting.remove(index));
                continue;
            }
            let fits = next.form == first.form && others.iter().chain([&first]).all(|it| it.is_of_another(next));
            match fits.then(|| state.waiting.remove(index)).flatten() {
                Some(next) => others.push(next),
                None => index += 1,
            }
        }
        Some((first, others))
    }

    /// They did not go with others: each goes by itself, before all that came later.
    fn take_apart(&self, others: Vec<WaitingCommit>) {
        let mut state = self.state();
        for other in others.into_iter().rev() {
            state.waiting.push_front(WaitingCommit { form: None, ..other });
        }
    }

    fn note(&self, outcome: &Result<Committed, Error>) {
        let mut state = self.state();
        state.together = match outcome {
            Ok(Committed::Yes { .. }) => (state.together + 1).min(MOST_TOGETHER),
            Ok(Committed::Moved) => (state.together / 2).max(1),
            Err(_) => state.together,
        };
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingCommit {
    /// Whether `next` changes another session; each that has a form changes one.
    fn is_of_another(&self, next: &Self) -> bool {
        let session = |it: &Self| it.changes.sessions.first().map(|change| change.id);
        session(self) != session(next)
    }
}

impl CommitBatch {
    async fn commit(self, backend: &impl Backend) -> Result<Committed, Error> {
        let Self { place, changes, others } = self;
        if others.is_empty() {
            let outcome = backend.commit(changes).await;
            place.0.note(&outcome);
            return outcome;
        }
        let mut all = changes.clone();
        for other in &others {
            all.join(other.changes.clone());
        }
        let outcome = backend.commit(all).await;
        place.0.note(&outcome);
        Self { place, changes, others }.tell(outcome, backend).await
    }

    /// What came of all of them, to each.
    async fn tell(self, outcome: Result<Committed, Error>, backend: &impl Backend) -> Result<Committed, Error> {
        let Self { place, changes, others } = self;
        let (own, told): (_, Vec<_>) = match outcome {
            Ok(Committed::Yes { events }) => {
                let mut events = events.into_iter();
                let mut of = |changes: &Changes| {
                    Ok(Committed::Yes { events: events.by_ref().take(changes.events.len()).collect() })
                };
                (of(&changes), others.iter().map(|other| of(&other.changes)).collect())
            }
            Err(Error::StoreUnavailable(why)) => {
                let unknown = || Err(Error::StoreUnavailable(why.clone()));
                (unknown(), others.iter().map(|_| unknown()).collect())
            }
            // One of them is not as it was read, or cannot be stored: each finds out for itself.
            Ok(Committed::Moved) | Err(_) => {
                place.0.take_apart(others);
                return backend.commit(changes).await;
            }
        };
        for (other, outcome) in others.into_iter().zip(told) {
            // Whoever waited may be gone.
            drop(other.reply.send(CommitReply::Outcome(outcome)));
        }
        own
    }
}

impl Drop for CommitPlace {
    fn drop(&mut self) {
        if let Some((WaitingCommit { changes, reply, .. }, others)) = self.0.next() {
            let batch = CommitBatch { place: Self(Arc::clone(&self.0)), changes, others };
            // Where whoever waited has just gone, the place is dropped with it, and the next one's.
            drop(reply.send(CommitReply::Goes(Box::new(batch))));
        }
    }
}

#[cfg(test)]
mod tests;

//! The store cannot be written, because its disk is full or away: what turns have done meanwhile is kept in memory, and
//! stored when the store takes it again. A finished step does not run a second time for it, as long as the server lives.
//!
//! It is the word that a turn is waiting for anyway, at most one for each; a worker is not read while too many of its
//! words wait. A person's answer and a message are refused instead: whoever sent them can send them again.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::domain::journal::Entry;
use crate::domain::{Error, TurnId};
use crate::engine::Engine;
use crate::engine::alarm::STORE_PAUSE;
use crate::store::Reader;

/// The turns whose words wait for the store.
#[derive(Debug, Default)]
pub struct Outage {
    turns: AtomicUsize,
}

impl Outage {
    /// How many there are.
    pub fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    fn wait<'a>(&'a self, why: &Error) -> UnstoredWord<'a> {
        if self.turns.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(error = %why, "the store cannot be written; what turns have done is held until it can be");
        }
        UnstoredWord(self)
    }
}

/// One of them; gone when this is dropped.
struct UnstoredWord<'a>(&'a Outage);

impl Drop for UnstoredWord<'_> {
    fn drop(&mut self) {
        if self.0.turns.fetch_sub(1, Ordering::Relaxed) == 1 {
            tracing::warn!("nothing that turns have done waits for the store any more");
        }
    }
}

/// Where an attempt has begun to write, and what kind of entry. No other than the turn's owner writes what it writes, and
/// that says one thing at a time: an entry of the kind in that place is the attempt's.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The entry's index.
    pub index: u64,
    /// Its kind.
    pub kind: Discriminant<Entry>,
}

impl Mark {
    /// Whether what the attempt wrote is in the journal, although the store said that it had failed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn came_about(self, reader: &dyn Reader, turn: TurnId) -> Result<bool, Error> {
        let there = reader.journal_page(turn, self.index, 1)?;
        Ok(there.first().is_some_and(|recorded| discriminant(&recorded.entry) == self.kind))
    }
}

impl Engine {
    /// Makes an attempt to store a word of that `run` of the turn at `epoch` until the store takes or refuses it, or the server
    /// stops. Time that it waits is none of the turn's (`--timeout`). A run without a server has somebody who can be
    /// told at once.
    ///
    /// # Errors
    /// Those of the attempt; [`Error::StoreUnavailable`] only when the server stops; [`Error::StaleEpoch`] where the turn has begun
    /// anew meanwhile.
    pub(in crate::engine) async fn until_stored<T, A>(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        attempt: impl Fn() -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let mut after = self.placement.promotions_of(turn, run);
        loop {
            let outcome = self.store_word(turn, (epoch, run), &attempt).await;
            if !matches!(outcome, Err(Error::StaleEpoch)) {
                return outcome;
            }
            // A look may have found meanwhile that nothing of the run was taken back, and counts on it: then it was refused for
            // what is no reason any more.
            match self.placement.refuse(turn, run, after) {
                Some(now) => after = Some(now),
                None => return outcome,
            }
        }
    }

    async fn store_word<T, A>(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        attempt: &impl Fn() -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let first = attempt().await;
        let why = match first {
            Err(why @ Error::StoreUnavailable(_)) if self.host.outlasts_outages() => why,
            outcome => return outcome,
        };
        let _unstored = self.journal.outage.wait(&why);
        self.placement.rest(turn, run);
        loop {
            let stops = self.is_stopping();
            tokio::select! {
                () = self.stopping.cancelled() => {}
                () = tokio::time::sleep(STORE_PAUSE) => {}
            }
            if self.placement.run_at(turn, epoch).is_some_and(|now| now != run) {
                // The store that is there now does not know of the run that said this, and another one has begun.
                return Err(Error::StaleEpoch);
            }
            match attempt().await {
                Err(Error::StoreUnavailable(_)) if !stops => {}
                // Whoever stops the server does not wait for what cannot be stored, however late it is found out.
                Err(error @ Error::StoreUnavailable(_)) => return Err(error),
                outcome => {
                    self.placement.work_on(turn, run);
                    return outcome;
                }
            }
        }
    }

    /// What an attempt to end a turn has brought about is told, which it could not tell itself.
    pub(in crate::engine) async fn tell_of_end(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        let Some(session) = self.placement.standing(turn, epoch).map(|standing| standing.session) else { return };
        self.leave(turn, epoch);
        self.telling.run_late(session).await;
    }
}

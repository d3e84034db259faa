//! Parking: paused turns leave memory.
//!
//! One transaction for each, under the turn's epoch, checks that its pause is the last word of its journal (nothing is
//! undelivered) and that something will wake it; after the commit its worker drops it. An answer that is committed
//! before finds the turn not parked and goes to its worker; one that is committed after finds it parked and wakes it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::domain::{Error, Timestamp, TurnId};
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::journal::host::RunOver;
use crate::engine::placement::live::Candidate;
use crate::engine::{Engine, until};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::DueKind;
use crate::store::{StoreExt, Transaction};

/// How many turns are parked at once; the store commits them together.
const AT_ONCE: usize = 256;

impl Engine {
    /// Parks turns as it becomes time to, until the engine stops.
    pub(in crate::engine) fn spawn_parking(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let stopped = engine.stopped.clone();
            tokio::select! {
                () = stopped.cancelled() => {}
                () = engine.park_for_ever() => {}
            }
        });
    }

    async fn park_for_ever(self: &Arc<Self>) {
        loop {
            let pause = match self.park_due().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "paused turns could not be parked; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                    continue;
                }
            };
            let sleep = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = self.placement.some_paused() => {}
                () = self.stopping.cancelled(), if !self.is_stopping() => {}
            }
        }
    }

    /// Parks what is to be parked now: all that is paused when the server stops. How long it is until there is more.
    pub(in crate::engine) async fn park_due(self: &Arc<Self>) -> Result<Option<Duration>, Error> {
        let after = if self.is_stopping() { 0.0 } else { self.settings.park_after };
        let after = Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX);
        // A server that ends parks beside what always does. What one of them has parked the other finds parked, and would go on
        // before the worker is told: it would be let go with its turn, and close nothing.
        let _alone = self.journal.parking.lock().await;
        loop {
            let (candidates, next) = self.placement.to_park(self.settings.max_warm, after);
            if candidates.is_empty() {
                return Ok(next);
            }
            for some in candidates.chunks(AT_ONCE) {
                self.park(some.to_vec()).await?;
            }
        }
    }

    /// The same where the server stops, and not after `end`: what is not parked by then is taken up by the next server all the
    /// same.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn park_until(self: &Arc<Self>, end: Option<Instant>) -> Result<(), Error> {
        match until(end, self.park_due()).await {
            Some(parked) => parked.map(drop),
            None => {
                tracing::warn!("not all paused turns could be parked in time; the next server goes on with them");
                Ok(())
            }
        }
    }

    /// Parks each in a transaction of its own: one that cannot be read is suspended, and the others are parked.
    pub(in crate::engine) async fn park(self: &Arc<Self>, candidates: Vec<Candidate>) -> Result<(), Error> {
        let park = |candidate: &Candidate| {
            let candidate = *candidate;
            self.store.transact(About::Session(candidate.session), move |tx| park_one(tx, &candidate))
        };
        let parked: Vec<_> = candidates.iter().map(park).collect();
        faults::at(Point::EnginePark);
        let outcomes = join_all(parked).await;
        faults::at(Point::EngineParkCommitted);
        let mut all = Ok(());
        for (Candidate { turn, epoch, pause, .. }, outcome) in candidates.into_iter().zip(outcomes) {
            let settled = match outcome {
                Ok(is_parked) => {
                    if is_parked {
                        self.is_parked(turn, epoch, pause.wake_at);
                    } else {
                        self.placement.keep(turn, epoch, pause);
                    }
                    Ok(())
                }
                Err(why @ Error::Unreadable(_)) => {
                    let settled = self.suspend_unreadable(DueKind::Timers(turn), &why).await;
                    // Where nobody can even suspend it, it stays in memory until it has gone on: it would be tried for ever.
                    settled.map(|()| self.placement.keep(turn, epoch, pause))
                }
                Err(error) => Err(error),
            };
            all = all.and(settled);
        }
        all
    }

    /// A turn was parked in the store: its worker drops it, and its timers are the store's.
    pub(in crate::engine) fn is_parked(&self, turn: TurnId, epoch: u64, wake_at: Option<Timestamp>) {
        self.telling.counters().parked();
        self.host.is_over(RunOver::ParkedOrEnded);
        self.placement.park(turn, epoch);
        if let Some(at) = wake_at {
            self.journal.alarm.set(at);
        }
    }
}

/// Parks a turn where it still is at its pause and something will wake it; whether it did.
fn park_one(tx: &mut dyn Transaction, candidate: &Candidate) -> Result<bool, Error> {
    let Candidate { turn, epoch, promotions, session, pause, worked_ms } = *candidate;
    // Its pause may have been taken back.
    if tx.promotions() > promotions {
        return Ok(false);
    }
    let is_its_owners = tx.life(turn)?.is_some_and(|life| life.check_owner(epoch).is_ok());
    if !is_its_owners || !tx.journal_after(turn, Some(pause.index))?.is_empty() {
        return Ok(false);
    }
    let asks = tx.session(session)?.is_some_and(|session| !session.pending().is_empty());
    if !asks && pause.wake_at.is_none() {
        return Ok(false);
    }
    tx.park_turn(turn, epoch, pause.wake_at, worked_ms)?;
    faults::at(Point::EngineParkWritten);
    Ok(true)
}

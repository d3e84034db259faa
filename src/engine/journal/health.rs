//! What operators ask the engine: the time, how it is, what it counts, whether it can write.

use serde_json::Value;

use crate::domain::{Error, Timestamp};
use crate::engine::Engine;
use crate::engine::telling::figures::Family;
use crate::engine::telling::metrics::TurnsInMemory;
use crate::engine::telling::view::Health;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::record::StoredReply;

impl Engine {
    /// The time, by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// What `GET /health` shows.
    ///
    /// # Errors
    /// The store's.
    pub async fn health(&self) -> Result<Health, Error> {
        let totals = self.store.upkeep().totals().await?;
        // Before the slots are locked: whoever locks both has the turns first.
        let (running_workers, queued) = self.placement.count_places();
        Ok(Health {
            max_workers: self.settings.workers,
            running_workers,
            queued,
            total_sessions: totals.sessions,
            audit: totals.audit,
            held: self.placement.held_turns().1,
            unstored: self.journal.outage.turns(),
            servers: self.store.membership().map(|membership| membership.servers()),
        })
    }

    /// All figures, those of one subject together.
    ///
    /// # Errors
    /// The store's.
    pub async fn figures(&self) -> Result<Vec<Family>, Error> {
        let (all, paused) = self.placement.count();
        let turns = TurnsInMemory { all, paused, held: self.placement.held_turns().0 };
        self.telling.figures(&self.health().await?, turns).await
    }

    /// Writes to the store; `Ok` once that is durable, and where turns that begin here get a worker.
    ///
    /// # Errors
    /// The store's; [`Error::WorkersFail`]; [`Error::ShuttingDown`].
    pub async fn check_ready(&self) -> Result<(), Error> {
        if self.is_stopping() {
            return Err(Error::ShuttingDown);
        }
        // A row of its own, with another time in it each time: what changes nothing is not written, and says nothing.
        let row = StoredReply { request_digest: String::new(), body: Value::Null, created_at: self.now() };
        self.store.transact(About::Nothing, move |tx| tx.insert_reply("ready", "", &row)).await?;
        if self.placement.has_workers() { Ok(()) } else { Err(Error::WorkersFail) }
    }
}

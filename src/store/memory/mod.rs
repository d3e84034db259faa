//! The store that is gone with its process: `--store memory`, and tests.
//!
//! One lock stands for the one transaction at a time; a job runs while its caller holds it. What a job did is noted in
//! reverse as it happens, and undone when the job fails.

mod asked;
mod carried;
mod graphs;
mod outbox;
pub(super) mod state;
pub(super) mod transaction;
mod turns;
mod upkeep;

use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use super::about::About;
use super::clock::{Clock, WallClock};
use super::upkeep::{LocalStore, Upkeep, UpkeepReadJob, UpkeepWriteJob};
use super::{BoxFuture, ReadJob, Store, WriteJob, guard};
use crate::domain::{Error, StoreId};
use crate::faults;
use state::MemoryState;
use transaction::MemoryTransaction;

/// See the module.
pub struct MemoryStore {
    /// `None` once the store is closed.
    state: Mutex<Option<MemoryState>>,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_clock(Arc::new(WallClock))
    }
}

impl MemoryStore {
    /// A store in which it is as late as `clock` says.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let state = MemoryState::new(StoreId(Uuid::new_v4()), Arc::clone(&clock));
        Self { state: Mutex::new(Some(state)), clock }
    }

    fn with_state(
        &self,
        job: impl FnOnce(&mut MemoryState) -> Result<(), Error>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let outcome = match self.state.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(state) => job(state),
            None => Err(Error::StoreUnavailable("the store is closed".to_owned())),
        };
        Box::pin(std::future::ready(outcome))
    }
}

impl MemoryStore {
    /// Runs a job in a transaction, or in two where a test wants that.
    fn with_transaction(
        &self,
        job: impl Fn(&mut MemoryTransaction<'_>) -> Result<(), Error>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        self.with_state(|state| {
            if faults::refuses_once() {
                let mut refused = MemoryTransaction::new(state);
                drop(guard(|| job(&mut refused)));
                refused.undo();
            }
            let mut transaction = MemoryTransaction::new(state);
            let outcome = guard(|| job(&mut transaction));
            if outcome.is_err() {
                transaction.undo();
            }
            outcome
        })
    }
}

impl Store for MemoryStore {
    fn write(&self, _about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.with_transaction(|transaction| job(transaction))
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.with_state(|state| {
            let state: &MemoryState = state;
            guard(|| job(state))
        })
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        drop(self.state.lock().unwrap_or_else(PoisonError::into_inner).take());
        Box::pin(std::future::ready(Ok(())))
    }
}

impl LocalStore for MemoryStore {
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.with_transaction(|transaction| job(transaction))
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.with_state(|state| {
            let state: &MemoryState = state;
            guard(|| job(state))
        })
    }
}

//! What changes sessions and their turns, each in one transaction, and what is read of them.

pub(super) mod access_elsewhere;
pub mod answers;
pub(super) mod append;
pub mod audit;
mod closing;
pub(super) mod due;
pub mod giving_up;
pub(super) mod grants;
pub mod health;
pub(super) mod host;
pub mod messages;
pub(super) mod others;
pub(super) mod outage;
pub(super) mod parking;
pub(super) mod prechecks;
pub(super) mod records;
pub(super) mod recovery;
pub mod retry;
pub(super) mod routing;
pub mod runs;
pub mod sessions;
pub(super) mod sweeper;
pub mod timeline;
pub mod transfers;
pub mod triage;
pub(super) mod turn_claims;
pub mod turns;
pub(super) mod unreadable;

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::engine::alarm::Alarm;
use outage::Outage;

/// What the journal has in memory, beside what is in the store.
pub(super) struct JournalState {
    /// Rings when something is due.
    alarm: Alarm,
    /// Whose words wait for the store.
    outage: Outage,
    /// Who may look at answers and questions that take their time, at once.
    prechecking: Arc<Semaphore>,
    /// Whoever searches, alone.
    searching: Arc<tokio::sync::Mutex<()>>,
    /// Whoever parks does it alone, until the workers know.
    parking: tokio::sync::Mutex<()>,
}

impl Default for JournalState {
    fn default() -> Self {
        Self {
            alarm: Alarm::default(),
            outage: Outage::default(),
            prechecking: Arc::new(Semaphore::new(*prechecks::PROCESSORS)),
            searching: Arc::default(),
            parking: tokio::sync::Mutex::default(),
        }
    }
}

#[cfg(test)]
impl JournalState {
    pub(super) fn prechecking(&self) -> &Arc<Semaphore> {
        &self.prechecking
    }
}

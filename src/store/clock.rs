//! What the time is. Whoever compares times with others has to take them from one clock; so a store says which.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::Timestamp;

/// What tells the time.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
}

/// The clock of this machine: of a store that is on it, and of nobody else.
#[derive(Debug, Clone, Copy)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }
}

//! The one place that reads the wall clock and draws ids.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::domain::{GrantId, InterruptId, SessionId, Timestamp, TurnId};

/// The time.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// A new session's id.
pub fn session_id() -> SessionId {
    SessionId(Uuid::now_v7())
}

/// A new turn's id.
pub fn turn_id() -> TurnId {
    TurnId(Uuid::now_v7())
}

/// A new interrupt's id.
pub fn interrupt_id() -> InterruptId {
    InterruptId(Uuid::now_v7())
}

/// A new grant's id.
pub fn grant_id() -> GrantId {
    GrantId(Uuid::now_v7())
}

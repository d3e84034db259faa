//! Where a session, a turn, an interrupt and a notice stand: words that errors, events and webhooks say too.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What clients see of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waiting for a message.
    Idle,
    /// A turn is at work or queued.
    Running,
    /// A turn waits for at least one answer.
    Interrupted,
    /// The last turn failed.
    Error,
}

impl Status {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Idle, Self::Running, Self::Interrupted, Self::Error].into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where an interrupt stands. Only `pending` can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptStatus {
    /// Waits for an answer.
    Pending,
    /// Somebody answered.
    Resolved,
    /// Nobody did in time.
    Expired,
    /// The agent withdrew it, or its turn ended without it.
    Cancelled,
}

impl InterruptStatus {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved, Self::Expired, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// Where a notice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeStatus {
    /// A reminder whose time has not come.
    Scheduled,
    /// To be delivered: for the first time, again, or after those before it.
    Pending,
    /// The receiver took it.
    Delivered,
    /// Given up after the last try.
    Failed,
}

impl NoticeStatus {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Scheduled, Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

impl fmt::Display for NoticeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a turn stands, as an error says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// It is open, and not parked.
    UnderWay,
    /// It waits, and is in nobody's memory.
    Parked,
    /// It failed, and can be taken up again.
    Suspended,
    /// It is over.
    Ended,
}

impl fmt::Display for TurnStatus {
    /// What comes after "the turn".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnderWay => "is under way",
            Self::Parked => "is parked",
            Self::Suspended => "is suspended",
            Self::Ended => "has ended",
        })
    }
}

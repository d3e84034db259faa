//! Rows that are no domain objects.

use std::sync::Arc;

use crate::domain::journal::CodeVersion;
use crate::domain::message::ChatMessage;
use crate::domain::webhook::Webhook;
use crate::domain::{InterruptId, SessionId, Timestamp, TurnId};

/// A turn's row.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Whose.
    pub session_id: SessionId,
    /// The message that started it.
    pub message: Arc<ChatMessage>,
    /// Whom to tell of its end.
    pub webhook: Option<Webhook>,
    /// How often it was claimed.
    pub epoch: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended or was suspended; `None` while it is open.
    pub ended_at: Option<Timestamp>,
    /// No process holds it, and none will before something wakes it.
    pub parked: bool,
    /// When the earliest timer of a parked turn is due.
    pub wake_at: Option<Timestamp>,
    /// How often it was taken over because its worker was lost.
    pub recoveries: u32,
    /// How long it has worked, in milliseconds, up to its last parking: what `--timeout` is counted against.
    pub worked_ms: u64,
    /// Where it first did something that is not journaled, such as raw I/O.
    pub impure_at: Option<String>,
    /// What replays had to say about it.
    pub warnings: Vec<String>,
    /// The code under which it failed in a way that other code, or a request, can mend. Such a turn is suspended:
    /// closed like one that has ended, but its journal is kept and it can be reopened.
    pub suspended_code: Option<CodeVersion>,
    /// The name of the key that sent its message; `None` where nobody was asked for one.
    pub sent_by: Option<String>,
}

impl Turn {
    /// A turn that nobody has claimed yet.
    pub fn new(
        id: TurnId,
        session_id: SessionId,
        message: impl Into<Arc<ChatMessage>>,
        webhook: Option<Webhook>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            session_id,
            message: message.into(),
            webhook,
            epoch: 0,
            created_at,
            ended_at: None,
            parked: false,
            wake_at: None,
            recoveries: 0,
            worked_ms: 0,
            impure_at: None,
            warnings: Vec::new(),
            suspended_code: None,
            sent_by: None,
        }
    }
}

impl Turn {
    /// See [`super::Transaction::note_turn`].
    pub(super) fn note(&mut self, impure_at: Option<String>, warnings: Vec<String>) {
        if self.impure_at.is_none() {
            self.impure_at = impure_at;
        }
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// How many interrupts of a type are pending, by age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCount {
    /// The type.
    pub kind: String,
    /// Asked at most a minute ago, an hour, a day, and before that.
    pub by_age: [u64; 4],
}

impl PendingCount {
    /// Where the ages part, in seconds.
    pub const AGES: [f64; 3] = [60.0, 3600.0, 86_400.0];

    /// The times after which they were asked, for each age but the last.
    pub(super) fn bounds(now: Timestamp) -> [Timestamp; 3] {
        Self::AGES.map(|seconds| now.plus_seconds(-seconds))
    }
}

/// Something whose time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: DueWhat,
}

/// See [`Due`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueWhat {
    /// A pending interrupt expires.
    Interrupt(InterruptId),
    /// A timer of a parked turn is to fire.
    Timers(TurnId),
}

/// The reply that a request with an idempotency key got.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReply {
    /// The digest of the request's body.
    pub request_digest: String,
    /// The reply's body.
    pub body: serde_json::Value,
    /// When it was given.
    pub created_at: Timestamp,
}

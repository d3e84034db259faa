//! Rows that are no domain objects.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::cluster::routing::TurnCode;
use crate::domain::message::ChatMessage;
use crate::domain::turn::Life;
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
    /// When it began.
    pub created_at: Timestamp,
    /// How it stands.
    pub life: Life,
    /// Where it first did something that is not journaled, such as raw I/O.
    pub impure_at: Option<String>,
    /// What replays had to say about it.
    pub warnings: Vec<String>,
    /// The name of the key that sent its message; `None` where nobody was asked for one.
    pub sent_by: Option<String>,
    /// Which servers go on with it first. A store that one process has for itself keeps none.
    pub code: TurnCode,
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
            created_at,
            life: Life::default(),
            impure_at: None,
            warnings: Vec::new(),
            sent_by: None,
            code: TurnCode::default(),
        }
    }
}

impl Turn {
    /// See [`super::turns::TurnWriter::note_turn`].
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
    pub what: DueKind,
}

/// See [`Due`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DueKind {
    /// A pending interrupt expires.
    Interrupt(InterruptId),
    /// A timer of a parked turn is to fire.
    Timers(TurnId),
}

/// A suspended turn, as a start with other code finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriableTurn {
    /// Its place in the order of arrival.
    pub place: u64,
    /// Which.
    pub turn: TurnId,
    /// Whose.
    pub session: SessionId,
    /// The code of the failure of its session, where that has one.
    pub failure_code: Option<String>,
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

/// The number of an event that a transaction has written. One that a single process writes knows it at once; a store that
/// many share counts only what is durable, and fills it in before the write is said to be done.
#[derive(Clone, Default)]
pub struct EventNumber(Arc<AtomicU64>);

impl EventNumber {
    /// The number; 0 while nobody knows it.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// It is known now.
    pub(super) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }
}

impl From<u64> for EventNumber {
    fn from(number: u64) -> Self {
        Self(Arc::new(AtomicU64::new(number)))
    }
}

impl PartialEq for EventNumber {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for EventNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

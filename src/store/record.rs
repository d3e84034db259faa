//! Rows that are no domain objects.

use crate::domain::message::ChatMessage;
use crate::domain::webhook::Webhook;
use crate::domain::{SessionId, Timestamp, TurnId};

/// A turn's row.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Whose.
    pub session_id: SessionId,
    /// The message that started it.
    pub message: ChatMessage,
    /// Whom to tell of its end.
    pub webhook: Option<Webhook>,
    /// How often it was claimed.
    pub epoch: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended; `None` while it is open.
    pub ended_at: Option<Timestamp>,
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

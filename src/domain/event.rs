//! What the outside is told: server-sent events and webhooks are projections of these.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::JsonObject;
use super::id::SessionId;
use super::interrupt::{Interrupt, InterruptStatus};
use super::session::Status;

/// A stored event, in the one order of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `session.running`, `interrupt.created` and so on.
    pub name: String,
    /// Whose.
    pub session_id: SessionId,
    /// What goes out as JSON `data`; always with `session_id`.
    pub data: JsonObject,
}

/// An event with its number, which is the `id:` of server-sent events; larger is later.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedEvent {
    /// Its number.
    pub number: u64,
    /// The event.
    pub event: Event,
}

impl Event {
    /// The session's status is another one.
    pub fn session(session_id: SessionId, status: Status, error: Option<&str>) -> Self {
        let mut data = members(json!({"session_id": session_id, "status": status}));
        if let Some(error) = error {
            data.insert("error".to_owned(), Value::from(error));
        }
        Self { name: format!("session.{status}"), session_id, data }
    }

    /// An interrupt was opened or settled; `data` is its record.
    pub fn interrupt(interrupt: &Interrupt) -> Self {
        let what = match interrupt.status {
            InterruptStatus::Pending => "created",
            InterruptStatus::Resolved => "resolved",
            InterruptStatus::Expired => "expired",
            InterruptStatus::Cancelled => "cancelled",
        };
        Self { name: format!("interrupt.{what}"), session_id: interrupt.session_id, data: members(json!(interrupt)) }
    }

    /// A piece of a message as the model says it; never stored.
    pub fn delta(session_id: SessionId, step_id: &str, attempt: u32, delta: Value) -> Self {
        Self {
            name: "message.delta".to_owned(),
            session_id,
            data: members(json!({"session_id": session_id, "step_id": step_id, "attempt": attempt, "delta": delta})),
        }
    }
}

fn members(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

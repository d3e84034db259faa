//! What the outside is told: server-sent events and webhooks are projections of these.

use serde_json::{Value, json};

use super::JsonObject;
use super::id::{InterruptId, SessionId};
use super::interrupt::{Interrupt, InterruptStatus};
use super::session::Status;

/// An event as it is stored. It only refers to an interrupt, whose record is looked up when the event is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub session_id: SessionId,
    /// What happened.
    pub what: What,
}

/// See [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The session's status is another one.
    Session {
        /// The new one.
        status: Status,
        /// Why, where it is `error`.
        error: Option<String>,
    },
    /// An interrupt was opened or settled.
    Interrupt {
        /// Which.
        interrupt_id: InterruptId,
        /// Its status from then on.
        status: InterruptStatus,
    },
    /// Somebody works on a pending interrupt, puts it off, or does so no longer.
    Hold {
        /// Which.
        interrupt_id: InterruptId,
        /// What.
        hold: Hold,
    },
}

/// What somebody does with a pending interrupt short of answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Works on it.
    Claimed,
    /// Works on it no longer.
    Released,
    /// Puts it off.
    Snoozed,
    /// Puts it off no longer.
    Unsnoozed,
}

impl Hold {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Released => "released",
            Self::Snoozed => "snoozed",
            Self::Unsnoozed => "unsnoozed",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Claimed, Self::Released, Self::Snoozed, Self::Unsnoozed].into_iter().find(|hold| hold.as_str() == text)
    }
}

/// An event as it goes out.
#[derive(Debug, Clone, PartialEq)]
pub struct EventView {
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
    pub event: EventView,
}

impl Event {
    /// The session's status is another one.
    pub fn session(session_id: SessionId, status: Status, error: Option<&str>) -> Self {
        Self { session_id, what: What::Session { status, error: error.map(str::to_owned) } }
    }

    /// An interrupt was opened or settled.
    pub fn interrupt(interrupt: &Interrupt) -> Self {
        let what = What::Interrupt { interrupt_id: interrupt.interrupt_id, status: interrupt.status };
        Self { session_id: interrupt.session_id, what }
    }

    /// Somebody works on a pending interrupt, puts it off, or does so no longer.
    pub fn hold(interrupt: &Interrupt, hold: Hold) -> Self {
        let what = What::Hold { interrupt_id: interrupt.interrupt_id, hold };
        Self { session_id: interrupt.session_id, what }
    }

    /// As it goes out. `interrupt` is the record of the interrupt that it refers to, as it is now; `None` where it is
    /// gone with its session.
    pub fn view(self, interrupt: Option<Interrupt>) -> EventView {
        let session_id = self.session_id;
        let (name, data) = match self.what {
            What::Session { status, error: None } => {
                (format!("session.{status}"), json!({"session_id": session_id, "status": status}))
            }
            What::Session { status, error: Some(error) } => {
                (format!("session.{status}"), json!({"session_id": session_id, "status": status, "error": error}))
            }
            What::Interrupt { interrupt_id, status } => {
                let word = match status {
                    InterruptStatus::Pending => "created",
                    InterruptStatus::Resolved => "resolved",
                    InterruptStatus::Expired => "expired",
                    InterruptStatus::Cancelled => "cancelled",
                };
                let data = match interrupt {
                    Some(interrupt) => json!(as_it_was(interrupt, status)),
                    None => json!({"session_id": session_id, "interrupt_id": interrupt_id}),
                };
                (format!("interrupt.{word}"), data)
            }
            // A claim ends by itself, so that the record as it is now tells more than the one from then.
            What::Hold { interrupt_id, hold } => {
                let gone = || json!({"session_id": session_id, "interrupt_id": interrupt_id});
                let data = interrupt.map_or_else(gone, |interrupt| json!(interrupt));
                (format!("interrupt.{}", hold.as_str()), data)
            }
        };
        EventView { name, session_id, data: members(data) }
    }
}

impl EventView {
    /// A piece of a message as the model says it; never stored.
    pub fn delta(session_id: SessionId, step_id: &str, attempt: u32, delta: Value) -> Self {
        Self {
            name: "message.delta".to_owned(),
            session_id,
            data: members(json!({"session_id": session_id, "step_id": step_id, "attempt": attempt, "delta": delta})),
        }
    }
}

/// The record when it had that status. An interrupt is settled once, so all that can have come since is the outcome.
fn as_it_was(interrupt: Interrupt, status: InterruptStatus) -> Interrupt {
    match status {
        InterruptStatus::Pending => {
            let asked = Interrupt { status, value: None, resolved_by: None, resolved_at: None, ..interrupt };
            asked.unheld()
        }
        _ => Interrupt { status, ..interrupt },
    }
}

fn members(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

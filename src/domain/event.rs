//! What the outside is told: server-sent events and webhooks are projections of these.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use super::JsonObject;
use super::id::{InterruptId, SessionId};
use super::interrupt::Interrupt;
use super::status::{InterruptStatus, Status};
use super::time::Timestamp;

/// What kind of event: `session.idle`, `interrupt.created` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    /// A session's status is this one now.
    Session(Status),
    /// An interrupt's status is this one now.
    Interrupt(InterruptStatus),
    /// Somebody works on an interrupt, puts it off, or does so no longer. Webhooks are not told.
    Triage(Triage),
}

impl EventName {
    /// All that webhooks can be told of.
    pub const FOR_WEBHOOKS: [Self; 8] = [
        Self::Interrupt(InterruptStatus::Pending),
        Self::Interrupt(InterruptStatus::Resolved),
        Self::Interrupt(InterruptStatus::Expired),
        Self::Interrupt(InterruptStatus::Cancelled),
        Self::Session(Status::Idle),
        Self::Session(Status::Error),
        Self::Session(Status::Interrupted),
        Self::Session(Status::Running),
    ];

    /// Somebody is asked.
    pub const CREATED: Self = Self::Interrupt(InterruptStatus::Pending);

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt(InterruptStatus::Pending) => "interrupt.created",
            Self::Interrupt(InterruptStatus::Resolved) => "interrupt.resolved",
            Self::Interrupt(InterruptStatus::Expired) => "interrupt.expired",
            Self::Interrupt(InterruptStatus::Cancelled) => "interrupt.cancelled",
            Self::Session(Status::Idle) => "session.idle",
            Self::Session(Status::Error) => "session.error",
            Self::Session(Status::Interrupted) => "session.interrupted",
            Self::Session(Status::Running) => "session.running",
            Self::Triage(Triage::Claimed) => "interrupt.claimed",
            Self::Triage(Triage::Released) => "interrupt.released",
            Self::Triage(Triage::Snoozed) => "interrupt.snoozed",
            Self::Triage(Triage::Unsnoozed) => "interrupt.unsnoozed",
        }
    }

    /// Reads the wire form; a bare status, such as `idle`, is that of the session.
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::FOR_WEBHOOKS.into_iter().find(|name| name.as_str() == text);
        named.or_else(|| Status::parse(text).map(Self::Session))
    }

    /// Every spelling that [`EventName::parse`] takes, for messages.
    pub fn known() -> String {
        let bare = Self::FOR_WEBHOOKS.into_iter().filter_map(|name| match name {
            Self::Session(status) => Some(status.as_str()),
            Self::Interrupt(_) | Self::Triage(_) => None,
        });
        Self::FOR_WEBHOOKS.into_iter().map(Self::as_str).chain(bare).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for EventName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format!("must be one of {}", Self::known())))
    }
}

/// An event as it is stored. It only refers to an interrupt, whose record is looked up when the event is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Whose.
    pub session_id: SessionId,
    /// What happened.
    pub what: EventBody,
}

/// See [`StoredEvent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventBody {
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
    Triage {
        /// Which.
        interrupt_id: InterruptId,
        /// What.
        triage: Triage,
    },
}

/// What somebody does with a pending interrupt short of answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Triage {
    /// Works on it.
    Claimed,
    /// Works on it no longer.
    Released,
    /// Puts it off.
    Snoozed,
    /// Puts it off no longer.
    Unsnoozed,
}

impl Triage {
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
        [Self::Claimed, Self::Released, Self::Snoozed, Self::Unsnoozed]
            .into_iter()
            .find(|triage| triage.as_str() == text)
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

impl NumberedEvent {
    /// The first `limit` of events that were stored and of others that are made of journals: of each the first `limit`, in
    /// order. One that tells nothing (`None`) is left out, and nothing is told before what may be between: behind the last of
    /// a list that is full there may be more of it.
    pub fn in_order(events: Vec<Self>, told: Vec<(u64, Option<EventView>)>, limit: usize) -> Vec<Self> {
        if told.is_empty() {
            return events;
        }
        // Where all of them tell nothing, what is behind them has to be told by others.
        let is_told = told.iter().any(|(_, event)| event.is_some());
        let last = told.last().filter(|_| is_told && told.len() >= limit).map_or(u64::MAX, |(number, _)| *number);
        let events = events.into_iter().filter(|event| event.number <= last);
        let told = told.into_iter().filter_map(|(number, event)| Some(Self { number, event: event? }));
        let mut all: Vec<Self> = events.chain(told).collect();
        all.sort_by_key(|event| event.number);
        all.truncate(limit);
        all
    }
}

impl StoredEvent {
    /// The session's status is another one.
    pub fn session(session_id: SessionId, status: Status, error: Option<&str>) -> Self {
        Self { session_id, what: EventBody::Session { status, error: error.map(str::to_owned) } }
    }

    /// An interrupt was opened or settled.
    pub fn interrupt(interrupt: &Interrupt) -> Self {
        let what = EventBody::Interrupt { interrupt_id: interrupt.interrupt_id, status: interrupt.status };
        Self { session_id: interrupt.session_id, what }
    }

    /// Somebody works on a pending interrupt, puts it off, or does so no longer.
    pub fn triage(interrupt: &Interrupt, triage: Triage) -> Self {
        let what = EventBody::Triage { interrupt_id: interrupt.interrupt_id, triage };
        Self { session_id: interrupt.session_id, what }
    }

    /// What kind it is.
    pub fn name(&self) -> EventName {
        match &self.what {
            EventBody::Session { status, .. } => EventName::Session(*status),
            EventBody::Interrupt { status, .. } => EventName::Interrupt(*status),
            EventBody::Triage { triage, .. } => EventName::Triage(*triage),
        }
    }

    /// As it goes out. `interrupt` is the record of the interrupt that it refers to, as it is now; `None` where it is
    /// gone with its session.
    pub fn view(self, interrupt: Option<Interrupt>) -> EventView {
        let session_id = self.session_id;
        let name = self.name().to_string();
        let data = match self.what {
            EventBody::Session { status, error: None } => json!({"session_id": session_id, "status": status}),
            EventBody::Session { status, error: Some(error) } => {
                json!({"session_id": session_id, "status": status, "error": error})
            }
            EventBody::Interrupt { interrupt_id, status } => match interrupt {
                Some(interrupt) => json!(as_it_was(interrupt, status)),
                None => json!({"session_id": session_id, "interrupt_id": interrupt_id}),
            },
            // A claim ends by itself, so that the record as it is now tells more than the one from then.
            EventBody::Triage { interrupt_id, .. } => {
                let gone = || json!({"session_id": session_id, "interrupt_id": interrupt_id});
                interrupt.map_or_else(gone, |interrupt| json!(interrupt))
            }
        };
        EventView { name, session_id, data: members(data) }
    }
}

impl EventView {
    /// As it is to be told at `now`: see [`Interrupt::as_of`]. What a claim came to may be told long after it.
    pub fn as_of(mut self, now: Timestamp) -> Self {
        if !self.name.starts_with("interrupt.") {
            return self;
        }
        let time = |name: &str| self.data.get(name).and_then(Value::as_str).and_then(Timestamp::parse);
        let is_pending = self.data.get("status").and_then(Value::as_str) == Some(InterruptStatus::Pending.as_str());
        let is_due = time("expires_at").is_some_and(|at| at <= now);
        let lasts = |until: &str| is_pending && time(until).is_some_and(|at| now < at);
        let (is_claimed, is_snoozed) = (lasts("claimed_until") && !is_due, lasts("snoozed_until"));
        self.data.retain(|name, _| match name.as_str() {
            "claimed_by" | "claimed_until" => is_claimed,
            "snoozed_by" | "snoozed_until" => is_snoozed,
            _ => true,
        });
        self
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

/// The record when it had that status. An interrupt is settled once, so all that can have come since is the outcome.
fn as_it_was(interrupt: Interrupt, status: InterruptStatus) -> Interrupt {
    match status {
        InterruptStatus::Pending => {
            let asked = Interrupt { status, value: None, resolved_by: None, resolved_at: None, ..interrupt };
            asked.untriaged()
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::TurnId;
    use crate::domain::interrupt::Opening;

    #[test]
    fn every_name_reads_back_and_a_bare_status_is_that_of_the_session() {
        for name in EventName::FOR_WEBHOOKS {
            assert_eq!(EventName::parse(name.as_str()), Some(name));
        }
        assert_eq!(EventName::parse("idle"), Some(EventName::Session(Status::Idle)));
        for text in ["", "pending", "created", "interrupt.pending", "session.", "Session.idle", "idle "] {
            assert_eq!(EventName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_claim_that_is_over_is_not_told_of() {
        let at = Timestamp::from_millis;
        let ask = serde_json::from_value(json!({"type": "free", "payload": {"n": 1}, "expires_in": 60})).unwrap();
        let opening = Opening {
            id: InterruptId(Uuid::from_u128(3)),
            session: SessionId(Uuid::from_u128(1)),
            turn: TurnId(Uuid::from_u128(2)),
            now: at(0),
            default_ttl: 0.0,
            max_payload: 1000,
        };
        let asked = Interrupt::opened(ask, opening).unwrap();
        let claimed = asked.claim("ada", 10.0, at(0)).unwrap();
        let both = claimed.snooze(Some("bob"), 20.0, at(0)).unwrap();
        let settled = Interrupt { status: InterruptStatus::Resolved, ..both.clone() };
        for (interrupt, triage) in [
            (&asked, Triage::Released),
            (&claimed, Triage::Claimed),
            (&both, Triage::Snoozed),
            (&settled, Triage::Claimed),
        ] {
            for now in [0, 9_999, 10_000, 19_999, 20_000, 59_999, 60_000].map(at) {
                let told = StoredEvent::triage(interrupt, triage).view(Some(interrupt.clone())).as_of(now);
                assert_eq!(json!(told.data), json!(interrupt.clone().as_of(now)), "{triage:?} {now}");
            }
        }
        let gone = StoredEvent::triage(&asked, Triage::Claimed).view(None);
        assert_eq!(gone.clone().as_of(at(0)), gone);
    }

    #[test]
    fn what_a_webhook_wanted_before_there_were_names_is_still_read() {
        let wanted: Vec<EventName> = serde_json::from_str(r#"["idle", "session.error"]"#).unwrap();
        assert_eq!(wanted, [EventName::Session(Status::Idle), EventName::Session(Status::Error)]);
        assert_eq!(json!(wanted), json!(["session.idle", "session.error"]));
    }

    #[test]
    fn nothing_is_told_before_what_may_be_between() {
        let view = || EventView::delta(SessionId(uuid::Uuid::from_u128(1)), "s", 1, json!({}));
        let stored = |numbers: &[u64]| {
            numbers.iter().map(|number| NumberedEvent { number: *number, event: view() }).collect::<Vec<_>>()
        };
        let told = |numbers: &[u64]| {
            // The tenth cannot be read.
            numbers.iter().map(|number| (*number, (*number != 10).then(view))).collect::<Vec<_>>()
        };
        let numbers = |events: Vec<NumberedEvent>| events.iter().map(|event| event.number).collect::<Vec<_>>();
        let in_order = |events, entries, limit| numbers(NumberedEvent::in_order(stored(events), told(entries), limit));
        assert_eq!(in_order(&[14, 15], &[10, 11], 2), [11], "12 and 13 may be there as well");
        assert_eq!(in_order(&[12, 15], &[11], 2), [11, 12]);
        assert_eq!(in_order(&[14, 15], &[10], 2), [14, 15]);
        assert_eq!(in_order(&[14], &[], 2), [14]);
    }
}

//! Notices: what is told to a webhook, from the moment that it is owed until it is delivered or given up.
//!
//! A notice is written in the transaction of its event. Those of one session to one address form a lane: only the first
//! that is not settled is due, so that they arrive in order. A reminder is a notice that waits beside its lane until its
//! time comes, and joins it then if the interrupt still waits.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use super::error::Error;
use super::event::EventName;
use super::id::{InterruptId, SessionId};
use super::interrupt::Interrupt;
use super::status::NoticeStatus;
use super::time::Timestamp;
use super::webhook::Webhook;

/// How long one try is nobody else's, in seconds; longer than a try can take.
pub const LEASE: f64 = 60.0;
/// How long, at most, until a reminder that was put off is looked at again, in seconds.
const LOOK_AGAIN: f64 = 3600.0;
/// The longest pause between two reminders.
const LONGEST_REMINDER: f64 = 24.0 * 3600.0;
/// Pauses between tries in seconds, the last of which repeats: about ten minutes for as many tries.
const PAUSES: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0];
/// The most of an error that is kept, in characters.
const LONGEST_ERROR: usize = 300;
/// What stands before the origin of an address that only a client has named. No origin begins so.
const OF_CLIENT: &str = "client ";

/// The `webhook-id` of a notice: `msg_<uuid>`, and `msg_<uuid>_r<n>` for the n-th reminder of it. The same in all tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoticeId {
    /// Drawn when the event happened.
    pub event: Uuid,
    /// Which reminder; 0 for the notice itself.
    pub reminder: u32,
}

impl fmt::Display for NoticeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{}", self.event.simple())?;
        if self.reminder > 0 { write!(f, "_r{}", self.reminder) } else { Ok(()) }
    }
}

/// A text that is no [`NoticeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANoticeId;

impl FromStr for NoticeId {
    type Err = NotANoticeId;

    fn from_str(text: &str) -> Result<Self, NotANoticeId> {
        let rest = text.strip_prefix("msg_").ok_or(NotANoticeId)?;
        let (event, reminder) = match rest.split_once("_r") {
            Some((event, reminder)) => (event, reminder.parse().map_err(|_| NotANoticeId)?),
            None => (rest, 0),
        };
        let id = Self { event: Uuid::try_parse(event).map_err(|_| NotANoticeId)?, reminder };
        // One way to write it.
        if id.to_string() == text { Ok(id) } else { Err(NotANoticeId) }
    }
}

impl Serialize for NoticeId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing to tell one webhook.
#[derive(Clone, PartialEq)]
pub struct Notice {
    /// See [`NoticeId`].
    pub id: NoticeId,
    /// Whose event it was; the session may be gone since.
    pub session_id: SessionId,
    /// The interrupt that it is about.
    pub interrupt_id: Option<InterruptId>,
    /// Which event.
    pub event: EventName,
    /// Where to.
    pub url: String,
    /// Whether only a client has named the address: it is none of the server's own webhooks.
    pub is_of_client: bool,
    /// Sent as `Authorization: Bearer <token>`.
    pub token: Option<String>,
    /// The exact body, the same in all tries; `None` once it is delivered.
    pub body: Option<String>,
    /// Where it stands.
    pub status: NoticeStatus,
    /// When the event happened; of a reminder, when it was scheduled.
    pub created_at: Timestamp,
    /// When it is to be tried, or how long the try at work is nobody else's; `None` while one before it is not settled, and
    /// once it is settled itself.
    pub due_at: Option<Timestamp>,
    /// Whether a try is at work.
    pub leased: bool,
    /// How many tries were begun.
    pub attempts: u32,
    /// What came of the last one that failed.
    pub last_error: Option<String>,
    /// When it was delivered or given up.
    pub settled_at: Option<Timestamp>,
}

impl fmt::Debug for Notice {
    // The token, the messages, and what a URL may hold stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice")
            .field("id", &self.id.to_string())
            .field("event", &self.event.as_str())
            .field("status", &self.status)
            .field("due_at", &self.due_at)
            .field("leased", &self.leased)
            .field("attempts", &self.attempts)
            .field("last_error", &self.last_error)
            .field("settled_at", &self.settled_at)
            .finish_non_exhaustive()
    }
}

/// How often a notice is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tries {
    /// How often after the first try.
    pub retries: u32,
    /// What the pauses are multiplied by: 1 but in tests.
    pub pace: f64,
}

impl Default for Tries {
    fn default() -> Self {
        Self { retries: PAUSES.len() as u32, pace: 1.0 }
    }
}

impl Tries {
    /// How long to wait after so many tries, in seconds; `None` when that was the last.
    pub fn pause_after(&self, attempts: u32) -> Option<f64> {
        if attempts > self.retries {
            return None;
        }
        let place = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX).min(PAUSES.len() - 1);
        Some(PAUSES[place] * self.pace)
    }

    /// All pauses together, in seconds; never less than one try may take. Whatever the pace: what is late in a test would else
    /// depend on the machine.
    fn longest(&self) -> f64 {
        let retries = usize::try_from(self.retries).unwrap_or(usize::MAX);
        let (first, last) = (&PAUSES[..retries.min(PAUSES.len())], PAUSES[PAUSES.len() - 1]);
        let again = retries.saturating_sub(PAUSES.len()) as f64 * last;
        (first.iter().sum::<f64>() + again).max(LEASE)
    }
}

/// The body of an interrupt's event, after Standard Webhooks; a reminder says which one it is.
pub fn interrupt_body(event: EventName, interrupt: &Interrupt, reminder: u32, now: Timestamp) -> Value {
    let mut body = serde_json::json!({"type": event, "timestamp": now, "data": interrupt.clone().as_of(now)});
    if reminder > 0 {
        body["reminder"] = Value::from(reminder);
    }
    body
}

/// Scheme, host and port of the URL: whose server it is.
pub fn origin(url: &str) -> String {
    // What is no URL is refused long before, and its own server if it ever gets here.
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

/// Whether an origin, as [`Notice::origin`] has it, has the mark of those that only clients have named.
pub fn is_of_client(origin: &str) -> bool {
    origin.starts_with(OF_CLIENT)
}

impl Notice {
    /// What `webhook`, one of the server's own, is told of an event that has just happened. Not due before
    /// [`Notice::first_in_lane`] says so.
    pub fn new(
        event_id: Uuid,
        session_id: SessionId,
        interrupt_id: Option<InterruptId>,
        event: EventName,
        webhook: &Webhook,
        body: &Value,
        now: Timestamp,
    ) -> Self {
        Self {
            id: NoticeId { event: event_id, reminder: 0 },
            session_id,
            interrupt_id,
            event,
            url: webhook.url.clone(),
            is_of_client: false,
            token: webhook.token.clone(),
            body: Some(body.to_string()),
            status: NoticeStatus::Pending,
            created_at: now,
            due_at: None,
            leased: false,
            attempts: 0,
            last_error: None,
            settled_at: None,
        }
    }

    /// The same, where only a client has named the address.
    pub fn of_client(self) -> Self {
        Self { is_of_client: true, ..self }
    }

    /// The same, due: nothing before it in its lane is left.
    pub fn first_in_lane(self, now: Timestamp) -> Self {
        Self { due_at: Some(now), ..self }
    }

    /// The same, and another one than before to whoever has read it and is about to write it: due, or leased, a moment longer.
    pub fn stirred(self) -> Self {
        let due_at = self.due_at.map(|at| Timestamp::from_millis(at.millis() + 1));
        Self { due_at, ..self }
    }

    /// A try begins: until the lease is over nobody else makes one.
    pub fn leased(self, now: Timestamp) -> Self {
        Self { leased: true, attempts: self.attempts + 1, due_at: Some(now.plus_seconds(LEASE)), ..self }
    }

    /// Whether a try that was the `attempt`-th is still the one at work.
    pub fn is_leased_for(&self, attempt: u32) -> bool {
        self.status == NoticeStatus::Pending && self.leased && self.attempts == attempt
    }

    /// The receiver took it.
    pub fn delivered(self, now: Timestamp) -> Self {
        Self { body: None, last_error: None, ..self.settled(NoticeStatus::Delivered, now) }
    }

    /// A try failed: it is tried again later, or given up. What has waited behind others for as long as tries may take has no
    /// more than one: a lane to a receiver that is gone would else be left ever more slowly than it grows.
    pub fn failed(self, error: &str, tries: &Tries, now: Timestamp) -> Self {
        // One that somebody has tried again failed before.
        let is_first = self.attempts == 1 && self.last_error.is_none();
        let is_late = is_first && now > self.created_at.plus_seconds(tries.longest());
        let last_error = Some(error.chars().take(LONGEST_ERROR).collect());
        match tries.pause_after(self.attempts).filter(|_| !is_late) {
            Some(pause) => Self { leased: false, due_at: Some(now.plus_seconds(pause)), last_error, ..self },
            None => Self { last_error, ..self.settled(NoticeStatus::Failed, now) },
        }
    }

    /// One that was given up is to be tried again, as often as a new one, in its old place.
    ///
    /// # Errors
    /// [`Error::NoticeNotFailed`].
    pub fn retried(self) -> Result<Self, Error> {
        match self.status {
            NoticeStatus::Failed => {
                Ok(Self { status: NoticeStatus::Pending, attempts: 0, settled_at: None, due_at: None, ..self })
            }
            other => Err(Error::NoticeNotFailed(other)),
        }
    }

    /// Whether it is delivered or given up.
    pub fn is_settled(&self) -> bool {
        self.settled_at.is_some()
    }

    /// The reminder that comes after this notice of an interrupt that was opened, or after this reminder: the first after
    /// `remind_after` seconds, and then after twice as long each time, up to a day.
    pub fn reminder(&self, remind_after: f64, now: Timestamp) -> Self {
        let reminder = self.id.reminder.saturating_add(1);
        let pause = remind_after * f64::from(reminder - 1).exp2();
        Self {
            id: NoticeId { reminder, ..self.id },
            status: NoticeStatus::Scheduled,
            body: None,
            created_at: now,
            due_at: Some(now.plus_seconds(pause.min(LONGEST_REMINDER.max(remind_after)))),
            leased: false,
            attempts: 0,
            last_error: None,
            settled_at: None,
            ..self.clone()
        }
    }

    /// What becomes of a scheduled reminder whose time has come. `is_suspended`: whether the turn of its interrupt is, so
    /// that nobody can answer before it is taken up again.
    pub fn remind(self, interrupt: Option<&Interrupt>, is_suspended: bool, now: Timestamp) -> Reminded {
        let look_again = now.plus_seconds(LOOK_AGAIN);
        match interrupt.filter(|interrupt| interrupt.is_pending() && !interrupt.is_due(now)) {
            None => Reminded::Nothing,
            Some(_) if is_suspended => Reminded::Later(Box::new(Self { due_at: Some(look_again), ..self })),
            // Whoever put it off may take that back.
            Some(Interrupt { snoozed_until: Some(until), .. }) if *until > now => {
                Reminded::Later(Box::new(Self { due_at: Some(look_again.min(*until)), ..self }))
            }
            Some(interrupt) => {
                let body = interrupt_body(self.event, interrupt, self.id.reminder, now).to_string();
                Reminded::Told(Box::new(Self {
                    status: NoticeStatus::Pending,
                    body: Some(body),
                    created_at: now,
                    due_at: None,
                    ..self
                }))
            }
        }
    }

    /// Scheme, host and port of the URL: whose server it is. With a mark where only a client has named the address: it may
    /// be at the operator's host, and is another receiver than the operator's there.
    pub fn origin(&self) -> String {
        let origin = origin(&self.url);
        if self.is_of_client { format!("{OF_CLIENT}{origin}") } else { origin }
    }

    /// The URL without what may be secret in it: no user, no query.
    pub fn shown_url(&self) -> String {
        match Url::parse(&self.url) {
            Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
            Err(_) => "?".to_owned(),
        }
    }

    fn settled(self, status: NoticeStatus, now: Timestamp) -> Self {
        Self { status, due_at: None, leased: false, settled_at: Some(now), ..self }
    }
}

/// See [`Notice::remind`].
#[derive(Debug, PartialEq)]
pub enum Reminded {
    /// Nobody waits any more.
    Nothing,
    /// Somebody put the interrupt off, or nobody can answer it now: it is looked at again then.
    Later(Box<Notice>),
    /// It joins its lane.
    Told(Box<Notice>),
}

#[cfg(test)]
mod tests;

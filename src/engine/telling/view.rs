//! What the engine hands out and takes in besides domain objects.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::domain::audit::Head;
use crate::domain::error::LocSegment;
use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::message::ChatMessage;
use crate::domain::policy::Rule;
use crate::domain::session::Session;
use crate::domain::status::Status;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId};
use crate::engine::ports::held::{HeldTurn, Holder};
use crate::engine::telling::passing::PassingEvent;
use crate::store::Reader;
use crate::store::record::Turn;
use crate::store::shared::servers::ServerSnapshot;

/// A session with its pending interrupts, read in one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Its pending interrupts in order of arrival; empty unless it is interrupted.
    pub interrupts: Vec<Interrupt>,
    /// What is to be said about replays of its newest turn, if anything is.
    pub replay: Option<ReplayNotes>,
}

/// What is to be said about replays of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayNotes {
    /// Where the turn first did something that is not in its journal; `None` for a purely journaled turn.
    pub impure_at: Option<String>,
    /// Where a replay differed harmlessly from what was recorded.
    pub warnings: Vec<String>,
    /// What a replay that is under way waits for, where it does so for long.
    pub waits_for: Vec<Holder>,
}

impl ReplayNotes {
    /// The notes of a turn, if there are any.
    pub fn of(turn: Turn) -> Option<Self> {
        let notes = Self { impure_at: turn.impure_at, warnings: turn.warnings, waits_for: Vec::new() };
        (notes.impure_at.is_some() || !notes.warnings.is_empty()).then_some(notes)
    }
}

/// What a session begins with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewSession {
    /// What it remembers.
    pub state: Vec<ChatMessage>,
    /// Its own rules.
    pub rules: Vec<Rule>,
    /// Whom to tell of what happens to it.
    pub webhook: Option<Webhook>,
}

/// One answer as a client posts it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Which interrupt, as the client wrote it.
    pub interrupt_id: String,
    /// With what.
    pub value: Value,
    /// Where the value stood in the request, for errors.
    pub place: Vec<LocSegment>,
    /// What the client calls itself, for what it has claimed where there are no keys.
    pub said: Option<String>,
    /// The type of which the client takes the interrupt to be, where it says so.
    pub expected_type: Option<String>,
}

/// An `Idempotency-Key` with the digest of the request that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The header.
    pub key: String,
    /// [`crate::domain::digest::of`] the body.
    pub request_digest: String,
}

/// What answering came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// The session.
    pub session_id: crate::domain::SessionId,
    /// Its status afterwards.
    pub status: Status,
    /// Whether every answer of the request had been stored before.
    pub replayed: bool,
}

/// What `GET /health` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// `--workers`.
    pub max_workers: usize,
    /// Turns at work; those that wait for people do not count.
    pub running_workers: usize,
    /// Turns that wait for a worker.
    pub queued: usize,
    /// Sessions of any status.
    pub total_sessions: usize,
    /// Where the audit ends.
    pub audit: Head,
    /// Turns that could rest and are held, the first of them.
    pub held: Vec<HeldTurn>,
    /// Turns whose work waits for the store, which cannot be written.
    pub unstored: usize,
    /// The servers that share the store; `None` where only one has it.
    pub servers: Option<Vec<ServerSnapshot>>,
}

/// A listener's events. Closed by the engine when the listener is too slow (it reconnects with `Last-Event-ID`) and at
/// shutdown.
#[derive(Debug)]
pub struct Subscription {
    /// The number after which it begins: where a listener takes up again who has heard nothing yet.
    pub after: u64,
    /// The events in order.
    pub events: mpsc::Receiver<FeedItem>,
}

/// What a [`Subscription`] yields.
#[derive(Debug, Clone)]
pub enum FeedItem {
    /// A stored event; its number is where a listener takes up again.
    Stored(Arc<NumberedEvent>),
    /// A delta, which is not stored.
    Passing(Arc<PassingEvent>),
}

/// A session as it stands in the store, with what belongs to it.
///
/// # Errors
/// Those of the store.
pub(in crate::engine) fn view_of(reader: &dyn Reader, session: Session) -> Result<SessionView, Error> {
    let pending = if session.status() == Status::Interrupted { reader.pending(session.id)? } else { Vec::new() };
    let now = reader.now();
    let interrupts = pending.into_iter().map(|interrupt| interrupt.as_of(now)).collect();
    let replay = match reader.last_turn(session.id) {
        // The session says what has become of the turn.
        Err(Error::Unreadable(_)) => None,
        read => read?.and_then(ReplayNotes::of),
    };
    Ok(SessionView { session, interrupts, replay })
}

/// A session with its pending interrupts, and the number of its newest event.
pub(in crate::engine) fn view_and_newest(reader: &dyn Reader, id: SessionId) -> Result<(SessionView, u64), Error> {
    // Both are looked for before either is missed: who shares a database asks for both at once then.
    let (event, view) = (reader.last_event_of(id), view(reader, id));
    Ok((view?, event?))
}

/// A session and its pending interrupts.
pub(in crate::engine) fn view(reader: &dyn Reader, id: SessionId) -> Result<SessionView, Error> {
    view_of(reader, reader.session(id)?.ok_or(Error::SessionNotFound)?)
}

//! The engine: load, let the domain decide, persist, then do what is owed.
//!
//! Clients come in through [`Engine`]'s session methods, workers through [`Engine`]'s turn methods; both change a
//! session only inside one store transaction. Whatever others are told (pollers, listeners, workers, webhooks), they are
//! told after the commit.

pub mod dispatch;
pub mod settings;
pub mod turns;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::message::ChatMessage;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId};
use crate::store::query::{InterruptQuery, Page, SessionQuery};
use settings::Settings;
use view::{Answer, Health, IdempotencyKey, Resumed, SessionView};

/// See the module.
pub struct Engine {
    settings: Settings,
}

#[allow(unused_variables, clippy::unused_async, missing_docs)]
impl Engine {
    pub fn settings(&self) -> &Settings { &self.settings }
    pub async fn create_session(self: &Arc<Self>, state: Vec<ChatMessage>) -> Result<SessionView, Error> { Err(Error::ShuttingDown) }
    /// `id` as the client wrote it: checked in CONTRACT section 1's order.
    pub async fn create_session_with_id(self: &Arc<Self>, id: &str, state: Vec<ChatMessage>) -> Result<SessionView, Error> { Err(Error::ShuttingDown) }
    pub async fn sessions(&self, query: SessionQuery) -> Result<Page<crate::domain::session::Session>, Error> { Err(Error::ShuttingDown) }
    pub async fn session(&self, id: SessionId) -> Result<SessionView, Error> { Err(Error::ShuttingDown) }
    /// Blocks while running. `timeout` None: until something happens. SessionDeleted if deleted meanwhile. Returns at shutdown too.
    pub async fn wait(&self, id: SessionId, timeout: Option<Duration>) -> Result<SessionView, Error> { Err(Error::ShuttingDown) }
    pub async fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> { Err(Error::ShuttingDown) }
    pub async fn delete_session(&self, id: SessionId) -> Result<(), Error> { Err(Error::ShuttingDown) }
    pub async fn send_message(self: &Arc<Self>, id: SessionId, message: ChatMessage, webhook: Option<Webhook>, key: Option<IdempotencyKey>) -> Result<(), Error> { Err(Error::ShuttingDown) }
    /// All or nothing. `by`: the name of the key that authenticated, if any.
    pub async fn resume(self: &Arc<Self>, id: SessionId, answers: Vec<Answer>, by: Option<String>, key: Option<IdempotencyKey>) -> Result<Resumed, Error> { Err(Error::ShuttingDown) }
    /// POST /interrupts/{id}/resume
    pub async fn resume_interrupt(self: &Arc<Self>, answer: Answer, by: Option<String>, key: Option<IdempotencyKey>) -> Result<Resumed, Error> { Err(Error::ShuttingDown) }
    pub async fn cancel(&self, id: SessionId) -> Result<SessionView, Error> { Err(Error::ShuttingDown) }
    pub async fn interrupts(&self, query: InterruptQuery) -> Result<Page<Interrupt>, Error> { Err(Error::ShuttingDown) }
    pub async fn interrupt(&self, id: &str) -> Result<Interrupt, Error> { Err(Error::ShuttingDown) }
    /// Events from now on, or after number `after`; `session` None = all (404 for an unknown session is checked first). Ends at shutdown.
    pub async fn subscribe(&self, session: Option<SessionId>, after: Option<u64>) -> Result<view::Subscription, Error> { Err(Error::ShuttingDown) }
    pub async fn health(&self) -> Result<Health, Error> { Err(Error::ShuttingDown) }
    /// A real write to the store; Ok when it is durable.
    pub async fn check_ready(&self) -> Result<(), Error> { Err(Error::ShuttingDown) }
    /// Resolves when the server began to stop.
    pub async fn stopping(&self) {}
    /// Prometheus text.
    pub async fn metrics(&self) -> Result<String, Error> { Err(Error::ShuttingDown) }
}

/// What `Subscription` yields: stored events have a number, deltas do not.
#[derive(Debug, Clone)]
pub enum Heard {
    /// A stored event.
    Stored(Arc<NumberedEvent>),
    /// A delta.
    Passing(Arc<crate::domain::event::Event>),
}

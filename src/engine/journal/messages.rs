//! A message comes in: a turn begins.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::domain::access::Actor;
use crate::domain::message::ChatMessage;
use crate::domain::session::{self, Session};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp};
use crate::engine::placement::turn_claims::TurnClaim;
use crate::engine::placement::turn_queue::NEVER_CLAIMED;
use crate::engine::telling::bells::SessionSnapshot;
use crate::engine::telling::view::{IdempotencyKey, SessionView};
use crate::engine::{Engine, clock, detached};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::{StoredReply, Turn};
use crate::store::{Reader, StoreExt, Transaction};

impl Engine {
    /// Starts a turn with `message` of `actor`, as a part of the span that `traceparent` names: what the session is then, for
    /// whoever waits for what becomes of it. `None` where nothing has happened: with a `key` that was used before for the same
    /// request.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::SessionBusy`], [`Error::OtherAgent`], [`Error::QueueFull`],
    /// [`Error::WebhookRefused`], [`Error::IdempotencyKeyReused`], [`Error::NoWorker`], [`Error::ShuttingDown`].
    pub async fn send_message(
        self: &Arc<Self>,
        id: SessionId,
        message: ChatMessage,
        webhook: Option<Webhook>,
        key: Option<IdempotencyKey>,
        traceparent: Option<String>,
        actor: &Actor,
    ) -> Result<Option<SessionSnapshot>, Error> {
        if let Some(webhook) = &webhook {
            webhook.check(self.settings.webhook_allow_private)?;
        }
        if self.is_stopping() {
            return Err(Error::ShuttingDown);
        }
        let is_run = self.runs_turns() || self.is_run_elsewhere().await?;
        let engine = Arc::clone(self);
        let by = actor.clone();
        // Behind a counter, as what it is for may be written more than once.
        let message = Arc::new(message);
        let written = self.store.transact(About::Session(id), move |tx| {
            let now = tx.now();
            let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
            let scope = reply_scope("messages", &session);
            if stored_reply(tx, &scope, key.as_ref())?.is_some() {
                return Ok(None);
            }
            engine.check_agent(&session)?;
            let turn = clock::turn_id();
            // The domain first: a busy session is a conflict even when the queue is full.
            session.transition(session::Event::MessageReceived { turn }, now)?;
            if !is_run {
                return Err(Error::NoWorker);
            }
            let reservation = engine.placement.reserve(turn)?;
            let mut after_commit = engine.telling.owed_by(&by);
            let sent_by = by.name().map(str::to_owned);
            let row = Turn { sent_by, ..Turn::new(turn, id, Arc::clone(&message), webhook.clone(), now) };
            tx.insert_turn(&row)?;
            let session = after_commit.change(tx, &session, session::Event::MessageReceived { turn }, now)?;
            // A poll is over when the session does not run any more: nobody waits for this.
            after_commit.woken.clear();
            let claim = if reservation.is_here() {
                Some(engine.claim_new(tx, &session, &row, traceparent.clone(), now)?)
            } else {
                engine.leave_new(tx, &session, &row, traceparent.clone(), now)?;
                None
            };
            keep_reply(tx, &scope, key.as_ref(), json!({}), now)?;
            faults::at(Point::EngineMessageWritten);
            let view = SessionView { session, interrupts: Vec::new(), replay: None };
            let sent = SessionSnapshot { turn, event: after_commit.last_event.clone(), view };
            Ok(Some((claim, reservation, after_commit, sent)))
        });
        let engine = Arc::clone(self);
        detached(async move {
            let Some((claim, reservation, after_commit, sent)) = written.await? else { return Ok(None) };
            faults::at(Point::EngineMessageCommitted);
            engine.telling.counters().turn_started();
            engine.telling.run(after_commit);
            let order = claim.and_then(TurnClaim::into_order);
            let begins = reservation.redeem(order.as_ref().map_or(NEVER_CLAIMED, |(order, _)| order.epoch));
            if let Some((order, worked)) = order.filter(|_| begins) {
                engine.start_order(order, worked);
            }
            engine.pump();
            Ok(Some(sent))
        })
        .await
    }
}

/// Where the replies of `session` to one kind of requests are kept. They outlive it, and its id may be given to another
/// one: what was said to that is not said to this.
pub(in crate::engine) fn reply_scope(kind: &str, session: &Session) -> String {
    format!("{kind}:{}:{}", session.id, session.created_at.millis())
}

/// The reply that a request with this key got before.
///
/// # Errors
/// [`Error::IdempotencyKeyReused`] when that was another request.
pub(in crate::engine) fn stored_reply(
    reader: &dyn Reader,
    scope: &str,
    key: Option<&IdempotencyKey>,
) -> Result<Option<Value>, Error> {
    let Some(key) = key else { return Ok(None) };
    match reader.reply(scope, &key.key)? {
        Some(stored) if stored.request_digest == key.request_digest => Ok(Some(stored.body)),
        Some(_) => Err(Error::IdempotencyKeyReused),
        None => Ok(None),
    }
}

/// Keeps the reply to a request with a key.
pub(in crate::engine) fn keep_reply(
    tx: &mut dyn Transaction,
    scope: &str,
    key: Option<&IdempotencyKey>,
    body: Value,
    now: Timestamp,
) -> Result<(), Error> {
    match key {
        Some(key) => {
            let reply = StoredReply { request_digest: key.request_digest.clone(), body, created_at: now };
            tx.insert_reply(scope, &key.key, &reply)
        }
        None => Ok(()),
    }
}

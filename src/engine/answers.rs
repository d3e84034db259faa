//! Answers come in: checked, written, then delivered. All of a request or nothing.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use super::dispatch::Delivery;
use super::messages::{keep_reply, stored_reply};
use super::owed::Owed;
use super::view::{Answer, IdempotencyKey, Resumed};
use super::{Engine, clock, detached};
use crate::domain::error::Place;
use crate::domain::event::Event;
use crate::domain::interrupt::{Answered, Interrupt};
use crate::domain::journal::Entry;
use crate::domain::payload::json_size;
use crate::domain::session::{self, Status};
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::store::{StoreExt, Transaction};

/// What a request's transaction came to.
struct Written {
    resumed: Resumed,
    deliveries: Vec<(TurnId, Delivery)>,
    resolved: Vec<Interrupt>,
    owed: Owed,
}

impl Engine {
    /// Answers interrupts of a session. `by` is the name of the key that authenticated the client.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::UnknownInterrupt`], [`Error::NotInterrupted`], [`Error::InvalidAnswer`],
    /// [`Error::AlreadyResolved`], [`Error::InterruptExpired`], [`Error::InterruptCancelled`],
    /// [`Error::DuplicateAnswer`], [`Error::ValueTooLarge`], [`Error::IdempotencyKeyReused`].
    pub async fn resume(
        self: &Arc<Self>,
        id: SessionId,
        answers: Vec<Answer>,
        by: Option<String>,
        key: Option<IdempotencyKey>,
    ) -> Result<Resumed, Error> {
        let limit = self.settings.max_value;
        for answer in &answers {
            let size = json_size(&answer.value);
            if size > limit {
                return Err(Error::ValueTooLarge { size, limit });
            }
        }
        let written = self.store.transact(move |tx| write_answers(tx, id, answers, by.as_deref(), key));
        let engine = Arc::clone(self);
        detached(async move {
            let written = written.await?;
            engine.deliver_answers(written.deliveries, &written.resolved);
            engine.settle(written.owed);
            Ok(written.resumed)
        })
        .await
    }

    /// Answers one interrupt of whichever session.
    ///
    /// # Errors
    /// Those of [`Engine::resume`].
    pub async fn resume_interrupt(
        self: &Arc<Self>,
        answer: Answer,
        by: Option<String>,
        key: Option<IdempotencyKey>,
    ) -> Result<Resumed, Error> {
        let session = self.interrupt(&answer.interrupt_id).await?.session_id;
        self.resume(session, vec![answer], by, key).await
    }

    fn deliver_answers(self: &Arc<Self>, deliveries: Vec<(TurnId, Delivery)>, resolved: &[Interrupt]) {
        for interrupt in resolved {
            self.counters.answered();
            if let Some(due) = interrupt.expires_at {
                self.deadlines.remove(due, interrupt.interrupt_id);
            }
        }
        for (turn, delivery) in deliveries {
            self.deliver(turn, delivery);
        }
    }

    /// Hands a delivery to a turn, which is at work from now on.
    fn deliver(self: &Arc<Self>, turn: TurnId, delivery: Delivery) {
        if !self.live.deliver(turn, delivery.index(), self) {
            return;
        }
        if let Some(dispatch) = self.dispatch.get() {
            dispatch.deliver(turn, delivery);
        }
    }

    /// Lets interrupts expire as their time comes, until the engine stops.
    pub(super) fn spawn_expiry(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let interrupt = tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    interrupt = engine.deadlines.next() => interrupt,
                };
                if let Err(error) = engine.expire(interrupt).await {
                    tracing::error!(%interrupt, %error, "an interrupt's time is over, but it could not be settled");
                }
            }
        });
    }

    async fn expire(self: &Arc<Self>, id: InterruptId) -> Result<(), Error> {
        let expired = self
            .store
            .transact(move |tx| {
                let now = clock::now();
                // Somebody answered first: then there is nothing to expire.
                let Some(expired) = tx.interrupt(id)?.and_then(|interrupt| interrupt.expire(now)) else {
                    return Ok(None);
                };
                let mut owed = Owed::default();
                let index = close(tx, &expired, &Entry::Expire { interrupt_id: id }, &mut owed, now)?;
                Ok(Some((expired.turn_id, Delivery::Expired { index, at: now, interrupt: id }, owed)))
            })
            .await?;
        if let Some((turn, delivery, owed)) = expired {
            self.counters.expired();
            self.deliver(turn, delivery);
            self.settle(owed);
        }
        Ok(())
    }
}

/// Writes a settled interrupt with its journal entry, its event and what becomes of the session: the entry's index.
pub(super) fn close(
    tx: &mut dyn Transaction,
    settled: &Interrupt,
    entry: &Entry,
    owed: &mut Owed,
    now: Timestamp,
) -> Result<u64, Error> {
    let session = tx.session(settled.session_id)?.ok_or(Error::SessionNotFound)?;
    tx.update_interrupt(settled)?;
    let index = tx.append_foreign(settled.turn_id, entry, now)?;
    owed.tell(tx, &Event::interrupt(settled), now)?;
    let event = session::Event::InterruptClosed { turn: settled.turn_id, interrupt: settled.interrupt_id };
    owed.change(tx, &session, event, now)?;
    Ok(index)
}

fn write_answers(
    tx: &mut dyn Transaction,
    id: SessionId,
    answers: Vec<Answer>,
    by: Option<&str>,
    key: Option<IdempotencyKey>,
) -> Result<Written, Error> {
    let now = clock::now();
    let scope = format!("resume:{id}");
    let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
    if let Some(body) = stored_reply(tx, &scope, key.as_ref())? {
        let status = body["status"].as_str().and_then(Status::parse).unwrap_or(session.status());
        let resumed = Resumed { session_id: id, status, replayed: true };
        return Ok(Written { resumed, deliveries: Vec::new(), resolved: Vec::new(), owed: Owed::default() });
    }
    let mut owed = Owed::default();
    let mut deliveries = Vec::new();
    let mut resolved = Vec::new();
    let mut seen = HashSet::new();
    for answer in answers {
        let interrupt = find(tx, &session, &answer.interrupt_id)?;
        // By what the ids mean: a UUID can be written in several ways.
        if !seen.insert(interrupt.interrupt_id) {
            return Err(Error::DuplicateAnswer(answer.interrupt_id));
        }
        let outcome = interrupt.answer(answer.value, by, now).map_err(|error| at(&answer.place, error))?;
        let Answered::Now(answered) = outcome else { continue };
        let value = answered.value.clone().unwrap_or_default();
        let entry = Entry::Answer { interrupt_id: answered.interrupt_id, value: value.clone() };
        let index = close(tx, &answered, &entry, &mut owed, now)?;
        deliveries
            .push((answered.turn_id, Delivery::Answer { index, at: now, interrupt: answered.interrupt_id, value }));
        resolved.push(*answered);
    }
    let status = tx.session(id)?.map_or(session.status(), |session| session.status());
    keep_reply(tx, &scope, key, json!({"status": status}), now)?;
    let resumed = Resumed { session_id: id, status, replayed: resolved.is_empty() };
    Ok(Written { resumed, deliveries, resolved, owed })
}

/// The interrupt that a client named, if it is one of this session.
fn find(tx: &dyn Transaction, session: &session::Session, id: &str) -> Result<Interrupt, Error> {
    let found = match id.parse::<InterruptId>() {
        Ok(id) => tx.interrupt(id)?.filter(|interrupt| interrupt.session_id == session.id),
        Err(_) => None,
    };
    found.ok_or_else(|| match session.status() {
        Status::Interrupted => Error::UnknownInterrupt(id.to_owned()),
        other => Error::NotInterrupted(other),
    })
}

/// Says where in the request the wrong answer stood.
fn at(place: &[Place], error: Error) -> Error {
    match error {
        Error::InvalidAnswer(errors) => {
            Error::InvalidAnswer(errors.into_iter().map(|error| error.under(place)).collect())
        }
        other => other,
    }
}

//! A change to a session inside a transaction, and what is owed to the world once it is durable.

use serde_json::{Value, json};

use super::webhooks::Notice;
use crate::domain::access::Actor;
use crate::domain::audit::Deed;
use crate::domain::event::Event;
use crate::domain::interrupt::Interrupt;
use crate::domain::session::{self, Effect, Phase, Session, Status};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::Transaction;

/// What is owed after a commit; empty for a change that nobody needs to hear of.
#[derive(Debug, Default)]
pub struct Owed {
    /// The number of the newest event written.
    pub last_event: u64,
    /// Whose pollers to wake.
    pub woken: Vec<SessionId>,
    /// Webhooks to call.
    pub notices: Vec<Notice>,
    /// Who does it, for the audit; `None` for what happens by itself.
    pub actor: Option<Actor>,
}

impl Owed {
    /// Nothing yet, of what `actor` does.
    pub fn of(actor: &Actor) -> Self {
        Self { actor: Some(actor.clone()), ..Self::default() }
    }

    /// Lets the domain decide over `event`, writes the session, and settles what the domain says is owed inside the
    /// transaction.
    pub fn change(
        &mut self,
        tx: &mut dyn Transaction,
        session: &Session,
        event: session::Event,
        now: Timestamp,
    ) -> Result<Session, Error> {
        let turn = session.turn();
        let (next, effects) = session.transition(event, now)?;
        tx.update_session(&next)?;
        self.woken.push(next.id);
        for effect in effects {
            match effect {
                Effect::StartTurn(_) => {}
                Effect::AbandonTurn(turn) => tx.end_turn(turn, now)?,
                Effect::CancelInterrupts(ids) => {
                    for id in ids {
                        let cancelled = tx.interrupt(id)?.and_then(|interrupt| interrupt.cancel(now));
                        if let Some(cancelled) = cancelled {
                            tx.update_interrupt(&cancelled)?;
                            self.tell_of(tx, &cancelled, now)?;
                        }
                    }
                }
                Effect::Announce(status) => self.announce(tx, &next, turn.or(next.turn()), status, now)?,
            }
        }
        Ok(next)
    }

    /// Writes what has become of an interrupt: for listeners, and into the audit.
    pub fn tell_of(&mut self, tx: &mut dyn Transaction, interrupt: &Interrupt, now: Timestamp) -> Result<(), Error> {
        self.record(tx, Deed::of(interrupt), now)?;
        self.tell(tx, &Event::interrupt(interrupt), now)
    }

    /// Writes a row of the audit.
    pub fn record(&self, tx: &mut dyn Transaction, deed: Deed, now: Timestamp) -> Result<(), Error> {
        let (name, address) = self.actor.as_ref().map_or((None, None), |actor| (actor.name(), actor.address));
        tx.append_audit(deed.by(name, address), now).map(drop)
    }

    /// Writes an event that listeners are told of.
    pub fn tell(&mut self, tx: &mut dyn Transaction, event: &Event, now: Timestamp) -> Result<(), Error> {
        self.last_event = self.last_event.max(tx.append_event(event, now)?);
        Ok(())
    }

    fn announce(
        &mut self,
        tx: &mut dyn Transaction,
        session: &Session,
        turn: Option<TurnId>,
        status: Status,
        now: Timestamp,
    ) -> Result<(), Error> {
        let error = match &session.phase {
            Phase::Error { failure, .. } => Some(failure.message.as_str()),
            _ => None,
        };
        self.tell(tx, &Event::session(session.id, status, error), now)?;
        let Some(turn) = turn else { return Ok(()) };
        let webhook = tx.turn(turn)?.and_then(|turn| turn.webhook).filter(|webhook| webhook.wants(status));
        if let Some(webhook) = webhook {
            let body = notice_body(tx, session, &webhook)?;
            self.notices.push(Notice { id: format!("msg_{turn}_{}", self.last_event), webhook, body });
        }
        Ok(())
    }
}

/// What a webhook is told: nulls are left out (CONTRACT section 1).
fn notice_body(tx: &dyn Transaction, session: &Session, webhook: &Webhook) -> Result<Value, Error> {
    let mut body = json!({"session_id": session.id, "status": session.status()});
    match &session.phase {
        Phase::Idle { response: Some(response) } => body["response"] = response.without_nulls(),
        Phase::Error { failure, .. } => body["error"] = Value::from(failure.message.as_str()),
        Phase::Interrupted { .. } => body["interrupts"] = json!(tx.pending(session.id)?),
        Phase::Idle { response: None } | Phase::Running { .. } => {}
    }
    if webhook.include_messages {
        body["messages"] = tx.messages(session.id)?.iter().map(|message| message.without_nulls()).collect();
    }
    Ok(body)
}

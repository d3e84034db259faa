//! A change to a session inside a transaction, and what is owed to the world once it is durable.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::domain::abandoned;
use crate::domain::access::Actor;
use crate::domain::audit::Deed;
use crate::domain::event::{EventName, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Abandoned;
use crate::domain::notice::{Notice, interrupt_body};
use crate::domain::session::{self, Effect, Phase, Session};
use crate::domain::status::Status;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::clock;
use crate::engine::telling::bells::{Bells, SessionSnapshot};
use crate::engine::telling::view::view_of;
use crate::store::Transaction;
use crate::store::record::EventNumber;

/// What the operator wants to be told.
#[derive(Debug, Default)]
pub struct NotificationSettings {
    /// The server's own webhooks.
    pub webhooks: Vec<Webhook>,
    /// After how many seconds the first reminder comes; 0 for none.
    pub remind_after: f64,
}

impl NotificationSettings {
    /// Whether somebody still wants to be told at `url` of what a turn asks.
    pub fn hears_of_it(&self, tx: &dyn Transaction, session: &Session, turn: TurnId, url: &str) -> Result<bool, Error> {
        let of_message = tx.webhook_of_turn(turn)?;
        let webhooks = of_message.iter().chain(&session.webhook).chain(&self.webhooks);
        Ok(Webhook::told_of(EventName::CREATED, webhooks).iter().any(|webhook| webhook.url == url))
    }
}

/// A turn that has failed, for the log: without the error's text, which may hold anything.
#[derive(Debug, Clone)]
pub struct FailedTurn {
    /// Whose.
    pub session: SessionId,
    /// The code of why.
    pub code: String,
    /// Whether its journal is kept, and it can be retried.
    pub is_kept: bool,
}

/// What is owed after a commit; empty for a change that nobody needs to hear of.
#[derive(Debug, Clone)]
pub struct AfterCommit {
    /// The number of the newest event written.
    pub last_event: EventNumber,
    /// Whether entries were written that listeners are told of.
    pub has_steps: bool,
    /// Whose pollers to wake.
    pub woken: Vec<SessionId>,
    /// What the session has become, for its pollers.
    pub shown: Option<Arc<SessionSnapshot>>,
    /// Whether there are new notices in the outbox.
    pub has_notices: bool,
    /// Which turn has failed: for the log.
    pub failed: Option<FailedTurn>,
    /// Who does it, for the audit; `None` for what happens by itself.
    actor: Option<Actor>,
    notifications: Arc<NotificationSettings>,
}

impl AfterCommit {
    /// Nothing yet, of what `actor` does.
    pub fn new(notifications: &Arc<NotificationSettings>, actor: Option<Actor>) -> Self {
        let notifications = Arc::clone(notifications);
        Self {
            last_event: EventNumber::default(),
            has_steps: false,
            woken: Vec::new(),
            shown: None,
            has_notices: false,
            failed: None,
            actor,
            notifications,
        }
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
        let (mut next, effects) = session.transition(event, now)?;
        let told = effects.iter().find_map(|effect| match effect {
            Effect::TellNext(turn) => Some(*turn),
            _ => None,
        });
        if let Some(over) = told {
            match left_by(tx, &next, over) {
                // Whoever mends the store finds a suspended one as it was; one that is open has to come to an end.
                Err(why @ Error::Unreadable(_)) if turn == Some(over) => {
                    tracing::error!(session = %next.id, turn = %over, error = %why, "what a turn did is not told to the next one");
                }
                left => next.abandoned = left?,
            }
        }
        tx.update_session(&next)?;
        self.woken.push(next.id);
        for effect in effects {
            match effect {
                Effect::TellNext(_) => {} // it is in the session that was written
                Effect::AbandonTurn(turn) => tx.abandon_turn(turn, now)?,
                Effect::CancelInterrupts(ids) => {
                    for id in ids {
                        let cancelled = tx.interrupt(id)?.and_then(|interrupt| interrupt.cancel(now));
                        if let Some(cancelled) = cancelled {
                            tx.update_outcome(&cancelled)?;
                            self.tell_of(tx, &next, &cancelled, now)?;
                        }
                    }
                }
                Effect::Announce(status) => {
                    let turn = turn.or(next.turn()).or(session.retry().map(|retry| retry.turn));
                    self.tell_session(tx, &next, turn, status, now)?;
                }
            }
        }
        Ok(next)
    }

    /// Shows what the turn's session has become, after the last change of the transaction, to whoever waits for that.
    pub fn show(&mut self, tx: &dyn Transaction, bells: &Bells, session: Session, turn: TurnId) -> Result<(), Error> {
        if bells.has_listener(session.id) {
            let view = view_of(tx, session)?;
            self.shown = Some(Arc::new(SessionSnapshot { turn, event: self.last_event.clone(), view }));
        }
        Ok(())
    }

    /// Writes what has become of an interrupt of the session: for listeners and webhooks, and into the audit.
    pub fn tell_of(
        &mut self,
        tx: &mut dyn Transaction,
        session: &Session,
        interrupt: &Interrupt,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.record(tx, Deed::of(interrupt), now)?;
        self.tell_interrupt(tx, session, interrupt, now)
    }

    /// Writes a row of the audit.
    pub fn record(&self, tx: &mut dyn Transaction, deed: Deed, now: Timestamp) -> Result<(), Error> {
        let (name, address) = self.actor.as_ref().map_or((None, None), |actor| (actor.name(), actor.address));
        tx.append_audit(deed.by(name, address), now)
    }

    /// Tells listeners and webhooks that an interrupt of the session was opened or settled.
    pub fn tell_interrupt(
        &mut self,
        tx: &mut dyn Transaction,
        session: &Session,
        interrupt: &Interrupt,
        now: Timestamp,
    ) -> Result<(), Error> {
        let event = StoredEvent::interrupt(interrupt);
        self.tell(tx, &event, now)?;
        let of_message = tx.webhook_of_turn(interrupt.turn_id)?;
        let (name, id) = (event.name(), Some(interrupt.interrupt_id));
        self.notify(tx, session, of_message, (name, id), now, |_, _| Ok(interrupt_body(name, interrupt, 0, now)))
    }

    /// Tells listeners and webhooks that the session's status is another one. `turn` is the one that it is about.
    pub fn tell_session(
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
        let event = StoredEvent::session(session.id, status, error);
        self.tell(tx, &event, now)?;
        let of_message = match turn {
            Some(turn) => tx.webhook_of_turn(turn)?,
            None => None,
        };
        self.notify(tx, session, of_message, (event.name(), None), now, |tx, webhook| {
            session_body(tx, session, webhook)
        })
    }

    /// Writes an event that listeners are told of, and webhooks are not.
    pub fn tell(&mut self, tx: &mut dyn Transaction, event: &StoredEvent, now: Timestamp) -> Result<(), Error> {
        self.last_event = tx.append_event(event, now)?;
        Ok(())
    }

    /// Writes a notice for each webhook that wants to be told; nothing where none does.
    fn notify(
        &mut self,
        tx: &mut dyn Transaction,
        session: &Session,
        of_message: Option<Webhook>,
        (event, interrupt): (EventName, Option<InterruptId>),
        now: Timestamp,
        body: impl Fn(&dyn Transaction, &Webhook) -> Result<Value, Error>,
    ) -> Result<(), Error> {
        let notifications = Arc::clone(&self.notifications);
        let webhooks = of_message.iter().chain(&session.webhook).chain(&notifications.webhooks);
        for webhook in Webhook::told_of(event, webhooks) {
            let body = body(tx, webhook)?;
            let notice = Notice::new(clock::notice_id(), session.id, interrupt, event, webhook, &body, now);
            let is_own = notifications.webhooks.iter().any(|own| own.url == webhook.url);
            let notice = if is_own { notice } else { notice.of_client() };
            let notice = in_lane(tx, notice, now)?;
            tx.insert_notice(&notice)?;
            if event == EventName::CREATED && notifications.remind_after > 0.0 {
                tx.insert_notice(&notice.reminder(notifications.remind_after, now))?;
            }
            self.has_notices = true;
        }
        Ok(())
    }
}

/// What is known of turns that came to no answer, once `turn` of the session is one of them.
fn left_by(tx: &dyn Transaction, session: &Session, turn: TurnId) -> Result<Option<Box<Abandoned>>, Error> {
    let Some(row) = tx.turn(turn)? else { return Ok(session.abandoned.clone()) };
    let journal = tx.journal(turn)?;
    Ok(abandoned::known(session.abandoned.as_deref(), &row.message, &journal).map(Box::new))
}

/// A notice that becomes pending: due where nothing of its lane is.
pub(in crate::engine) fn in_lane(tx: &dyn Transaction, notice: Notice, now: Timestamp) -> Result<Notice, Error> {
    let waits = tx.has_pending_notice(notice.session_id, &notice.url)?;
    Ok(if waits { notice } else { notice.first_in_lane(now) })
}

/// What a webhook is told of a session: nulls are left out.
fn session_body(tx: &dyn Transaction, session: &Session, webhook: &Webhook) -> Result<Value, Error> {
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

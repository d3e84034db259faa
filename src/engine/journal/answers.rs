//! Answers come in: looked at ([`crate::engine::journal::prechecks`]), written, then delivered, or, to a parked turn,
//! the turn is woken. All of a request or nothing. What takes no time to look at is looked at by the transaction itself.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use crate::domain::access::Actor;
use crate::domain::grant::Grant;
use crate::domain::interrupt::{Answered, Interrupt};
use crate::domain::journal::Entry;
use crate::domain::payload::json_size;
use crate::domain::session::Session;
use crate::domain::status::Status;
use crate::domain::{Error, InterruptId, SessionId, Timestamp};
use crate::engine::journal::closing::close;
use crate::engine::journal::grants;
use crate::engine::journal::interrupt_claims::claimer;
use crate::engine::journal::messages::{keep_reply, reply_scope, stored_reply};
use crate::engine::journal::prechecks::{MAX_PRECHECKS, PassingLook, Precheck, find};
use crate::engine::journal::turn_claims::WakeOutcome;
use crate::engine::placement::deliveries::Ticket;
use crate::engine::ports::dispatch::Delivery;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::metrics::DecisionSample;
use crate::engine::telling::view::{Answer, IdempotencyKey, Resumed};
use crate::engine::{Engine, detached};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::{StoreExt, Transaction};

/// What a request's transaction came to.
struct AnswersCommit {
    resumed: Resumed,
    plan: Option<DeliveryPlan>,
    /// How many interrupts were resolved.
    resolved: usize,
    /// How the person decided, and what that decided of other calls.
    outcomes: (Vec<DecisionSample>, Vec<DecisionSample>),
    after_commit: AfterCommit,
}

/// How what was appended gets to its turn.
pub(in crate::engine) enum DeliveryPlan {
    /// It was not parked: these are for its worker, if it is at one.
    Warm(Vec<Ticket>),
    /// It was parked: it is woken and reads its journal.
    Parked(WakeOutcome),
}

/// What is answered, and what that decides for always, with who has claimed what that may settle.
type AcceptedAnswer = (Box<Interrupt>, Option<(Grant, Option<String>)>);

impl Engine {
    /// Answers interrupts of a session.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::UnknownInterrupt`], [`Error::NotInterrupted`], [`Error::InvalidAnswer`],
    /// [`Error::AlreadyResolved`], [`Error::InterruptClaimed`], [`Error::InterruptExpired`],
    /// [`Error::InterruptCancelled`], [`Error::SelfApproval`], [`Error::NotAnApprover`], [`Error::MissingScope`],
    /// [`Error::DuplicateAnswer`], [`Error::ValueTooLarge`], [`Error::IdempotencyKeyReused`], [`Error::OtherAgent`].
    pub async fn resume(
        self: &Arc<Self>,
        id: SessionId,
        answers: Vec<Answer>,
        actor: Actor,
        key: Option<IdempotencyKey>,
    ) -> Result<Resumed, Error> {
        let limit = self.settings.max_value;
        for answer in &answers {
            let size = json_size(&answer.value);
            if size > limit {
                return Err(Error::ValueTooLarge { size, limit });
            }
        }
        faults::at(Point::EngineAnswer);
        let named: Vec<InterruptId> = answers.iter().filter_map(|answer| answer.interrupt_id.parse().ok()).collect();
        let engine = Arc::clone(self);
        detached(async move {
            let written = match engine.precheck_and_write(id, answers.into(), actor, key).await {
                Err(late @ Error::InterruptExpired(_)) => {
                    engine.expire_overdue(named).await;
                    return Err(late);
                }
                written => written?,
            };
            faults::at(Point::EngineAnswerCommitted);
            engine.telling.counters().answered(written.resolved);
            let (by_person, by_rule) = written.outcomes;
            by_person.into_iter().for_each(|outcome| engine.telling.counters().decided_by_person(outcome));
            by_rule.into_iter().for_each(|outcome| engine.telling.counters().decided_by_rule(outcome));
            engine.deliver_as_planned(written.plan);
            engine.telling.run(written.after_commit);
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
        actor: Actor,
        key: Option<IdempotencyKey>,
    ) -> Result<Resumed, Error> {
        let session = self.interrupt(&answer.interrupt_id).await?.session_id;
        self.resume(session, vec![answer], actor, key).await
    }

    async fn precheck_and_write(
        self: &Arc<Self>,
        id: SessionId,
        answers: Arc<[Answer]>,
        actor: Actor,
        key: Option<IdempotencyKey>,
    ) -> Result<AnswersCommit, Error> {
        let mut scene = None;
        if self.may_look_in_passing(&answers) {
            let (engine, answers, actor, key) = (Arc::clone(self), Arc::clone(&answers), actor.clone(), key.clone());
            let written = self.store.transact(About::Session(id), move |tx| {
                match engine.look_in_passing(tx, id, &answers, &actor, key.as_ref())? {
                    PassingLook::Found(look) => {
                        let written = engine.write_answers(tx, id, &answers, &actor, key.as_ref(), &look, false)?;
                        Ok((written, None))
                    }
                    PassingLook::TakesTime(scene) => Ok((None, Some(scene))),
                }
            });
            match written.await? {
                (Some(written), _) => return Ok(written),
                (None, read) => scene = read,
            }
        }
        for look in 1..=MAX_PRECHECKS {
            let found = match scene.take() {
                Some(scene) => self.precheck_scene(*scene, &answers, &actor).await?,
                None => self.precheck(id, &answers, &actor, key.as_ref()).await?,
            };
            let (engine, answers, actor, key) = (Arc::clone(self), Arc::clone(&answers), actor.clone(), key.clone());
            let is_last = look == MAX_PRECHECKS;
            let written = self.store.transact(About::Session(id), move |tx| {
                engine.write_answers(tx, id, &answers, &actor, key.as_ref(), &found, is_last)
            });
            if let Some(written) = written.await? {
                return Ok(written);
            }
        }
        Err(Error::StoreUnavailable(
            "what the answer is for, or its rules, changed again and again; try again".to_owned(),
        ))
    }

    /// `None` where something is not any more as it was when the answers were looked at; nothing is written then. What
    /// `is_last` says is that nobody looks again: what else a decision for always could settle goes on waiting.
    #[allow(clippy::too_many_arguments, reason = "all of a request")]
    fn write_answers(
        &self,
        tx: &mut dyn Transaction,
        id: SessionId,
        answers: &[Answer],
        actor: &Actor,
        key: Option<&IdempotencyKey>,
        look: &Precheck,
        is_last: bool,
    ) -> Result<Option<AnswersCommit>, Error> {
        let now = tx.now();
        let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
        let scope = reply_scope("resume", &session);
        if let Some(body) = stored_reply(tx, &scope, key)? {
            let status = body["status"].as_str().and_then(Status::parse).unwrap_or(session.status());
            let resumed = Resumed { session_id: id, status, replayed: true };
            return Ok(Some(AnswersCommit {
                resumed,
                plan: None,
                resolved: 0,
                outcomes: Default::default(),
                after_commit: self.telling.after_commit(),
            }));
        }
        self.check_agent(&session)?;
        let Some(taken) = self.take_answers(tx, &session, answers, actor, look, now)? else { return Ok(None) };
        let granted: Vec<_> = taken.iter().filter_map(|(_, grant)| grant.clone()).collect();
        if !is_last && !granted.is_empty() {
            let pending = tx.pending(id)?;
            let is_new = |(grant, _): &(Grant, _)| {
                let mut settled = pending.iter().filter(|asked| grants::may_settle(grant, asked, now));
                settled.any(|asked| look.lets_sweep(asked, grant).is_none())
            };
            if granted.iter().any(is_new) {
                return Ok(None);
            }
        }
        let mut after_commit = self.telling.owed_by(actor);
        let mut deliveries = Vec::new();
        let (mut outcomes, mut by_rule) = (Vec::new(), Vec::new());
        for (answered, _) in taken {
            let (interrupt, value) = (answered.interrupt_id, answered.value.clone().unwrap_or_default());
            outcomes.push(DecisionSample::of(&answered));
            let entry = Entry::Answer { interrupt_id: interrupt, value: value.clone() };
            let index = close(tx, &answered, &entry, &mut after_commit, now)?;
            deliveries.push(Delivery::Answer { index, at: now, interrupt, value, by: answered.resolved_by });
        }
        // After all of them: what was decided about one call counts more than what was decided about all.
        for (grant, who) in granted {
            let lets = |asked: &Interrupt, grant: &Grant| {
                asked.check_claim(who.as_deref(), now).is_ok() && look.lets_sweep(asked, grant) == Some(true)
            };
            deliveries.extend(grants::store(tx, id, grant, &lets, &mut after_commit, &mut by_rule, now)?);
        }
        let resolved = deliveries.len();
        let status = tx.session(id)?.map_or(session.status(), |session| session.status());
        let plan = if resolved > 0 { self.plan_delivery(tx, &session, deliveries, now)? } else { None };
        keep_reply(tx, &scope, key, json!({"status": status}), now)?;
        faults::at(Point::EngineAnswerWritten);
        let resumed = Resumed { session_id: id, status, replayed: resolved == 0 };
        Ok(Some(AnswersCommit { resumed, plan, resolved, outcomes: (outcomes, by_rule), after_commit }))
    }

    /// What is answered, and what that decides for always, and for whom; `None` where it has to be looked at again.
    fn take_answers(
        &self,
        tx: &dyn Transaction,
        session: &Session,
        answers: &[Answer],
        actor: &Actor,
        look: &Precheck,
        now: Timestamp,
    ) -> Result<Option<Vec<AcceptedAnswer>>, Error> {
        let mut seen = HashSet::new();
        let mut taken = Vec::new();
        let still_stands = self.still_stands(look, session);
        for answer in answers {
            let asked = find(tx, session, &answer.interrupt_id)??;
            self.check_answerer(&asked, answer, actor, &mut seen, now)?;
            let (valid, grant) = look.found_about(&asked).filter(|_| still_stands).unzip();
            match asked.answer_with(&answer.value, valid.cloned(), actor.name(), now)? {
                None => return Ok(None),
                Some(Answered::Before) => {}
                Some(Answered::Now(answered)) => {
                    let who = claimer(actor, answer.said.as_deref()).map(str::to_owned);
                    taken.push((answered, grant.flatten().map(|grant| (grant.clone(), who))));
                }
            }
        }
        Ok(Some(taken))
    }

    /// How the open turn of `session` gets what was appended to it in this transaction.
    pub(in crate::engine) fn plan_delivery(
        &self,
        tx: &mut dyn Transaction,
        session: &Session,
        deliveries: Vec<Delivery>,
        now: Timestamp,
    ) -> Result<Option<DeliveryPlan>, Error> {
        let Some(turn) = session.turn() else { return Ok(None) };
        let turn = tx.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
        Ok(Some(if turn.life.is_parked() {
            DeliveryPlan::Parked(self.wake(tx, &turn, &session.agent, now)?)
        } else {
            let announce = |delivery| Ticket::announce(&self.placement, turn.id, turn.life.epoch, delivery);
            DeliveryPlan::Warm(deliveries.into_iter().map(announce).collect())
        }))
    }

    /// Does what [`Engine::plan_delivery`] decided, after the commit.
    pub(in crate::engine) fn deliver_as_planned(self: &Arc<Self>, plan: Option<DeliveryPlan>) {
        match plan {
            Some(DeliveryPlan::Warm(tickets)) => tickets.into_iter().for_each(|ticket| ticket.redeem()),
            Some(DeliveryPlan::Parked(woken)) => self.start_woken(woken),
            None => {}
        }
    }

    /// # Errors
    /// [`Error::OtherAgent`] where the session is not of the agent that is served.
    pub(in crate::engine) fn check_agent(&self, session: &Session) -> Result<(), Error> {
        if self.host.serves(&session.agent) { Ok(()) } else { Err(Error::OtherAgent(session.agent.clone())) }
    }
}

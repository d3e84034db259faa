//! Answers come in: looked at ([`crate::engine::journal::prechecks`]), written, then delivered, or, to a parked turn,
//! the turn is woken. All of a request or nothing. What takes no time to look at is looked at by the transaction itself.

use std::sync::Arc;

use serde_json::json;

use crate::domain::access::Actor;
use crate::domain::grant::Grant;
use crate::domain::interrupt::{Answered, Interrupt};
use crate::domain::journal::Entry;
use crate::domain::payload::json_size;
use crate::domain::session::Session;
use crate::domain::{Error, InterruptId, SessionId, Timestamp};
use crate::engine::journal::closing::close;
use crate::engine::journal::grants;
use crate::engine::journal::messages::{keep_reply, reply_scope};
use crate::engine::journal::prechecks::{MAX_PRECHECKS, Precheck, PrecheckInput};
use crate::engine::journal::triage::claimer;
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

impl AnswersCommit {
    /// The request was answered before: nothing is written.
    fn before(resumed: Resumed, after_commit: AfterCommit) -> Self {
        Self { resumed, plan: None, resolved: 0, outcomes: Default::default(), after_commit }
    }
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
        let mut look = None;
        if !self.may_look_in_passing(&answers) {
            look = Some(self.precheck(id, &answers, &actor, key.as_ref()).await?);
        }
        let mut looks = look.iter().count();
        loop {
            let is_last = looks == MAX_PRECHECKS;
            let (engine, answers_of, by, key) = (Arc::clone(self), Arc::clone(&answers), actor.clone(), key.clone());
            let written = self.store.transact(About::Session(id), move |tx| {
                engine.write_answers(tx, id, &answers_of, &by, key.as_ref(), look.as_ref(), is_last)
            });
            match written.await? {
                Ok(written) => return Ok(written),
                Err(_) if is_last => {
                    let why = "what the answer is for, or its rules, changed again and again; try again";
                    return Err(Error::StoreUnavailable(why.to_owned()));
                }
                Err(scene) => look = Some(self.precheck_scene(*scene, &answers, &actor).await?),
            }
            looks += 1;
        }
    }

    /// `Err` with what it has read, and nothing written, where that is to be looked at first: it may take its time, or is
    /// not any more as it was at the last `look`. What `is_last` says is that nobody looks again: what else a decision for
    /// always could settle goes on waiting.
    #[allow(clippy::too_many_arguments, reason = "all of a request")]
    fn write_answers(
        &self,
        tx: &mut dyn Transaction,
        id: SessionId,
        answers: &[Answer],
        actor: &Actor,
        key: Option<&IdempotencyKey>,
        look: Option<&Precheck>,
        is_last: bool,
    ) -> Result<Result<AnswersCommit, Box<PrecheckInput>>, Error> {
        let now = tx.now();
        let scene = match self.scene(tx, id, answers, key)? {
            Ok(scene) => scene,
            Err(resumed) => return Ok(Ok(AnswersCommit::before(resumed, self.telling.after_commit()))),
        };
        let in_passing = if look.is_none() { self.look_in_passing(&scene, answers, actor)? } else { None };
        let Some(look) = look.or(in_passing.as_ref()) else { return Ok(Err(Box::new(scene))) };
        let Some(taken) = self.take_answers(&scene, answers, actor, look, now)? else {
            return Ok(Err(Box::new(scene)));
        };
        let granted: Vec<_> = taken.iter().filter_map(|(_, grant)| grant.clone()).collect();
        let is_new = |(grant, _): &(Grant, _)| {
            let mut settled = scene.pending.iter().filter(|asked| grants::may_settle(grant, asked, now));
            settled.any(|asked| look.lets_sweep(asked, grant).is_none())
        };
        if !is_last && granted.iter().any(is_new) {
            return Ok(Err(Box::new(scene)));
        }
        let mut session = scene.session;
        let scope = reply_scope("resume", &session);
        let mut after_commit = self.telling.owed_by(actor);
        let mut deliveries = Vec::new();
        let (mut outcomes, mut by_rule) = (Vec::new(), Vec::new());
        for (answered, _) in taken {
            let (interrupt, value) = (answered.interrupt_id, answered.value.clone().unwrap_or_default());
            outcomes.push(DecisionSample::of(&answered));
            let entry = Entry::Answer { interrupt_id: interrupt, value: value.clone() };
            let (index, next) = close(tx, &session, &answered, &entry, &mut after_commit, now)?;
            session = next;
            deliveries.push(Delivery::Answer { index, at: now, interrupt, value, by: answered.resolved_by });
        }
        // After all of them: what was decided about one call counts more than what was decided about all.
        for (grant, who) in granted {
            let lets = |asked: &Interrupt, grant: &Grant| {
                asked.check_claim(who.as_deref(), now).is_ok() && look.lets_sweep(asked, grant) == Some(true)
            };
            let (swept, next) = grants::store(tx, &session, grant, &lets, &mut after_commit, &mut by_rule, now)?;
            deliveries.extend(swept);
            session = next;
        }
        let (resolved, status) = (deliveries.len(), session.status());
        let plan = if resolved > 0 { self.plan_delivery(tx, &session, deliveries, now)? } else { None };
        keep_reply(tx, &scope, key, json!({"status": status}), now)?;
        faults::at(Point::EngineAnswerWritten);
        let resumed = Resumed { session_id: id, status, replayed: resolved == 0 };
        Ok(Ok(AnswersCommit { resumed, plan, resolved, outcomes: (outcomes, by_rule), after_commit }))
    }

    /// What is answered, and what that decides for always, and for whom; `None` where it has to be looked at again.
    fn take_answers(
        &self,
        scene: &PrecheckInput,
        answers: &[Answer],
        actor: &Actor,
        look: &Precheck,
        now: Timestamp,
    ) -> Result<Option<Vec<AcceptedAnswer>>, Error> {
        let mut taken = Vec::new();
        let still_stands = self.still_stands(look, &scene.session);
        for (answer, target) in answers.iter().zip(&scene.asked) {
            let asked = target.interrupt.as_ref().map_err(Error::clone)?;
            self.check_answerer(asked, answer, actor, now)?;
            let (valid, grant) = look.found_about(asked).filter(|_| still_stands).unzip();
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
        let life = tx.life(turn)?.ok_or(Error::TurnNotOpen(None))?;
        Ok(Some(if life.is_parked() {
            let row = tx.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
            DeliveryPlan::Parked(self.wake(tx, &row, &session.agent, now)?)
        } else {
            let announce = |delivery| Ticket::announce(&self.placement, turn, life.epoch, delivery);
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

//! Turn claims: how a turn that has a journal comes to a worker.
//!
//! One transaction takes the turn over (whoever had it writes nothing any more), notes with which code, and reads what
//! the worker needs. From inside that transaction on, answers find the turn ([`crate::engine::placement::live`]), so
//! that none is lost between the claim and the start, and none is given twice: what stands in the order's journal is
//! not delivered again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::session::{Failure, Session};
use crate::domain::{Error, InterruptId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::placement::turn_claims::TurnClaim;
use crate::engine::placement::turn_queue::NextTurn;
use crate::engine::ports::dispatch::{Runtime, TurnOrder};
use crate::engine::telling::after_commit::AfterCommit;
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::{DueKind, Turn};
use crate::store::turns::check_owner;
use crate::store::{Reader, StoreExt, Transaction, each_interrupt};

/// What is to be done about a turn that was woken, after the commit.
pub enum WakeOutcome {
    /// It has a slot: start it.
    Now(TurnClaim),
    /// It waits for a slot, at this epoch.
    First(TurnId, u64),
    /// Not by this server, or not by this run of it.
    NotHere,
}

/// What came of claiming a turn that has a slot.
enum Claimed {
    Begins(TurnClaim),
    /// It is suspended, after so long at work.
    Failed(AfterCommit, Duration),
}

impl Engine {
    /// Takes a turn over inside a transaction.
    pub(in crate::engine) fn claim(
        &self,
        tx: &mut dyn Transaction,
        turn: &Turn,
        now: Timestamp,
    ) -> Result<TurnClaim, Error> {
        let runtime = self.placement.runtime()?;
        let mut journal = tx.journal(turn.id)?;
        let entries = journal.len() as u64;
        let epoch = tx.claim_turn(turn.id, self.store.owner(), entries)?;
        tx.route_turn(turn.id, turn.code.taken_by(self.code()?))?;
        let (rules, has_rules) = self.access.rules_of(tx.session(turn.session_id)?.as_ref());
        let policy = (had_rules(&journal) != has_rules).then_some(has_rules);
        if runs_other(&journal, &runtime) || policy.is_some() {
            let entry = Entry::Taken { code: runtime.code, python: runtime.python, policy };
            tx.append(turn.id, epoch, &entry, now)?;
            journal.push(RecordedEntry { at: now, entry });
        }
        faults::at(Point::EngineClaimWritten);
        let alone = turn.life.recoveries_if_claimed(entries) > 0;
        let order = TurnOrder { alone, ..order(tx, turn, epoch, journal)? };
        let worked = Duration::from_millis(turn.life.worked_ms);
        Ok(TurnClaim::new(&self.placement, order, tx.promotions(), rules, worked))
    }

    /// Writes and claims a new turn of `session` inside a transaction; `session` is what the turn's message made of it.
    pub(in crate::engine) fn claim_new(
        &self,
        tx: &mut dyn Transaction,
        session: &Session,
        turn: &Turn,
        traceparent: Option<String>,
        now: Timestamp,
    ) -> Result<TurnClaim, Error> {
        let runtime = self.placement.runtime()?;
        let epoch = tx.claim_turn(turn.id, self.store.owner(), 0)?;
        tx.route_turn(turn.id, turn.code.taken_by(self.code()?))?;
        let (rules, policy) = self.access.rules_of(Some(session));
        let abandoned = session.abandoned.clone();
        let entry = Entry::Start { code: runtime.code, python: runtime.python, policy, abandoned, traceparent };
        tx.append(turn.id, epoch, &entry, now)?;
        let order = order(tx, turn, epoch, vec![RecordedEntry { at: now, entry }])?;
        Ok(TurnClaim::new(&self.placement, order, tx.promotions(), rules, Duration::ZERO))
    }

    /// Writes a new turn of `session` inside a transaction for whichever server takes it, which notes its own code then. Its
    /// client's span is in its journal, where every worker looks for it.
    pub(in crate::engine) fn leave_new(
        &self,
        tx: &mut dyn Transaction,
        session: &Session,
        turn: &Turn,
        traceparent: Option<String>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (_, policy) = self.access.rules_of(Some(session));
        let abandoned = session.abandoned.clone();
        let entry = Entry::Start { code: String::new(), python: String::new(), policy, abandoned, traceparent };
        tx.append_foreign(turn.id, &entry, now)?;
        tx.release_turn(turn.id)
    }

    /// Wakes a parked turn of `agent` inside a transaction, or one that was reopened or imported there and is ready: it is
    /// claimed at once where a slot is free. Either way it is found and taken up again if the server dies now.
    pub(in crate::engine) fn wake(
        &self,
        tx: &mut dyn Transaction,
        turn: &Turn,
        agent: &str,
        now: Timestamp,
    ) -> Result<WakeOutcome, Error> {
        if agent != self.settings.agent || self.is_stopping() || !self.runs_turns() {
            make_ready(tx, turn)?;
            return Ok(WakeOutcome::NotHere);
        }
        if self.is_left_to_others(turn)? {
            make_ready(tx, turn)?;
            return Ok(WakeOutcome::NotHere);
        }
        if self.placement.take_place(turn.id) {
            return match self.claim(tx, turn, now) {
                Ok(claim) => {
                    self.placement.claimed(turn.id, claim.epoch());
                    Ok(WakeOutcome::Now(claim))
                }
                // What woke it counts all the same; whoever claims it later says what is wrong.
                Err(Error::Unreadable(_)) => {
                    self.placement.not_claimed(turn.id);
                    waiting(tx, turn.id)
                }
                Err(error) => {
                    self.placement.not_claimed(turn.id);
                    Err(error)
                }
            };
        }
        make_ready(tx, turn)?;
        waiting(tx, turn.id)
    }

    /// Does what [`Engine::wake`] decided, after the commit.
    pub(in crate::engine) fn start_woken(self: &Arc<Self>, woken: WakeOutcome) {
        faults::at(Point::EngineWake);
        match woken {
            WakeOutcome::Now(claim) => self.begin(claim),
            WakeOutcome::First(turn, epoch) => {
                self.placement.put_first(turn, epoch);
                self.pump();
            }
            WakeOutcome::NotHere => {}
        }
    }

    /// Starts and delivers what was kept back by claims and deliveries that came to nothing, until the engine stops.
    pub(in crate::engine) fn spawn_pump(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    () = engine.placement.freed() => {
                        engine.placement.deliver_all();
                        engine.pump();
                    }
                }
            }
        });
    }

    /// Starts whoever has a slot now.
    pub(in crate::engine) fn pump(self: &Arc<Self>) {
        while !self.is_stopping() {
            match self.placement.next() {
                None => return,
                Some(NextTurn::Start(turn, epoch)) => {
                    let engine = Arc::clone(self);
                    tokio::spawn(async move { engine.start_queued(turn, epoch).await });
                }
                Some(NextTurn::Claim(turn, epoch)) => {
                    let engine = Arc::clone(self);
                    tokio::spawn(async move { engine.claim_and_begin(turn, epoch).await });
                }
            }
        }
    }

    /// Gives a claimed turn, which has a slot, to a worker.
    pub(in crate::engine) fn begin(self: &Arc<Self>, claim: TurnClaim) {
        if let Some((order, worked)) = claim.into_order() {
            self.start_order(order, worked);
        }
    }

    /// Gives a new turn, which waited and has a slot now, to a worker.
    async fn start_queued(self: Arc<Self>, turn: TurnId, epoch: u64) {
        loop {
            let order = self.store.query(move |reader| {
                let row = reader.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
                row.life.check_owner(epoch)?;
                order(reader, &row, epoch, reader.journal(turn)?)
            });
            match order.await {
                Ok(order) => return self.start_order(order, Duration::ZERO),
                Err(error @ Error::StoreUnavailable(_)) if !self.is_stopping() => {
                    tracing::error!(%turn, %error, "a turn waits for the store; it is tried again");
                    tokio::select! {
                        () = self.stopping.cancelled() => {}
                        () = tokio::time::sleep(STORE_PAUSE) => {}
                    }
                }
                // It was cancelled or deleted while it waited, or is the next server's.
                Err(Error::TurnNotOpen(_) | Error::StaleEpoch | Error::StoreUnavailable(_)) => break,
                Err(why @ Error::Unreadable(_)) => {
                    self.suspend_spoiled(turn, &why).await;
                    break;
                }
                Err(error) => {
                    tracing::error!(%turn, %error, "a turn could not be started");
                    break;
                }
            }
        }
        self.placement.drop_claim(turn, epoch);
        self.pump();
    }

    pub(in crate::engine) fn start_order(self: &Arc<Self>, order: TurnOrder, worked: Duration) {
        let (turn, epoch) = (order.turn, order.epoch);
        faults::at(Point::EngineStart);
        if has_begun(&order.journal) && self.placement.runtime().is_ok_and(|runtime| !runtime.replay) {
            return self.refuse_replay(order);
        }
        // A server that stops leaves it to the next one.
        if self.is_stopping() || !self.placement.begin(order, worked) {
            self.placement.drop_claim(turn, epoch);
            self.pump();
        }
        faults::at(Point::EngineStarted);
    }

    /// The turn was parked under code that could be replayed, and the agent says replay=False now.
    fn refuse_replay(self: &Arc<Self>, order: TurnOrder) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let (turn, epoch) = (order.turn, order.epoch);
            let failed = engine.persist(turn, || {
                let engine = Arc::clone(&engine);
                move |tx: &mut dyn Transaction| {
                    let row = owned_turn(tx, turn, epoch)?;
                    let session = tx.session(row.session_id)?.ok_or(Error::TurnNotOpen(None))?;
                    let now = tx.now();
                    let after_commit = engine.fail(tx, &session, turn, Failure::not_replayable(), now)?;
                    Ok((after_commit, Duration::from_millis(row.life.worked_ms)))
                }
            });
            match failed.await {
                Ok((after_commit, worked)) => {
                    engine.telling.counters().turn_failed(worked);
                    engine.telling.run(after_commit);
                }
                Err(error) => tracing::debug!(%turn, %error, "a turn that cannot be replayed was settled meanwhile"),
            }
            engine.placement.drop_claim(turn, epoch);
            engine.pump();
        });
    }

    /// Runs a job that nobody else will if the store does not take it now: until it does, or the server stops.
    pub(in crate::engine) async fn persist<T, J>(&self, turn: TurnId, job: impl Fn() -> J) -> Result<T, Error>
    where
        T: Send + 'static,
        J: Fn(&mut dyn Transaction) -> Result<T, Error> + Send + 'static,
    {
        loop {
            match self.store.transact(About::Turn(turn), job()).await {
                Err(error @ Error::StoreUnavailable(_)) if !self.is_stopping() => {
                    tracing::error!(%turn, %error, "a turn waits for the store; it is tried again");
                    tokio::select! {
                        () = self.stopping.cancelled() => {}
                        () = tokio::time::sleep(STORE_PAUSE) => {}
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// It has a slot, and what is stored of it cannot be read.
    async fn suspend_spoiled(self: &Arc<Self>, turn: TurnId, why: &Error) {
        if let Err(error) = self.suspend_unreadable(DueKind::Timers(turn), why).await {
            tracing::error!(%turn, %error, "a turn that cannot be read could not be suspended");
        }
    }

    /// Claims a turn that has a slot, and starts it, unless somebody else has claimed it since it was at `epoch`. One under which
    /// server after server was killed is suspended: the next would be this one.
    async fn claim_and_begin(self: Arc<Self>, turn: TurnId, epoch: u64) {
        let claimed = self.persist(turn, || {
            let engine = Arc::clone(&self);
            move |tx: &mut dyn Transaction| {
                let row = tx.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
                row.life.check_owner(epoch)?;
                let now = tx.now();
                if row.life.claimed.is_some()
                    && row.life.recoveries_if_claimed(tx.journal(turn)?.len() as u64) > engine.settings.max_recoveries
                {
                    let session = tx.session(row.session_id)?.ok_or(Error::TurnNotOpen(None))?;
                    let failed = engine.fail(tx, &session, turn, Failure::servers_killed(), now)?;
                    return Ok(Claimed::Failed(failed, Duration::from_millis(row.life.worked_ms)));
                }
                Ok(Claimed::Begins(engine.claim(tx, &row, now)?))
            }
        });
        match claimed.await {
            Ok(Claimed::Begins(claim)) => {
                faults::at(Point::EngineClaimCommitted);
                self.placement.claimed(turn, claim.epoch());
                return self.begin(claim);
            }
            Ok(Claimed::Failed(after_commit, worked)) => {
                tracing::error!(%turn, "a turn is suspended: servers were killed at the same place of it, more often than --max-recoveries");
                self.telling.counters().turn_failed(worked);
                self.telling.run(after_commit);
            }
            // It was cancelled or deleted while it waited, or is another server's.
            Err(error @ (Error::TurnNotOpen(_) | Error::StaleEpoch)) => {
                tracing::debug!(%turn, %error, "a turn that waited here was taken or settled elsewhere");
            }
            Err(why @ Error::Unreadable(_)) => self.suspend_spoiled(turn, &why).await,
            Err(error) => tracing::error!(%turn, %error, "a turn could not be claimed"),
        }
        self.placement.not_claimed(turn);
        self.pump();
    }
}

/// # Errors
/// [`Error::TurnNotOpen`], and [`Error::StaleEpoch`] where the turn is another owner's.
pub(in crate::engine) fn owned_turn(tx: &dyn Transaction, turn: TurnId, epoch: u64) -> Result<Turn, Error> {
    let row = tx.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
    check_owner(&row.life, epoch)?;
    Ok(row)
}

/// A turn that nobody here claims now waits for whoever does, here or at another server.
fn make_ready(tx: &mut dyn Transaction, turn: &Turn) -> Result<(), Error> {
    if turn.life.is_parked() {
        tx.wake_turn(turn.id)?;
    }
    tx.release_turn(turn.id)
}

/// Whether the turn has said anything, or was told anything: then it goes on by a replay.
fn has_begun(journal: &[RecordedEntry]) -> bool {
    journal.iter().any(|recorded| !matches!(recorded.entry, Entry::Start { .. } | Entry::Taken { .. }))
}

/// The turn waits for a slot, as it stands now.
fn waiting(tx: &dyn Transaction, turn: TurnId) -> Result<WakeOutcome, Error> {
    let epoch = tx.life(turn)?.ok_or(Error::TurnNotOpen(None))?.epoch;
    Ok(WakeOutcome::First(turn, epoch))
}

/// What a worker is given to run the claimed turn.
fn order(reader: &dyn Reader, turn: &Turn, epoch: u64, journal: Vec<RecordedEntry>) -> Result<TurnOrder, Error> {
    let answered_by = answered_by(reader, &journal)?;
    Ok(TurnOrder {
        turn: turn.id,
        epoch,
        session: turn.session_id,
        message: Arc::clone(&turn.message),
        state: reader.messages(turn.session_id)?,
        journal,
        answered_by,
        sent_by: turn.sent_by.clone(),
        alone: false,
    })
}

/// Who gave the answers that came after all that the turn has said itself. Whoever runs it tells of each of them once,
/// and cannot have told of these.
fn answered_by(reader: &dyn Reader, journal: &[RecordedEntry]) -> Result<BTreeMap<InterruptId, String>, Error> {
    let says_itself = |recorded: &&RecordedEntry| {
        matches!(recorded.entry, Entry::Step { .. } | Entry::Intent { .. } | Entry::Ask { .. } | Entry::Timer { .. })
    };
    let since = journal.iter().rev().take_while(|recorded| !says_itself(recorded));
    let answered = since.filter_map(|recorded| recorded.entry.answered());
    let found = each_interrupt(reader, answered)?.into_iter().flatten();
    Ok(found.filter_map(|answered| Some((answered.interrupt_id, answered.resolved_by?))).collect())
}

/// Whether there were rules when the turn was taken up last.
fn had_rules(journal: &[RecordedEntry]) -> bool {
    let last = journal.iter().rev().find_map(|recorded| match recorded.entry {
        Entry::Start { policy, .. } => Some(policy),
        Entry::Taken { policy, .. } => policy,
        _ => None,
    });
    last.unwrap_or_default()
}

/// Whether the journal was written last by other code, or on another Python.
fn runs_other(journal: &[RecordedEntry], runtime: &Runtime) -> bool {
    let last = journal.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::Start { code, python, .. } | Entry::Taken { code, python, .. } => Some((code, python)),
        _ => None,
    });
    last != Some((&runtime.code, &runtime.python))
}

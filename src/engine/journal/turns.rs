//! The beginning and the end of what workers tell the engine about a turn; what comes in between is
//! [`crate::engine::journal::append`]. Every word carries the epoch at which the turn was claimed: a worker that lost
//! its turn changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::domain::event::EventView;
use crate::domain::journal::{Ending, Entry};
use crate::domain::message::{ChatMessage, NextState};
use crate::domain::session::{self, Failure, Session};
use crate::domain::{Error, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::journal::host::RunOver;
use crate::engine::journal::turn_claims::owned_turn;
use crate::engine::ports::dispatch::Lost;
use crate::engine::telling::after_commit::{AfterCommit, FailedTurn};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// The worker stands where the turn stood.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_replayed(self: &Arc<Self>, turn: TurnId, epoch: u64, warnings: Vec<String>) -> Result<(), Error> {
        let standing = self.standing(turn, epoch)?;
        faults::at(Point::EngineReplayed);
        self.placement.replayed(turn, epoch);
        if standing.is_replay() {
            self.telling.counters().replayed(standing.at_worker);
        }
        if warnings.is_empty() {
            return Ok(());
        }
        for warning in &warnings {
            tracing::warn!(session = %standing.session, "{warning}");
        }
        self.until_stored(turn, (epoch, standing.run), || {
            let warnings = warnings.clone();
            self.store.transact(About::Turn(turn), move |tx| {
                owned_turn(tx, turn, epoch)?;
                tx.note_turn(turn, None, warnings.clone())
            })
        })
        .await
    }

    /// A piece of a message as the model says it.
    pub fn turn_delta(&self, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        if let Some(session) = self.placement.session_of(turn) {
            self.telling.pass(EventView::delta(session, step_id, attempt, delta));
        }
    }

    /// The agent returned.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_ended(
        self: &Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: impl Into<NextState>,
    ) -> Result<(), Error> {
        let said = Arc::new((response, state.into()));
        let own = (epoch, self.standing(turn, epoch)?.run);
        self.end_until_stored(turn, own, || self.end_once(turn, own, Arc::clone(&said))).await
    }

    /// Makes an attempt to end a turn until it is stored.
    async fn end_until_stored<A>(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        attempt: impl Fn() -> A,
    ) -> Result<(), Error>
    where
        A: Future<Output = Result<(), Error>>,
    {
        let attempts = AtomicUsize::new(0);
        let counted = || {
            attempts.fetch_add(1, Ordering::Relaxed);
            attempt()
        };
        let ended = self.until_stored(turn, (epoch, run), counted).await;
        if matches!(ended, Err(Error::TurnNotOpen(_))) && attempts.into_inner() > 1 {
            // The attempt before came about, and could not know it.
            self.tell_of_end(turn, epoch).await;
        }
        ended
    }

    async fn end_once(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        said: Arc<(ChatMessage, NextState)>,
    ) -> Result<(), Error> {
        let standing = self.standing_of(turn, epoch, run)?;
        let (session_id, worked) = (standing.session, standing.worked);
        let engine = Arc::clone(self);
        faults::at(Point::EngineEnd);
        let (after_commit, outcome) = self
            .store
            .transact(About::Session(session_id), move |tx| {
                standing.check_stands(tx)?;
                let now = tx.now();
                let session = tx.session(session_id)?.ok_or(Error::TurnNotOpen(None))?;
                let index = tx.append(turn, epoch, &Entry::End { ending: Ending::Done }, now)?;
                standing.check_comes_after(index)?;
                let (response, state) = (said.0.clone(), &said.1);
                tx.set_messages_from(session_id, state.kept, &state.messages)?;
                let event = session::Event::TurnEnded { turn, response, total_messages: state.total() };
                let (mut after_commit, session) = end(tx, &session, turn, event, engine.telling.after_commit(), now)?;
                engine.telling.show(&mut after_commit, tx, session, turn)?;
                Ok((after_commit, engine.host.outcome(tx, session_id, turn)?))
            })
            .await?;
        faults::at(Point::EngineEndCommitted);
        self.host.came_out(outcome);
        self.telling.counters().turn_done(worked);
        self.host.is_over(RunOver::ParkedOrEnded);
        self.leave(turn, epoch);
        self.telling.run(after_commit);
        Ok(())
    }

    /// The agent raised, its time was over, or it cannot be run here. The session's messages are those from before. A
    /// failure that can be retried keeps the turn's journal and what it asks.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_failed(self: &Arc<Self>, turn: TurnId, epoch: u64, failure: Failure) -> Result<(), Error> {
        let own = (epoch, self.standing(turn, epoch)?.run);
        self.end_until_stored(turn, own, || self.fail_once(turn, own, failure.clone())).await
    }

    async fn fail_once(
        self: &Arc<Self>,
        turn: TurnId,
        (epoch, run): (u64, u64),
        failure: Failure,
    ) -> Result<(), Error> {
        let standing = self.standing_of(turn, epoch, run)?;
        let (session_id, worked) = (standing.session, standing.worked);
        let others = self.codes_elsewhere(&failure).await?;
        let engine = Arc::clone(self);
        let failed = self
            .store
            .transact(About::Session(session_id), move |tx| {
                standing.check_stands(tx)?;
                let now = tx.now();
                let session = tx.session(session_id)?.ok_or(Error::TurnNotOpen(None))?;
                let row = owned_turn(tx, turn, epoch)?;
                if engine.let_go(tx, &row, epoch, &others)? {
                    return Ok(None);
                }
                let after_commit = engine.fail(tx, &session, turn, failure.clone(), now)?;
                Ok(Some((after_commit, engine.host.outcome(tx, session_id, turn)?)))
            })
            .await?;
        let Some((after_commit, outcome)) = failed else {
            tracing::info!(session = %session_id, "a turn of other code cannot be replayed here; another server goes on with it");
            self.leave(turn, epoch);
            return Ok(());
        };
        self.host.came_out(outcome);
        self.telling.counters().turn_failed(worked);
        self.host.is_over(RunOver::ParkedOrEnded);
        self.leave(turn, epoch);
        self.telling.run(after_commit);
        Ok(())
    }

    /// Fails an open turn inside a transaction: for good, or suspended where it can be retried.
    pub(in crate::engine) fn fail(
        &self,
        tx: &mut dyn Transaction,
        session: &Session,
        turn: TurnId,
        failure: Failure,
        now: Timestamp,
    ) -> Result<AfterCommit, Error> {
        if !failure.can_be_retried() {
            let entry = Entry::End { ending: Ending::Failed(failure.message.clone()) };
            tx.append_foreign(turn, &entry, now)?;
            let mut after_commit = self.telling.after_commit();
            after_commit.failed = Some(FailedTurn { session: session.id, code: failure.code.clone(), is_kept: false });
            let event = session::Event::TurnFailed { turn, failure };
            return end(tx, session, turn, event, after_commit, now).map(|(after_commit, _)| after_commit);
        }
        let code = self.suspending_code()?;
        let mut after_commit = self.telling.after_commit();
        after_commit.failed = Some(FailedTurn { session: session.id, code: failure.code.clone(), is_kept: true });
        self.note_refusal(tx, turn, &failure)?;
        after_commit.change(tx, session, session::Event::TurnSuspended { turn, failure }, now)?;
        tx.suspend_turn(turn, now, &code)?;
        faults::at(Point::EngineSuspendWritten);
        Ok(after_commit)
    }

    /// Ends turns whose time is over, until the engine stops.
    pub(in crate::engine) fn spawn_overtime(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    (turn, epoch) = engine.placement.overdue() => {
                        let engine = Arc::clone(&engine);
                        tokio::spawn(async move { engine.turn_timed_out(turn, epoch).await });
                    }
                }
            }
        });
    }

    /// Ends a turn whose time is over, or stops its worker where that cannot be.
    pub(in crate::engine) async fn turn_timed_out(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        let is_replaying = self.placement.is_replaying(turn, epoch);
        let failure = if is_replaying { Failure::replay_timed_out() } else { Failure::timed_out() };
        while let Err(error) = self.turn_failed(turn, epoch, failure.clone()).await {
            match error {
                // It came to its end at the same moment.
                Error::TurnNotOpen(_) | Error::StaleEpoch => {
                    tracing::debug!(%turn, %error, "a turn's time is over, and so is the turn");
                    return;
                }
                Error::StoreUnavailable(_) if self.is_stopping() => return,
                Error::StoreUnavailable(_) => {
                    tracing::error!(%turn, %error, "a turn's time is over, but it could not be ended; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                // As often as it may lose its worker, it is tried again; then it is suspended, which touches nothing else.
                _ => {
                    tracing::error!(%turn, %error, "a turn's time is over, but it cannot be ended; its worker is stopped");
                    let lost = Lost::Exited { message: failure.message.clone() };
                    if let Err(error) = self.turn_lost(turn, epoch, lost).await {
                        tracing::error!(%turn, %error, "a turn that cannot be ended cannot be given up either");
                    }
                    break;
                }
            }
        }
        self.placement.stop_worker(turn, "Agent timed out");
    }

    /// The turn at `epoch` is over for this process.
    pub(in crate::engine) fn leave(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        self.placement.lose(turn, epoch);
        self.pump();
    }

    /// The turn at `epoch` is another run's now.
    pub fn lost_to_another(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        self.host.is_over(RunOver::Elsewhere);
        self.leave(turn, epoch);
    }

    /// The turn is over, wherever it was.
    pub(in crate::engine) fn forget(self: &Arc<Self>, turn: TurnId) {
        self.placement.forget(turn);
        self.pump();
    }
}

/// Ends a turn inside a transaction, its `End` entry being written: what is owed, and the session after it.
pub(in crate::engine) fn end(
    tx: &mut dyn Transaction,
    session: &Session,
    turn: TurnId,
    event: session::Event,
    mut after_commit: AfterCommit,
    now: Timestamp,
) -> Result<(AfterCommit, Session), Error> {
    let session = after_commit.change(tx, session, event, now)?;
    tx.end_turn(turn, now)?;
    faults::at(Point::EngineEndWritten);
    Ok((after_commit, session))
}

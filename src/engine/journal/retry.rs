//! Retries: a suspended turn is taken up again, on request or because the agent's code is another one now.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::domain::access::Actor;
use crate::domain::audit::{Action, Deed};
use crate::domain::journal::Entry;
use crate::domain::session::{self, Failure, Session};
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::journal::turn_claims::WakeOutcome;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::view::{SessionView, view};
use crate::engine::{Engine, detached};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::RetriableTurn;
use crate::store::{StoreExt, Transaction};

/// How many suspended turns are listed at once.
const LISTED_AT_ONCE: usize = 1024;
/// How many turns are taken up at once; the store commits them together.
const AT_ONCE: usize = 256;

impl Engine {
    /// Takes the session's suspended turn up again for `actor`: the session as it is then.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::NothingToRetry`], [`Error::OtherAgent`], [`Error::ShuttingDown`].
    pub async fn retry(self: &Arc<Self>, id: SessionId, actor: Actor) -> Result<SessionView, Error> {
        if self.is_stopping() {
            return Err(Error::ShuttingDown);
        }
        let (engine, by) = (Arc::clone(self), actor.clone());
        let reopened = self.store.transact(About::Session(id), move |tx| {
            let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
            engine.check_agent(&session)?;
            let after_commit = engine.telling.owed_by(&by);
            let now = tx.now();
            let (woken, after_commit) = engine.reopen(tx, &session, after_commit, now)?;
            Ok((view(tx, id)?, woken, after_commit))
        });
        let engine = Arc::clone(self);
        detached(async move {
            let (view, woken, after_commit) = reopened.await?;
            tracing::info!(session = %id, by = actor.name(), "a turn is retried");
            engine.reopened(woken, after_commit);
            Ok(view)
        })
        .await
    }

    /// Takes up again what was suspended under other code than that of now, beside all else: however much that is, and whatever
    /// the store makes of it, the server is there.
    pub(in crate::engine) fn spawn_retry_under_new_code(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            while let Err(error) = engine.retry_under_new_code().await {
                tracing::error!(%error, "failed turns could not be taken up again; it is tried again");
                tokio::select! {
                    () = engine.stopping.cancelled() => return,
                    () = tokio::time::sleep(STORE_PAUSE) => {}
                }
            }
        });
    }

    /// The same, once.
    ///
    /// # Errors
    /// The store's, where it did not take some of it.
    pub(in crate::engine) async fn retry_under_new_code(self: &Arc<Self>) -> Result<(), Error> {
        if !self.runs_turns() {
            return Ok(());
        }
        let code = self.suspending_code()?;
        let (mut after, mut all) = (0, Ok(()));
        while !self.is_stopping() {
            let agent = self.settings.agent.clone();
            let listed = self.store.upkeep().retriable_turns(agent, code.clone(), after, LISTED_AT_ONCE).await?;
            let is_mended = |turn: &&RetriableTurn| {
                let code = turn.failure_code.as_deref();
                code.is_some_and(|code| Failure::new(code, "").is_mended_by_code())
            };
            let turns: Vec<_> = listed.iter().filter(is_mended).map(|turn| (turn.session, turn.turn)).collect();
            if !turns.is_empty() {
                tracing::info!(turns = turns.len(), "failed turns are taken up again: the agent's code has changed");
            }
            for some in turns.chunks(AT_ONCE) {
                all = all.and(self.reopen_all(some).await);
            }
            match listed.last() {
                Some(last) if listed.len() == LISTED_AT_ONCE => after = last.place,
                _ => break,
            }
        }
        all
    }

    /// Takes each up in a transaction of its own; one that cannot be read keeps none of the others from it. What it is in
    /// is looked at once more there: since it was listed, somebody may have taken it up, and it have failed of what only a
    /// person takes up again, or another turn than it.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`], where the store did not take one.
    pub(in crate::engine) async fn reopen_all(self: &Arc<Self>, turns: &[(SessionId, TurnId)]) -> Result<(), Error> {
        let reopen = |&(id, turn): &(SessionId, TurnId)| {
            let engine = Arc::clone(self);
            self.store.transact(About::Session(id), move |tx| {
                let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
                let is_it = session.retry().is_some_and(|retry| retry.turn == turn);
                if !is_it || !session.failure().is_some_and(Failure::is_mended_by_code) {
                    return Err(Error::NothingToRetry);
                }
                let now = tx.now();
                engine.reopen(tx, &session, engine.telling.after_commit(), now)
            })
        };
        let reopened: Vec<_> = turns.iter().map(reopen).collect();
        let mut all = Ok(());
        for ((session, _), reopened) in turns.iter().zip(join_all(reopened).await) {
            match reopened {
                Ok((woken, after_commit)) => self.reopened(woken, after_commit),
                // Somebody else was first, another server that has just started perhaps, or it is deleted.
                Err(Error::NothingToRetry | Error::SessionNotFound) => {}
                Err(error @ Error::StoreUnavailable(_)) => all = Err(error),
                Err(why) => tracing::error!(%session, error = %why, "a failed turn is not taken up again"),
            }
        }
        all
    }

    /// `after_commit` knows whose doing it is.
    fn reopen(
        &self,
        tx: &mut dyn Transaction,
        session: &Session,
        mut after_commit: AfterCommit,
        now: Timestamp,
    ) -> Result<(WakeOutcome, AfterCommit), Error> {
        let turn = session.retry().ok_or(Error::NothingToRetry)?.turn;
        tx.reopen_turn(turn)?;
        let (failure, runtime) = (session.failure(), self.placement.runtime()?);
        // A server that runs no turns has none, and does not know which another goes on with.
        let code = (!runtime.code.is_empty()).then_some(runtime.code.as_str());
        let deed = Deed::new(Action::Retried)
            .session(session.id)
            .with("agent", session.agent.as_str())
            .with("error_code", failure.map(|failure| failure.code.as_str()))
            .with("code", code);
        after_commit.record(tx, deed, now)?;
        if failure.is_some_and(Failure::is_passing) {
            // A mark, by which the agent is told that it may try again, or go on beyond its limit.
            let mark = Entry::Taken { code: runtime.code, python: runtime.python, policy: None };
            tx.append_foreign(turn, &mark, now)?;
        }
        after_commit.change(tx, session, session::Event::TurnReopened { turn }, now)?;
        let row = tx.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
        let woken = self.wake(tx, &row, &session.agent, now)?;
        faults::at(Point::EngineRetryWritten);
        Ok((woken, after_commit))
    }

    fn reopened(self: &Arc<Self>, woken: WakeOutcome, after_commit: AfterCommit) {
        faults::at(Point::EngineRetryCommitted);
        self.telling.counters().retried();
        self.start_woken(woken);
        self.telling.run(after_commit);
        // What it asks may have expired while nobody could answer.
        self.journal.alarm.set(Timestamp::from_millis(0));
    }
}

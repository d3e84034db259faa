//! Retries: a suspended turn is taken up again, on request or because the agent's code is another one now.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::domain::access::Actor;
use crate::domain::audit::{Action, Deed};
use crate::domain::journal::Entry;
use crate::domain::session::{self, Failure, Session};
use crate::domain::{Error, SessionId, Timestamp};
use crate::engine::journal::turn_claims::WakeOutcome;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::view::{SessionView, view};
use crate::engine::{Engine, detached};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::{StoreExt, Transaction};

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

    /// Takes up again what was suspended under other code than that of now.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn retry_under_new_code(self: &Arc<Self>) -> Result<(), Error> {
        if !self.runs_turns() {
            return Ok(());
        }
        let (code, agent) = (self.suspending_code()?, self.settings.agent.clone());
        let turns = self.store.upkeep().retriable_turns(code, usize::MAX).await?;
        let sessions: Vec<SessionId> = self
            .store
            .query(move |reader| {
                let mut sessions = Vec::new();
                for turn in &turns {
                    let Some(id) = reader.session_of_turn(*turn)? else { continue };
                    let session = match reader.session(id) {
                        Err(why @ Error::Unreadable(_)) => {
                            tracing::error!(session = %id, error = %why, "a failed turn is not taken up again");
                            continue;
                        }
                        read => read?,
                    };
                    let Some(session) = session else { continue };
                    if session.agent == agent && session.failure().is_some_and(Failure::is_mended_by_code) {
                        sessions.push(session.id);
                    }
                }
                Ok(sessions)
            })
            .await?;
        if !sessions.is_empty() {
            tracing::info!(turns = sessions.len(), "failed turns are taken up again: the agent's code has changed");
        }
        for some in sessions.chunks(AT_ONCE) {
            self.reopen_all(some).await?;
        }
        Ok(())
    }

    /// Takes each up in a transaction of its own; one that cannot be read keeps none of the others from it.
    async fn reopen_all(self: &Arc<Self>, sessions: &[SessionId]) -> Result<(), Error> {
        let reopen = |id: &SessionId| {
            let (engine, id) = (Arc::clone(self), *id);
            self.store.transact(About::Session(id), move |tx| {
                let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
                let now = tx.now();
                engine.reopen(tx, &session, engine.telling.after_commit(), now)
            })
        };
        let reopened: Vec<_> = sessions.iter().map(reopen).collect();
        let mut all = Ok(());
        for (session, reopened) in sessions.iter().zip(join_all(reopened).await) {
            match reopened {
                Ok((woken, after_commit)) => self.reopened(woken, after_commit),
                Err(why @ Error::Unreadable(_)) => {
                    tracing::error!(%session, error = %why, "a failed turn is not taken up again");
                }
                // Another server that has just started was first, or somebody has deleted it.
                Err(Error::NothingToRetry | Error::SessionNotFound) => {}
                Err(error) => all = all.and(Err(error)),
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

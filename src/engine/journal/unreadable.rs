//! What the store holds and nobody can read, because it is damaged or a later release wrote it: it stops the turn that
//! needs it, which says so, and nothing else.

use std::sync::Arc;

use crate::domain::session::Failure;
use crate::domain::{Error, TurnId};
use crate::engine::Engine;
use crate::store::record::DueKind;
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// Suspends the turn that waits for `what`, since `why` it cannot go on. Where that is not possible because `what`, its
    /// turn or its session cannot be read, `what` is set aside: it would be in the way for ever.
    ///
    /// # Errors
    /// Those of the store; `why`, where something else cannot be read: what is due stays due.
    pub(in crate::engine) async fn suspend_unreadable(
        self: &Arc<Self>,
        what: DueKind,
        why: &Error,
    ) -> Result<(), Error> {
        tracing::error!(?what, error = %why, "what is stored cannot be read; its turn is suspended where that can be");
        let (engine, failure) = (Arc::clone(self), Failure::journal_unreadable(why));
        let suspended = self.store.transact(what.into(), move |tx| {
            let session = match what {
                DueKind::Interrupt(id) => tx.session_of_interrupt(id)?,
                DueKind::Timers(turn) => tx.session_of_turn(turn)?,
            };
            let Some(session) = session.map(|id| tx.session(id)).transpose()?.flatten() else { return Ok(None) };
            let Some(turn) = session.turn().filter(|_| session.agent == engine.settings.agent) else { return Ok(None) };
            let (now, epoch) = (tx.now(), tx.life(turn)?.ok_or(Error::TurnNotOpen(None))?.epoch);
            let after_commit = engine.fail(tx, &session, turn, failure.clone(), now)?;
            Ok(Some((turn, epoch, after_commit)))
        });
        match suspended.await {
            Ok(Some((turn, epoch, after_commit))) => {
                self.telling.run(after_commit);
                self.drop_unreadable(turn, epoch);
                Ok(())
            }
            Ok(None) | Err(Error::Unreadable(_)) => {
                let why = why.clone();
                let aside = self.store.transact(what.into(), move |tx| {
                    if stays_due(tx, what)? { Err(why.clone()) } else { tx.set_aside(what) }
                });
                aside.await
            }
            Err(error) => Err(error),
        }
    }

    /// It may be at a worker, which goes on without it. It may have been retried since, and be at another one.
    fn drop_unreadable(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        let worked = self.placement.standing(turn, epoch).map(|standing| standing.worked);
        self.telling.counters().turn_failed(worked.unwrap_or_default());
        self.placement.drop_claim(turn, epoch);
        self.leave(turn, epoch);
        self.placement.stop_worker(turn, "What is stored of this turn cannot be read");
    }
}

/// Whether `what` is due until something comes of it: it can be read, with the turn and the session that it is of.
fn stays_due(tx: &dyn Transaction, what: DueKind) -> Result<bool, Error> {
    let read = || {
        let turn = match what {
            DueKind::Interrupt(id) => tx.interrupt(id)?.map(|interrupt| interrupt.turn_id),
            DueKind::Timers(turn) => Some(turn),
        };
        let Some(turn) = turn.map(|id| tx.turn(id)).transpose()?.flatten() else { return Ok(false) };
        drop((tx.session(turn.session_id)?, tx.last_entry(turn.id)?));
        Ok(matches!(what, DueKind::Interrupt(_)) || turn.life.is_parked())
    };
    match read() {
        Err(Error::Unreadable(_)) => Ok(false),
        read => read,
    }
}

//! What the store holds and nobody can read, because it is damaged or a later release wrote it: it stops the turn that
//! needs it, which says so, and nothing else.

use std::sync::Arc;

use crate::domain::session::Failure;
use crate::domain::{Error, TurnId};
use crate::engine::Engine;
use crate::store::record::DueKind;
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// Suspends the turn that waits for `what`, since `why` it cannot go on. Where not even its session can be read,
    /// `what` is set aside: it would be in the way for ever.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::engine) async fn suspend_unreadable(
        self: &Arc<Self>,
        what: DueKind,
        why: &Error,
    ) -> Result<(), Error> {
        tracing::error!(?what, error = %why, "what is stored cannot be read; its turn is suspended");
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
                self.store.transact(what.into(), move |tx: &mut dyn Transaction| tx.set_aside(what)).await
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

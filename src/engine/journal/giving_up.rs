//! Suspended turns that nobody took up again for `--suspended-ttl`: nobody can from then on. What they did is kept with
//! their sessions, for the next turn.

use std::sync::Arc;

use crate::domain::session::{self, Failure};
use crate::domain::{Error, Timestamp, TurnId};
use crate::engine::Engine;
use crate::store::about::About;
use crate::store::record::Turn;
use crate::store::{StoreExt, Transaction};

/// How many are looked for at once.
pub(in crate::engine) const AT_ONCE: usize = 100;

impl Engine {
    /// Gives up what is due, each in a transaction of its own: a journal may be long, and others get their turn. What cannot
    /// be read stays, and is passed over.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn give_up_suspended(self: &Arc<Self>) -> Result<(), Error> {
        let ttl = self.settings.suspended_ttl;
        let before = self.now().plus_seconds(-ttl);
        // Those that are still there are the first: what was given up is none of them any more.
        let mut left = 0;
        while ttl > 0.0 && !self.is_stopping() {
            let due = self.store.upkeep().suspended_turns(before, left, AT_ONCE).await?;
            for turn in &due {
                match self.give_up(*turn, before).await {
                    Err(why @ Error::Unreadable(_)) => {
                        tracing::error!(%turn, error = %why, "a suspended turn cannot be given up");
                        left += 1;
                    }
                    // One that is not there for it any more may stand in the list or not: the next sweep finds what was skipped.
                    done => left += usize::from(!done?),
                }
            }
            if due.len() < AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    /// Whether it was there to be given up.
    async fn give_up(self: &Arc<Self>, turn: TurnId, before: Timestamp) -> Result<bool, Error> {
        let ttl = self.settings.suspended_ttl;
        let owing = self.after_commit();
        let given_up = self.store.transact(About::Turn(turn), move |tx: &mut dyn Transaction| {
            let is_due = |row: &Turn| row.life.suspended().is_some_and(|(at, _)| at < before);
            let Some(row) = tx.turn(turn)?.filter(is_due) else { return Ok(None) };
            let Some(session) = tx.session(row.session_id)? else { return Ok(None) };
            let Some(why) = session.failure() else { return Ok(None) };
            let failure = Failure::not_retried(why, ttl);
            let (mut after_commit, now) = (owing.clone(), tx.now());
            after_commit.change(tx, &session, session::Event::TurnGivenUp { turn, failure }, now)?;
            Ok(Some((session.id, after_commit)))
        });
        let Some((session, after_commit)) = given_up.await? else { return Ok(false) };
        tracing::warn!(%session, "a suspended turn is given up: nobody retried it for --suspended-ttl");
        self.run_after_commit(after_commit);
        Ok(true)
    }
}

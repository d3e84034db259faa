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

/// What became of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivingUp {
    /// It is given up: now, or by whoever else swept.
    Done,
    /// It is suspended still, and stands in the list.
    Left,
}

impl Engine {
    /// Gives up what is due, each in a transaction of its own: a journal may be long, and others get their turn. One that
    /// cannot be given up, because it cannot be read for example, stays, and is passed over.
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
                    Err(unavailable @ Error::StoreUnavailable(_)) => return Err(unavailable),
                    Err(why) => {
                        tracing::error!(%turn, error = %why, "a suspended turn cannot be given up");
                        left += 1;
                    }
                    Ok(outcome) => left += usize::from(outcome == GivingUp::Left),
                }
            }
            if due.len() < AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    async fn give_up(self: &Arc<Self>, turn: TurnId, before: Timestamp) -> Result<GivingUp, Error> {
        let ttl = self.settings.suspended_ttl;
        let owing = self.telling.after_commit();
        let given_up = self.store.transact(About::Turn(turn), move |tx: &mut dyn Transaction| {
            let is_due = |row: &Turn| row.life.suspended().is_some_and(|(at, _)| at < before);
            let Some(row) = tx.turn(turn)?.filter(is_due) else { return Ok(Err(GivingUp::Done)) };
            let Some(session) = tx.session(row.session_id)? else { return Ok(Err(GivingUp::Done)) };
            let Some(why) = session.failure() else { return Ok(Err(GivingUp::Left)) };
            let failure = Failure::not_retried(why, ttl);
            let (mut after_commit, now) = (owing.clone(), tx.now());
            after_commit.change(tx, &session, session::Event::TurnGivenUp { turn, failure }, now)?;
            Ok(Ok((session.id, after_commit)))
        });
        let (session, after_commit) = match given_up.await? {
            Ok(given_up) => given_up,
            Err(not) => return Ok(not),
        };
        tracing::warn!(%session, "a suspended turn is given up: nobody retried it for --suspended-ttl");
        self.telling.run(after_commit);
        Ok(GivingUp::Done)
    }
}

//! Which code runs here and at the other servers, and which turns are therefore left to those: see
//! [`crate::domain::cluster::routing`].

use std::collections::{BTreeSet, HashMap};

use tokio::time::Instant;

use crate::domain::cluster::routing::{recorder, routed_code};
use crate::domain::journal::CodeVersion;
use crate::domain::session::Failure;
use crate::domain::{Error, TurnId};
use crate::engine::Engine;
use crate::store::Transaction;
use crate::store::record::Turn;
use crate::store::shared::servers::{OtherServer, RunningNow};
use crate::store::signals::{OrphanedTurn, TurnTaker};

/// Since when turns that could go on have been left to others, by the clock of this server.
#[derive(Debug, Default)]
pub(in crate::engine) struct WithheldTurns(HashMap<OrphanedTurn, Instant>);

impl WithheldTurns {
    /// These are left to others now.
    pub(super) fn found(&mut self, withheld: Vec<OrphanedTurn>) {
        let before = std::mem::take(&mut self.0);
        let since = |turn: &OrphanedTurn| before.get(turn).copied().unwrap_or_else(Instant::now);
        self.0 = withheld.into_iter().map(|turn| (turn, since(&turn))).collect();
    }
}

impl Engine {
    /// The code that turns are run with here; `None` where none are.
    pub(in crate::engine) fn code(&self) -> Result<Option<CodeVersion>, Error> {
        if !self.runs_turns() {
            return Ok(None);
        }
        let runtime = self.placement.runtime()?;
        Ok(routed_code(&runtime.code, &runtime.python))
    }

    /// Under which code a turn is suspended that fails here: the same on a Python that cannot replay others' turns is another one.
    pub(super) fn suspending_code(&self) -> Result<CodeVersion, Error> {
        let runtime = self.placement.runtime()?;
        Ok(routed_code(&runtime.code, &runtime.python).unwrap_or_default())
    }

    /// What is run here, as other servers are told it.
    pub(super) fn running_now(&self) -> Result<RunningNow, Error> {
        let policy = self.access.policy_status().and_then(|status| status.digest);
        Ok(RunningNow { code: self.code()?, policy })
    }

    /// As whom this server looks for turns that nobody has, of which `withheld` are left to others.
    pub(super) fn taker(&self, withheld: &WithheldTurns) -> Result<TurnTaker, Error> {
        let (agent, code) = (self.settings.agent.clone(), self.code()?);
        let mut taker = TurnTaker { agent, code, ..TurnTaker::default() };
        let Some(membership) = self.store.membership().filter(|_| taker.code.is_some()) else { return Ok(taker) };
        taker.has_others = self.codes_of(&membership.others()).iter().any(|code| Some(code) != taker.code.as_ref());
        // What was recorded to be replayed would only fail here.
        if self.placement.runtime()?.tries_others_code() {
            let is_over = |since: &Instant| since.elapsed() >= membership.starve();
            let starved = withheld.0.iter().filter(|(_, since)| is_over(since));
            taker.starved = starved.map(|(withheld, _)| withheld.turn).collect();
        }
        Ok(taker)
    }

    fn codes_of(&self, others: &[OtherServer]) -> BTreeSet<CodeVersion> {
        let run = others.iter().filter(|other| other.runs_turns_of(&self.settings.agent));
        run.filter_map(|other| other.row.role.running.code.clone()).collect()
    }

    /// Whether the turn, of this server's agent, is left to those with other code, as far as is known who is there.
    pub(super) fn is_left_to_others(&self, turn: &Turn) -> Result<bool, Error> {
        let (Some(membership), mine) = (self.store.membership(), self.code()?) else { return Ok(false) };
        if turn.code.refused_by.is_empty() && (turn.code.code.is_none() || turn.code.code == mine) {
            return Ok(false);
        }
        Ok(!turn.code.may_be_taken(mine.as_deref(), &self.codes_of(&membership.others()), false))
    }

    /// The codes at other servers, where somebody else may replay a turn that has failed here so.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn codes_elsewhere(&self, failure: &Failure) -> Result<BTreeSet<CodeVersion>, Error> {
        match self.store.membership() {
            Some(membership) if failure.is_of_replay() => Ok(self.codes_of(&membership.look_at_others().await?)),
            _ => Ok(BTreeSet::new()),
        }
    }

    /// Lets go of a turn that this server has at `epoch` and cannot replay, inside a transaction, where one of `others` may be able
    /// to; whether it does.
    pub(super) fn let_go(
        &self,
        tx: &mut dyn Transaction,
        turn: &Turn,
        epoch: u64,
        others: &BTreeSet<CodeVersion>,
    ) -> Result<bool, Error> {
        if others.is_empty() {
            return Ok(false);
        }
        let (mine, recorder) = (self.code()?, recorder(&tx.journal(turn.id)?));
        if !turn.code.is_left_to(others, mine.as_deref(), recorder.as_deref()) {
            return Ok(false);
        }
        tx.route_turn(turn.id, turn.code.refused_by(mine, recorder))?;
        // What it took to find that out is none of the turn's time.
        tx.lose_turn(turn.id, epoch, false, turn.life.worked_ms)?;
        tx.release_turn(turn.id)?;
        Ok(true)
    }

    /// The turn is being suspended because of what other code may mend: other code goes on with it first.
    pub(super) fn note_refusal(&self, tx: &mut dyn Transaction, turn: TurnId, failure: &Failure) -> Result<(), Error> {
        // What cannot be read has no other recorder, and nobody reads it better.
        if self.store.membership().is_none() || !failure.is_mended_by_code() || failure.code == "journal_unreadable" {
            return Ok(());
        }
        let Some(row) = tx.turn(turn)? else { return Ok(()) };
        let recorder = recorder(&tx.journal(turn)?);
        tx.route_turn(turn, row.code.refused_by(self.code()?, recorder))
    }
}

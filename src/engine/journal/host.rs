//! For whom turns are run.
//!
//! A server goes on whatever happens: what its store cannot take is held, what loses its worker is taken up again, and who
//! waits stays in memory for a while. A run has one turn and somebody who waits for it: [`crate::engine::run`].

use crate::domain::{Error, SessionId, TurnId};
use crate::engine::journal::runs::RunOutcome;
use crate::engine::ports::dispatch::Lost;
use crate::engine::settings::Settings;
use crate::store::Reader;

/// What becomes of a turn that has just paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum AfterPause {
    /// It stays in memory until it is time to park it.
    Stays,
    /// It is parked in the same transaction, where it can be.
    IsParked,
    /// It fails: nobody could go on with it.
    Fails,
}

/// Why the turn of a run is at no worker any more.
#[derive(Debug)]
pub(in crate::engine) enum RunOver {
    /// It is parked or has ended; the store says the rest.
    ParkedOrEnded,
    /// Another run has it.
    Elsewhere,
    /// Nobody waits for it any more.
    Stopped,
    /// It is still open.
    Lost(Lost),
}

/// See the module.
pub(in crate::engine) trait TurnHost: Send + Sync {
    /// Whether sessions of `agent` are answered and begun here.
    fn serves(&self, agent: &str) -> bool;

    /// What becomes of a turn that has paused: whether it `asks` people, and whether it can be replayed.
    fn after_pause(&self, asks: bool, can_replay: bool) -> AfterPause;

    /// Whether a word that the store cannot take now is held until it can.
    fn outlasts_outages(&self) -> bool;

    /// A turn has lost its worker: why, where it is to be taken up again; `None` where it is let go of.
    fn take_up(&self, lost: Lost) -> Option<Lost>;

    /// How the turn came out, read in the transaction that settles or parks it; `None` where nobody waits for that.
    ///
    /// # Errors
    /// The store's.
    fn outcome(&self, reader: &dyn Reader, session: SessionId, turn: TurnId) -> Result<Option<RunOutcome>, Error>;

    /// That transaction is durable.
    fn came_out(&self, outcome: Option<RunOutcome>);

    /// The turn is at no worker any more.
    fn is_over(&self, over: RunOver);
}

/// A server of one agent.
pub(in crate::engine) struct ServerHost {
    agent: String,
    parks_at_once: bool,
}

impl ServerHost {
    /// As the operator set it.
    pub(in crate::engine) fn new(settings: &Settings) -> Self {
        Self { agent: settings.agent.clone(), parks_at_once: settings.park_after <= 0.0 }
    }
}

impl TurnHost for ServerHost {
    fn serves(&self, agent: &str) -> bool {
        agent == self.agent
    }

    fn after_pause(&self, _: bool, _: bool) -> AfterPause {
        if self.parks_at_once { AfterPause::IsParked } else { AfterPause::Stays }
    }

    fn outlasts_outages(&self) -> bool {
        true
    }

    fn take_up(&self, lost: Lost) -> Option<Lost> {
        Some(lost)
    }

    fn outcome(&self, _: &dyn Reader, _: SessionId, _: TurnId) -> Result<Option<RunOutcome>, Error> {
        Ok(None)
    }

    fn came_out(&self, _: Option<RunOutcome>) {}

    fn is_over(&self, _: RunOver) {}
}

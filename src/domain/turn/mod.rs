//! The turn state machine.
//!
//! [`Life`] is what a store keeps of how a turn stands, and [`Life::transition`] the one place that says what may happen
//! to it: an event gives the next life and what has to be written with it, or an error that names the state, and no
//! change. Invariants, held by property tests: nobody writes to a turn but whoever was given its epoch last; the epoch
//! never goes back; an ended turn stays as it is; out of a suspended one lead only [`TurnEvent::Reopened`] and
//! [`TurnEvent::Abandoned`].
//!
//! A turn that is under way is *ready* (it waits for a slot: claimed already where it is new, else nobody's), *at work* or
//! *paused*. That is known where it is and nowhere else, since it changes with every word of the turn: [`stage`] is the
//! machine of its owner. A server that starts reads from the journal which of them were paused.

pub mod stage;

use super::error::Error;
use super::journal::CodeVersion;
use super::status::TurnStatus;
use super::time::Timestamp;

/// How a turn stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Life {
    /// Counts how often it was given to an owner or taken from one. Whoever was given this number last is its owner.
    pub epoch: u64,
    /// How often it lost its worker, alone or with its server, since it began or was reopened.
    pub recoveries: u32,
    /// How long it has worked, in milliseconds, since it began or was reopened and up to its last parking or the last loss of
    /// its worker: what `--timeout` is counted against.
    pub worked_ms: u64,
    /// How many entries its journal had when its owner claimed it, until that says that it is at work no more: one that says
    /// nothing and is gone was killed, possibly by this very turn.
    pub claimed: Option<u64>,
    /// Where it stands.
    pub state: TurnState,
}

/// Where a turn stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TurnState {
    /// Ready, at work, or paused in its owner's memory. A server that starts takes it up again.
    #[default]
    UnderWay,
    /// It waits for people and timers, and is in nobody's memory.
    Parked {
        /// When its earliest timer is due.
        wake_at: Option<Timestamp>,
    },
    /// It failed in a way that other code, or a request, can mend: it is closed, and its journal is kept.
    Suspended {
        /// Since when.
        at: Timestamp,
        /// The code under which it failed.
        code: CodeVersion,
    },
    /// It is over for good.
    Ended {
        /// Since when.
        at: Timestamp,
    },
}

impl TurnState {
    /// The word for it.
    pub fn status(&self) -> TurnStatus {
        match self {
            Self::UnderWay => TurnStatus::UnderWay,
            Self::Parked { .. } => TurnStatus::Parked,
            Self::Suspended { .. } => TurnStatus::Suspended,
            Self::Ended { .. } => TurnStatus::Ended,
        }
    }
}

/// What can happen to a turn in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// Somebody takes it over, from whoever had it: the next epoch is theirs. Whoever had it, has not said that it is at work
    /// no more, and has recorded nothing either, counts against `--max-recoveries`.
    Claimed {
        /// How many its journal has.
        entries: u64,
    },
    /// Its owner drops it from memory while it waits.
    Parked {
        /// The owner's.
        epoch: u64,
        /// When its earliest timer is due.
        wake_at: Option<Timestamp>,
        /// In the place of [`Life::worked_ms`].
        worked_ms: u64,
    },
    /// What it waited for, parked, has come. It is ready.
    Woken,
    /// Its owner has lost the worker that it was at. It is ready, and that worker owns nothing any more.
    WorkerLost {
        /// The owner's.
        epoch: u64,
        /// Whether it counts against `--max-recoveries`.
        counts: bool,
        /// In the place of [`Life::worked_ms`].
        worked_ms: u64,
    },
    /// It failed in a way that can be mended.
    Suspended {
        /// When.
        at: Timestamp,
        /// Under which code.
        code: CodeVersion,
    },
    /// It is taken up again after it was suspended. It is ready.
    Reopened,
    /// It returned, failed for good, or was cancelled.
    Ended {
        /// When.
        at: Timestamp,
    },
    /// Nobody takes it up again after it was suspended.
    Abandoned {
        /// When.
        at: Timestamp,
    },
}

/// What is written together with a turn's next life, in the same transaction; `TurnWriter::change_turn` of the stores does
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEffect {
    /// What it asks does not expire from now on: nobody could be told.
    StopExpiry,
    /// What it asks can expire again.
    ResumeExpiry,
}

impl Life {
    /// The life after `event`, and what is written with it.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] where it is suspended or has ended, [`Error::StaleEpoch`] where it is another owner's or
    /// nobody's, and [`Error::Internal`] where only a suspended or a parked turn could take the event.
    pub fn transition(&self, event: TurnEvent) -> Result<(Self, Vec<TurnEffect>), Error> {
        let mut next = self.clone();
        let mut effects = Vec::new();
        match event {
            TurnEvent::Claimed { entries } => {
                self.check_open()?;
                next.recoveries = self.recoveries_if_claimed(entries);
                next.claimed = Some(entries);
                next.epoch += 1;
                next.state = TurnState::UnderWay;
            }
            TurnEvent::Parked { epoch, wake_at, worked_ms } => {
                self.check_owner(epoch)?;
                next.epoch += 1;
                next.worked_ms = worked_ms;
                next.claimed = None;
                next.state = TurnState::Parked { wake_at };
            }
            TurnEvent::Woken => {
                self.check_open()?;
                self.check_is(TurnStatus::Parked, "woken")?;
                next.epoch += 1;
                next.claimed = None;
                next.state = TurnState::UnderWay;
            }
            TurnEvent::WorkerLost { epoch, counts, worked_ms } => {
                self.check_owner(epoch)?;
                next.epoch += 1;
                next.worked_ms = worked_ms;
                next.claimed = None;
                next.recoveries += u32::from(counts);
            }
            TurnEvent::Suspended { at, code } => {
                self.check_open()?;
                next.epoch += 1;
                next.claimed = None;
                next.state = TurnState::Suspended { at, code };
                effects.push(TurnEffect::StopExpiry);
            }
            TurnEvent::Reopened => {
                self.check_is(TurnStatus::Suspended, "reopened")?;
                next.claimed = None;
                next.recoveries = 0;
                next.worked_ms = 0;
                next.state = TurnState::UnderWay;
                effects.push(TurnEffect::ResumeExpiry);
            }
            TurnEvent::Ended { at } => {
                self.check_open()?;
                next.claimed = None;
                next.state = TurnState::Ended { at };
            }
            TurnEvent::Abandoned { at } => {
                self.check_is(TurnStatus::Suspended, "abandoned")?;
                next.state = TurnState::Ended { at };
                effects.push(TurnEffect::ResumeExpiry);
            }
        }
        Ok((next, effects))
    }

    /// [`Self::recoveries`] once somebody claims it, as it stands, with so many `entries`. Where it has come further under an
    /// owner that was killed, it is not what ends them: it may be at work for days, and go on at the next machine each night.
    pub fn recoveries_if_claimed(&self, entries: u64) -> u32 {
        self.recoveries + u32::from(self.claimed == Some(entries))
    }

    /// Whether something can still be appended to its journal, by whomever.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    pub fn check_open(&self) -> Result<(), Error> {
        match self.state {
            TurnState::UnderWay | TurnState::Parked { .. } => Ok(()),
            TurnState::Suspended { .. } | TurnState::Ended { .. } => Err(Error::TurnNotOpen(Some(self.state.status()))),
        }
    }

    /// Whether whoever was given `epoch` owns it: what they say counts.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`], [`Error::StaleEpoch`].
    pub fn check_owner(&self, epoch: u64) -> Result<(), Error> {
        self.check_open()?;
        // Parked, it has no owner, whatever epoch that was given to nobody it has.
        if self.epoch == epoch && self.state == TurnState::UnderWay { Ok(()) } else { Err(Error::StaleEpoch) }
    }

    /// Whether nobody has it in memory while it waits.
    pub fn is_parked(&self) -> bool {
        matches!(self.state, TurnState::Parked { .. })
    }

    /// When its earliest timer is due, while it is parked.
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self.state {
            TurnState::Parked { wake_at } => wake_at,
            _ => None,
        }
    }

    /// Since when it is suspended, and the code under which it failed.
    pub fn suspended(&self) -> Option<(Timestamp, &CodeVersion)> {
        match &self.state {
            TurnState::Suspended { at, code } => Some((*at, code)),
            _ => None,
        }
    }

    /// Since when it is over for good.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.state {
            TurnState::Ended { at } => Some(at),
            _ => None,
        }
    }

    fn check_is(&self, wanted: TurnStatus, done: &str) -> Result<(), Error> {
        let status = self.state.status();
        match self.state {
            _ if status == wanted => Ok(()),
            TurnState::Ended { .. } => Err(Error::TurnNotOpen(Some(status))),
            _ => Err(Error::Internal(format!("a turn that {status} cannot be {done}"))),
        }
    }
}

#[cfg(test)]
mod tests;

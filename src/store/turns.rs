//! What happens to turns, on disk: a store reads and writes how a turn stands, and the domain alone says what may come of
//! what ([`Life::transition`]). So there is one place for it, and it is the same in every store.

use super::Reader;
use super::owner::TurnOwner;
use super::record::Turn;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::turn::{Life, TurnEffect, TurnEvent};
use crate::domain::{Error, Timestamp, TurnId};
use crate::faults::{self, Point, Rule};

/// What can be written of turns.
pub trait TurnWriter: Reader {
    /// Adds a turn that nobody has claimed yet.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]; [`Error::Internal`] when its id is taken.
    fn insert_turn(&mut self, turn: &Turn) -> Result<(), Error>;

    /// Writes how a stored turn stands. Only [`TurnWriter::change_turn`] asks for it.
    fn write_life(&mut self, turn: TurnId, life: &Life) -> Result<(), Error>;

    /// See [`TurnEffect::StopExpiry`]. Only [`TurnWriter::change_turn`] asks for it.
    fn stop_expiry(&mut self, turn: TurnId) -> Result<(), Error>;

    /// See [`TurnEffect::ResumeExpiry`]. Only [`TurnWriter::change_turn`] asks for it.
    fn resume_expiry(&mut self, turn: TurnId) -> Result<(), Error>;

    /// Notes where the turn was first impure, unless that is noted already, and adds warnings that it has not.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error>;

    /// Lets the domain decide over `event`, and writes what comes of it: how the turn stands then.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] for an unknown turn, and those of [`Life::transition`].
    fn change_turn(&mut self, id: TurnId, event: TurnEvent) -> Result<Life, Error> {
        let life = self.life(id)?.ok_or(Error::TurnNotOpen(None))?;
        let written = written(&event);
        let (next, effects) =
            life.transition(if Rule::Epoch.is_left_out() { believed(event, &life) } else { event })?;
        self.write_life(id, &next)?;
        for effect in effects {
            match effect {
                TurnEffect::StopExpiry => self.stop_expiry(id)?,
                TurnEffect::ResumeExpiry => self.resume_expiry(id)?,
            }
        }
        faults::at(written);
        Ok(next)
    }

    /// [`TurnEvent::Claimed`], its journal having so many `entries`: the epoch from which on the turn is `owner`'s. A store that keeps owners compares both.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn claim_turn(&mut self, id: TurnId, owner: TurnOwner, entries: u64) -> Result<u64, Error> {
        // The one who has this store.
        let _ = owner;
        Ok(self.change_turn(id, TurnEvent::Claimed { entries })?.epoch)
    }

    /// The turn, which is under way, is nobody's from now on: any process that has a slot may claim it. A store that keeps
    /// owners notes it; in one that a process has for itself, whoever has it finds the turn.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn release_turn(&mut self, id: TurnId) -> Result<(), Error> {
        self.life(id)?.ok_or(Error::TurnNotOpen(None)).map(drop)
    }

    /// Notes which servers go on with the turn first. A store that one process has for itself keeps none.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] for an unknown turn.
    fn route_turn(&mut self, id: TurnId, code: TurnCode) -> Result<(), Error>;

    /// [`TurnEvent::Parked`].
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    fn park_turn(&mut self, id: TurnId, epoch: u64, wake_at: Option<Timestamp>, worked_ms: u64) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Parked { epoch, wake_at, worked_ms }).map(drop)
    }

    /// [`TurnEvent::Woken`].
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`]; [`Error::Internal`] when it is not parked.
    fn wake_turn(&mut self, id: TurnId) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Woken).map(drop)
    }

    /// [`TurnEvent::WorkerLost`]: how often that has counted by now.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    fn lose_turn(&mut self, id: TurnId, epoch: u64, counts: bool, worked_ms: u64) -> Result<u32, Error> {
        Ok(self.change_turn(id, TurnEvent::WorkerLost { epoch, counts, worked_ms })?.recoveries)
    }

    /// [`TurnEvent::Suspended`].
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn suspend_turn(&mut self, id: TurnId, now: Timestamp, code: &str) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Suspended { at: now, code: code.to_owned() }).map(drop)
    }

    /// [`TurnEvent::Reopened`].
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] when it has ended; [`Error::Internal`] when it is open.
    fn reopen_turn(&mut self, id: TurnId) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Reopened).map(drop)
    }

    /// [`TurnEvent::Ended`]: nothing can be appended to it any more.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn end_turn(&mut self, id: TurnId, now: Timestamp) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Ended { at: now }).map(drop)
    }

    /// [`TurnEvent::Abandoned`].
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] when it has ended; [`Error::Internal`] when it is open.
    fn abandon_turn(&mut self, id: TurnId, now: Timestamp) -> Result<(), Error> {
        self.change_turn(id, TurnEvent::Abandoned { at: now }).map(drop)
    }
}

/// Whether what comes from the owner at `epoch` counts.
///
/// # Errors
/// [`Error::TurnNotOpen`], [`Error::StaleEpoch`].
pub fn check_owner(life: &Life, epoch: u64) -> Result<(), Error> {
    match life.check_owner(epoch) {
        Err(Error::StaleEpoch) if Rule::Epoch.is_left_out() => Ok(()),
        checked => checked,
    }
}

/// The event, as if it came from the owner.
fn believed(event: TurnEvent, life: &Life) -> TurnEvent {
    match event {
        TurnEvent::Parked { wake_at, worked_ms, .. } => TurnEvent::Parked { epoch: life.epoch, wake_at, worked_ms },
        TurnEvent::WorkerLost { counts, worked_ms, .. } => {
            TurnEvent::WorkerLost { epoch: life.epoch, counts, worked_ms }
        }
        event => event,
    }
}

/// Where a process can be made to die once that is written.
fn written(event: &TurnEvent) -> Point {
    match event {
        TurnEvent::Claimed { .. } | TurnEvent::Woken | TurnEvent::WorkerLost { .. } => Point::StoreClaimed,
        TurnEvent::Parked { .. } => Point::StoreParked,
        TurnEvent::Suspended { .. } => Point::StoreSuspended,
        TurnEvent::Reopened => Point::StoreReopened,
        TurnEvent::Ended { .. } | TurnEvent::Abandoned { .. } => Point::StoreTurnEnded,
    }
}

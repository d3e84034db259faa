//! What other processes do to a store that they share, as far as somebody here has to hear of it at once.

use crate::domain::journal::{CodeVersion, PendingTimer};
use crate::domain::session::Session;
use crate::domain::{SessionId, TurnId};

/// What others did, and it is on disk. Each is a hint: it may come late, twice, or not at all, and whoever acts on it looks
/// into the store first. What nobody was told of is found by looking now and then ([`super::upkeep::Upkeep::look`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// Something of a session has changed that others are told of.
    Session(SessionId),
    /// A session was deleted.
    Deleted(SessionId),
    /// A turn waits for whoever has a slot, before all new ones.
    Ready,
    /// A new turn waits for whoever has a slot.
    NewTurn,
    /// Something has changed that each process keeps in memory beside all sessions: keys, sign-ins, the policy that was pushed.
    Access,
    /// A process that had the store is gone: what it had is nobody's, and what it would have done next is everybody's.
    Departure,
    /// Nobody knows what was missed.
    Missed,
}

/// How many turns that nobody has are found at one look.
pub const MOST_ORPHANS: usize = 1024;

/// A turn that this process has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTurn {
    /// Which.
    pub turn: TurnId,
    /// Whose.
    pub session: SessionId,
    /// The epoch at which it was claimed.
    pub epoch: u64,
    /// Which run of it, as this process counts them: after a failover there can be two at one epoch, one after the other.
    pub run: u64,
    /// How many entries of its journal are no novelty here: all that was written by others among them has reached
    /// the turn.
    pub known: u64,
}

/// A turn that is under way and at nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrphanedTurn {
    /// Which.
    pub turn: TurnId,
    /// Its epoch: another one once somebody has claimed it. `None` where what is stored of it cannot be read.
    pub epoch: Option<u64>,
}

/// A turn that nobody has, with what whoever takes it up goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftTurn {
    /// Its epoch.
    pub epoch: u64,
    /// Its session.
    pub session: Session,
    /// The timers of the pause that its journal ends with; `None` where it ends with anything else.
    pub paused: Option<Vec<PendingTimer>>,
}

/// Who looks for turns that nobody has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnTaker {
    /// Whose turns it runs.
    pub agent: String,
    /// With which code; `None` where it runs none.
    pub code: Option<CodeVersion>,
    /// What it takes although a server with the code that recorded it is there.
    pub starved: Vec<TurnId>,
    /// Whether servers with other code may be there, to which some are left.
    pub has_others: bool,
}

/// What there is to do for a process that shares its store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OthersSnapshot {
    /// Turns that nobody has.
    pub orphans: Vec<OrphanedTurn>,
    /// Those that are left to servers with the code that recorded them, until they have starved; the first of them.
    pub withheld: Vec<OrphanedTurn>,
    /// Those that are this process's by their rows, and not among the turns in memory that it named; the first of them.
    pub owned: Vec<OrphanedTurn>,
    /// Those of the turns in memory that are not this process's any more, or to whom others have written.
    pub moved: Vec<TurnId>,
    /// How often a standby has taken the database's place. Each time, what was told before may have been taken back.
    pub promotions: u64,
}

/// How far what each process keeps in memory beside all sessions is what the store has: it is read anew where this is another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessVersion {
    /// Counts how often keys, sign-ins or the policy that was pushed have changed, or that the store is in use where it is now
    /// (`hitl store adopt`).
    pub changes: u64,
    /// How often a standby has taken the database's place.
    pub promotions: u64,
}

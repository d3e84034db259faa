//! What stores know of turns that are carried about as signed run states. It outlives their sessions: what was approved
//! in such a state counts once in a store.

use crate::domain::run_state::JournalPosition;
use crate::domain::{Error, TurnId};

/// A turn that came from elsewhere in a signed run state, or went there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Where it stood when its session was deleted; `None` where it is in the store, or has ended.
    pub left_at: Option<JournalPosition>,
}

/// What can be read of them.
pub trait CarriedReader {
    /// What is known of a turn; `None` for one that was never carried.
    fn carried(&self, turn: TurnId) -> Result<Option<Carried>, Error>;
}

/// What can be written of them.
pub trait CarriedWriter {
    /// Notes a turn, in the place of what was known of it.
    fn note_carried(&mut self, turn: TurnId, carried: &Carried) -> Result<(), Error>;
}

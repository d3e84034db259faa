//! Turns that are carried about.

use super::state::MemoryState;
use super::transaction::MemoryTransaction;
use crate::domain::{Error, TurnId};
use crate::store::carried::{Carried, CarriedReader, CarriedWriter};

impl CarriedReader for MemoryState {
    fn carried(&self, turn: TurnId) -> Result<Option<Carried>, Error> {
        Ok(self.carried.get(&turn).cloned())
    }
}

impl CarriedWriter for MemoryTransaction<'_> {
    fn note_carried(&mut self, turn: TurnId, carried: &Carried) -> Result<(), Error> {
        let before = self.state.carried.insert(turn, carried.clone());
        self.on_undo(move |state| {
            match before {
                Some(carried) => state.carried.insert(turn, carried),
                None => state.carried.remove(&turn),
            };
        });
        Ok(())
    }
}

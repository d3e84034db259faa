//! Turns, and how they stand.

use super::state::TurnRow;
use super::transaction::MemoryTransaction;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::turn::Life;
use crate::domain::{Error, TurnId};
use crate::store::record::Turn;
use crate::store::turns::TurnWriter;

impl MemoryTransaction<'_> {
    pub(in crate::store) fn require_life(&self, turn: TurnId) -> Result<&Life, Error> {
        self.state.turns.get(turn).map(|row| &row.turn.life).ok_or(Error::TurnNotOpen(None))
    }

    /// Changes a turn in a way that can be taken back.
    fn write_turn(&mut self, id: TurnId, change: impl FnOnce(&mut Turn)) -> Result<(), Error> {
        let turn = &mut self.state.turns.get_mut(id).ok_or(Error::TurnNotOpen(None))?.turn;
        let before = turn.clone();
        change(turn);
        self.on_undo(move |state| {
            if let Some(row) = state.turns.get_mut(id) {
                row.turn = before;
            }
        });
        Ok(())
    }
}

#[cfg(test)]
impl MemoryTransaction<'_> {
    /// Puts a row in the place of a turn's.
    pub(in crate::store) fn replace_turn(&mut self, turn: &Turn) -> Result<(), Error> {
        self.write_turn(turn.id, |row| *row = turn.clone())
    }
}

impl TurnWriter for MemoryTransaction<'_> {
    fn insert_turn(&mut self, turn: &Turn) -> Result<(), Error> {
        let id = turn.id;
        self.require_session(turn.session_id)?;
        if self.state.turns.contains(id) {
            return Err(Error::Internal(format!("turn {id} is stored already")));
        }
        let new = Turn::new(id, turn.session_id, turn.message.clone(), turn.webhook.clone(), turn.created_at);
        let turn = Turn { sent_by: turn.sent_by.clone(), ..new };
        self.state.turns.push(id, TurnRow { turn, journal: Vec::new(), first: 0, is_compacted: false });
        self.on_undo(move |state| state.turns.unpush(id));
        Ok(())
    }

    fn write_life(&mut self, turn: TurnId, life: &Life) -> Result<(), Error> {
        self.write_turn(turn, |turn| turn.life = life.clone())
    }

    fn stop_expiry(&mut self, _turn: TurnId) -> Result<(), Error> {
        // What is due is looked for among those of turns that are not suspended.
        Ok(())
    }

    fn resume_expiry(&mut self, _turn: TurnId) -> Result<(), Error> {
        // The same.
        Ok(())
    }

    fn route_turn(&mut self, id: TurnId, code: TurnCode) -> Result<(), Error> {
        self.write_turn(id, |turn| turn.code = code)
    }

    fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error> {
        self.require_life(id)?.check_open()?;
        self.write_turn(id, |turn| turn.note(impure_at, warnings))
    }
}

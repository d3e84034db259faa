//! Turns, in SQL: rows of how they stand, which the domain decides.

use rusqlite::params;

use super::connection::Handle;
use super::rows::{self, Cells as _, StateColumns};
use super::sql;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::turn::{Life, TurnState};
use crate::domain::{Error, TurnId};
use crate::faults::{self, Point};
use crate::store::Reader;
use crate::store::record::Turn;
use crate::store::turns::{TurnWriter, check_owner};

impl Handle<'_> {
    /// Where a turn's row is, and how the turn stands.
    pub(super) fn stored_life(&self, id: TurnId) -> Result<Option<(i64, Life)>, Error> {
        self.one("turns", sql!("turns/life"), [id.0.as_bytes()], |cells| Ok((cells.plain()?, rows::life(cells)?)))
    }

    /// Where the row of an open turn is.
    pub(super) fn open_turn(&self, id: TurnId) -> Result<i64, Error> {
        self.owner_of(id).map(|(turn, _)| turn)
    }

    /// The same, for its owner at `epoch` only.
    pub(super) fn owned_turn(&self, id: TurnId, epoch: u64) -> Result<i64, Error> {
        let (turn, life) = self.owner_of(id)?;
        check_owner(&life, epoch)?;
        Ok(turn)
    }

    /// Where the row of an open turn is, and as much of how it stands as says who owns it. Three cells and not all of them:
    /// every append asks for it.
    fn owner_of(&self, id: TurnId) -> Result<(i64, Life), Error> {
        let open = self.one("turns", sql!("turns/open"), [id.0.as_bytes()], |cells| {
            let (turn, epoch) = (cells.plain()?, cells.number()?);
            let state = if cells.plain()? { TurnState::Parked { wake_at: None } } else { TurnState::UnderWay };
            Ok((turn, Life { epoch, state, ..Life::default() }))
        })?;
        if let Some(open) = open {
            return Ok(open);
        }
        // It is closed, and the domain says how.
        let (turn, life) = self.stored_life(id)?.ok_or(Error::TurnNotOpen(None))?;
        life.check_open()?;
        Ok((turn, life))
    }
}

impl TurnWriter for Handle<'_> {
    fn insert_turn(&mut self, turn: &Turn) -> Result<(), Error> {
        let session = self.require_session(turn.session_id)?;
        let message = rows::json(&turn.message.without_nulls())?;
        let webhook = rows::json_or_none(turn.webhook.as_ref())?;
        let params = params![turn.id.0.as_bytes(), session, message, webhook, turn.created_at.millis(), turn.sent_by];
        if self.execute(sql!("turns/insert"), params)? == 0 {
            return Err(Error::Internal(format!("turn {} is stored already", turn.id)));
        }
        faults::at(Point::StoreTurnInserted);
        Ok(())
    }

    fn route_turn(&mut self, _: TurnId, _: TurnCode) -> Result<(), Error> {
        // There is one server.
        Ok(())
    }

    fn write_life(&mut self, turn: TurnId, life: &Life) -> Result<(), Error> {
        let state = StateColumns::of(&life.state);
        let params = params![
            turn.0.as_bytes(),
            rows::integer(life.epoch),
            life.recoveries,
            rows::integer(life.worked_ms),
            state.parked,
            state.wake_at,
            state.ended_at,
            state.suspended_code,
            state.todo,
        ];
        self.execute(sql!("turns/write_life"), params).map(drop)
    }

    fn hold_interrupts(&mut self, turn: TurnId) -> Result<(), Error> {
        self.execute(sql!("interrupts/hold"), [turn.0.as_bytes()]).map(drop)
    }

    fn release_interrupts(&mut self, turn: TurnId) -> Result<(), Error> {
        self.execute(sql!("interrupts/release"), [turn.0.as_bytes()]).map(drop)
    }

    fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error> {
        let mut turn = self.turn(id)?.ok_or(Error::TurnNotOpen(None))?;
        turn.life.check_open()?;
        turn.note(impure_at, warnings);
        let warnings = Some(&turn.warnings).filter(|warnings| !warnings.is_empty());
        let params = params![id.0.as_bytes(), turn.impure_at, rows::json_or_none(warnings)?];
        self.execute(sql!("turns/note"), params).map(drop)
    }
}

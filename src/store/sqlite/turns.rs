//! Turns, in SQL: rows of how they stand, which the domain decides.

use rusqlite::params;

use super::connection::Handle;
use super::rows::{self, Cells as _, SqliteCells, StateColumns};
use super::sql;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::turn::Life;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, TurnId};
use crate::faults::{self, Point};
use crate::store::Reader;
use crate::store::record::Turn;
use crate::store::turns::{TurnWriter, check_owner};

/// A turn as a job has found it, and changed it since: what is asked for again is not read again. A cell that cannot be
/// read is the trouble of whoever asks for that one.
pub(super) struct FoundTurn {
    id: TurnId,
    /// Where its row is.
    pub(super) seq: i64,
    /// The next place in its journal.
    pub(super) next: u64,
    pub(super) sent_by: Result<Option<String>, Error>,
    pub(super) webhook: Result<Option<Webhook>, Error>,
    pub(super) life: Result<Life, Error>,
}

impl FoundTurn {
    /// A row of `turns/found.sql`.
    fn read(id: TurnId, cells: &mut SqliteCells<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            id,
            seq: cells.plain()?,
            next: cells.number()?,
            sent_by: cells.plain(),
            webhook: cells.json_or_none(),
            life: rows::life(cells),
        })
    }
}

impl Handle<'_> {
    /// What `look` sees in a turn's row; `None` where there is none.
    pub(super) fn found_turn<T>(&self, id: TurnId, look: impl FnOnce(&FoundTurn) -> T) -> Result<Option<T>, Error> {
        if let Some(found) = self.turn.borrow().as_ref().filter(|found| found.id == id) {
            return Ok(Some(look(found)));
        }
        let found = self.one("turns", sql!("turns/found"), [id.0.as_bytes()], |cells| FoundTurn::read(id, cells))?;
        let seen = found.as_ref().map(look);
        self.turn.replace(found);
        Ok(seen)
    }

    /// Notes what the job has changed of a turn, where it may ask for that again.
    pub(super) fn change_found(&self, id: TurnId, change: impl FnOnce(&mut FoundTurn)) {
        if let Some(found) = self.turn.borrow_mut().as_mut().filter(|found| found.id == id) {
            change(found);
        }
    }

    /// Where the row of an open turn is, and the next place in its journal.
    pub(super) fn open_turn(&self, id: TurnId) -> Result<(i64, u64), Error> {
        self.place_of(id, Life::check_open)
    }

    /// The same, for its owner at `epoch` only.
    pub(super) fn owned_turn(&self, id: TurnId, epoch: u64) -> Result<(i64, u64), Error> {
        self.place_of(id, |life| check_owner(life, epoch))
    }

    fn place_of(&self, id: TurnId, check: impl FnOnce(&Life) -> Result<(), Error>) -> Result<(i64, u64), Error> {
        let place = |found: &FoundTurn| {
            check(found.life.as_ref().map_err(Error::clone)?)?;
            Ok((found.seq, found.next))
        };
        self.found_turn(id, place)?.ok_or(Error::TurnNotOpen(None))?
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
        self.turn.replace(Some(FoundTurn {
            id: turn.id,
            seq: self.connection.last_insert_rowid(),
            next: 0,
            sent_by: Ok(turn.sent_by.clone()),
            webhook: Ok(turn.webhook.clone()),
            life: Ok(Life::default()),
        }));
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
            life.claimed.map(rows::integer),
            state.parked,
            state.wake_at,
            state.ended_at,
            state.suspended_code,
            state.todo,
        ];
        self.execute(sql!("turns/write_life"), params)?;
        self.change_found(turn, |found| found.life = Ok(life.clone()));
        Ok(())
    }

    fn stop_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
        self.execute(sql!("interrupts/stop_expiry"), [turn.0.as_bytes()]).map(drop)
    }

    fn resume_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
        self.execute(sql!("interrupts/resume_expiry"), [turn.0.as_bytes()]).map(drop)
    }

    fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error> {
        if warnings.is_empty() {
            // A turn with raw I/O says so each time that it is woken, and its row is as long as its message.
            self.open_turn(id)?;
            return self.execute(sql!("turns/note_impure"), params![id.0.as_bytes(), impure_at]).map(drop);
        }
        let mut turn = self.turn(id)?.ok_or(Error::TurnNotOpen(None))?;
        turn.life.check_open()?;
        turn.note(impure_at, warnings);
        let warnings = Some(&turn.warnings).filter(|warnings| !warnings.is_empty());
        let params = params![id.0.as_bytes(), turn.impure_at, rows::json_or_none(warnings)?];
        self.execute(sql!("turns/note"), params).map(drop)
    }
}

//! Turns that are carried about, in SQL.

use rusqlite::params;

use super::connection::Handle;
use super::rows::{self, Cells as _};
use super::sql;
use crate::domain::run_state::JournalPosition;
use crate::domain::{Error, TurnId};
use crate::store::carried::{Carried, CarriedReader, CarriedWriter};

impl CarriedReader for Handle<'_> {
    fn carried(&self, turn: TurnId) -> Result<Option<Carried>, Error> {
        self.one("carried_turns", sql!("carried_turns/select"), [turn.0.as_bytes()], |cells| {
            let (entries, digest) = (cells.plain::<Option<i64>>()?, cells.plain::<Option<String>>()?);
            let entries = entries.and_then(|entries| usize::try_from(entries).ok());
            Ok(Carried { left_at: entries.zip(digest).map(|(entries, digest)| JournalPosition { entries, digest }) })
        })
    }
}

impl CarriedWriter for Handle<'_> {
    fn note_carried(&mut self, turn: TurnId, carried: &Carried) -> Result<(), Error> {
        let left_at = carried.left_at.as_ref();
        let entries = left_at.map(|stand| rows::count(stand.entries));
        let params = params![turn.0.as_bytes(), entries, left_at.map(|stand| &stand.digest)];
        self.execute(sql!("carried_turns/upsert"), params).map(drop)
    }
}

//! Rows of the journal, in SQL.

use rusqlite::params;

use super::connection::Handle;
use super::rows::{self, Cells as _};
use super::sql;
use crate::domain::journal::Entry;
use crate::domain::{Error, Timestamp};
use crate::faults::{self, Point};
use crate::store::rows::entries::EntryColumns;
pub(super) use crate::store::rows::entries::{recorded, step, told};

impl Handle<'_> {
    /// Appends to the journal of the turn in row `turn`, by `journal/append.sql` or `journal/append_told.sql`: the entry's
    /// index.
    pub(super) fn append_entry(&self, sql: &str, turn: i64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        let columns = EntryColumns::of(entry)?;
        // Asked for apart: to insert what is selected from the same table, or to have a column returned, SQLite makes a
        // table in between, which takes longer than all the rest.
        let index = self
            .one("journal", sql!("journal/next"), [turn], |cells| cells.number())?
            .ok_or_else(|| Error::Internal("the journal has no next place".to_owned()))?;
        let params = params![
            turn,
            rows::integer(index),
            now.millis(),
            columns.entry,
            columns.path(),
            columns.kind(),
            columns.name(),
            columns.location(),
            columns.arguments()?,
            columns.interrupt.as_ref().map(|id| id.0.as_bytes()),
            columns.body,
        ];
        faults::at(Point::StoreBeforeAppend);
        self.execute(sql, params)?;
        faults::at(Point::StoreAfterAppend);
        Ok(index)
    }
}

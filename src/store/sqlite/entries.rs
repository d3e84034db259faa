//! Rows of the journal, in SQL.

use rusqlite::params;

use super::connection::Handle;
use super::rows;
use crate::domain::journal::Entry;
use crate::domain::{Error, Timestamp, TurnId};
use crate::faults::{self, Point};
use crate::store::rows::entries::EntryColumns;
pub(super) use crate::store::rows::entries::{recorded, step, told};

impl Handle<'_> {
    /// Appends to the journal of the turn in row `turn` at its next place, by `journal/append.sql` or
    /// `journal/append_told.sql`: the entry's index.
    pub(super) fn append_entry(
        &self,
        sql: &str,
        id: TurnId,
        (turn, index): (i64, u64),
        entry: &Entry,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let columns = EntryColumns::of(entry)?;
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
        self.change_found(id, |found| found.next = index + 1);
        Ok(index)
    }
}

//! Rows of the journal, in SQL.

use rusqlite::params;

use super::connection::Handle;
use super::rows::Cells as _;
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
        let params = params![
            turn,
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
        let index = self
            .one("journal", sql, params, |cells| cells.number())?
            .ok_or_else(|| Error::Internal("the journal took an entry without a place".to_owned()))?;
        faults::at(Point::StoreAfterAppend);
        Ok(index)
    }
}

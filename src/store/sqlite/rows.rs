//! The cells of a row, as SQLite gives them.

use std::fmt::Display;

use rusqlite::Row;

use crate::domain::Error;
pub(super) use crate::store::rows::*;

/// See [`Cells`].
pub(super) struct SqliteCells<'a, 'r> {
    table: &'static str,
    row: &'a Row<'r>,
    next: usize,
}

impl<'a, 'r> SqliteCells<'a, 'r> {
    pub(super) fn new(table: &'static str, row: &'a Row<'r>) -> Self {
        Self { table, row, next: 0 }
    }
}

impl Cells for SqliteCells<'_, '_> {
    fn plain<T: Plain>(&mut self) -> Result<T, Error> {
        let index = self.next;
        self.next += 1;
        self.row.get(index).map_err(|error| self.malformed(error))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn malformed(&self, why: impl Display) -> Error {
        let index = self.next.saturating_sub(1);
        let column = self.row.as_ref().column_name(index).unwrap_or("?");
        Error::Unreadable(format!("{}.{column}: {why}", self.table))
    }
}

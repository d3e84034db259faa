//! The cells of a row, as PostgreSQL gives them.

use std::fmt::Display;

use tokio_postgres::Row;

use crate::domain::Error;
use crate::store::rows::{Cells, Plain};

/// See [`Cells`].
pub(super) struct PostgresCells<'a> {
    table: &'static str,
    row: &'a Row,
    first: usize,
    next: usize,
}

impl<'a> PostgresCells<'a> {
    pub(super) fn new(table: &'static str, row: &'a Row) -> Self {
        Self::after(0, table, row)
    }

    /// Those that come after as many others.
    pub(super) fn after(first: usize, table: &'static str, row: &'a Row) -> Self {
        Self { table, row, first, next: first }
    }
}

impl PostgresCells<'_> {
    /// The next cell, which is an array.
    pub(super) fn numbers(&mut self) -> Result<Vec<u64>, Error> {
        let index = self.next;
        self.next += 1;
        let stored: Vec<i64> = self.row.try_get(index).map_err(|error| self.malformed(error))?;
        stored.into_iter().map(|number| u64::try_from(number).map_err(|error| self.malformed(error))).collect()
    }
}

impl Cells for PostgresCells<'_> {
    fn plain<T: Plain>(&mut self) -> Result<T, Error> {
        let index = self.next;
        self.next += 1;
        let stored = self.row.try_get::<_, T::Stored>(index).map_err(|error| self.malformed(error))?;
        T::read(stored).map_err(|why| self.malformed(why))
    }

    fn rewind(&mut self) {
        self.next = self.first;
    }

    fn malformed(&self, why: impl Display) -> Error {
        let column = self.row.columns().get(self.next.saturating_sub(1)).map_or("?", |column| column.name());
        Error::Unreadable(format!("{}.{column}: {why}", self.table))
    }
}

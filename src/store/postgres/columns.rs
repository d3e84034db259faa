//! Rows as parameters: an array for each column.

use super::connection::SqlCall;
use super::param::{Param, SqlParam};
use crate::domain::{Error, Timestamp};
use crate::store::rows::readable::without_nulls;

/// Rows on their way into columns.
pub(super) struct RowColumns<'r, R>(pub(super) &'r [R], pub(super) Vec<Param>);

impl<'r, R> RowColumns<'r, R> {
    pub(super) fn of(rows: &'r [R]) -> Self {
        Self(rows, Vec::new())
    }

    pub(super) fn plain<T>(mut self, cell: impl Fn(&'r R) -> T) -> Self
    where
        Vec<T>: SqlParam + 'static,
    {
        self.1.push(Box::new(self.0.iter().map(cell).collect::<Vec<T>>()));
        self
    }

    /// Free text.
    pub(super) fn text(self, cell: impl Fn(&'r R) -> &'r str) -> Self {
        self.plain(|row| without_nulls(cell(row)).into_owned())
    }

    pub(super) fn text_or_none(self, cell: impl Fn(&'r R) -> Option<&'r str>) -> Self {
        self.plain(|row| cell(row).map(|text| without_nulls(text).into_owned()))
    }

    /// JSON, which may nest too deeply.
    pub(super) fn json<T>(mut self, cell: impl Fn(&'r R) -> Result<T, Error>) -> Result<Self, Error>
    where
        Vec<T>: SqlParam + 'static,
    {
        self.1.push(Box::new(self.0.iter().map(cell).collect::<Result<Vec<T>, Error>>()?));
        Ok(self)
    }

    pub(super) fn time(self, cell: impl Fn(&'r R) -> Timestamp) -> Self {
        self.plain(|row| cell(row).millis())
    }

    pub(super) fn time_or_none(self, cell: impl Fn(&'r R) -> Option<Timestamp>) -> Self {
        self.plain(|row| cell(row).map(Timestamp::millis))
    }

    /// And what is one for all rows.
    pub(super) fn and(mut self, param: impl SqlParam + 'static) -> Self {
        self.1.push(Box::new(param));
        self
    }

    pub(super) fn call(self, sql: &'static str) -> SqlCall {
        SqlCall::new(sql, self.1)
    }
}

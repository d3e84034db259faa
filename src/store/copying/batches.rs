//! Rows on their way from one store to the other.

use tokio::sync::mpsc;

use super::tables::Table;
use crate::store::open_error::OpenError;

/// About how many bytes a batch has.
pub(in crate::store) const BATCH: usize = 1 << 18;

/// Rows of one table, on their way.
pub(in crate::store) struct RowBatch {
    pub(in crate::store) table: &'static Table,
    /// A line each; see [`super::lines`].
    pub(in crate::store) lines: Vec<u8>,
    pub(in crate::store) rows: u64,
}

/// What gives batches, or the reason why there is no more.
pub(in crate::store) type RowBatches = mpsc::Receiver<Result<RowBatch, OpenError>>;

/// What a store is besides its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct StoreHead {
    /// Which store.
    pub(in crate::store) id: [u8; 16],
    /// No number that is given to an event from now on is smaller.
    pub(in crate::store) last_event: i64,
    /// The first event that was left when events were swept last.
    pub(in crate::store) swept: i64,
    /// The number of the last session.
    pub(in crate::store) last_session: i64,
}

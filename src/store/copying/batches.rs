//! Rows on their way from one store to the other.

use tokio::sync::mpsc;

use super::tables::{TABLES, Table};
use crate::store::open_error::OpenError;

/// About how many bytes a batch has.
pub(in crate::store) const BATCH: usize = 1 << 18;

/// How many batches may be on their way.
pub(in crate::store) const AHEAD: usize = 4;

/// Rows of one table, on their way.
pub(in crate::store) struct RowBatch {
    pub(in crate::store) table: &'static Table,
    /// A line each; see [`super::lines`].
    pub(in crate::store) lines: Vec<u8>,
    pub(in crate::store) rows: u64,
}

/// What gives batches, or the reason why there is no more.
pub(in crate::store) type RowBatches = mpsc::Receiver<Result<RowBatch, OpenError>>;

/// How many rows there were of each table, in their order.
pub(in crate::store) type RowCounts = Vec<(&'static str, u64)>;

/// Before the first of them.
pub(in crate::store) fn no_rows() -> RowCounts {
    TABLES.iter().map(|table| (table.name, 0)).collect()
}

/// Gives each batch to `take`, and counts its rows.
///
/// # Errors
/// That of the store or of `take`, and [`OpenError::BrokenOff`] where they end before they say so.
pub(in crate::store) async fn take_all(
    mut batches: RowBatches,
    rows: &mut RowCounts,
    mut take: impl AsyncFnMut(RowBatch) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    while let Some(batch) = batches.recv().await {
        let batch = batch?;
        // The last one says that it is: what ends without it was broken off.
        if batch.rows == 0 {
            return Ok(());
        }
        for (name, count) in rows.iter_mut() {
            *count += if *name == batch.table.name { batch.rows } else { 0 };
        }
        take(batch).await?;
    }
    Err(OpenError::BrokenOff)
}

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

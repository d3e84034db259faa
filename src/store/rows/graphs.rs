//! Rows of graphs.

use super::Cells;
use crate::domain::Error;
use crate::store::graphs::{ChannelValue, CheckpointKey, GraphWrite, StoredCheckpoint, TypedBytes};

/// A checkpoint, without its values and writes.
pub(in crate::store) fn checkpoint(cells: &mut impl Cells) -> Result<StoredCheckpoint, Error> {
    Ok(StoredCheckpoint {
        key: key(cells)?,
        parent: cells.plain()?,
        body: typed(cells)?,
        metadata: typed(cells)?,
        values: Vec::new(),
        writes: Vec::new(),
    })
}

/// Which checkpoint.
pub(in crate::store) fn key(cells: &mut impl Cells) -> Result<CheckpointKey, Error> {
    Ok(CheckpointKey { thread: cells.plain()?, namespace: cells.plain()?, id: cells.plain()? })
}

/// What a channel held.
pub(in crate::store) fn value(cells: &mut impl Cells) -> Result<ChannelValue, Error> {
    Ok(ChannelValue { channel: cells.plain()?, version: cells.plain()?, value: typed(cells)? })
}

/// What a task has written.
pub(in crate::store) fn write(cells: &mut impl Cells) -> Result<GraphWrite, Error> {
    Ok(GraphWrite {
        task: cells.plain()?,
        place: cells.plain()?,
        path: cells.plain()?,
        channel: cells.plain()?,
        value: typed(cells)?,
    })
}

fn typed(cells: &mut impl Cells) -> Result<TypedBytes, Error> {
    Ok(TypedBytes { kind: cells.plain()?, bytes: cells.plain()? })
}

//! Checkpoints of graphs: those of a memory store. No session changes with them.

use super::SimulatedDatabase;
use super::network::SimulatedConnection;
use crate::domain::Error;
use crate::store::BoxFuture;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphReader, GraphStates, GraphWrite, GraphWriter,
    StoredCheckpoint,
};
use crate::store::memory::transaction::MemoryTransaction;

impl GraphStates for SimulatedDatabase {
    fn put_checkpoint(
        &self,
        checkpoint: Checkpoint,
        values: Vec<ChannelValue>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| MemoryTransaction::new(&mut rows.state).put_checkpoint(&checkpoint, &values))
    }

    fn put_writes(&self, key: CheckpointKey, writes: Vec<GraphWrite>) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| MemoryTransaction::new(&mut rows.state).put_writes(&key, &writes))
    }

    fn checkpoints(&self, query: CheckpointQuery) -> BoxFuture<'static, Result<Vec<StoredCheckpoint>, Error>> {
        self.with(move |rows| rows.state.checkpoints(&query))
    }

    fn delete_thread(&self, thread: String) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| MemoryTransaction::new(&mut rows.state).delete_thread(&thread))
    }

    fn delete_checkpoints(&self, thread: String, keys: Vec<(String, String)>) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| MemoryTransaction::new(&mut rows.state).delete_checkpoints(&thread, &keys))
    }

    fn copy_thread(&self, from: String, to: String) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| MemoryTransaction::new(&mut rows.state).copy_thread(&from, &to))
    }
}

impl GraphStates for SimulatedConnection {
    fn put_checkpoint(
        &self,
        checkpoint: Checkpoint,
        values: Vec<ChannelValue>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database().put_checkpoint(checkpoint, values))
    }

    fn put_writes(&self, key: CheckpointKey, writes: Vec<GraphWrite>) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database().put_writes(key, writes))
    }

    fn checkpoints(&self, query: CheckpointQuery) -> BoxFuture<'static, Result<Vec<StoredCheckpoint>, Error>> {
        self.send(self.database().checkpoints(query))
    }

    fn delete_thread(&self, thread: String) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database().delete_thread(thread))
    }

    fn delete_checkpoints(&self, thread: String, keys: Vec<(String, String)>) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database().delete_checkpoints(thread, keys))
    }

    fn copy_thread(&self, from: String, to: String) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database().copy_thread(from, to))
    }
}

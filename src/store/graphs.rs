//! What graphs of another framework keep here of themselves, where they run on their own and not in a turn: checkpoints
//! of threads, in that framework's words. They belong to no session and nobody sweeps them: whoever has put them here
//! deletes them.
//!
//! A checkpoint names the version of each channel's value; a value that did not change is not stored again. What is
//! written after a checkpoint, before the next one, hangs on it. None of it is read here: bytes, and what they are.

use std::collections::BTreeMap;

use super::BoxFuture;
use crate::domain::Error;

/// The most bytes that one call may store: far below what a row of any database can hold, so that what fits one store
/// fits another.
pub const MAX_AT_ONCE: usize = 256 * 1024 * 1024;

/// A value in the bytes of a serializer, and what the serializer calls them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedBytes {
    /// Which kind of bytes.
    pub kind: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Which checkpoint; in the order of threads, namespaces and, within these, of time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointKey {
    /// The thread.
    pub thread: String,
    /// The graph, or a subgraph of it.
    pub namespace: String,
    /// Later ones have larger ids.
    pub id: String,
}

/// A checkpoint, without what its channels held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which.
    pub key: CheckpointKey,
    /// The id of the one before it, in the same namespace.
    pub parent: Option<String>,
    /// The run that has made it, where it says so.
    pub run: Option<String>,
    /// Of each channel, the version that it had.
    pub versions: BTreeMap<String, String>,
    /// Everything else.
    pub body: TypedBytes,
    /// What is said of it.
    pub metadata: TypedBytes,
}

/// What a channel holds in one of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelValue {
    /// The channel.
    pub channel: String,
    /// The version.
    pub version: String,
    /// What it holds.
    pub value: TypedBytes,
}

/// What a task has written after a checkpoint, while the next one was not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphWrite {
    /// The task.
    pub task: String,
    /// Its place among what the task has written. One below 0 takes the place of what stood there; of others the first
    /// one stays.
    pub place: i64,
    /// Where the task stands in the graph: writes are told in the order of paths, tasks and places.
    pub path: String,
    /// To which channel.
    pub channel: String,
    /// What.
    pub value: TypedBytes,
}

/// A checkpoint with what its channels held, as far as that is there, and what was written after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Which.
    pub key: CheckpointKey,
    /// The id of the one before it.
    pub parent: Option<String>,
    /// See [`Checkpoint::body`].
    pub body: TypedBytes,
    /// What is said of it.
    pub metadata: TypedBytes,
    /// In the order of channels.
    pub values: Vec<ChannelValue>,
    /// In the order of [`GraphWrite::path`].
    pub writes: Vec<GraphWrite>,
}

/// Which checkpoints; the newest come first, whichever thread is theirs.
#[derive(Debug, Clone, Default)]
pub struct CheckpointQuery {
    /// Of this thread.
    pub thread: Option<String>,
    /// Of this namespace.
    pub namespace: Option<String>,
    /// With this id.
    pub id: Option<String>,
    /// With an id below this one.
    pub before: Option<String>,
    /// Made by this run.
    pub run: Option<String>,
    /// The last one of the page before this one.
    pub after: Option<CheckpointKey>,
    /// Without values and writes.
    pub is_bare: bool,
    /// At most so many.
    pub limit: usize,
}

impl CheckpointQuery {
    /// The order of a page in SQL: newest first.
    pub(super) const ORDER: &'static str = "ORDER BY id DESC, thread DESC, namespace DESC";

    /// The conditions that are asked for, each in SQL with its parameters: no others, so that each can use its index.
    pub(super) fn conditions(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut conditions: Vec<(&'static str, Vec<&str>)> = [
            ("thread = ?", &self.thread),
            ("namespace = ?", &self.namespace),
            ("id = ?", &self.id),
            ("id < ?", &self.before),
            ("run = ?", &self.run),
        ]
        .into_iter()
        .filter_map(|(condition, wanted)| Some((condition, vec![wanted.as_deref()?])))
        .collect();
        if let Some(CheckpointKey { thread, namespace, id }) = &self.after {
            conditions.push(("(id, thread, namespace) < (?, ?, ?)", vec![id, thread, namespace]));
        }
        conditions
    }
}

/// Checkpoints of graphs, in a store. All of it may fail with [`Error::StoreUnavailable`]; then nobody knows whether it
/// happened, and it can be done again.
pub trait GraphStates: Send + Sync {
    /// Stores a checkpoint with those values of its channels that are new, in the place of what is there.
    fn put_checkpoint(
        &self,
        checkpoint: Checkpoint,
        values: Vec<ChannelValue>,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// Stores what was written after a checkpoint, which need not be there.
    fn put_writes(&self, key: CheckpointKey, writes: Vec<GraphWrite>) -> BoxFuture<'static, Result<(), Error>>;

    /// A page of checkpoints.
    fn checkpoints(&self, query: CheckpointQuery) -> BoxFuture<'static, Result<Vec<StoredCheckpoint>, Error>>;

    /// Deletes all that there is of a thread.
    fn delete_thread(&self, thread: String) -> BoxFuture<'static, Result<(), Error>>;

    /// Deletes checkpoints of a thread, by namespace and id, with what was written after them, and values of the thread
    /// that no checkpoint names then.
    fn delete_checkpoints(&self, thread: String, keys: Vec<(String, String)>) -> BoxFuture<'static, Result<(), Error>>;

    /// Copies all that there is of a thread to another one, in the place of what has the same names there: checkpoints,
    /// values and writes that the other one has besides stay.
    fn copy_thread(&self, from: String, to: String) -> BoxFuture<'static, Result<(), Error>>;
}

/// What a local store reads of them.
pub trait GraphReader {
    /// See [`GraphStates::checkpoints`].
    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<StoredCheckpoint>, Error>;
}

/// What a local store changes of them.
pub trait GraphWriter {
    /// See [`GraphStates::put_checkpoint`].
    fn put_checkpoint(&mut self, checkpoint: &Checkpoint, values: &[ChannelValue]) -> Result<(), Error>;

    /// See [`GraphStates::put_writes`].
    fn put_writes(&mut self, key: &CheckpointKey, writes: &[GraphWrite]) -> Result<(), Error>;

    /// See [`GraphStates::delete_thread`].
    fn delete_thread(&mut self, thread: &str) -> Result<(), Error>;

    /// See [`GraphStates::delete_checkpoints`].
    fn delete_checkpoints(&mut self, thread: &str, keys: &[(String, String)]) -> Result<(), Error>;

    /// See [`GraphStates::copy_thread`].
    fn copy_thread(&mut self, from: &str, to: &str) -> Result<(), Error>;
}

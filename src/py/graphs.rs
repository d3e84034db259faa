//! Checkpoints of graphs, for a saver that keeps them in a store. Its calls block, and let go of the interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use super::errors::store_error;
use super::runs::RunStore;
use super::runtime::runtime;
use crate::domain::Error;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphStates, GraphWrite, MAX_AT_ONCE, StoredCheckpoint,
    TypedBytes,
};
use crate::store::{BoxFuture, Store};

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GraphStore>()
}

/// `(thread, namespace, id)`.
type KeyTuple = (String, String, String);
/// `(kind, bytes)`.
type Typed = (String, PyBackedBytes);
/// `(key, parent, body, metadata, [(channel, value)], [(task, channel, value)])`.
type Stored<'py> = (
    KeyTuple,
    Option<String>,
    TypedOut<'py>,
    TypedOut<'py>,
    Vec<(String, TypedOut<'py>)>,
    Vec<(String, String, TypedOut<'py>)>,
);
type TypedOut<'py> = (String, Bound<'py, PyBytes>);

/// The checkpoints in a store.
#[pyclass(frozen, module = "hitl._core")]
struct GraphStore(Arc<dyn Store>);

#[pymethods]
impl GraphStore {
    #[new]
    fn new(store: &RunStore) -> Self {
        Self(store.shared())
    }

    /// Stores a checkpoint. `versions`: that of each channel; `values`: `(channel, version, value)` of those that are new.
    /// Raises `StoreError`; `ValueError` for a name with a null character, and for more than a call may store.
    #[pyo3(signature = (key, parent, run, versions, body, metadata, values))]
    #[allow(clippy::too_many_arguments, reason = "a row has that many columns")]
    fn put(
        &self,
        py: Python<'_>,
        key: KeyTuple,
        parent: Option<String>,
        run: Option<String>,
        versions: BTreeMap<String, String>,
        body: Typed,
        metadata: Typed,
        values: Vec<(String, String, Typed)>,
    ) -> PyResult<()> {
        let channels = versions.iter().flat_map(|(channel, version)| [channel, version]);
        let new = values.iter().flat_map(|(channel, version, _)| [channel, version]);
        check_names([&key.0, &key.1, &key.2].into_iter().chain(&parent).chain(&run).chain(channels).chain(new))?;
        check_size(values.iter().map(|(.., value)| value).chain([&body, &metadata]))?;
        let checkpoint =
            Checkpoint { key: key_of(key), parent, run, versions, body: typed(body), metadata: typed(metadata) };
        let values = values
            .into_iter()
            .map(|(channel, version, value)| ChannelValue { channel, version, value: typed(value) })
            .collect();
        self.act(py, |graphs| graphs.put_checkpoint(checkpoint, values))
    }

    /// Stores what a task wrote after a checkpoint: `(place, channel, value)` each. A place below 0 is overwritten, of
    /// others the first stays. Raises as `put` does.
    fn put_writes(
        &self,
        py: Python<'_>,
        key: KeyTuple,
        task: String,
        path: String,
        writes: Vec<(i64, String, Typed)>,
    ) -> PyResult<()> {
        let channels = writes.iter().map(|(_, channel, _)| channel);
        check_names([&key.0, &key.1, &key.2, &task, &path].into_iter().chain(channels))?;
        check_size(writes.iter().map(|(.., value)| value))?;
        let row = |(place, channel, value)| GraphWrite {
            task: task.clone(),
            place,
            path: path.clone(),
            channel,
            value: typed(value),
        };
        let writes = writes.into_iter().map(row).collect();
        self.act(py, |graphs| graphs.put_writes(key_of(key), writes))
    }

    /// A page of checkpoints, the newest first: `(key, parent, body, metadata, values, writes)` each, with `values` as
    /// `(channel, value)` and `writes` as `(task, channel, value)` in their order; both empty with `bare`. `after`: the key
    /// of the last one of the page before. Raises `StoreError`.
    #[pyo3(signature = (*, limit, thread = None, namespace = None, id = None, before = None, run = None, after = None, bare = false))]
    #[allow(clippy::too_many_arguments, reason = "each is a filter, by its name")]
    fn page<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        thread: Option<String>,
        namespace: Option<String>,
        id: Option<String>,
        before: Option<String>,
        run: Option<String>,
        after: Option<KeyTuple>,
        bare: bool,
    ) -> PyResult<Vec<Stored<'py>>> {
        let after = after.map(key_of);
        let query = CheckpointQuery { thread, namespace, id, before, run, after, is_bare: bare, limit };
        let found = self.act(py, |graphs| graphs.checkpoints(query))?;
        Ok(found.into_iter().map(|stored| stored_of(py, stored)).collect())
    }

    /// Deletes all that there is of a thread. Raises `StoreError`.
    fn delete_thread(&self, py: Python<'_>, thread: String) -> PyResult<()> {
        self.act(py, |graphs| graphs.delete_thread(thread))
    }

    /// Deletes checkpoints of a thread, by namespace and id, and what belongs to no other one. Raises `StoreError`.
    fn delete_checkpoints(&self, py: Python<'_>, thread: String, keys: Vec<(String, String)>) -> PyResult<()> {
        self.act(py, |graphs| graphs.delete_checkpoints(thread, keys))
    }

    /// Copies all that there is of a thread to another one, in the place of what has the same names there; everything else
    /// stays. Raises `StoreError`.
    fn copy_thread(&self, py: Python<'_>, source: String, target: String) -> PyResult<()> {
        check_names([&source, &target].into_iter())?;
        self.act(py, |graphs| graphs.copy_thread(source, target))
    }
}

impl GraphStore {
    fn act<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&dyn GraphStates) -> BoxFuture<'static, Result<T, Error>> + Send,
    ) -> PyResult<T> {
        let runtime = runtime()?;
        let done = py.detach(|| runtime.block_on(async { ask(self.0.upkeep()).await }));
        done.map_err(|error| {
            let hint =
                "check the disk or the database, and invoke the graph again: it goes on from its last checkpoint";
            store_error(py, &format!("the store failed: {error}"), hint, error.code())
        })
    }
}

fn key_of((thread, namespace, id): KeyTuple) -> CheckpointKey {
    CheckpointKey { thread, namespace, id }
}

fn typed((kind, bytes): Typed) -> TypedBytes {
    TypedBytes { kind, bytes: bytes.to_vec() }
}

fn typed_out(py: Python<'_>, TypedBytes { kind, bytes }: TypedBytes) -> TypedOut<'_> {
    (kind, PyBytes::new(py, &bytes))
}

fn stored_of(py: Python<'_>, stored: StoredCheckpoint) -> Stored<'_> {
    let StoredCheckpoint { key: CheckpointKey { thread, namespace, id }, parent, body, metadata, values, writes } =
        stored;
    (
        (thread, namespace, id),
        parent,
        typed_out(py, body),
        typed_out(py, metadata),
        values.into_iter().map(|row| (row.channel, typed_out(py, row.value))).collect(),
        writes.into_iter().map(|row| (row.task, row.channel, typed_out(py, row.value))).collect(),
    )
}

/// A null character would end a name for one of the databases, and be a part of it for another.
fn check_names<'n>(mut names: impl Iterator<Item = &'n String>) -> PyResult<()> {
    match names.find(|name| name.contains('\0')) {
        None => Ok(()),
        Some(name) => Err(PyValueError::new_err(format!("{name:?} has a null character; give it another name"))),
    }
}

fn check_size<'v>(values: impl Iterator<Item = &'v Typed>) -> PyResult<()> {
    let size: usize = values.map(|(_, bytes)| bytes.len()).sum();
    if size <= MAX_AT_ONCE {
        return Ok(());
    }
    let message = format!(
        "a checkpoint of {size} bytes is larger than the {MAX_AT_ONCE} that a store takes at once; keep what is large \
         elsewhere, and its place in the state of the graph"
    );
    Err(PyValueError::new_err(message))
}

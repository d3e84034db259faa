//! Checkpoints of graphs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::state::MemoryState;
use super::transaction::MemoryTransaction;
use crate::domain::Error;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphReader, GraphWrite, GraphWriter, StoredCheckpoint,
    TypedBytes,
};

/// What there is of graphs.
#[derive(Clone, Default)]
pub(super) struct GraphTables {
    checkpoints: BTreeMap<CheckpointKey, Checkpoint>,
    values: BTreeMap<ValueKey, TypedBytes>,
    writes: BTreeMap<WriteKey, GraphWrite>,
}

/// A value's thread, namespace, channel and version.
type ValueKey = (String, String, String, String);
/// What a write hangs on, its task, and its place.
type WriteKey = (CheckpointKey, String, i64);

fn checkpoints(tables: &mut GraphTables) -> &mut BTreeMap<CheckpointKey, Checkpoint> {
    &mut tables.checkpoints
}

fn values(tables: &mut GraphTables) -> &mut BTreeMap<ValueKey, TypedBytes> {
    &mut tables.values
}

fn writes(tables: &mut GraphTables) -> &mut BTreeMap<WriteKey, GraphWrite> {
    &mut tables.writes
}

fn value_key(key: &CheckpointKey, channel: &str, version: &str) -> ValueKey {
    (key.thread.clone(), key.namespace.clone(), channel.to_owned(), version.to_owned())
}

/// Below every key of a thread.
fn first_of(thread: &str) -> CheckpointKey {
    CheckpointKey { thread: thread.to_owned(), namespace: String::new(), id: String::new() }
}

impl GraphTables {
    fn stored(&self, checkpoint: &Checkpoint, is_bare: bool) -> StoredCheckpoint {
        let Checkpoint { key, parent, body, metadata, versions, .. } = checkpoint.clone();
        let mut stored = StoredCheckpoint { key, parent, body, metadata, values: Vec::new(), writes: Vec::new() };
        if is_bare {
            return stored;
        }
        for (channel, version) in versions {
            if let Some(value) = self.values.get(&value_key(&stored.key, &channel, &version)) {
                stored.values.push(ChannelValue { channel, version, value: value.clone() });
            }
        }
        stored.writes = self.writes_of(&stored.key).map(|(_, write)| write.clone()).collect();
        stored
            .writes
            .sort_by(|one, other| (&one.path, &one.task, one.place).cmp(&(&other.path, &other.task, other.place)));
        stored
    }

    fn writes_of(&self, key: &CheckpointKey) -> impl Iterator<Item = (&WriteKey, &GraphWrite)> {
        let first = (key.clone(), String::new(), i64::MIN);
        self.writes.range(first..).take_while(move |((of, ..), _)| of == key)
    }

    fn of_thread(&self, thread: &str) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.range(first_of(thread)..).take_while(move |(key, _)| key.thread == thread).map(|(_, it)| it)
    }

    fn values_of(&self, thread: &str) -> impl Iterator<Item = (&ValueKey, &TypedBytes)> {
        let first = (thread.to_owned(), String::new(), String::new(), String::new());
        self.values.range(first..).take_while(move |(key, _)| key.0 == thread)
    }

    fn writes_of_thread(&self, thread: &str) -> impl Iterator<Item = (&WriteKey, &GraphWrite)> {
        let first = (first_of(thread), String::new(), i64::MIN);
        self.writes.range(first..).take_while(move |((of, ..), _)| of.thread == thread)
    }
}

impl GraphReader for MemoryState {
    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<StoredCheckpoint>, Error> {
        let is_wanted = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let place = |key: &CheckpointKey| (key.id.clone(), key.thread.clone(), key.namespace.clone());
        let after = query.after.as_ref().map(place);
        let mut found: Vec<&Checkpoint> = match &query.thread {
            Some(thread) => self.graphs.of_thread(thread).collect(),
            None => self.graphs.checkpoints.values().collect(),
        };
        found.retain(|Checkpoint { key, run, .. }| {
            is_wanted(&query.namespace, &key.namespace)
                && is_wanted(&query.id, &key.id)
                && query.before.as_ref().is_none_or(|before| key.id < *before)
                && (query.run.is_none() || query.run == *run)
                && after.as_ref().is_none_or(|after| place(key) < *after)
        });
        found.sort_by_cached_key(|checkpoint| Reverse(place(&checkpoint.key)));
        found.truncate(query.limit);
        Ok(found.into_iter().map(|checkpoint| self.graphs.stored(checkpoint, query.is_bare)).collect())
    }
}

impl MemoryTransaction<'_> {
    /// What a row of a table is from now on; `None` takes it away.
    fn set_row<K: Ord + Clone + 'static, V: 'static>(
        &mut self,
        table: fn(&mut GraphTables) -> &mut BTreeMap<K, V>,
        key: K,
        row: Option<V>,
    ) {
        let set = move |state: &mut MemoryState, key: K, row: Option<V>| match row {
            Some(row) => table(&mut state.graphs).insert(key, row),
            None => table(&mut state.graphs).remove(&key),
        };
        let before = set(self.state, key.clone(), row);
        self.on_undo(move |state| drop(set(state, key, before)));
    }
}

impl GraphWriter for MemoryTransaction<'_> {
    fn put_checkpoint(&mut self, checkpoint: &Checkpoint, new: &[ChannelValue]) -> Result<(), Error> {
        for ChannelValue { channel, version, value } in new {
            self.set_row(values, value_key(&checkpoint.key, channel, version), Some(value.clone()));
        }
        self.set_row(checkpoints, checkpoint.key.clone(), Some(checkpoint.clone()));
        Ok(())
    }

    fn put_writes(&mut self, key: &CheckpointKey, new: &[GraphWrite]) -> Result<(), Error> {
        for write in new {
            let key = (key.clone(), write.task.clone(), write.place);
            if write.place < 0 || !self.state.graphs.writes.contains_key(&key) {
                self.set_row(writes, key, Some(write.clone()));
            }
        }
        Ok(())
    }

    fn delete_thread(&mut self, thread: &str) -> Result<(), Error> {
        let tables = &self.state.graphs;
        let (rows, kept, written): (Vec<_>, Vec<_>, Vec<_>) = (
            tables.of_thread(thread).map(|checkpoint| checkpoint.key.clone()).collect(),
            tables.values_of(thread).map(|(key, _)| key.clone()).collect(),
            tables.writes_of_thread(thread).map(|(key, _)| key.clone()).collect(),
        );
        rows.into_iter().for_each(|key| self.set_row(checkpoints, key, None));
        kept.into_iter().for_each(|key| self.set_row(values, key, None));
        written.into_iter().for_each(|key| self.set_row(writes, key, None));
        Ok(())
    }

    fn delete_checkpoints(&mut self, thread: &str, keys: &[(String, String)]) -> Result<(), Error> {
        for (namespace, id) in keys {
            let key = CheckpointKey { thread: thread.to_owned(), namespace: namespace.clone(), id: id.clone() };
            let written: Vec<WriteKey> = self.state.graphs.writes_of(&key).map(|(key, _)| key.clone()).collect();
            written.into_iter().for_each(|key| self.set_row(writes, key, None));
            self.set_row(checkpoints, key, None);
        }
        let tables = &self.state.graphs;
        let named: BTreeSet<ValueKey> = tables
            .of_thread(thread)
            .flat_map(|it| it.versions.iter().map(|(channel, version)| value_key(&it.key, channel, version)))
            .collect();
        let unnamed: Vec<ValueKey> =
            tables.values_of(thread).map(|(key, _)| key).filter(|key| !named.contains(key)).cloned().collect();
        unnamed.into_iter().for_each(|key| self.set_row(values, key, None));
        Ok(())
    }

    fn copy_thread(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let renamed = |key: &CheckpointKey| CheckpointKey { thread: to.to_owned(), ..key.clone() };
        let tables = self.state.graphs.clone();
        for checkpoint in tables.of_thread(from) {
            let key = renamed(&checkpoint.key);
            self.set_row(checkpoints, key.clone(), Some(Checkpoint { key, ..checkpoint.clone() }));
        }
        for ((_, namespace, channel, version), value) in tables.values_of(from) {
            let key = (to.to_owned(), namespace.clone(), channel.clone(), version.clone());
            self.set_row(values, key, Some(value.clone()));
        }
        for ((key, task, place), write) in tables.writes_of_thread(from) {
            self.set_row(writes, (renamed(key), task.clone(), *place), Some(write.clone()));
        }
        Ok(())
    }
}

//! Checkpoints of graphs. Nothing is read before it is written, so that a commit that nobody answered can be sent again.

use std::collections::BTreeMap;

use super::PostgresBackend;
use super::asking::{params, text};
use super::cells::PostgresCells;
use super::connection::{Frame, SqlCall};
use super::lists::ListFilter;
use super::sql;
use crate::domain::Error;
use crate::store::BoxFuture;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphStates, GraphWrite, StoredCheckpoint,
};
use crate::store::rows::graphs as rows;
use crate::store::rows::readable::without_nulls;

impl PostgresBackend {
    fn change_graphs(&self, calls: Vec<SqlCall>) -> BoxFuture<'static, Result<(), Error>> {
        let pool = self.pool();
        Box::pin(async move { Ok(pool.run(Frame::Commit, calls).await.map(drop)?) })
    }
}

/// As Postgres takes it.
fn column<'r>(texts: impl Iterator<Item = &'r String>) -> Vec<String> {
    texts.map(|text| without_nulls(text).into_owned()).collect()
}

/// Nobody deletes anything of the thread meanwhile.
fn lock_shared(thread: &str) -> SqlCall {
    SqlCall::new(sql!("graphs/lock_shared"), vec![text(thread)])
}

/// Nobody stores anything of the thread meanwhile.
fn lock(thread: &str) -> SqlCall {
    SqlCall::new(sql!("graphs/lock"), vec![text(thread)])
}

fn upsert(checkpoint: &Checkpoint) -> SqlCall {
    let Checkpoint { key, parent, run, versions, body, metadata } = checkpoint;
    let or_none = |text: &Option<String>| text.as_ref().map(|text| without_nulls(text).into_owned());
    let params = params![
        without_nulls(&key.thread).into_owned(),
        without_nulls(&key.namespace).into_owned(),
        without_nulls(&key.id).into_owned(),
        or_none(parent),
        or_none(run),
        column(versions.keys()),
        column(versions.values()),
        without_nulls(&body.kind).into_owned(),
        body.bytes.clone(),
        without_nulls(&metadata.kind).into_owned(),
        metadata.bytes.clone(),
    ];
    SqlCall::new(sql!("graphs/upsert"), params)
}

fn upsert_values(key: &CheckpointKey, values: &[ChannelValue]) -> SqlCall {
    let params = params![
        without_nulls(&key.thread).into_owned(),
        without_nulls(&key.namespace).into_owned(),
        column(values.iter().map(|row| &row.channel)),
        column(values.iter().map(|row| &row.version)),
        column(values.iter().map(|row| &row.value.kind)),
        values.iter().map(|row| row.value.bytes.clone()).collect::<Vec<_>>(),
    ];
    SqlCall::new(sql!("graphs/upsert_values"), params)
}

fn upsert_writes(key: &CheckpointKey, writes: &[GraphWrite]) -> SqlCall {
    // No row can be written twice in one statement.
    let mut rows: BTreeMap<(&str, i64), &GraphWrite> = BTreeMap::new();
    for write in writes {
        let row = rows.entry((&write.task, write.place)).or_insert(write);
        if write.place < 0 {
            *row = write;
        }
    }
    let rows: Vec<&GraphWrite> = rows.into_values().collect();
    let params = params![
        without_nulls(&key.thread).into_owned(),
        without_nulls(&key.namespace).into_owned(),
        without_nulls(&key.id).into_owned(),
        column(rows.iter().map(|row| &row.task)),
        rows.iter().map(|row| row.place).collect::<Vec<_>>(),
        column(rows.iter().map(|row| &row.path)),
        column(rows.iter().map(|row| &row.channel)),
        column(rows.iter().map(|row| &row.value.kind)),
        rows.iter().map(|row| row.value.bytes.clone()).collect::<Vec<_>>(),
    ];
    SqlCall::new(sql!("graphs/upsert_writes"), params)
}

/// The statement of a page, with other columns.
fn page(query: &CheckpointQuery, select: &'static str) -> ListFilter {
    let mut filter = ListFilter::new(select, CheckpointQuery::ORDER);
    for (condition, params) in query.conditions() {
        filter.add_all(condition, params.into_iter().map(text));
    }
    filter
}

/// The page, and what belongs to its checkpoints.
pub(super) fn calls(query: &CheckpointQuery) -> Vec<SqlCall> {
    let mut calls = vec![page(query, sql!("graphs/select")).call_exactly("", query.limit)];
    if !query.is_bare {
        for rest in [sql!("graphs/values"), sql!("graphs/writes")] {
            calls.push(page(query, sql!("graphs/select_named")).call_exactly(rest, query.limit));
        }
    }
    calls
}

impl GraphStates for PostgresBackend {
    fn put_checkpoint(
        &self,
        checkpoint: Checkpoint,
        values: Vec<ChannelValue>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let mut calls = vec![lock_shared(&checkpoint.key.thread)];
        if !values.is_empty() {
            calls.push(upsert_values(&checkpoint.key, &values));
        }
        calls.push(upsert(&checkpoint));
        self.change_graphs(calls)
    }

    fn put_writes(&self, key: CheckpointKey, writes: Vec<GraphWrite>) -> BoxFuture<'static, Result<(), Error>> {
        self.change_graphs(vec![lock_shared(&key.thread), upsert_writes(&key, &writes)])
    }

    fn checkpoints(&self, query: CheckpointQuery) -> BoxFuture<'static, Result<Vec<StoredCheckpoint>, Error>> {
        let (pool, calls) = (self.pool(), calls(&query));
        Box::pin(async move {
            let replies = pool.run(Frame::Snapshot, calls).await?;
            let mut replies = replies.iter();
            let mut found = Vec::new();
            for row in replies.next().into_iter().flatten() {
                found.push(rows::checkpoint(&mut PostgresCells::new("graph_checkpoints", row))?);
            }
            let place = |found: &[StoredCheckpoint], key| found.iter().position(|stored| stored.key == key);
            for row in replies.next().into_iter().flatten() {
                let mut cells = PostgresCells::new("graph_values", row);
                let at = place(&found, rows::key(&mut cells)?);
                if let Some(stored) = at.and_then(|at| found.get_mut(at)) {
                    stored.values.push(rows::value(&mut cells)?);
                }
            }
            for row in replies.next().into_iter().flatten() {
                let mut cells = PostgresCells::new("graph_writes", row);
                let at = place(&found, rows::key(&mut cells)?);
                if let Some(stored) = at.and_then(|at| found.get_mut(at)) {
                    stored.writes.push(rows::write(&mut cells)?);
                }
            }
            Ok(found)
        })
    }

    fn delete_thread(&self, thread: String) -> BoxFuture<'static, Result<(), Error>> {
        let delete = |sql| SqlCall::new(sql, vec![text(&thread)]);
        self.change_graphs(vec![
            lock(&thread),
            delete(sql!("graphs/delete_thread")),
            delete(sql!("graphs/delete_thread_writes")),
            delete(sql!("graphs/delete_thread_values")),
        ])
    }

    fn delete_checkpoints(&self, thread: String, keys: Vec<(String, String)>) -> BoxFuture<'static, Result<(), Error>> {
        let delete = |sql| {
            let (namespaces, ids) = (keys.iter().map(|key| &key.0), keys.iter().map(|key| &key.1));
            SqlCall::new(sql, vec![text(&thread), Box::new(column(namespaces)), Box::new(column(ids))])
        };
        self.change_graphs(vec![
            lock(&thread),
            delete(sql!("graphs/delete")),
            delete(sql!("graphs/delete_writes")),
            SqlCall::new(sql!("graphs/delete_unnamed"), vec![text(&thread)]),
        ])
    }

    fn copy_thread(&self, from: String, to: String) -> BoxFuture<'static, Result<(), Error>> {
        let copy = |sql| SqlCall::new(sql, vec![text(&from), text(&to)]);
        self.change_graphs(vec![
            lock_shared(&from),
            lock(&to),
            copy(sql!("graphs/copy_values")),
            copy(sql!("graphs/copy_writes")),
            copy(sql!("graphs/copy")),
        ])
    }
}

//! Checkpoints of graphs, in SQL.

use rusqlite::types::Value as SqlValue;
use rusqlite::{params, params_from_iter};

use super::connection::Handle;
use super::reading::Filter;
use super::rows;
use super::sql;
use crate::domain::Error;
use crate::store::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphReader, GraphWrite, GraphWriter, StoredCheckpoint,
};

fn filter(query: &CheckpointQuery) -> Filter {
    let mut filter = Filter::new(sql!("graphs/select"), CheckpointQuery::ORDER);
    for (condition, params) in query.conditions() {
        filter.add_all(condition, params.into_iter().map(|wanted| SqlValue::from(wanted.to_owned())));
    }
    filter
}

impl Handle<'_> {
    fn values(&self, key: &CheckpointKey) -> Result<Vec<ChannelValue>, Error> {
        let params = params![key.thread, key.namespace, key.id];
        self.all("graph_values", sql!("graphs/values"), params, |cells| rows::graphs::value(cells))
    }

    fn writes(&self, key: &CheckpointKey) -> Result<Vec<GraphWrite>, Error> {
        let params = params![key.thread, key.namespace, key.id];
        self.all("graph_writes", sql!("graphs/writes"), params, |cells| rows::graphs::write(cells))
    }
}

impl GraphReader for Handle<'_> {
    fn checkpoints(&self, query: &CheckpointQuery) -> Result<Vec<StoredCheckpoint>, Error> {
        let filter = filter(query);
        let params = params_from_iter(filter.params());
        let sql = filter.sql(query.limit);
        let mut found = self.all("graph_checkpoints", &sql, params, |cells| rows::graphs::checkpoint(cells))?;
        if !query.is_bare {
            for stored in &mut found {
                stored.values = self.values(&stored.key)?;
                stored.writes = self.writes(&stored.key)?;
            }
        }
        Ok(found)
    }
}

impl GraphWriter for Handle<'_> {
    fn put_checkpoint(&mut self, checkpoint: &Checkpoint, values: &[ChannelValue]) -> Result<(), Error> {
        let Checkpoint { key, parent, run, versions, body, metadata } = checkpoint;
        for ChannelValue { channel, version, value } in values {
            let params = params![key.thread, key.namespace, channel, version, value.kind, value.bytes];
            self.execute(sql!("graphs/upsert_value"), params)?;
        }
        let versions = rows::json(versions)?;
        let params = params![
            key.thread,
            key.namespace,
            key.id,
            parent,
            run,
            versions,
            body.kind,
            body.bytes,
            metadata.kind,
            metadata.bytes,
        ];
        self.execute(sql!("graphs/upsert"), params).map(drop)
    }

    fn put_writes(&mut self, key: &CheckpointKey, writes: &[GraphWrite]) -> Result<(), Error> {
        for GraphWrite { task, place, path, channel, value } in writes {
            let params =
                params![key.thread, key.namespace, key.id, task, place, path, channel, value.kind, value.bytes];
            self.execute(sql!("graphs/upsert_write"), params)?;
        }
        Ok(())
    }

    fn delete_thread(&mut self, thread: &str) -> Result<(), Error> {
        self.execute(sql!("graphs/delete_thread"), [thread])?;
        self.execute(sql!("graphs/delete_thread_writes"), [thread])?;
        self.execute(sql!("graphs/delete_thread_values"), [thread]).map(drop)
    }

    fn delete_checkpoints(&mut self, thread: &str, keys: &[(String, String)]) -> Result<(), Error> {
        for (namespace, id) in keys {
            self.execute(sql!("graphs/delete"), [thread, namespace, id])?;
            self.execute(sql!("graphs/delete_writes"), [thread, namespace, id])?;
        }
        self.execute(sql!("graphs/delete_unnamed"), [thread]).map(drop)
    }

    fn copy_thread(&mut self, from: &str, to: &str) -> Result<(), Error> {
        self.execute(sql!("graphs/copy_values"), [from, to])?;
        self.execute(sql!("graphs/copy_writes"), [from, to])?;
        self.execute(sql!("graphs/copy"), [from, to]).map(drop)
    }
}

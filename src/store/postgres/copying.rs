//! A database that is read as a whole, or copied into.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc::Sender;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, CopyInSink};
use uuid::Uuid;

use super::connection::{Frame, SqlCall, described};
use super::opening::{self, connect, open, open_to_read};
use super::{PgAddress, PostgresBackend, sql};
use crate::store::copying::batches::{BATCH, RowBatch, StoreHead};
use crate::store::copying::tables::{AUDIT, TABLES, Table};
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::shared::servers::ServerKind;
use crate::store::upkeep::Upkeep as _;

/// How long what was told last may take to be bound into the chain of the audit: others' transactions hold it back.
const LINKED_WITHIN: Duration = Duration::from_secs(20);

/// A database, to be read as it is at one moment.
pub(in crate::store) struct PostgresSource {
    address: PgAddress,
    /// In a transaction that sees one moment.
    reader: Client,
    /// In a transaction that lets nobody join, where nobody else may change it.
    _alone: Option<Client>,
}

impl PostgresSource {
    /// Alone: what comes after what is read would be lost.
    pub(in crate::store) async fn open(address: &PgAddress) -> Result<Self, OpenError> {
        Self::open_within(address, LINKED_WITHIN).await
    }

    /// The same, with another time for the audit.
    pub(super) async fn open_within(address: &PgAddress, linked: Duration) -> Result<Self, OpenError> {
        // First, so that no schema is made where there is none, and nothing is done to a standby.
        open_to_read(address).await?;
        let (first, _) = connect(address).await?;
        let alone = alone(address).await?;
        // What was told and is not bound yet has no place in the chain, and nobody else would bind it any more.
        let backend = PostgresBackend::over(address, first, linked);
        backend.totals().await.map_err(|error| trouble(address, ServerTrouble::Unreachable(error.to_string())))?;
        let reader = reader(address).await?;
        let unlinked = reader.query_one(sql!("copying/unlinked"), &[]).await.and_then(|row| row.try_get(0));
        if unlinked.map_err(|error| refused(address, &error))? {
            return Err(trouble(address, ServerTrouble::Busy));
        }
        Ok(Self { address: address.clone(), reader, _alone: Some(alone) })
    }

    /// Beside whoever has it.
    pub(in crate::store) async fn beside(address: &PgAddress) -> Result<Self, OpenError> {
        open_to_read(address).await?;
        Ok(Self { address: address.clone(), reader: reader(address).await?, _alone: None })
    }

    /// The first row of the audit that is bound and is not there.
    pub(in crate::store) async fn untold(&self) -> Result<Option<i64>, OpenError> {
        let untold = "SELECT min(c.seq) FROM hitl.audit_chain c \
                      WHERE NOT EXISTS (SELECT FROM hitl.deeds d WHERE d.number = c.number)";
        let row = self.reader.query_one(untold, &[]).await.and_then(|row| row.try_get(0));
        row.map_err(|error| refused(&self.address, &error))
    }

    /// Whether the user may read what the store counts with: a role that an earlier release was named for (`--grants`) may not.
    pub(in crate::store) async fn may_count(&self) -> Result<bool, OpenError> {
        let may = "SELECT has_sequence_privilege('hitl.sessions_seq_seq', 'SELECT')";
        let row = self.reader.query_one(may, &[]).await.and_then(|row| row.try_get(0));
        row.map_err(|error| refused(&self.address, &error))
    }

    pub(in crate::store) async fn head(&self) -> Result<StoreHead, OpenError> {
        let row = self.reader.query_one(sql!("copying/head"), &[]).await;
        let row = row.map_err(|error| refused(&self.address, &error))?;
        let read = || {
            Ok(StoreHead {
                id: row.try_get::<_, Uuid>(0)?.into_bytes(),
                last_event: row.try_get(1)?,
                swept: row.try_get(2)?,
                last_session: row.try_get(3)?,
            })
        };
        read().map_err(|error: tokio_postgres::Error| refused(&self.address, &error))
    }

    /// Sends everything, until nobody takes it any more.
    pub(in crate::store) async fn read(self, batches: Sender<Result<RowBatch, OpenError>>) {
        let mut last = None;
        for table in TABLES {
            match self.read_table(table, &batches).await {
                Ok(true) => last = Some(table),
                Ok(false) => return,
                Err(error) => {
                    // Whoever does not take it has an error of its own.
                    drop(batches.send(Err(refused(&self.address, &error))).await);
                    return;
                }
            }
        }
        if let Some(table) = last {
            drop(batches.send(Ok(RowBatch { table, lines: Vec::new(), rows: 0 })).await);
        }
    }

    /// Whether somebody took all of it.
    async fn read_table(
        &self,
        table: &'static Table,
        batches: &Sender<Result<RowBatch, OpenError>>,
    ) -> Result<bool, tokio_postgres::Error> {
        let rows = match table.name {
            AUDIT => sql!("audit_chain/select").to_owned() + " ORDER BY c.seq",
            name => format!("SELECT {} FROM hitl.{name}", table.names()),
        };
        let stream = self.reader.copy_out(&format!("COPY ({rows}) TO STDOUT")).await?;
        let mut stream = Box::pin(stream);
        let mut batch = RowBatch { table, lines: Vec::new(), rows: 0 };
        while let Some(line) = stream.next().await {
            batch.lines.extend_from_slice(&line?);
            batch.rows += 1;
            if batch.lines.len() >= BATCH {
                let full = std::mem::replace(&mut batch, RowBatch { table, lines: Vec::new(), rows: 0 });
                if batches.send(Ok(full)).await.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(batch.rows == 0 || batches.send(Ok(batch)).await.is_ok())
    }
}

/// A database that nobody else changes, with nothing in it yet.
pub(in crate::store) struct PostgresTarget {
    address: PgAddress,
    /// In a transaction that lets nobody join.
    writer: Client,
    /// Where rows go at the moment.
    open: Option<OpenTable>,
}

struct OpenTable {
    name: &'static str,
    sink: Pin<Box<CopyInSink<Bytes>>>,
}

impl PostgresTarget {
    pub(in crate::store) async fn open(address: &PgAddress, head: &StoreHead) -> Result<Self, OpenError> {
        open(address).await?;
        // First: where both are one, this would wait for itself.
        let (mut first, _) = connect(address).await?;
        let found = first.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/id"), vec![])]).await;
        let found = found.map_err(|failed| opening::failed_text(address, &failed))?;
        let id = found.first().and_then(|rows| rows.first()).and_then(|row| row.try_get::<_, Uuid>(0).ok());
        if id.is_some_and(|id| id.into_bytes() == head.id) {
            return Err(OpenError::SameStore);
        }
        let target = Self { address: address.clone(), writer: alone(address).await?, open: None };
        for table in TABLES {
            let name = if table.name == AUDIT { "deeds" } else { table.name };
            let some = format!("SELECT EXISTS (SELECT FROM hitl.{name})");
            let row = target.writer.query_one(&some, &[]).await.map_err(|error| refused(address, &error))?;
            if row.try_get(0).map_err(|error| refused(address, &error))? {
                return Err(OpenError::NotEmpty { place: address.to_string(), what: table.name });
            }
        }
        target.script(sql!("copying/audit")).await?;
        Ok(target)
    }

    pub(in crate::store) async fn write(&mut self, batch: RowBatch) -> Result<(), OpenError> {
        let RowBatch { table, lines, .. } = batch;
        if self.open.as_ref().is_none_or(|open| open.name != table.name) {
            self.end_table().await?;
            let place = if table.name == AUDIT { "copied_audit".to_owned() } else { format!("hitl.{}", table.name) };
            let into = format!("COPY {place} ({}) FROM STDIN", table.names());
            let sink = self.writer.copy_in(&into).await.map_err(|error| refused(&self.address, &error))?;
            self.open = Some(OpenTable { name: table.name, sink: Box::pin(sink) });
        }
        match &mut self.open {
            Some(open) => open.sink.send(lines.into()).await.map_err(|error| refused(&self.address, &error)),
            None => Ok(()),
        }
    }

    async fn end_table(&mut self) -> Result<(), OpenError> {
        match self.open.take() {
            Some(mut open) => {
                open.sink.as_mut().finish().await.map(drop).map_err(|error| refused(&self.address, &error))
            }
            None => Ok(()),
        }
    }

    /// Keeps all of it: how many sessions wait.
    pub(in crate::store) async fn finish(mut self, head: StoreHead) -> Result<u64, OpenError> {
        self.end_table().await?;
        self.script(sql!("copying/audit_done")).await?;
        let StoreHead { id, last_event, swept, last_session } = head;
        let done = self.writer.execute(sql!("copying/finish"), &[&Uuid::from_bytes(id), &last_event, &swept]).await;
        done.map_err(|error| refused(&self.address, &error))?;
        for table in TABLES.iter().filter(|table| table.is_counted) {
            // No number is given away twice, not even that of a session which is gone.
            let least = if table.name == "sessions" { last_session } else { 0 };
            let next = format!(
                "SELECT setval(pg_get_serial_sequence('hitl.{0}', 'seq'), greatest(max(seq), $1) + 1, false) FROM hitl.{0}",
                table.name
            );
            self.writer.query(&next, &[&least]).await.map_err(|error| refused(&self.address, &error))?;
        }
        let waiting = "SELECT count(*) FROM hitl.sessions WHERE status = 'interrupted'";
        let row = self.writer.query_one(waiting, &[]).await.map_err(|error| refused(&self.address, &error))?;
        let waiting: i64 = row.try_get(0).map_err(|error| refused(&self.address, &error))?;
        self.script("COMMIT").await?;
        // Nobody has planned for these tables when they were empty. What is copied is there, whatever becomes of this.
        drop(self.writer.batch_execute(sql!("copying/analyze")).await);
        Ok(waiting.unsigned_abs())
    }

    async fn script(&self, sql: &str) -> Result<(), OpenError> {
        self.writer.batch_execute(sql).await.map_err(|error| refused(&self.address, &error))
    }
}

/// A connection in a transaction that lets nobody join, and finds nobody who is there.
async fn alone(address: &PgAddress) -> Result<Client, OpenError> {
    let client = connected(address).await?;
    // Whatever the database's own defaults are: who has come is seen once the lock is there, and not as before it.
    let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}", sql!("copying/alone"));
    // Once for those who are dead: what they still commit must not count, and that is so once this one has.
    for is_last in [false, true] {
        client.batch_execute(&begin).await.map_err(|error| refused(address, &error))?;
        let there = client.query(sql!("copying/servers"), &[]).await.map_err(|error| refused(address, &error))?;
        if let Some(row) = there.first() {
            let read = || Ok((row.try_get::<_, String>(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?));
            let (kind, host, pid) = read().map_err(|error: tokio_postgres::Error| refused(address, &error))?;
            let is_server = kind == ServerKind::Server.as_str();
            let pid = u32::try_from(pid).unwrap_or_default();
            return Err(trouble(address, ServerTrouble::InUse { is_server, host, pid }));
        }
        if !is_last {
            client.batch_execute("DELETE FROM hitl.servers; COMMIT").await.map_err(|error| refused(address, &error))?;
        }
    }
    Ok(client)
}

/// A connection in a transaction that sees one moment, for as long as it takes.
async fn reader(address: &PgAddress) -> Result<Client, OpenError> {
    let reader = connected(address).await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
                 SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL bytea_output = hex; \
                 SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'";
    reader.batch_execute(begin).await.map_err(|error| refused(address, &error))?;
    Ok(reader)
}

async fn connected(address: &PgAddress) -> Result<Client, OpenError> {
    address.connect().await.map_err(|error| opening::refused(address, &error))
}

fn trouble(address: &PgAddress, trouble: ServerTrouble) -> OpenError {
    OpenError::Server { address: address.to_string(), trouble }
}

/// Why the database does not do it. Its message names tables and columns; what was in a row is in a detail, which is left out.
fn refused(address: &PgAddress, error: &tokio_postgres::Error) -> OpenError {
    let Some(refusal) = error.as_db_error() else {
        return trouble(address, ServerTrouble::Unreachable(described(error)));
    };
    trouble(
        address,
        match refusal.code() {
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => ServerTrouble::NoPermission,
            code => ServerTrouble::Refused(format!("{} ({})", refusal.message(), code.code())),
        },
    )
}

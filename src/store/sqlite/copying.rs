//! A file that is read as a whole, or copied into.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, Row};
use tokio::sync::mpsc::Sender;
use uuid::Uuid;

use super::connection;
use super::file::{StoreFile, check_readable};
use super::lock::{Access, Lock};
use super::path::{absolute, refused};
use super::sql;
use crate::domain::digest::hex;
use crate::store::copying::batches::{BATCH, RowBatch, StoreHead};
use crate::store::copying::lines;
use crate::store::copying::tables::{Column, Here, Kind, TABLES, Table};
use crate::store::open_error::OpenError;
use crate::store::rows::readable::{with_nulls, without_nulls};

/// A file, to be read as it is at one moment.
pub(in crate::store) struct SqliteSource {
    path: PathBuf,
    connection: Connection,
    /// Where nobody else may have it.
    _lock: Option<Lock>,
}

impl SqliteSource {
    /// Alone: what comes after what is read would be lost.
    pub(in crate::store) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = absolute(path)?;
        // First, so that nothing is made beside a file that is not there.
        check_readable(&path)?;
        let lock = Lock::take(&path, Access::Server)?;
        Self::read_at_once(path, Some(lock))
    }

    /// Beside whoever has it.
    pub(in crate::store) fn beside(path: &Path) -> Result<Self, OpenError> {
        let path = absolute(path)?;
        check_readable(&path)?;
        Self::read_at_once(path, None)
    }

    fn read_at_once(path: PathBuf, lock: Option<Lock>) -> Result<Self, OpenError> {
        let opened = || {
            let connection = connection::open_for_reading(&path)?;
            connection.execute_batch("BEGIN")?;
            Ok(connection)
        };
        let connection = opened().map_err(|error| refused(&path, &error))?;
        Ok(Self { path, connection, _lock: lock })
    }

    pub(in crate::store) fn head(&self) -> Result<StoreHead, OpenError> {
        head(&self.connection).map_err(|error| refused(&self.path, &error))
    }

    /// What SQLite finds damaged in it, a line each; the last one is why it looked no further.
    pub(in crate::store) fn damage(&self) -> Vec<String> {
        let mut found = Vec::new();
        let looked = self.each("PRAGMA integrity_check", |row| {
            let line: String = row.get(0)?;
            found.extend((line != "ok").then_some(line));
            Ok(())
        });
        found.extend(looked.err().map(|error| error.to_string()));
        found
    }

    /// The sessions of turns that are under way, and that no start would take up: by a column that other stores do not have.
    pub(in crate::store) fn left_alone(&self) -> Result<Vec<(Uuid, String)>, OpenError> {
        let mut found = Vec::new();
        let looked = self.each(
            "SELECT s.id, t.id FROM turns t JOIN sessions s ON s.seq = t.session \
             WHERE t.ended_at IS NULL AND NOT t.parked AND t.todo IS NOT 0",
            |row| {
                let (session, turn) = (Uuid::from_bytes(row.get(0)?), Uuid::from_bytes(row.get(1)?));
                found.push((session, format!("turn {turn} is under way, and no server that starts would take it up")));
                Ok(())
            },
        );
        looked.map(|()| found).map_err(|error| refused(&self.path, &error))
    }

    fn each(&self, sql: &str, mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    }

    /// Sends everything, on a thread of its own, until nobody takes it any more.
    pub(in crate::store) fn read(self, batches: Sender<Result<RowBatch, OpenError>>) -> JoinHandle<()> {
        std::thread::spawn(move || {
            let mut last = None;
            for table in TABLES {
                match self.read_table(table, &batches) {
                    Ok(true) => last = Some(table),
                    Ok(false) => return,
                    Err(error) => {
                        // Whoever does not take it has an error of its own.
                        drop(batches.blocking_send(Err(error)));
                        return;
                    }
                }
            }
            if let Some(table) = last {
                drop(batches.blocking_send(Ok(RowBatch { table, lines: Vec::new(), rows: 0 })));
            }
        })
    }

    /// Whether somebody took all of it.
    fn read_table(
        &self,
        table: &'static Table,
        batches: &Sender<Result<RowBatch, OpenError>>,
    ) -> Result<bool, OpenError> {
        let failed = |error: rusqlite::Error| refused(&self.path, &error);
        let mut statement = self.connection.prepare(&reading(table)).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut batch = RowBatch { table, lines: Vec::new(), rows: 0 };
        while let Some(row) = rows.next().map_err(failed)? {
            push(table, row, &mut batch.lines).map_err(|why| self.unreadable(table, &why))?;
            batch.rows += 1;
            if batch.lines.len() >= BATCH {
                let full = std::mem::replace(&mut batch, RowBatch { table, lines: Vec::new(), rows: 0 });
                if batches.blocking_send(Ok(full)).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(batch.rows == 0 || batches.blocking_send(Ok(batch)).is_ok())
    }

    fn unreadable(&self, table: &Table, why: &str) -> OpenError {
        OpenError::Failed { path: self.path.clone(), reason: format!("a row of {} cannot be read: {why}", table.name) }
    }
}

/// A file that nobody else has, with nothing in it yet.
pub(in crate::store) struct SqliteTarget {
    path: PathBuf,
    /// In a transaction, and before the lock: it goes first.
    connection: Connection,
    _lock: Lock,
}

impl SqliteTarget {
    pub(in crate::store) fn open(path: &Path, head: &StoreHead) -> Result<Self, OpenError> {
        let (connection, lock) = StoreFile::open(path, Access::Server)?.into_parts();
        let path = lock.path().to_owned();
        let target = Self { path, connection, _lock: lock };
        let is_same = target.run(|connection| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            connection.query_row(sql!("store/id"), [], |row| Ok(row.get::<_, [u8; 16]>(0)? == head.id))
        })?;
        if is_same {
            return Err(OpenError::SameStore);
        }
        for table in TABLES {
            let some = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            if target.run(|connection| connection.query_row(&some, [], |row| row.get(0)))? {
                return Err(OpenError::NotEmpty { place: target.path.display().to_string(), what: table.name });
            }
        }
        Ok(target)
    }

    pub(in crate::store) fn write(&mut self, batch: &RowBatch) -> Result<(), OpenError> {
        let table = batch.table;
        let unreadable = |why: &str| OpenError::Failed {
            path: self.path.clone(),
            reason: format!("a row of {} cannot be stored: {why}", table.name),
        };
        let mut statement =
            self.connection.prepare_cached(&writing(table)).map_err(|error| refused(&self.path, &error))?;
        // What is derived is no parameter.
        let places = table.columns.iter().map(|column| statement.parameter_index(&format!(":{}", column.name)));
        let places: Vec<_> = places.collect::<Result<_, _>>().map_err(|error| refused(&self.path, &error))?;
        for line in batch.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let cells = lines::cells(line).filter(|cells| cells.len() == places.len());
            let cells = cells.ok_or_else(|| unreadable("it has other cells than expected"))?;
            for ((column, cell), place) in table.columns.iter().zip(cells).zip(&places) {
                let Some(place) = place else { continue };
                let value = value(column.kind, cell).map_err(|why| unreadable(&format!("{}: {why}", column.name)))?;
                statement.raw_bind_parameter(*place, &value).map_err(|error| refused(&self.path, &error))?;
            }
            statement.raw_execute().map_err(|error| unreadable(&error.to_string()))?;
        }
        Ok(())
    }

    /// Keeps all of it: how many sessions wait.
    pub(in crate::store) fn finish(self, head: StoreHead) -> Result<u64, OpenError> {
        self.run(|connection| {
            connection.execute("UPDATE store SET id = ?1", [head.id])?;
            connection.execute("UPDATE last_told SET number = ?1, swept = ?2", [head.last_event, head.swept])?;
            // No number is given away twice, not even that of a session which is gone.
            connection.execute("UPDATE session_counters SET last_seq = ?1", [head.last_session])?;
            connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
            let waiting: i64 =
                connection
                    .query_row("SELECT count(*) FROM sessions WHERE status = 'interrupted'", [], |row| row.get(0))?;
            Ok(waiting.unsigned_abs())
        })
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, OpenError> {
        work(&self.connection).map_err(|error| refused(&self.path, &error))
    }
}

fn head(connection: &Connection) -> rusqlite::Result<StoreHead> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(StoreHead {
        id: connection.query_row(sql!("store/id"), [], |row| row.get(0))?,
        last_event: number(sql!("events/last"))?,
        swept: number("SELECT swept FROM last_told")?,
        last_session: number("SELECT last_seq FROM session_counters")?,
    })
}

/// The statement that reads all rows of a table, those that came first before the others.
fn reading(table: &Table) -> String {
    let column = |column: &Column| match column.here {
        Here::Same => format!("t.{}", column.name),
        Here::Derived(read) | Here::Kept { read, .. } => read.to_owned(),
    };
    let columns = table.columns.iter().map(column).collect::<Vec<_>>().join(", ");
    // Those of the audit are bound to each other; of the others, neighbours in one store are so in the other.
    let order = if table.columns.iter().any(|column| column.name == "seq") { " ORDER BY t.seq" } else { "" };
    format!("SELECT {columns} FROM {} t{order}", table.name)
}

/// The statement that writes a row, with parameters that are named after the columns.
fn writing(table: &Table) -> String {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in table.columns {
        match column.here {
            Here::Same => {
                names.push(column.name);
                values.push(format!(":{}", column.name));
            }
            Here::Kept { column, write, .. } => {
                names.push(column);
                values.push(write.to_owned());
            }
            Here::Derived(_) => {}
        }
    }
    format!("INSERT INTO {} ({}) VALUES ({})", table.name, names.join(", "), values.join(", "))
}

fn push(table: &Table, row: &Row<'_>, line: &mut Vec<u8>) -> Result<(), String> {
    for (index, column) in table.columns.iter().enumerate() {
        let stored = row.get_ref(index).map_err(|error| error.to_string())?;
        let cell = cell(column.kind, stored).map_err(|why| format!("{}: {why}", column.name))?;
        lines::push(line, index == 0, cell.as_deref());
    }
    line.push(b'\n');
    Ok(())
}

/// A value as PostgreSQL writes it.
fn cell(kind: Kind, value: ValueRef<'_>) -> Result<Option<String>, String> {
    let text = |text: &[u8]| std::str::from_utf8(text).map(str::to_owned).map_err(|error| error.to_string());
    let cell = match (kind, value) {
        (_, ValueRef::Null) => return Ok(None),
        (Kind::Int, ValueRef::Integer(number)) => number.to_string(),
        (Kind::Bool, ValueRef::Integer(0)) => "f".to_owned(),
        (Kind::Bool, ValueRef::Integer(_)) => "t".to_owned(),
        (Kind::Text | Kind::Json, ValueRef::Text(written)) => without_nulls(&text(written)?).into_owned(),
        (Kind::Uuid, ValueRef::Blob(id)) => Uuid::from_slice(id).map_err(|error| error.to_string())?.to_string(),
        (Kind::Bytes, ValueRef::Blob(bytes)) => format!("\\x{}", hex(bytes)),
        (Kind::Names, ValueRef::Text(list)) => {
            let names: Vec<String> = serde_json::from_slice(list).map_err(|error| error.to_string())?;
            lines::array(&names)
        }
        (kind, other) => return Err(format!("{:?} where {kind:?} should be", other.data_type())),
    };
    Ok(Some(cell))
}

/// A value as SQLite keeps it.
fn value(kind: Kind, cell: Option<String>) -> Result<SqlValue, String> {
    let Some(cell) = cell else { return Ok(SqlValue::Null) };
    Ok(match kind {
        Kind::Int => SqlValue::Integer(cell.parse().map_err(|error| format!("{error}"))?),
        Kind::Bool => SqlValue::Integer(i64::from(cell == "t")),
        Kind::Text | Kind::Json => SqlValue::Text(with_nulls(cell)),
        Kind::Uuid => SqlValue::Blob(cell.parse::<Uuid>().map_err(|error| error.to_string())?.into_bytes().to_vec()),
        Kind::Bytes => {
            let digits = cell.strip_prefix("\\x").ok_or("no bytes")?;
            SqlValue::Blob(lines::unhex(digits).ok_or("no bytes")?)
        }
        Kind::Names => {
            let names = lines::names(&cell).ok_or("no list of texts")?;
            SqlValue::Text(serde_json::to_string(&names).map_err(|error| error.to_string())?)
        }
    })
}

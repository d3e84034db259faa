//! Connections: how they are opened, and which of SQLite's errors mean that one cannot be trusted any more.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::path::with_suffix;
use super::turns::FoundTurn;
use crate::domain::search::Needle;
use crate::domain::{Error, SessionId, naming};
use crate::faults::Rule;
use crate::store::kept::KeptForms;
use crate::store::query::SessionSearch;

/// How long a statement waits for another process that has the file, such as a backup or the `sqlite3` shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than there are different statements, the filters of lists included.
const STATEMENTS: usize = 128;

/// Opens the existing file at `path` for writing: WAL, every commit synced. It has the log open, then.
///
/// Checkpoints are left to [`super::checkpoint`]: SQLite's own would run inside a commit that somebody waits for. The log
/// keeps its size when it is begun anew: a sync of blocks that exist already takes a fraction of one that grows a file.
pub(super) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    // EXTRA is FULL and one thing more: the rollback journal, which SQLite uses once, to make a new file one with a
    // write-ahead log, is gone for sure. Came it back after a power cut, it would undo that, and the log be thrown away.
    connection.execute_batch("PRAGMA synchronous = EXTRA")?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::ToSqlConversionFailure(
            format!("this file system cannot hold a write-ahead log (journal mode is {mode})").into(),
        ));
    }
    if Rule::Sync.is_left_out() {
        connection.execute_batch("PRAGMA synchronous = OFF")?;
    }
    connection.execute_batch(
        "PRAGMA foreign_keys = ON;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -8192;",
    )?;
    // The first read opens the log. From now on SQLite removes it under nobody, until this connection is closed.
    connection.query_row(FIRST_READ, [], |_| Ok(()))?;
    Ok(connection)
}

const FIRST_READ: &str = "SELECT count(*) FROM sqlite_schema";

/// Opens the existing file at `path` for reading beside a writer of this process; a write through it is an error.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    as_reader(open(path)?)
}

/// Opens the existing file at `path` for reading, whoever else has it; also where nothing can be made beside it, such as a
/// backup on a disk that is read only, as long as no log belongs to it.
pub(super) fn open_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    let opened = open_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(as_reader);
    let Err(error) = &opened else { return opened };
    let is_walled = matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    match is_walled.then(|| as_immutable(path)).flatten() {
        Some(uri) => {
            as_reader(open_with(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)?)
        }
        None => opened,
    }
}

/// The file's name as one that nobody writes; `None` where it has a log, without which it is not whole.
fn as_immutable(path: &Path) -> Option<String> {
    let is_empty = |suffix| match std::fs::metadata(with_suffix(path, suffix)) {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let mut uri = url::Url::from_file_path(path).ok().filter(|_| is_empty("-wal") && is_empty("-journal"))?;
    uri.set_query(Some("immutable=1"));
    Some(uri.into())
}

fn as_reader(connection: Connection) -> rusqlite::Result<Connection> {
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;")?;
    // The first read maps the shared index, for which it may need disk space; later ones do not.
    connection.query_row(FIRST_READ, [], |_| Ok(()))?;
    Ok(connection)
}

/// Opens the existing file at `path` without changing how it works.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    // A reader of a writing process opens for writing too: the last of its connections tidies up the log.
    open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

fn open_with(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // One plan for each statement, whatever its values: else SQLite prepares anew, for each value it is given, what it
    // might plan otherwise for another one, and that is every append to a journal.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;")?;
    add_search(&connection)?;
    add_session_search(&connection)?;
    Ok(connection)
}

/// The condition that a row of `interrupts` says something: see [`Needle`].
pub(super) const SAYS: &str = "says(payload, message, agent, ?)";

fn add_search(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("says", 4, flags, |cells| {
        let needle = cells.get_or_create_aux(3, |value| Ok::<_, FromSqlError>(Needle::new(value.as_str()?)))?;
        let text = |index| {
            Ok::<_, rusqlite::Error>(cells.get_raw(index).as_str_or_null()?.is_some_and(|text| needle.is_in(text)))
        };
        Ok(needle.is_in_json(cells.get_raw(0).as_str()?) || text(1)? || text(2)?)
    })
}

/// The condition that a search finds a row of `sessions/list.sql`: see [`SessionSearch::finds`].
pub(super) const FINDS: &str = "finds(id, first_message, ?)";

fn add_session_search(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("finds", 3, flags, |cells| {
        // How many are looked at is not this condition's.
        let search = |value: ValueRef<'_>| {
            Ok::<_, FromSqlError>(SessionSearch { needle: Needle::new(value.as_str()?), within: 1 })
        };
        let search = cells.get_or_create_aux(2, search)?;
        let title = cells.get_raw(1).as_str_or_null()?.and_then(naming::title_of_stored);
        Ok(search.finds(SessionId(uuid::Uuid::from_bytes(cells.get(0)?)), title.as_deref()))
    })
}

/// Whether the file, and not the statement, is at fault: nothing that this connection says afterwards can be trusted.
pub(super) fn is_fault(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
        )
    )
}

/// What a caller is told of SQLite's error.
pub(super) fn unavailable(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // The statement broke a rule of the schema: a bug of ours, and the store is fine.
        Some(ErrorCode::ConstraintViolation) => Error::Internal(error.to_string()),
        _ => Error::StoreUnavailable(error.to_string()),
    }
}

/// A connection in the hands of a job. Remembers a fault even if the job swallows the error.
pub(super) struct Handle<'c> {
    pub(super) connection: &'c Connection,
    /// What the store keeps, for all jobs.
    pub(super) forms: &'c KeptForms,
    /// Where the session is that was looked up last: most jobs are about one.
    pub(super) session: Cell<Option<(SessionId, u64)>>,
    /// The turn that was looked up last, as it stands: so are most jobs about one.
    pub(super) turn: RefCell<Option<FoundTurn>>,
    fault: Cell<bool>,
}

impl<'c> Handle<'c> {
    pub(super) fn new(connection: &'c Connection, forms: &'c KeptForms) -> Self {
        Self { connection, forms, session: Cell::new(None), turn: RefCell::new(None), fault: Cell::new(false) }
    }

    /// Whether a statement of the job met a fault of the file, or the transaction around the job is gone.
    pub(super) fn is_broken(&self) -> bool {
        self.fault.get() || self.connection.is_autocommit()
    }

    /// Notes a fault and says the error in the store's words.
    pub(super) fn error(&self, error: &rusqlite::Error) -> Error {
        if is_fault(error) {
            self.fault.set(true);
        }
        unavailable(error)
    }
}

/// Runs a statement without rows or parameters, such as `COMMIT`.
pub(super) fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// [`run`], unless another process would have to be waited for: whether it was run.
pub(super) fn run_at_once(connection: &Connection, sql: &str) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let ran = run(connection, sql);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    match ran {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        ran => ran.map(|()| true),
    }
}

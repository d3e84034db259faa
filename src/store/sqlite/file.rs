//! The file: made with care, refused with a reason, owned by one server.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};

use super::migrations::{self, APPLICATION_ID, NEWEST};
use super::{connection, log};
use crate::store::open::OpenError;

/// An open store file with the newest schema, and the right to it.
pub(super) struct StoreFile {
    connection: Connection,
    lock: Lock,
}

impl StoreFile {
    /// Opens or makes the file at `path`. What was created is removed again where that fails.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        let mut made = Made::default();
        let opened = Self::open_or_make(&path, &mut made);
        if opened.is_err() {
            made.undo();
        }
        opened
    }

    fn open_or_make(path: &Path, made: &mut Made) -> Result<Self, OpenError> {
        let exists = check_place(path, made)?;
        let lock = Lock::take(path)?;
        if !exists {
            make_file(path, made)?;
        }
        log::write_again(path).map_err(|error| failed(path, &error))?;
        let mut connection = connection::open(path).map_err(|error| refused(path, &error))?;
        let version = check_contents(path, &connection)?;
        // Before the first table is made, so that nobody ever finds one without a write-ahead log.
        drop(connection);
        connection = connection::open_writer(path).map_err(|error| refused(path, &error))?;
        if version < NEWEST {
            migrations::run(&mut connection, version).map_err(|error| refused(path, &error))?;
        }
        Ok(Self { connection, lock })
    }

    /// The absolute path.
    pub(super) fn path(&self) -> &Path {
        self.lock.path()
    }

    pub(super) fn into_parts(self) -> (Connection, Lock) {
        (self.connection, self.lock)
    }
}

/// Whether the file exists; makes its directory if that is all that is missing.
fn check_place(path: &Path, made: &mut Made) -> Result<bool, OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(OpenError::IsDirectory(path.to_owned())),
        Ok(_) => {
            // SQLite would open a file that it may not write, and fail at the first write.
            OpenOptions::new().read(true).write(true).open(path).map_err(|error| failed(path, &error))?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            if !directory.is_dir() {
                make_directory(path, directory, made)?;
            }
            Ok(false)
        }
        Err(error) => Err(failed(path, &error)),
    }
}

/// Makes the directory, readable by its owner only and kept out of git, since it will hold conversations.
fn make_directory(path: &Path, directory: &Path, made: &mut Made) -> Result<(), OpenError> {
    let above = directory.parent().unwrap_or(Path::new("/"));
    if !above.is_dir() {
        return Err(OpenError::ParentMissing { path: path.to_owned(), missing: above.to_owned() });
    }
    DirBuilder::new().mode(0o700).create(directory).map_err(|error| failed(directory, &error))?;
    made.directory = Some(directory.to_owned());
    let ignore = directory.join(".gitignore");
    made.files.push(ignore.clone());
    std::fs::write(&ignore, "*\n").map_err(|error| failed(&ignore, &error))?;
    sync_directory(above)
}

/// Makes an empty file for SQLite to fill; its companions get the same mode.
fn make_file(path: &Path, made: &mut Made) -> Result<(), OpenError> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| failed(path, &error))?;
    for suffix in ["", "-wal", "-shm"] {
        made.files.push(with_suffix(path, suffix));
    }
    sync_directory(path.parent().unwrap_or(Path::new("/")))
}

/// A new name in a directory survives a crash of the machine only after this.
fn sync_directory(directory: &Path) -> Result<(), OpenError> {
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(|error| failed(directory, &error))
}

/// The version of the schema in the file; 0 for an empty one.
fn check_contents(path: &Path, connection: &Connection) -> Result<i64, OpenError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let read = || {
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
            number("SELECT count(*) FROM sqlite_schema")?,
        ))
    };
    let (application, version, tables) = read().map_err(|error| refused(path, &error))?;
    match (application, tables) {
        (APPLICATION_ID, _) if version > NEWEST => {
            Err(OpenError::Newer { path: path.to_owned(), found: version, known: NEWEST })
        }
        (APPLICATION_ID, _) => Ok(version),
        (0, 0) if version == 0 => Ok(0),
        _ => Err(OpenError::NotAStore(path.to_owned())),
    }
}

/// SQLite's refusal to open a file.
pub(super) fn refused(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenError::NotADatabase(path.to_owned()),
        Some(rusqlite::ErrorCode::PermissionDenied | rusqlite::ErrorCode::ReadOnly) => {
            OpenError::NoPermission(path.to_owned())
        }
        _ => OpenError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

/// The system's refusal.
pub(super) fn failed(path: &Path, error: &std::io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => OpenError::NoPermission(path.to_owned()),
        _ => OpenError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What opening has created so far.
#[derive(Default)]
struct Made {
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
}

impl Made {
    /// Removes it. What cannot be removed stays; the error that led here is the one to tell.
    fn undo(&self) {
        for file in &self.files {
            drop(std::fs::remove_file(file));
        }
        if let Some(directory) = &self.directory {
            drop(std::fs::remove_dir(directory));
        }
    }
}

/// The right to the store at a path, as long as it lives: a lock on `<path>.lock`, which names the owner's process.
///
/// The system gives the lock back when the process dies, however it dies.
pub(super) struct Lock {
    path: PathBuf,
    lock_path: PathBuf,
    /// Held open, because the lock goes with it.
    _file: File,
}

impl Lock {
    fn take(path: &Path) -> Result<Self, OpenError> {
        let lock_path = with_suffix(path, ".lock");
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&lock_path)
                .map_err(|error| failed(&lock_path, &error))?;
            if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                if error == rustix::io::Errno::WOULDBLOCK {
                    return Err(OpenError::Locked { path: path.to_owned(), owner: owner(&mut file) });
                }
                return Err(failed(&lock_path, &error.into()));
            }
            if !is_at(&file, &lock_path) {
                // Its last owner removed it between our two calls; a lock on a file without a name keeps nobody out.
                continue;
            }
            let named = file
                .set_len(0)
                .and_then(|()| file.seek(SeekFrom::Start(0)))
                .and_then(|_| writeln!(file, "{}", std::process::id()));
            let lock = Self { path: path.to_owned(), lock_path, _file: file };
            return named.map(|()| lock).map_err(|error| failed(path, &error));
        }
    }

    /// The absolute path of the store.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While the lock is still held, so that no other owner's file is removed.
        drop(std::fs::remove_file(&self.lock_path));
    }
}

/// Whether `file` is the one that has the name `path`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Which process holds the lock, as it says itself.
fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

//! The file: made with care, refused with a reason.

use std::fs::{DirBuilder, DirEntry, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rustix::fs::{Access as Permission, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::lock::{Access, Lock};
use super::migrations::{self, APPLICATION_ID, NEWEST, OLDEST};
use super::path::{absolute, failed, refused, with_suffix};
use super::{connection, log};
use crate::store::open_error::OpenError;

/// An open store file with the newest schema, and the right to it.
pub(super) struct StoreFile {
    connection: Connection,
    lock: Lock,
}

impl StoreFile {
    /// Opens or makes the file at `path`. What was created is removed again where that fails.
    pub(super) fn open(path: &Path, access: Access) -> Result<Self, OpenError> {
        let path = absolute(path)?;
        let mut made = Made::default();
        let opened = check_place(&path, &mut made)
            .and_then(|()| Lock::take(&path, access))
            .and_then(|lock| Self::open_locked(lock, &mut made));
        if opened.is_err() {
            made.undo_directory();
        }
        opened
    }

    fn open_locked(mut lock: Lock, made: &mut Made) -> Result<Self, OpenError> {
        let path = lock.path().to_owned();
        let opened = if lock.is_alone() { open_alone(&path, made) } else { open_beside_others(&path) };
        // While nobody else can have the file yet.
        let connection = opened.inspect_err(|_| made.undo_files())?;
        lock.downgrade()?;
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

/// Opens or makes the file, which nobody else has.
fn open_alone(path: &Path, made: &mut Made) -> Result<Connection, OpenError> {
    if !path.exists() {
        check_no_log(path)?;
        make_file(path, made)?;
    }
    if !is_signed(path).map_err(|error| failed(path, &error))? {
        // It may be another program's, which writes its log: nothing of that is written, and nothing copied.
        let looking = connection::open(path).map_err(|error| refused(path, &error))?;
        let kept = looking.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        kept.map_err(|error| refused(path, &error))?;
        check_contents(path, &looking)?;
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
    Ok(connection)
}

/// Whether the file says that it is a store, whatever its log says. A new one has only its log say so, for a while.
fn is_signed(path: &Path) -> std::io::Result<bool> {
    let mut signature = [0; 4];
    match File::open(path)?.read_exact_at(&mut signature, SIGNATURE_AT) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| i64::from(i32::from_be_bytes(signature)) == APPLICATION_ID),
    }
}

/// Where in a database file its `application_id` is.
const SIGNATURE_AT: u64 = 68;

/// Opens the file that other processes of this build have open, and so have brought up to date.
fn open_beside_others(path: &Path) -> Result<Connection, OpenError> {
    check_readable(path)?;
    connection::open_writer(path).map_err(|error| refused(path, &error))
}

/// Whether the existing file at `path` can be read as it is, whoever has it.
pub(super) fn check_readable(path: &Path) -> Result<(), OpenError> {
    match schema(path)? {
        NEWEST => Ok(()),
        found => Err(OpenError::Older { path: path.to_owned(), found, known: NEWEST }),
    }
}

fn open_readable(path: &Path) -> Result<Connection, OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(OpenError::IsDirectory(path.to_owned())),
        Ok(metadata) => check_kind(path, &metadata)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(OpenError::Missing(path.to_owned())),
        Err(error) => return Err(failed(path, &error)),
    }
    connection::open_for_reading(path).map_err(|error| refused(path, &error))
}

/// Which schema the existing file at `path` has; nothing is changed.
pub(super) fn schema(path: &Path) -> Result<i64, OpenError> {
    let connection = open_readable(path)?;
    check_contents(path, &connection)
}

/// Refuses what is no file, such as a pipe, whose opening may never end; and a file that has other names: whoever opens it by one of
/// those sees neither its lock nor its log.
fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), OpenError> {
    let reason = match metadata.nlink() {
        _ if !metadata.is_file() => "it is a device, a pipe or a socket, and no file".to_owned(),
        0 | 1 => return Ok(()),
        names => format!("the file has {names} names (hard links), and a store may have one only: remove the others"),
    };
    Err(OpenError::Failed { path: path.to_owned(), reason })
}

/// Refuses to make a file where the log of one lies that is gone: SQLite would throw it away, and with it what was stored last.
fn check_no_log(path: &Path) -> Result<(), OpenError> {
    match std::fs::metadata(with_suffix(path, "-wal")) {
        Ok(metadata) if metadata.len() > 0 => Err(OpenError::Failed {
            path: path.to_owned(),
            reason: "the file is not there, and its log (-wal) is, with what was stored last: put the file back, or take the log \
                     to where it is now"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Whether the file is one, or can be made; makes its directory if that is all that is missing.
fn check_place(path: &Path, made: &mut Made) -> Result<(), OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(OpenError::IsDirectory(path.to_owned())),
        Ok(metadata) => {
            check_kind(path, &metadata)?;
            // SQLite would open a file that it may not write, and fail at the first write. It is not opened to find out: with any
            // descriptor of a file that a process closes, the system takes all the locks that SQLite has on it in that process,
            // for a store that is open already; and whoever closes the file in another one then removes the log under that.
            let asked = |flags| accessat(CWD, path, Permission::READ_OK | Permission::WRITE_OK, flags);
            // Some containers refuse the newer of the two calls, and know the one that asks for the user without its privileges.
            let allowed = match asked(AtFlags::EACCESS) {
                Err(Errno::PERM) => asked(AtFlags::empty()),
                allowed => allowed,
            };
            allowed.map_err(|error| failed(path, &error.into()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            if !directory.is_dir() {
                make_directory(path, directory, made)?;
            }
            Ok(())
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
    match DirBuilder::new().mode(0o700).create(directory) {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(|error| failed(directory, &error))?,
    }
    made.directory = Some(directory.to_owned());
    let ignore = directory.join(".gitignore");
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
        (APPLICATION_ID, _) if version < OLDEST => {
            Err(OpenError::TooOld { path: path.to_owned(), found: version, known: OLDEST })
        }
        (APPLICATION_ID, _) => Ok(version),
        (0, 0) if version == 0 => Ok(0),
        _ => Err(OpenError::NotAStore(path.to_owned())),
    }
}

/// What opening has created so far.
#[derive(Default)]
struct Made {
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
}

impl Made {
    /// Removes the files. What cannot be removed stays; the error that led here is the one to tell.
    fn undo_files(&mut self) {
        for file in self.files.drain(..) {
            drop(std::fs::remove_file(file));
        }
    }

    /// Removes the directory, unless somebody has put something into it.
    fn undo_directory(&self) {
        if let Some(directory) = &self.directory {
            let is_ours = |entry: std::io::Result<DirEntry>| entry.is_ok_and(|entry| entry.file_name() == ".gitignore");
            if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_ours)) {
                drop(std::fs::remove_file(directory.join(".gitignore")));
                drop(std::fs::remove_dir(directory));
            }
        }
    }
}

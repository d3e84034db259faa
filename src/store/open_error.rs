//! Why a store cannot be opened, and what to do about it.

use std::path::PathBuf;

/// Why a store could not be opened. Nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read.
    #[error("the store address is invalid: {0}")]
    InvalidAddress(String),
    /// The file is something else.
    #[error("{} is not a database", .0.display())]
    NotADatabase(PathBuf),
    /// The file is the database of another program.
    #[error("{} is a database of another program", .0.display())]
    NotAStore(PathBuf),
    /// The file was written by a newer hitl.
    #[error("{} has schema version {found}, this version of hitl knows up to {known}", .path.display())]
    Newer {
        /// Where.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest that this build knows.
        known: i64,
    },
    /// The file was written by a release whose files are not taken over.
    #[error("{} has schema version {found}, this version of hitl takes over {known} and later", .path.display())]
    TooOld {
        /// Where.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The oldest that this build takes over.
        known: i64,
    },
    /// The file or its directory may not be read, written or made.
    #[error("no permission to read and write {}", .0.display())]
    NoPermission(PathBuf),
    /// The path is a directory.
    #[error("{} is a directory", .0.display())]
    IsDirectory(PathBuf),
    /// The directory above the file's directory does not exist.
    #[error("{} cannot be made: there is no directory {}", .path.display(), .missing.display())]
    ParentMissing {
        /// The file.
        path: PathBuf,
        /// What is missing.
        missing: PathBuf,
    },
    /// There is nothing to be read.
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// The file was written by an older hitl, and whoever only reads may not change it.
    #[error("{} has schema version {found}, this version of hitl reads {known}", .path.display())]
    Older {
        /// Where.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The version that this build reads.
        known: i64,
    },
    /// Somebody else has it.
    #[error("{} is in use by {}", .path.display(), holder_text(*.holder))]
    Locked {
        /// Where.
        path: PathBuf,
        /// Who, where that could be read.
        holder: Option<FileHolder>,
    },
    /// The database at an address, which is shown without its password, is none that can be used.
    #[error("{address} {trouble}")]
    Server {
        /// Where.
        address: String,
        /// What is wrong with it.
        trouble: ServerTrouble,
    },
    /// Something is in the store that another one should be copied into.
    #[error("{place} is not empty: there are rows in {what}")]
    NotEmpty {
        /// Where.
        place: String,
        /// A table that holds something.
        what: &'static str,
    },
    /// A store should be copied into itself, or into a copy of it.
    #[error("both addresses are the same store, or one is a copy of the other")]
    SameStore,
    /// What was to be read as a whole ended in the middle.
    #[error("the store was not read to its end")]
    BrokenOff,
    /// Anything else that the system or SQLite says.
    #[error("{} cannot be opened: {reason}", .path.display())]
    Failed {
        /// Where.
        path: PathBuf,
        /// What they say.
        reason: String,
    },
}

/// Why the database of a server is no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerTrouble {
    /// There is no connection, or it ended.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It does not do what it was asked.
    #[error("refuses: {0}")]
    Refused(String),
    /// It does not know the user, or not with that password.
    #[error("refuses the user or the password")]
    WrongPassword,
    /// It has no such database.
    #[error("has no database of that name")]
    NoDatabase,
    /// It answers as no Postgres does.
    #[error("does not answer as PostgreSQL does")]
    NotPostgres,
    /// It is an older release.
    #[error("is PostgreSQL {found}, hitl needs {known} or later")]
    TooOld {
        /// The release that it is.
        found: i32,
        /// The oldest that does.
        known: i32,
    },
    /// It follows another one, and cannot be written to.
    #[error("is a standby, which nothing can be written to")]
    Standby,
    /// It says that something is stored before it is, because of this setting.
    #[error("loses what was acknowledged when it fails: {0} is off")]
    NotDurable(&'static str),
    /// It is there, and nothing of a store in it.
    #[error("has no store in it")]
    NoSchema,
    /// Somebody else has it.
    #[error("is in use by {}", in_use_text(*.is_server, .host, *.pid))]
    InUse {
        /// Whether it serves, and has the store for itself; otherwise it runs agents without a server.
        is_server: bool,
        /// The machine.
        host: String,
        /// The process there.
        pid: u32,
    },
    /// Transactions of others hold back what has to be copied.
    #[error("has transactions open behind which the end of the audit cannot be read")]
    Busy,
    /// Transactions of others have tables that have to be changed.
    #[error("has transactions open that keep its tables from being changed")]
    Locked,
    /// Its text is not Unicode.
    #[error("has the encoding {0}, hitl needs UTF8")]
    Encoding(String),
    /// The schema `hitl` in it is another program's.
    #[error("has a schema hitl that is another program's")]
    ForeignSchema,
    /// The user may not make or use the schema.
    #[error("does not let the user make or use the schema hitl")]
    NoPermission,
    /// The schema is of a newer hitl.
    #[error("has schema version {found}, this version of hitl knows up to {known}")]
    Newer {
        /// The version there.
        found: i32,
        /// The newest that this build knows.
        known: i32,
    },
    /// The schema is of an older hitl.
    #[error("has schema version {found}, this version of hitl needs {known}")]
    Older {
        /// The version there.
        found: i32,
        /// The one that this build needs.
        known: i32,
    },
}

impl ServerTrouble {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "store_unreachable",
            Self::Refused(_) => "store_refused",
            Self::WrongPassword => "store_wrong_password",
            Self::NoDatabase => "store_missing",
            Self::NotPostgres => "store_not_a_database",
            Self::TooOld { .. } => "store_server_too_old",
            Self::Standby => "store_read_only",
            Self::NotDurable(_) => "store_not_durable",
            Self::NoSchema => "store_missing",
            Self::InUse { .. } => "store_locked",
            Self::Busy | Self::Locked => "store_busy",
            Self::Encoding(_) => "store_encoding",
            Self::ForeignSchema => "store_of_another_program",
            Self::NoPermission => "store_no_permission",
            Self::Newer { .. } => "store_newer",
            Self::Older { .. } => "store_older",
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "check the host and port, that the database runs, and its certificate (sslrootcert)"
            }
            Self::Refused(_) => "check the name of the role, and what the user may do",
            Self::WrongPassword => "check the user and the password in the address",
            Self::NoDatabase => "make it first: CREATE DATABASE; hitl makes its schema in it",
            Self::NotPostgres => "name a PostgreSQL database",
            Self::TooOld { .. } => "upgrade PostgreSQL",
            Self::Standby => "name the primary",
            Self::NotDurable(_) => "turn it on: hitl says that something is done only once it is safe",
            Self::NoSchema => "check the address; hitl serve makes the schema when it starts",
            Self::InUse { is_server: true, .. } => "stop that server first, or name another database",
            Self::InUse { is_server: false, .. } => "wait until that process has ended, or name another database",
            Self::Busy => "end them (pg_stat_activity shows them), and copy again",
            Self::Locked => {
                "nothing was changed; wait for them, or end them (a dump, a long query: pg_stat_activity shows them), unless \
                 it is another hitl migrate, and try again"
            }
            Self::Encoding(_) => "make the database with ENCODING 'UTF8'",
            Self::ForeignSchema => "name another database",
            Self::NoPermission => "grant the user CREATE on the database, or its rights on the schema",
            Self::Newer { .. } => "upgrade hitl, or name another database",
            Self::Older { .. } => "bring the schema up to date with hitl migrate",
        }
    }
}

/// Which process has a store file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHolder {
    /// The process.
    pub pid: u32,
    /// Whether it is a server, which has the file for itself; otherwise it runs agents without one.
    pub is_server: bool,
}

impl OpenError {
    /// The stable code of this cause, snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidAddress(_) => "store_address_invalid",
            Self::NotADatabase(_) => "store_not_a_database",
            Self::NotAStore(_) => "store_of_another_program",
            Self::Newer { .. } => "store_newer",
            Self::TooOld { .. } => "store_too_old",
            Self::NoPermission(_) => "store_no_permission",
            Self::IsDirectory(_) => "store_is_directory",
            Self::ParentMissing { .. } => "store_parent_missing",
            Self::Missing(_) => "store_missing",
            Self::Older { .. } => "store_older",
            Self::Locked { .. } => "store_locked",
            Self::Server { trouble, .. } => trouble.code(),
            Self::NotEmpty { .. } => "store_not_empty",
            Self::SameStore => "store_same",
            Self::BrokenOff => "store_broken_off",
            Self::Failed { .. } => "store_failed",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InvalidAddress(_) => "write sqlite:PATH, a path, postgresql://USER@HOST/DATABASE, or memory",
            Self::NotADatabase(_) | Self::NotAStore(_) => "name another file; hitl makes it when it does not exist",
            Self::Newer { .. } => "upgrade hitl, or name another file; a newer store is never written by an older hitl",
            Self::TooOld { .. } => {
                "finish its sessions with the release that wrote it, and name another file for this one"
            }
            Self::NoPermission(_) => "the user that runs the server must own the file and its directory",
            Self::IsDirectory(_) => "name a file inside it, such as sqlite:DIRECTORY/hitl.db",
            Self::ParentMissing { .. } => "make that directory first, or check the path for a typing error",
            Self::Missing(_) => "check the path; hitl serve makes the file when it starts",
            Self::Older { .. } => {
                "hitl migrate brings it up to date, in a copy if it is a backup; so does a server of this version when it starts"
            }
            Self::Locked { holder: Some(FileHolder { is_server: false, .. }), .. } => {
                "wait until that process has ended, or name another file"
            }
            Self::Locked { .. } => "stop that server first, or name another file (`--store`)",
            Self::Server { trouble, .. } => trouble.hint(),
            Self::NotEmpty { .. } => "name a file that is not there, or an empty database: stores are not mixed",
            Self::SameStore => "name another target; a store is copied once into an empty one",
            Self::BrokenOff => "do it again; the target of a copy is as empty as before",
            Self::Failed { .. } => "check the disk and the path",
        }
    }
}

fn in_use_text(is_server: bool, host: &str, pid: u32) -> String {
    if is_server {
        format!("another server (process {pid} on {host})")
    } else {
        format!("process {pid} on {host}, which runs an agent without a server")
    }
}

fn holder_text(holder: Option<FileHolder>) -> String {
    match holder {
        Some(FileHolder { pid, .. }) if pid == std::process::id() => format!("this process ({pid})"),
        Some(FileHolder { pid, is_server: true }) => format!("another server (process {pid})"),
        Some(FileHolder { pid, is_server: false }) => format!("process {pid}, which runs an agent without a server"),
        None => "another process".to_owned(),
    }
}

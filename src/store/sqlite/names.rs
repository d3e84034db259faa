//! Whether the files that a server has open are still those that have their names. One that was moved, removed or replaced can
//! be written to all the same, and nobody who looks for it by its name would find what was acknowledged. Where the lock has no
//! name any more, somebody else can take one of that name.
//!
//! The log (`-wal`) is SQLite's: it is made by the first connection that reads, and removed by the last one that is closed,
//! after it was copied into the file. So as long as the writer's connection has read once, and is open, there is one log, and
//! what that is can be learnt. A connection that was given up after a fault may have been the last one; then there may be
//! another log, or none, until the next one is open.

use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_watch::FileWatch;
use super::lock::{Access, Lock};
use super::path::with_suffix;

/// How long the names of a server's files are taken for theirs where the system tells of no change.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Which file it is, whatever its name: the device, and its number there.
pub(super) type FileId = (u64, u64);

/// The store's file, its log and its lock, as they were when they were opened.
pub(super) struct NamedFiles {
    file: NamedFile,
    log: NamedFile,
    lock: NamedFile,
    watch: Option<FileWatch>,
}

struct NamedFile {
    path: PathBuf,
    /// `None` where it had lost its name before it was looked.
    id: Option<FileId>,
    what: &'static str,
}

impl NamedFiles {
    /// Those of the store that `lock` is for, and which a connection has open that has read.
    pub(super) fn of(lock: &Lock) -> Self {
        let named = |path: PathBuf, what| NamedFile { id: found(&path).ok().flatten(), path, what };
        Self {
            file: named(lock.path().to_owned(), "file"),
            log: named(with_suffix(lock.path(), "-wal"), "log (-wal)"),
            lock: NamedFile { id: lock.file_id(), ..named(with_suffix(lock.path(), ".lock"), "lock") },
            // A user has some hundred of them, too few for each run without a server.
            watch: (lock.access() == Access::Server).then(|| FileWatch::new(LOOK_AFTER)).flatten(),
        }
    }

    /// Whether they are what has their names.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let Self { file, log, lock, watch } = self;
        let files = [&*file, &*lock, &*log];
        match watch {
            None => check_all(files),
            Some(watch) => {
                if watch.is_quiet() {
                    return Ok(());
                }
                let is_watched = watch.begin(files.map(|file| file.path.as_path()));
                let outcome = check_all(files);
                if is_watched || outcome.is_err() {
                    watch.looked(outcome.is_ok());
                } else {
                    // One that is there and cannot be watched will not be the next time either.
                    self.watch = None;
                }
                outcome
            }
        }
    }

    /// [`check`](Self::check), while no connection has to have the log open.
    pub(super) fn check_but_log(&self) -> Result<(), String> {
        check_all([&self.file, &self.lock])
    }

    /// A connection was opened anew, and has read.
    pub(super) fn log_opened(&mut self) {
        self.log.id = found(&self.log.path).ok().flatten();
        if let Some(watch) = &mut self.watch {
            watch.forget();
        }
    }

    /// Whether what has the name of the log may be somebody else's.
    pub(super) fn is_log_replaced(&self) -> bool {
        !matches!(found(&self.log.path), Ok(None)) && self.log.check().is_err()
    }
}

impl NamedFile {
    fn check(&self) -> Result<(), String> {
        match found(&self.path) {
            Ok(found) if found.is_some() && found == self.id => Ok(()),
            Ok(_) => Err(format!("the store's {} was moved, removed or replaced", self.what)),
            Err(error) => Err(format!("the store's {} cannot be looked at: {error}", self.what)),
        }
    }
}

fn check_all<'f>(files: impl IntoIterator<Item = &'f NamedFile>) -> Result<(), String> {
    files.into_iter().try_for_each(NamedFile::check)
}

/// What has the name.
fn found(path: &Path) -> Result<Option<FileId>, Error> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(id_of(&metadata))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

//! Whether the files that a server has open are still those that have their names. One that was moved, removed or replaced can
//! be written to all the same, and nobody who looks for it by its name would find what was acknowledged. Where the lock has no
//! name any more, somebody else can take one of that name.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::path::with_suffix;

/// Which file it is, whatever its name: the device, and its number there.
type FileId = (u64, u64);

/// The store's file, its log and its lock, as they were when they were opened.
pub(super) struct NamedFiles {
    file: NamedFile,
    /// SQLite makes and removes it.
    log: NamedFile,
    lock: NamedFile,
}

struct NamedFile {
    path: PathBuf,
    /// `None` where it was not there when it was looked.
    id: Option<FileId>,
    what: &'static str,
}

impl NamedFiles {
    /// Those of the store that `lock` is for, and which is open.
    pub(super) fn of(lock: &Lock) -> Self {
        let named = |path: PathBuf, what| NamedFile { id: id_of(&path), path, what };
        Self {
            file: named(lock.path().to_owned(), "its file"),
            log: named(with_suffix(lock.path(), "-wal"), "its log"),
            lock: named(with_suffix(lock.path(), ".lock"), "its lock"),
        }
    }

    /// Whether they are what has their names. The log's may be another one where nobody `has_log` open.
    pub(super) fn check(&mut self, has_log: bool) -> Result<(), String> {
        if !has_log {
            self.log.id = None;
        }
        [&mut self.file, &mut self.log, &mut self.lock].into_iter().try_for_each(NamedFile::check)
    }
}

impl NamedFile {
    fn check(&mut self) -> Result<(), String> {
        let there = id_of(&self.path);
        if self.id.is_none() {
            self.id = there;
        }
        if self.id == there { Ok(()) } else { Err(format!("{} was moved, removed or replaced", self.what)) }
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

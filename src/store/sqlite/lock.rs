//! Who may have a store file: one server, or any number of processes that run agents without one.
//!
//! The right is a lock on `<path>.lock`, exclusive or shared, which the system gives back when the process dies, however
//! it dies. The file names the processes, so that a refusal can.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::names::{FileId, id_of};
use super::path::{failed, with_suffix};
use crate::store::open_error::{FileHolder, OpenError};

/// How long to wait for a process that is just opening the file, or has not said yet who it is.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// How a process wants the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// For itself.
    Server,
    /// Beside others that want it in this way.
    Shared,
}

/// The right to the store at a path, as long as it lives.
pub(super) struct Lock(LockFile);

/// What has to be known to get, keep and give back a lock.
struct LockFile {
    path: PathBuf,
    lock_path: PathBuf,
    access: Access,
    /// Nobody else has the file: the lock is exclusive, for a shared one until [`Lock::downgrade`].
    is_alone: bool,
    /// Held open, because the lock goes with it.
    file: File,
}

impl Lock {
    pub(super) fn take(path: &Path, access: Access) -> Result<Self, OpenError> {
        let lock_path = with_suffix(path, ".lock");
        let began = Instant::now();
        loop {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&lock_path)
                .map_err(|error| failed(&lock_path, &error))?;
            let mut claim =
                LockFile { path: path.to_owned(), lock_path: lock_path.clone(), access, is_alone: true, file };
            let taken = match claim.try_lock(FlockOperation::NonBlockingLockExclusive)? {
                false if access == Access::Shared => {
                    claim.is_alone = false;
                    claim.try_lock(FlockOperation::NonBlockingLockShared)?
                }
                taken => taken,
            };
            // Its last owner may have removed it meanwhile; a lock on a file without a name keeps nobody out.
            if taken && is_at(&claim.file, &lock_path) {
                return claim.sign().map(|()| Self(claim));
            }
            if !taken {
                claim.wait_for_holder(began)?;
            }
        }
    }

    /// Whether nobody else has the file.
    pub(super) fn is_alone(&self) -> bool {
        self.0.is_alone
    }

    /// Lets others in, as far as that is wanted, now that the file is as it should be.
    pub(super) fn downgrade(&mut self) -> Result<(), OpenError> {
        let claim = &mut self.0;
        if claim.access == Access::Shared && claim.is_alone {
            claim.is_alone = false;
            let began = Instant::now();
            // The system gives the exclusive lock back before it takes the shared one, and somebody may come in between.
            while !claim.try_lock(FlockOperation::NonBlockingLockShared)? {
                claim.wait_for_holder(began)?;
            }
        }
        Ok(())
    }

    /// The absolute path of the store.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Which file the lock is on, whatever has its name; `None` where the system does not say.
    pub(super) fn file_id(&self) -> Option<FileId> {
        self.0.file.metadata().ok().map(|metadata| id_of(&metadata))
    }

    /// How the file is used.
    pub(super) fn access(&self) -> Access {
        self.0.access
    }
}

impl LockFile {
    fn try_lock(&self, operation: FlockOperation) -> Result<bool, OpenError> {
        match flock(&self.file, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(failed(&self.lock_path, &error.into())),
        }
    }

    /// Says who has the lock.
    fn sign(&mut self) -> Result<(), OpenError> {
        let word = match self.access {
            Access::Server => "server",
            Access::Shared => "run",
        };
        let line = format!("{} {word}\n", std::process::id());
        let emptied = if self.is_alone { self.file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| self.file.write_all(line.as_bytes())).map_err(|error| failed(&self.lock_path, &error))
    }

    /// Waits a little for whoever has the lock, unless it is somebody who keeps it: then that is the refusal.
    fn wait_for_holder(&mut self, began: Instant) -> Result<(), OpenError> {
        let holder = holder(&mut self.file);
        let is_final = match holder {
            Some(FileHolder { is_server: true, .. }) => true,
            // A process that shares is only in the way of others like it while it opens the file.
            Some(FileHolder { is_server: false, .. }) => self.access == Access::Server,
            None => false,
        };
        if is_final || began.elapsed() >= PATIENCE {
            return Err(OpenError::Locked { path: self.path.clone(), holder });
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only by the last one, and while nobody else can take the lock, so that nobody's file is removed; nor that of somebody who
        // came where this one was removed.
        let is_last = self.0.is_alone || matches!(self.0.try_lock(FlockOperation::NonBlockingLockExclusive), Ok(true));
        if is_last && is_at(&self.0.file, &self.0.lock_path) {
            drop(std::fs::remove_file(&self.0.lock_path));
        }
    }
}

/// Whether `file` is the one that has the name `path`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => id_of(&open) == id_of(&named),
        _ => false,
    }
}

/// Which living process has signed the lock file; the last of several.
fn holder(file: &mut File) -> Option<FileHolder> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text)).ok()?;
    text.lines().rev().find_map(|line| {
        let (pid, word) = line.split_once(' ')?;
        let pid = pid.parse::<i32>().ok().and_then(Pid::from_raw)?;
        let is_alive = test_kill_process(pid) != Err(Errno::SRCH);
        is_alive.then(|| FileHolder { pid: pid.as_raw_nonzero().get().unsigned_abs(), is_server: word == "server" })
    })
}

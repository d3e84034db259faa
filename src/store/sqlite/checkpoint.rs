//! Moving the write-ahead log into the file, without making a commit wait for it.
//!
//! Once the log is large, a thread of its own copies it into the file (a passive checkpoint: nobody is blocked). What
//! was committed meanwhile, a small rest, is then copied by the writer between two batches; with nothing left in the
//! log the next commit starts it from the beginning. Without that second half a busy log would grow for ever, because a
//! passive checkpoint never catches up with commits that go on.

use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::connection;
use super::trouble::Trouble;
use crate::faults::{self, Point};

/// The writer's end.
pub(super) struct Checkpoints {
    /// How many pages of the log are not known to be copied. The size of its file says nothing: it is used again.
    pages: Arc<AtomicU32>,
    /// From how many on it is copied.
    limit: u32,
    /// `None` once stopped. Holds one request; a second would ask for the same.
    requests: Option<SyncSender<()>>,
    /// The thread has copied what it found, the rest is the writer's.
    is_copied: Arc<AtomicBool>,
    /// Held while the thread copies: SQLite refuses a second copier at once, and waits for no time-out.
    copying: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the copying thread for the store at `path`.
    pub(super) fn start(path: &Arc<Path>, limit: u32) -> std::io::Result<Self> {
        let (requests, requested) = sync_channel(1);
        let (is_copied, copying) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let (store, copied, turn) = (path.clone(), is_copied.clone(), copying.clone());
        let thread = Builder::new()
            .name("hitl-store-checkpoint".to_owned())
            .spawn(move || copy_when_asked(&store, &requested, &copied, &turn))?;
        Ok(Self { pages: Arc::default(), limit, requests: Some(requests), is_copied, copying, thread: Some(thread) })
    }

    /// Counts what `connection` commits; every connection that writes has to be counted.
    pub(super) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut Wal, in_log: c_int| {
            pages.store(u32::try_from(in_log).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Whether there is a rest for the writer to copy after its next commit.
    pub(super) fn has_rest(&self) -> bool {
        self.is_copied.load(Ordering::Acquire)
    }

    /// Called by the writer after a commit has been acknowledged.
    pub(super) fn after_commit(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.is_copied.swap(false, Ordering::AcqRel) {
            return passive(connection);
        }
        if self.pages.load(Ordering::Relaxed) >= self.limit
            && let Some(requests) = &self.requests
        {
            // Refused means that the same request waits already.
            let _ = requests.try_send(());
        }
        Ok(())
    }

    /// Copies everything, syncs the file, and empties the log; waits for the thread, and for readers.
    pub(super) fn truncate(&self, connection: &Connection) -> rusqlite::Result<()> {
        let _alone = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        truncate(connection)
    }

    /// Ends the thread; it is to be joined.
    pub(super) fn stop(&mut self) -> Option<JoinHandle<()>> {
        self.requests = None;
        self.thread.take()
    }
}

fn copy_when_asked(path: &Path, requested: &Receiver<()>, is_copied: &AtomicBool, copying: &Mutex<()>) {
    let mut connection = None;
    let trouble = Trouble::default();
    while requested.recv().is_ok() {
        let opened = match connection.take() {
            Some(connection) => Ok(connection),
            None => connection::open_writer(path),
        };
        let copied = opened.and_then(|opened| {
            let _alone = copying.lock().unwrap_or_else(PoisonError::into_inner);
            passive(&opened).map(|()| opened)
        });
        match copied {
            Ok(opened) => {
                is_copied.store(true, Ordering::Release);
                connection = Some(opened);
                if trouble.is_over() {
                    tracing::info!("the store's log is copied into its file again");
                }
            }
            // A failure is not lost: the log stays as it is, and the writer meets the same disk.
            Err(error) if trouble.begins() => {
                tracing::error!(%error, "the store's log could not be copied into its file, and grows");
            }
            Err(_) => {}
        }
    }
}

/// Copies what can be copied without waiting for anybody.
pub(super) fn passive(connection: &Connection) -> rusqlite::Result<()> {
    faults::at(Point::StoreCheckpoint);
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    faults::at(Point::StoreCheckpointed);
    Ok(())
}

/// Copies everything, syncs the file, and empties the log; waits for readers.
pub(super) fn truncate(connection: &Connection) -> rusqlite::Result<()> {
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, Some("another process is reading the store".to_owned())));
    }
    Ok(())
}

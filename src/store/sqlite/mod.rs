//! The default store: one SQLite file that one server owns, or that several processes without a server share.
//!
//! One thread writes, and commits whatever has queued up meanwhile together ([`writer`]); two threads read
//! ([`readers`]); a fourth moves the write-ahead log into the file behind everybody's back ([`checkpoint`]). All of
//! them sleep until they are given something to do.

mod asked;
mod carried;
mod checkpoint;
mod connection;
pub(in crate::store) mod copying;
mod entries;
mod file;
mod graphs;
mod lock;
mod log;
mod migrations;
mod outbox;
mod path;
mod queue;
mod readers;
mod reading;
mod rows;
#[cfg(test)]
mod tests;
mod trouble;
mod turns;
mod upkeep;
mod writer;
mod writing;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::{oneshot, watch};

use self::lock::Access;
use self::queue::{JobResult, Queued, ReaderJob, WriterJob};
use self::writer::Limits;
use super::about::About;
use super::open_error::OpenError;
use super::upkeep::{LocalStore, Upkeep, UpkeepReadJob, UpkeepWriteJob};
use super::{BoxFuture, ReadJob, Store, WriteJob};
use crate::domain::Error;

/// The text of `sql/<name>.sql`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}
use sql;

/// See the module.
pub struct SqliteStore {
    /// `None` once the store is closed. Dropping the senders is what ends the threads.
    queues: Mutex<Option<Queues>>,
    /// Set by the writer, which is the last of the threads to end.
    closed: watch::Receiver<Option<JobResult>>,
}

struct Queues {
    writes: mpsc::Sender<Queued<WriterJob>>,
    reads: mpsc::Sender<Queued<ReaderJob>>,
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes it where there is none: mode 0600, and its directory if that is
    /// all that is missing.
    ///
    /// # Errors
    /// What is wrong with the file; nothing is created then.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, Access::Server, Limits::default())
    }

    /// As [`SqliteStore::open`], beside other processes that open it in this way and no server.
    ///
    /// # Errors
    /// What is wrong with the file, or which server has it; nothing is created then.
    pub fn open_shared(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, Access::Shared, Limits::default())
    }

    /// Opens the existing store in the file at `path` for reading, whoever has it.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        let path: Arc<Path> = self::path::absolute(path)?.into();
        file::check_readable(&path)?;
        let (writes, queued_writes) = mpsc::channel();
        let (reads, queued_reads) = mpsc::channel();
        let (closing, closed) = watch::channel(None);
        let readers = readers::start(&path, connection::open_for_reading, queued_reads, &Arc::default())?;
        writer::refuse(readers, queued_writes, closing).map_err(|error| self::path::failed(&path, &error))?;
        Ok(Self { queues: Mutex::new(Some(Queues { writes, reads })), closed })
    }

    fn open_with(path: &Path, access: Access, limits: Limits) -> Result<Self, OpenError> {
        let file = file::StoreFile::open(path, access)?;
        let path: Arc<Path> = file.path().into();
        let failed = |error: std::io::Error| self::path::failed(&path, &error);
        let (writes, queued_writes) = mpsc::channel();
        let (reads, queued_reads) = mpsc::channel();
        let (closing, closed) = watch::channel(None);
        let forms = Arc::default();
        let readers = readers::start(&path, connection::open_reader, queued_reads, &forms)?;
        let checkpoints = checkpoint::Checkpoints::start(&path, limits.log_pages).map_err(failed)?;
        writer::start(file, limits, forms, readers, checkpoints, queued_writes, closing).map_err(failed)?;
        Ok(Self { queues: Mutex::new(Some(Queues { writes, reads })), closed })
    }

    /// Puts a job into one of the lines, now.
    fn enqueue<J: Send + 'static>(
        &self,
        line: impl FnOnce(&Queues) -> &mpsc::Sender<Queued<J>>,
        job: J,
    ) -> BoxFuture<'static, JobResult> {
        let (reply, outcome) = oneshot::channel();
        if let Some(queues) = self.queues.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // A line whose thread is gone drops the job, and with it `reply`: the future below tells.
            drop(line(queues).send(Queued { job, reply }));
        }
        Box::pin(async move {
            outcome.await.unwrap_or_else(|_| Err(Error::StoreUnavailable("the store is closed".to_owned())))
        })
    }
}

impl Store for SqliteStore {
    fn write(&self, _about: About, job: WriteJob) -> BoxFuture<'static, JobResult> {
        self.enqueue(|queues| &queues.writes, WriterJob::Write(job))
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, JobResult> {
        self.enqueue(|queues| &queues.reads, ReaderJob::Read(job))
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn close(&self) -> BoxFuture<'static, JobResult> {
        drop(self.queues.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut closed = self.closed.clone();
        Box::pin(async move {
            match closed.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
                Err(_) => Err(Error::StoreUnavailable("the store's writer ended without closing the file".to_owned())),
            }
        })
    }
}

impl LocalStore for SqliteStore {
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, JobResult> {
        self.enqueue(|queues| &queues.writes, WriterJob::Upkeep(job))
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, JobResult> {
        self.enqueue(|queues| &queues.reads, ReaderJob::Upkeep(job))
    }
}

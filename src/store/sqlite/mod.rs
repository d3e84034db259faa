//! The default store: one SQLite file that one server owns, or that several processes without a server share.
//!
//! There is one line for what is to be written ([`line`]) and one writer, which commits whatever has queued up meanwhile
//! together ([`writer`]): on a thread of its own, or on that of whoever asks while nobody else does. Two threads read
//! ([`readers`]); a fourth moves the write-ahead log into the file behind everybody's back ([`checkpoint`]). All of
//! them sleep until they are given something to do.

mod asked;
mod carried;
mod checkpoint;
mod connection;
pub(in crate::store) mod copying;
mod entries;
mod file;
mod file_watch;
mod graphs;
mod line;
mod lock;
mod log;
mod migrations;
mod names;
mod outbox;
mod path;
mod queue;
mod readers;
mod reading;
mod rows;
#[cfg(test)]
pub(crate) mod statements;
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

use self::line::WriteLine;
use self::lock::Access;
use self::queue::{JobResult, Queued, ReaderJob, WriterJob};
use self::writer::Limits;
use super::about::About;
use super::open_error::OpenError;
use super::schema_state::SchemaState;
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
    /// `None` once the store is closed. Dropping them is what ends the threads.
    queues: Mutex<Option<Queues>>,
    /// Set by the writer, which is the last of the threads to end.
    closed: watch::Receiver<Option<JobResult>>,
}

struct Queues {
    /// `None` where the store is only read.
    writes: Option<Arc<WriteLine>>,
    reads: mpsc::Sender<Queued<ReaderJob>>,
}

impl Drop for Queues {
    fn drop(&mut self) {
        if let Some(writes) = &self.writes {
            writes.close();
        }
    }
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
        let (reads, queued_reads) = mpsc::channel();
        let (closing, closed) = watch::channel(None);
        let readers = readers::start(&path, connection::open_for_reading, queued_reads, &Arc::default())?;
        writer::without(readers, closing).map_err(|error| self::path::failed(&path, &error))?;
        Ok(Self { queues: Mutex::new(Some(Queues { writes: None, reads })), closed })
    }

    /// Which schema the existing file at `path` has, whoever has it; nothing is changed.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn schema(path: &Path) -> Result<SchemaState, OpenError> {
        let path = self::path::absolute(path)?;
        let version = |number| i32::try_from(number).unwrap_or(i32::MAX);
        Ok(SchemaState { found: Some(version(file::schema(&path)?)), newest: version(migrations::NEWEST) })
    }

    /// Brings the existing file at `path` up to date, which nobody has open: what it was before.
    ///
    /// # Errors
    /// What is wrong with the file, or who has it.
    pub async fn migrate(path: &Path) -> Result<SchemaState, OpenError> {
        let state = Self::schema(path)?;
        let closed = Self::open(path)?.close().await;
        closed.map_err(|error| OpenError::Failed { path: path.to_owned(), reason: error.to_string() })?;
        Ok(state)
    }

    fn open_with(path: &Path, access: Access, limits: Limits) -> Result<Self, OpenError> {
        let file = file::StoreFile::open(path, access)?;
        let path: Arc<Path> = file.path().into();
        let failed = |error: std::io::Error| self::path::failed(&path, &error);
        let (reads, queued_reads) = mpsc::channel();
        let (closing, closed) = watch::channel(None);
        let forms = Arc::default();
        let readers = readers::start(&path, connection::open_reader, queued_reads, &forms)?;
        let checkpoints = checkpoint::Checkpoints::start(&path, limits.log_pages).map_err(failed)?;
        let writes = line::start(file, limits, forms, readers, checkpoints, closing).map_err(failed)?;
        Ok(Self { queues: Mutex::new(Some(Queues { writes: Some(writes), reads })), closed })
    }

    /// Puts a job into the line of those that are to be written, now.
    fn put_write(&self, job: WriterJob) -> BoxFuture<'static, JobResult> {
        let (reply, outcome) = oneshot::channel();
        let queued = Queued { job, reply };
        let left = self.with_queues(|queues| match &queues.writes {
            Some(line) => line.put(queued),
            None => {
                let refusal = Error::StoreUnavailable("the store is open for reading only".to_owned());
                drop(queued.reply.send(Err(refusal)));
                None
            }
        });
        Box::pin(async move {
            if let Some(left) = left.flatten() {
                left.commit();
            }
            told(outcome).await
        })
    }

    /// Puts a job into the line of those that read, now.
    fn put_read(&self, job: ReaderJob) -> BoxFuture<'static, JobResult> {
        let (reply, outcome) = oneshot::channel();
        self.with_queues(|queues| drop(queues.reads.send(Queued { job, reply })));
        Box::pin(told(outcome))
    }

    /// `None` once the store is closed.
    fn with_queues<T>(&self, put: impl FnOnce(&Queues) -> T) -> Option<T> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(put)
    }
}

/// What came of a job. A line that is gone has dropped it, and with it the sender.
async fn told(outcome: oneshot::Receiver<JobResult>) -> JobResult {
    outcome.await.unwrap_or_else(|_| Err(Error::StoreUnavailable("the store is closed".to_owned())))
}

impl Store for SqliteStore {
    fn write(&self, _about: About, job: WriteJob) -> BoxFuture<'static, JobResult> {
        self.put_write(WriterJob::Write(job))
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, JobResult> {
        self.put_read(ReaderJob::Read(job))
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
        self.put_write(WriterJob::Upkeep(job))
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, JobResult> {
        self.put_read(ReaderJob::Upkeep(job))
    }
}

//! The writer: group commit. It has a thread, and is lent to whoever asks while nobody else does ([`line`]).
//!
//! It begins a transaction, takes the first job in line and runs it; whatever has queued up meanwhile joins the
//! same transaction, within bounds, and what one of them did is undone where it is refused ([`JobGroup`]). One commit makes
//! all of them durable, and only then each caller is told, in order. With one job in line that is one commit, with nothing
//! added; under load the cost of syncing the disk is shared.
//!
//! [`line`]: super::line

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{oneshot, watch};

use super::checkpoint::{self, Checkpoints};
use super::connection::{self, Handle};
use super::lock::{Access, Lock};
use super::log;
use super::names::NamedFiles;
use super::queue::{JobResult, Queued, WriterJob};
use super::trouble::Trouble;
use crate::domain::Error;
use crate::faults::{self, Point};
use crate::store::guard;
use crate::store::kept::KeptForms;

/// Bounds of what shares a commit, and of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How many jobs.
    pub(super) jobs: usize,
    /// How long a batch may go on taking in jobs before those that wait for the commit get it.
    pub(super) time: Duration,
    /// From how many pages in the log on it is copied into the file.
    pub(super) log_pages: u32,
    /// Up to how long a commit has taken after which whoever asks may make the next one.
    pub(super) quick: Duration,
    /// How many threads the runtime of whoever asks has at least, then.
    pub(super) runtime_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Most tests have one thread, and are to meet both ways.
        let runtime_threads = if cfg!(test) { 1 } else { 2 };
        let (time, quick) = (Duration::from_millis(5), Duration::from_millis(1));
        Self { jobs: 512, time, log_pages: 1024, quick, runtime_threads }
    }
}

/// On whose thread a batch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenBy {
    /// The writing thread's.
    Thread,
    /// That of whoever asked for it, which has other things to do.
    Caller,
}

/// Starts a thread in the place of a writer's, for a store that is only read: it waits for the other ones to end.
pub(super) fn without(readers: Vec<JoinHandle<()>>, closing: watch::Sender<Option<JobResult>>) -> std::io::Result<()> {
    Builder::new().name("hitl-store-close".to_owned()).spawn(move || {
        closing.send_replace(Some(join(readers)));
    })?;
    Ok(())
}

/// Waits until the threads have ended.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) -> JobResult {
    let mut outcome = Ok(());
    for thread in threads {
        if thread.join().is_err() {
            outcome = Err(Error::Internal("a thread of the store panicked".to_owned()));
        }
    }
    outcome
}

/// See the module.
pub(super) struct Writer {
    path: PathBuf,
    files: NamedFiles,
    access: Access,
    forms: Arc<KeptForms>,
    /// `None` after a fault, until it could be opened anew.
    connection: Option<Connection>,
    checkpoints: Checkpoints,
    /// The file cannot be written.
    trouble: Trouble,
}

/// A job that has run, and what it came to if the commit succeeds.
struct Ran {
    reply: oneshot::Sender<JobResult>,
    outcome: JobResult,
}

impl Writer {
    /// One that has the file which `connection` has open and `lock` keeps others from.
    pub(super) fn new(
        mut connection: Connection,
        lock: &Lock,
        forms: Arc<KeptForms>,
        checkpoints: Checkpoints,
    ) -> rusqlite::Result<Self> {
        checkpoints.watch(&mut connection)?;
        let (path, files, access) = (lock.path().to_owned(), NamedFiles::of(lock), lock.access());
        Ok(Self { path, files, access, forms, connection: Some(connection), checkpoints, trouble: Trouble::default() })
    }

    /// Whether it can write at once: there is nothing to be put right, or to be copied, before.
    pub(super) fn is_at_hand(&self) -> bool {
        self.connection.is_some() && !self.checkpoints.has_rest()
    }

    /// Writes what is `next` in line, and after it, in one commit. Where another process writes, and whoever asked would
    /// have to wait for that, nothing is taken from the line.
    pub(super) fn batch(&mut self, next: impl Fn() -> Option<Queued<WriterJob>>, limits: Limits, by: WrittenBy) {
        let connection = match self.connection.take().map_or_else(|| self.recover(), Ok) {
            Ok(connection) => connection,
            Err(error) => {
                self.tell(&error.to_string());
                if let Some(first) = next() {
                    drop(first.reply.send(Err(connection::unavailable(&error))));
                }
                return;
            }
        };
        faults::at(Point::StoreBegin);
        let begun = match by {
            WrittenBy::Thread => connection::run(&connection, BEGIN),
            WrittenBy::Caller => match connection::run_at_once(&connection, BEGIN) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    self.connection = Some(connection);
                    return;
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &begun
            && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
        {
            // Nothing has begun, and the file is as good as it was: another process has it for longer than is waited for.
            self.connection = Some(connection);
            self.tell_of_busy(error);
            if let Some(first) = next() {
                drop(first.reply.send(Err(connection::unavailable(error))));
            }
            return;
        }
        let mut ran = Vec::new();
        let begun = begun.map_err(|error| error.to_string());
        match run_batch(&connection, &self.forms, limits, begun, next, &mut ran, &mut self.files) {
            Ok(()) => {
                self.connection = Some(connection);
                if self.trouble.is_over() {
                    tracing::info!("the store can be written again");
                }
                faults::at(Point::StoreAfterCommit);
                for Ran { reply, outcome } in ran {
                    // Whoever asked may be gone; what they asked for is done.
                    drop(reply.send(outcome));
                }
                faults::at(Point::StoreReplied);
                if by == WrittenBy::Thread || !self.checkpoints.has_rest() {
                    self.checkpoint();
                }
            }
            Err(NotWritten { reason, is_undone }) => {
                if is_undone {
                    self.connection = Some(connection);
                    self.tell_of_names(&reason);
                } else {
                    // Nobody knows what of this is on the disk: a sync that failed once may "succeed" the next time
                    // without having written anything. The connection is given up, which also rolls back.
                    drop(connection);
                    self.tell(&reason);
                }
                for Ran { reply, .. } in ran {
                    drop(reply.send(Err(Error::StoreUnavailable(reason.clone()))));
                }
            }
        }
    }

    /// Opens the file anew after a fault. Only once everything in the write-ahead log has been copied into the file and
    /// synced, is what the file says what is on the disk. Where others write too, they keep the log in use, and with it
    /// the index that does not know of what failed.
    fn recover(&mut self) -> rusqlite::Result<Connection> {
        // There may be another one by now.
        self.files.check_but_log().map_err(|reason| rusqlite::Error::ToSqlConversionFailure(reason.into()))?;
        if self.access == Access::Server {
            log::write_again(&self.path).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        }
        let mut connection = connection::open_writer(&self.path)?;
        self.files.log_opened();
        self.checkpoints.watch(&mut connection)?;
        match self.access {
            Access::Server => self.checkpoints.truncate(&connection)?,
            Access::Shared => checkpoint::passive(&connection)?,
        }
        Ok(connection)
    }

    /// Says in the log that the file cannot be written.
    fn tell(&self, error: &str) {
        if self.trouble.begins() {
            tracing::error!(error, "the store cannot be written; its file is opened anew for each write that comes");
        }
    }

    /// Says in the log that another process writes for too long.
    fn tell_of_busy(&self, error: &rusqlite::Error) {
        if self.trouble.begins() {
            tracing::error!(%error, "the store is not written as long as another process does");
        }
    }

    /// Says in the log that a file has lost its name.
    fn tell_of_names(&self, error: &str) {
        if self.trouble.begins() {
            let path = self.path.display();
            tracing::error!(error, %path, "the store is not written before its file, its log and its lock have their names again");
        }
    }

    fn checkpoint(&mut self) {
        if let Some(connection) = &self.connection
            && let Err(error) = self.checkpoints.after_commit(connection)
        {
            tracing::error!(%error, "the rest of the store's log could not be copied into its file, which is opened anew");
            // What is committed stays committed, but this connection may have met a fault of the disk.
            self.connection = None;
        }
    }

    /// Closes the file, once `readers` have ended.
    pub(super) fn close(mut self, readers: Vec<JoinHandle<()>>) -> JobResult {
        faults::at(Point::StoreClose);
        let outcome = join(readers.into_iter().chain(self.checkpoints.stop()));
        let connection = self.connection.take().map_or_else(|| self.recover(), Ok);
        // The last connection to close empties the write-ahead log and removes it. If another process is just reading,
        // the log stays; what is in it is as durable there. It is removed by its name: not where that is another one's.
        let closed = connection.and_then(|connection| {
            if self.files.is_log_replaced() {
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            }
            connection.close().map_err(|(_, error)| error)
        });
        closed.map_err(|error| connection::unavailable(&error)).and(outcome)
    }
}

/// Why nothing was written. Every job that ran has failed then.
struct NotWritten {
    reason: String,
    /// Nothing of it is there; where this is not so, nobody knows what is durable.
    is_undone: bool,
}

/// Runs jobs in the transaction that has `begun`, and commits them, as long as `files` have their names.
fn run_batch(
    connection: &Connection,
    forms: &KeptForms,
    limits: Limits,
    begun: Result<(), String>,
    next: impl Fn() -> Option<Queued<WriterJob>>,
    ran: &mut Vec<Ran>,
    files: &mut NamedFiles,
) -> Result<(), NotWritten> {
    let began = Instant::now();
    let mut failed = begun.err();
    let mut group = JobGroup { connection, forms, ran, jobs: Vec::new(), has_savepoints: false };
    let mut job = next();
    while let Some(Queued { job: taken, reply }) = job.take() {
        let mut outcome = Ok(());
        if failed.is_none() {
            match group.run(&taken) {
                Ok(came_to) => outcome = came_to,
                Err(reason) => failed = Some(reason),
            }
        }
        group.ran.push(Ran { reply, outcome });
        group.jobs.push(taken);
        if failed.is_none() && group.ran.len() < limits.jobs && began.elapsed() < limits.time {
            job = next();
        }
    }
    drop(group);
    let lost = |reason| NotWritten { reason, is_undone: false };
    if let Some(reason) = failed {
        return Err(lost(reason));
    }
    faults::at(Point::StoreBeforeCommit);
    // While nobody else can write: whoever took a lock that was moved has not written yet, and finds what is committed now.
    let named = files.check();
    let end = connection::run(connection, if named.is_ok() { "COMMIT" } else { "ROLLBACK" });
    end.map_err(|error| lost(error.to_string()))?;
    named.map_err(|reason| NotWritten { reason, is_undone: true })
}

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Jobs in one transaction. What a job did is undone where it is refused.
///
/// A savepoint for each of them would keep a copy of every page that it changes, and next to every job that is refused has
/// changed nothing. So there are none, until a job is refused that has: then the transaction is begun anew, those before it
/// run again, which jobs may, and each has a savepoint from there on.
struct JobGroup<'g> {
    connection: &'g Connection,
    forms: &'g KeptForms,
    ran: &'g mut Vec<Ran>,
    /// Those that have run.
    jobs: Vec<WriterJob>,
    has_savepoints: bool,
}

impl JobGroup<'_> {
    /// Runs one more job. `Err` when the transaction cannot go on.
    fn run(&mut self, job: &WriterJob) -> Result<JobResult, String> {
        if faults::refuses_once() {
            drop(self.attempt(job, |_| true)?);
        }
        let outcome = self.attempt(job, JobResult::is_err)?;
        faults::at(Point::StoreJobDone);
        Ok(outcome)
    }

    /// Runs a job, and undoes what it did where it `is_refused`.
    fn attempt(&mut self, job: &WriterJob, is_refused: fn(&JobResult) -> bool) -> Result<JobResult, String> {
        if self.has_savepoints {
            self.say("SAVEPOINT job")?;
        }
        let before = self.connection.total_changes();
        let outcome = run_once(self.connection, self.forms, job)?;
        let is_undone = is_refused(&outcome) && self.connection.total_changes() != before;
        if self.has_savepoints {
            if is_undone {
                self.say("ROLLBACK TO job")?;
            }
            self.say("RELEASE job")?;
        } else if is_undone {
            self.begin_anew()?;
        }
        Ok(outcome)
    }

    /// Undoes all, and runs again what ran before.
    fn begin_anew(&mut self) -> Result<(), String> {
        self.say("ROLLBACK")?;
        self.say(BEGIN)?;
        self.has_savepoints = !self.jobs.is_empty();
        let jobs = std::mem::take(&mut self.jobs);
        for (place, job) in jobs.iter().enumerate() {
            let outcome = self.attempt(job, JobResult::is_err)?;
            if let Some(ran) = self.ran.get_mut(place) {
                ran.outcome = outcome;
            }
        }
        self.jobs = jobs;
        Ok(())
    }

    fn say(&self, sql: &str) -> Result<(), String> {
        connection::run(self.connection, sql).map_err(|error| error.to_string())
    }
}

/// `Err` when the transaction around it cannot go on.
fn run_once(connection: &Connection, forms: &KeptForms, job: &WriterJob) -> Result<JobResult, String> {
    let mut handle = Handle::new(connection, forms);
    let outcome = guard(|| job.run(&mut handle));
    match outcome {
        Err(Error::StoreUnavailable(reason)) if handle.is_broken() => Err(reason),
        _ if handle.is_broken() => Err("the file could not be read or written".to_owned()),
        outcome => Ok(outcome),
    }
}

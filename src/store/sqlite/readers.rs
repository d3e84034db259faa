//! The reading threads: each runs one job at a time, in a read transaction of its own.
//!
//! A transaction sees every commit that came before its first statement, so a job sees every write that was
//! acknowledged before it was queued.

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::connection::{self, Handle};
use super::queue::{JobResult, Queued, ReaderJob};
use super::trouble::Trouble;
use crate::domain::Error;
use crate::store::guard;
use crate::store::kept::KeptForms;
use crate::store::open_error::OpenError;

/// Enough that one long list does not hold up everybody else.
const READERS: usize = 2;

/// How a reading thread opens its connection.
pub(super) type Open = fn(&Path) -> rusqlite::Result<Connection>;

/// Starts the reading threads; they end when `queue` is closed and empty.
pub(super) fn start(
    path: &Arc<Path>,
    open: Open,
    queue: Receiver<Queued<ReaderJob>>,
    forms: &Arc<KeptForms>,
) -> Result<Vec<JoinHandle<()>>, OpenError> {
    let queue = Arc::new(Mutex::new(queue));
    let trouble = Arc::new(Trouble::default());
    (0..READERS)
        .map(|number| {
            let connection = open(path).map_err(|error| super::path::refused(path, &error))?;
            let mut reader = ReadThread {
                path: Arc::clone(path),
                open,
                queue: Arc::clone(&queue),
                forms: Arc::clone(forms),
                connection: Some(connection),
                trouble: Arc::clone(&trouble),
            };
            Builder::new()
                .name(format!("hitl-store-read-{number}"))
                .spawn(move || reader.run())
                .map_err(|error| super::path::failed(path, &error))
        })
        .collect()
}

struct ReadThread {
    path: Arc<Path>,
    open: Open,
    queue: Arc<Mutex<Receiver<Queued<ReaderJob>>>>,
    forms: Arc<KeptForms>,
    /// `None` after a fault, until the next job.
    connection: Option<Connection>,
    /// The file cannot be read: what all of these threads find.
    trouble: Arc<Trouble>,
}

impl ReadThread {
    fn run(&mut self) {
        while let Some(queued) = self.next() {
            let outcome = self.read(queued.job);
            // Whoever asked may be gone.
            drop(queued.reply.send(outcome));
        }
    }

    fn next(&self) -> Option<Queued<ReaderJob>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    fn read(&mut self, job: ReaderJob) -> JobResult {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => (self.open)(&self.path).map_err(|error| self.refused(&error))?,
        };
        connection::run(&connection, "BEGIN").map_err(|error| self.refused(&error))?;
        let handle = Handle::new(&connection, &self.forms);
        let outcome = guard(|| job.run(&handle));
        let is_sound = !handle.is_broken() && connection::run(&connection, "ROLLBACK").is_ok();
        if is_sound {
            self.connection = Some(connection);
            if self.trouble.is_over() {
                tracing::info!("the store can be read again");
            }
        } else {
            self.tell(&match &outcome {
                Err(error) => error.to_string(),
                Ok(()) => "its transaction is gone".to_owned(),
            });
        }
        outcome
    }

    fn refused(&self, error: &rusqlite::Error) -> Error {
        self.tell(&error.to_string());
        connection::unavailable(error)
    }

    /// Says in the log that the file cannot be read.
    fn tell(&self, error: &str) {
        if self.trouble.begins() {
            tracing::error!(error, "the store cannot be read; its file is opened anew for each read that comes");
        }
    }
}

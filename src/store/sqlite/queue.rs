//! Jobs in line for a thread of the store.

use tokio::sync::oneshot;

use super::connection::Handle;
use crate::domain::Error;
use crate::store::upkeep::{UpkeepReadJob, UpkeepWriteJob};
use crate::store::{ReadJob, WriteJob};

/// What came of a job.
pub(super) type JobResult = Result<(), Error>;

/// A job in line, and whom to tell what came of it.
pub(super) struct Queued<J> {
    /// The job.
    pub(super) job: J,
    /// Who waits for it.
    pub(super) reply: oneshot::Sender<JobResult>,
}

/// What the writer runs.
pub(super) enum WriterJob {
    /// A job about one session.
    Write(WriteJob),
    /// One of upkeep.
    Upkeep(UpkeepWriteJob),
}

impl WriterJob {
    /// Runs it.
    pub(super) fn run(&self, handle: &mut Handle<'_>) -> JobResult {
        match self {
            Self::Write(job) => job(handle),
            Self::Upkeep(job) => job(handle),
        }
    }
}

/// What the reading threads run.
pub(super) enum ReaderJob {
    /// A read.
    Read(ReadJob),
    /// One of upkeep.
    Upkeep(UpkeepReadJob),
}

impl ReaderJob {
    /// Runs it.
    pub(super) fn run(self, handle: &Handle<'_>) -> JobResult {
        match self {
            Self::Read(job) => job(handle),
            Self::Upkeep(job) => job(handle),
        }
    }
}

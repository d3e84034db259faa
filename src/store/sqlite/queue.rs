//! Jobs in line for a thread of the store.

use tokio::sync::oneshot;

use crate::domain::Error;

/// What came of a job.
pub(super) type JobResult = Result<(), Error>;

/// A job in line, and whom to tell what came of it.
pub(super) struct Queued<J> {
    /// The job.
    pub(super) job: J,
    /// Who waits for it.
    pub(super) reply: oneshot::Sender<JobResult>,
}

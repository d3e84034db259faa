//! What a database that many servers share has to do: answer, and commit what is still as it was read.
//!
//! All else is written once over it (the module above): running jobs, running them again, keeping what is known of a
//! session from one job to the next.

use std::time::Duration;

use crate::domain::Error;
use crate::store::BoxFuture;
use crate::store::upkeep::Upkeep;

use super::changes::Changes;
use super::question::{Answer, StoreQuestion};

/// How long to wait before what came of a commit is looked up again; twice as long each time.
const PAUSE: Duration = Duration::from_millis(50);

/// A database. No transaction of it is open while a caller thinks: each of these is one round trip, or a few that wait for
/// nobody.
pub trait Backend: Upkeep + 'static {
    /// Answers all of it on one snapshot, which holds every commit acknowledged before this call: an answer for each
    /// question, in order. What cannot be read is [`Error::Unreadable`] in that place; in a page it is left out.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    fn answer(&self, questions: Vec<StoreQuestion>) -> BoxFuture<'static, Result<Vec<Result<Answer, Error>>, Error>>;

    /// Commits all of it, durably, if every session is still of the version it was read in, and nothing that is new is
    /// there already; nothing otherwise.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`]: then nobody knows whether it happened. The others of a transaction that cannot be
    /// stored, such as [`Error::Internal`] for what nests too deeply, changed nothing.
    fn commit(&self, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>>;

    /// How many commits it takes at once; others wait meanwhile, and go together ([`super::grouping`]).
    fn commits_at_once(&self) -> usize;

    /// Waits before what came of a commit is looked up for the `look`-th time, while the database cannot be reached.
    fn wait(&self, look: u32) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(PAUSE * 2_u32.saturating_pow(look)))
    }

    /// Stops, once what was begun is over.
    fn close(&self) -> BoxFuture<'static, Result<(), Error>>;
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It is durable: the numbers of its events, in order.
    Yes {
        /// One for each of [`Changes::events`].
        events: Vec<u64>,
    },
    /// Somebody was first: something is not as it was read, or is there already. Nothing has changed.
    Moved,
}

//! What stores know of notices. Which of them is due, and when, is for the engine and the domain to say.

use super::query::{NoticeQuery, Page};
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp, TurnId};

/// How much there is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxFigures {
    /// How many notices are pending.
    pub pending: usize,
    /// When the first of them was written.
    pub oldest: Option<Timestamp>,
    /// Whether none goes out: the store was restored from another one, and nobody has adopted it.
    pub is_held: bool,
}

/// What can be read of notices.
pub trait OutboxReader {
    /// The webhook of the message that started a turn.
    fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error>;

    /// One notice.
    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error>;

    /// Notices over all sessions, newest first; without their tokens and bodies, which may be large.
    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error>;

    /// Whether a notice of a session to an address is pending: whether their lane is not empty.
    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error>;

    /// The first pending notice of a session to an address: the head of their lane.
    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error>;
}

/// What can be written of notices.
pub trait OutboxWriter {
    /// Adds a notice after all others.
    ///
    /// # Errors
    /// [`Error::Internal`] when its id is taken.
    fn insert_notice(&mut self, notice: &Notice) -> Result<(), Error>;

    /// Replaces a notice in its place.
    ///
    /// # Errors
    /// [`Error::UnknownNotice`].
    fn update_notice(&mut self, notice: &Notice) -> Result<(), Error>;

    /// Makes the first pending notice of a session to an address due, where it waits: also one that cannot be read.
    fn make_first_due(&mut self, session: SessionId, url: &str, now: Timestamp) -> Result<(), Error>;

    /// Removes a notice. Whether it was there.
    fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error>;
}

//! The store: where everything acknowledged is, before it is acknowledged.
//!
//! A write is a closure over a [`Transaction`]: it reads, decides with the domain, writes, and returns. Its result is
//! handed back only after the commit is durable; an error rolls back that closure alone. A store may commit several
//! closures at once (group commit), never half of one. It may also run one again, where others changed meanwhile what it
//! had read: a closure runs at least once, and its last run counts ([`WriteJob`]). All writers wait for each other, so a
//! closure does nothing whose time its caller's client decides over ([`crate::domain::apart`]). No implementation may
//! assume that one process owns the data: a turn is claimed with an epoch, and every append is conditional on it.

pub mod asked;
pub mod carried;
#[cfg(test)]
pub(crate) mod contract;
pub mod kept;
pub mod memory;
pub mod open;
pub mod open_error;
pub mod outbox;
pub mod query;
pub mod record;
pub mod sqlite;
pub mod turns;

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::apart::Awaited;
use crate::domain::audit::{AuditRow, Deed, Head};
use crate::domain::event::{NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::session::Session;
use crate::domain::turn::Life;
use crate::domain::{Error, InterruptId, KeyId, SessionId, StoreId, Timestamp, TurnId};
use asked::AskedReader;
use carried::{CarriedReader, CarriedWriter};
use outbox::{OutboxReader, OutboxWriter};
use query::{AuditQuery, InterruptQuery, Page, SessionQuery};
use record::{Due, DueKind, PendingCount, StoredReply, Turn};
use turns::TurnWriter;

/// A boxed future, as trait objects need.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A unit of writing, run at least once: each run is in a transaction of its own, and the last one counts. What the runs
/// before it have written is rolled back. `Err` rolls it back; the error is the caller's.
///
/// So a job leaves nothing in memory but through its value, which undoes itself when it is dropped ([`StoreExt::transact`]).
pub type WriteJob = Box<dyn Fn(&mut dyn Transaction) -> Result<(), Error> + Send>;

/// A unit of reading, on one consistent snapshot.
pub type ReadJob = Box<dyn FnOnce(&dyn Reader) -> Result<(), Error> + Send>;

/// A store. [`Store::write`] and [`Store::read`] take their place in line when they are called, not when the future is
/// first polled.
pub trait Store: Send + Sync + 'static {
    /// Runs `job` in a transaction, again where the store refuses the commit, and resolves once it is durable.
    ///
    /// # Errors
    /// The job's own, or [`Error::StoreUnavailable`]: then nobody knows whether it happened.
    fn write(&self, job: WriteJob) -> BoxFuture<'static, Result<(), Error>>;

    /// Runs `job` on a snapshot that holds every write acknowledged before this call.
    ///
    /// # Errors
    /// The job's own, or [`Error::StoreUnavailable`].
    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>>;

    /// Stops taking jobs, finishes those taken, and closes.
    fn close(&self) -> BoxFuture<'static, Result<(), Error>>;
}

/// Jobs that return something.
pub trait StoreExt: Store {
    /// [`Store::write`] with a result: that of the last run. The one before it is dropped before the job runs again, so
    /// that what it holds in memory (a place, a claim, an announcement) is void by then.
    fn transact<T: Send + 'static>(
        &self,
        job: impl Fn(&mut dyn Transaction) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let came_to = Arc::new(JobValue::new());
        let slot = Arc::clone(&came_to);
        let written = self.write(Box::new(move |transaction| {
            drop(slot.take());
            let awaited = Awaited::begin();
            let value = job(transaction)?;
            drop(awaited);
            slot.put(value);
            Ok(())
        }));
        Box::pin(async move {
            written.await?;
            came_to.take().ok_or_else(lost)
        })
    }

    /// [`Store::read`] with a result.
    fn query<T: Send + 'static>(
        &self,
        job: impl FnOnce(&dyn Reader) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (sender, receiver) = oneshot::channel();
        let read = self.read(Box::new(move |reader| {
            let value = job(reader)?;
            drop(sender.send(value));
            Ok(())
        }));
        Box::pin(async move {
            read.await?;
            receiver.await.map_err(|_| lost())
        })
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// What a job's last run came to. A caller that goes away does not undo what it asked for: then it goes with the job.
struct JobValue<T>(Mutex<Option<T>>);

impl<T> JobValue<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn lost() -> Error {
    Error::Internal("a store dropped a job that it reported as done".to_owned())
}

/// Runs a job for a store. A panic is the job's bug and not the store's end: it becomes [`Error::Internal`].
fn guard(job: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    // What the job was given is rolled back, and what it captured dies with it.
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::Internal(format!("a store job panicked: {text}"))
}

/// What can be read. What is asked for and is not what it should be is [`Error::Unreadable`]; in lists of sessions,
/// interrupts and notices such a row is left out.
pub trait Reader: OutboxReader + CarriedReader + AskedReader {
    /// Which store this is: the same for as long as what it holds is there, and another one for every other store.
    fn store_id(&self) -> Result<StoreId, Error>;

    /// A session without its messages.
    fn session(&self, id: SessionId) -> Result<Option<Session>, Error>;

    /// What a session remembers; empty for an unknown one.
    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error>;

    /// Sessions, oldest first.
    fn sessions(&self, query: &SessionQuery) -> Result<Page<Session>, Error>;

    /// How many sessions there are.
    fn count_sessions(&self) -> Result<usize, Error>;

    /// One interrupt.
    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error>;

    /// The pending interrupts of a session in order of arrival.
    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error>;

    /// How many interrupts are pending, by type and by age at `now`; looks at all of them.
    fn count_pending(&self, now: Timestamp) -> Result<Vec<PendingCount>, Error>;

    /// Interrupts over all sessions, newest first.
    fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error>;

    /// One turn.
    fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error>;

    /// How a turn stands, and nothing else of it.
    fn life(&self, turn: TurnId) -> Result<Option<Life>, Error>;

    /// The newest turn of a session, over or not.
    fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error>;

    /// Whose a turn is; known even where the rest of its row is [`Error::Unreadable`].
    fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error>;

    /// The name of the key that sent a turn's message, where there was one; known even where the rest of its row is
    /// [`Error::Unreadable`].
    fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error>;

    /// Whose an interrupt is; known even where the rest of its row is [`Error::Unreadable`].
    fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error>;

    /// The turns that are open and not parked, oldest first. Costs nothing for those that are parked.
    fn unparked_turns(&self) -> Result<Vec<TurnId>, Error>;

    /// A turn's journal in order; empty for an unknown turn, and after [`Transaction::compact_journals`].
    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error>;

    /// What a turn's journal holds after `index`; all of it after `None`.
    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error>;

    /// The last entry of a turn's journal, if it has any; no other is looked at.
    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error>;

    /// Up to `limit` entries of a turn's journal from the one at `first` on; no more than these are looked at.
    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error>;

    /// Up to `limit` things whose time has come at `now`, earliest first: pending interrupts that expire, except those
    /// of suspended turns, and timers of parked turns.
    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, Error>;

    /// When the next thing is due.
    fn next_due(&self) -> Result<Option<Timestamp>, Error>;

    /// Up to `limit` turns that were suspended under other code than `code`, oldest first.
    fn retriable_turns(&self, code: &str, limit: usize) -> Result<Vec<TurnId>, Error>;

    /// Up to `limit` turns that were suspended before `before`, those first that were suspended first, without the first
    /// `skip` of them.
    fn suspended_turns(&self, before: Timestamp, skip: usize, limit: usize) -> Result<Vec<TurnId>, Error>;

    /// What a request with this key was answered with; `scope` keeps the keys of one route and session apart.
    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error>;

    /// Every key, the revoked ones too, oldest first.
    fn keys(&self) -> Result<Vec<Key>, Error>;

    /// Everybody who has signed in, in no order that means anything.
    fn sign_ins(&self) -> Result<Vec<SignIn>, Error>;

    /// Up to `limit` events with a number above `after`, of one session or of all, in order.
    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error>;

    /// The number of the newest event; 0 when there is none.
    fn last_event(&self) -> Result<u64, Error>;

    /// Rows of the audit, oldest first.
    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error>;

    /// Where the audit ends.
    fn audit_head(&self) -> Result<Head, Error>;

    /// Whether the audit tells that `actor` has seen the interrupt.
    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error>;
}

/// What can be written. Reads see what the transaction has written so far.
pub trait Transaction: Reader + TurnWriter + OutboxWriter + CarriedWriter {
    /// Adds a session with its messages.
    ///
    /// # Errors
    /// [`Error::SessionExists`].
    fn insert_session(&mut self, session: &Session, messages: &[ChatMessage]) -> Result<(), Error>;

    /// Replaces a session; its messages stay.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    fn update_session(&mut self, session: &Session) -> Result<(), Error>;

    /// Replaces what a session remembers.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    fn set_messages(&mut self, id: SessionId, messages: &[ChatMessage]) -> Result<(), Error>;

    /// Removes a session with its turns, journals and interrupts; its events and what the audit tells of it stay. Whether it was there.
    fn delete_session(&mut self, id: SessionId) -> Result<bool, Error>;

    /// Removes up to `limit` idle and error sessions that have not changed since `before` and have no suspended turn, those
    /// longest unchanged first; their ids, oldest session first.
    fn sweep_sessions(&mut self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// Adds an interrupt.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]; [`Error::Internal`] when its id is taken.
    fn insert_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error>;

    /// Replaces an interrupt.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::UnknownInterrupt`].
    fn update_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error>;

    /// It is not due any more, although nothing has come of it: [`Error::Unreadable`] stands in the way.
    fn set_aside(&mut self, due: DueKind) -> Result<(), Error>;

    /// Appends to a turn's journal for the owner at `epoch`: the entry's index, counted from 0 without a gap.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`] when the turn was claimed since; [`Error::TurnNotOpen`] when it has ended.
    fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error>;

    /// Appends what does not come from the turn's owner (an answer, an expiry, a timer, a cancel): the entry's index.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error>;

    /// Removes the journals of up to `limit` turns that ended before `before` and have not been through this yet, those
    /// that ended first first; how many. Turns and interrupts stay.
    fn compact_journals(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// Keeps the reply to a request with an idempotency key, in the place of an older one.
    fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error>;

    /// Forgets up to `limit` of the replies kept before `before`, the oldest first; how many.
    fn sweep_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// Appends a row to the audit; nothing ever takes it away.
    fn append_audit(&mut self, deed: Deed, now: Timestamp) -> Result<(), Error>;

    /// Adds a key.
    ///
    /// # Errors
    /// [`Error::KeyExists`] where one that is not revoked has its name.
    fn insert_key(&mut self, key: &Key) -> Result<(), Error>;

    /// Revokes a key for good; it stays in the list.
    ///
    /// # Errors
    /// [`Error::UnknownKey`] where there is none, or it is revoked already.
    fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<(), Error>;

    /// Adds somebody who has signed in.
    fn insert_sign_in(&mut self, sign_in: &SignIn) -> Result<(), Error>;

    /// Removes the sign-in with this token, if it is there.
    fn delete_sign_in(&mut self, token: &Digest) -> Result<(), Error>;

    /// Removes up to `limit` of the sign-ins that have ended at `now`, those that ended first first; how many.
    fn sweep_sign_ins(&mut self, now: Timestamp, limit: usize) -> Result<usize, Error>;

    /// Appends an event; its number.
    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<u64, Error>;

    /// Forgets events up to the first that was stored at `before` or later, but never the newest one, from which the next
    /// number is counted: at most the first `limit`; how many.
    fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;
}

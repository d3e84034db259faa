//! The store: where everything acknowledged is, before it is acknowledged.
//!
//! A write is a closure over a [`Transaction`]: it reads, decides with the domain, writes, and returns. Its result is
//! handed back only after the commit is durable; an error rolls back that closure alone. A store may commit several
//! closures at once (group commit), never half of one. It may also run one again, where others changed meanwhile what it
//! had read: a closure runs at least once, and its last run counts ([`WriteJob`]). All writers wait for each other, so a
//! closure does nothing whose time its caller's client decides over ([`crate::domain::apart`]). No implementation may
//! assume that one process owns the data: a turn is claimed with an epoch, and every append is conditional on it.

pub mod about;
pub mod asked;
pub mod carried;
pub mod check;
mod checking;
pub mod clock;
#[cfg(test)]
pub(crate) mod contract;
pub mod copy;
mod copying;
mod delegate;
pub mod graphs;
pub mod kept;
pub mod memory;
pub mod open;
pub mod open_error;
pub mod outbox;
pub mod owner;
pub mod postgres;
pub mod presence;
pub mod query;
pub mod record;
mod rows;
pub mod schema_state;
pub mod shared;
pub mod signals;
#[cfg(test)]
pub(crate) mod simulated;
pub mod sqlite;
pub mod turns;
pub mod upkeep;

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{broadcast, watch};

use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::apart::Awaited;
use crate::domain::audit::{AuditRow, Deed, Head};
use crate::domain::event::{NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::policy::{PolicyChange, PushedPolicy};
use crate::domain::session::Session;
use crate::domain::turn::Life;
use crate::domain::{Error, InterruptId, KeyId, SessionId, StoreId, Timestamp, TurnId};
use about::About;
use asked::AskedReader;
use carried::{CarriedReader, CarriedWriter};
use clock::{Clock, WallClock};
pub(crate) use delegate::reads_from;
use outbox::{OutboxReader, OutboxWriter};
use owner::TurnOwner;
use presence::Presence;
use query::{AuditQuery, InterruptQuery, Page, SessionQuery, TitledSession};
use record::{DueKind, EventNumber, StoredReply, Turn};
use shared::membership::Membership;
use signals::Signal;
use turns::TurnWriter;
use upkeep::Upkeep;

/// A boxed future, as trait objects need.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A unit of writing, run at least once: each run is in a transaction of its own, and the last one counts. What the runs
/// before it have written is rolled back. `Err` rolls it back; the error is the caller's.
///
/// So a job leaves nothing in memory but through its value, which undoes itself when it is dropped ([`StoreExt::transact`]).
pub type WriteJob = Box<dyn Fn(&mut dyn Transaction) -> Result<(), Error> + Send>;

/// A unit of reading, on one consistent snapshot; run at least once, and again, on a later snapshot, where a store did not
/// know beforehand what it would ask for. The last run counts.
pub type ReadJob = Box<dyn Fn(&dyn Reader) -> Result<(), Error> + Send>;

/// A store. [`Store::write`] and [`Store::read`] take their place in line when they are called, not when the future is
/// first polled; but it may take that, or that it is dropped, or the next call, for the job to be run.
pub trait Store: Send + Sync + 'static {
    /// Runs `job` in a transaction, again where the store refuses the commit, and resolves once it is durable. It changes
    /// what it is `about`, and nothing else.
    ///
    /// # Errors
    /// The job's own, or [`Error::StoreUnavailable`]: then nobody knows whether it happened.
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>>;

    /// Runs `job` on a snapshot that holds every write acknowledged before this call.
    ///
    /// # Errors
    /// The job's own, or [`Error::StoreUnavailable`].
    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>>;

    /// What is done over everything, and for no session in particular.
    fn upkeep(&self) -> &dyn Upkeep;

    /// What tells the time to whoever works with this store; [`Reader::now`] is the same.
    fn clock(&self) -> &dyn Clock {
        &WallClock
    }

    /// Who claims turns through this store. Where that is lost (others have taken over), it is somebody else from then on.
    fn owner(&self) -> TurnOwner {
        TurnOwner::this_process()
    }

    /// Where this process stands with others that use the store; `None` where nobody could take its place.
    fn presence(&self) -> Option<watch::Receiver<Presence>> {
        None
    }

    /// This process among others that use the store; `None` where it has it for itself, or only reads.
    fn membership(&self) -> Option<Arc<Membership>> {
        None
    }

    /// What other processes do from now on; `None` where this one has the store for itself.
    fn signals(&self) -> Option<broadcast::Receiver<Signal>> {
        None
    }

    /// Stops taking jobs, finishes those taken, and closes.
    fn close(&self) -> BoxFuture<'static, Result<(), Error>>;
}

/// Jobs that return something.
pub trait StoreExt: Store {
    /// [`Store::write`] with a result: that of the last run. The one before it is dropped before the job runs again, so
    /// that what it holds in memory (a place, a claim, an announcement) is void by then.
    fn transact<T: Send + 'static>(
        &self,
        about: About,
        job: impl Fn(&mut dyn Transaction) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let came_to = Arc::new(JobValue::new());
        let slot = Arc::clone(&came_to);
        let job: WriteJob = Box::new(move |transaction| slot.run(|| about::confined_to(about, transaction, &job)));
        finished(self.write(about, job), came_to)
    }

    /// [`Store::read`] with a result.
    fn query<T: Send + 'static>(
        &self,
        job: impl Fn(&dyn Reader) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let came_to = Arc::new(JobValue::new());
        let slot = Arc::clone(&came_to);
        let job: ReadJob = Box::new(move |reader| {
            slot.put(job(reader)?);
            Ok(())
        });
        finished(self.read(job), came_to)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// What a job's last run came to. A caller that goes away does not undo what it asked for: then it goes with the job.
struct JobValue<T>(Mutex<Option<T>>);

impl<T> JobValue<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Runs a job once more, for its value; awaited by everybody else who writes.
    fn run(&self, job: impl FnOnce() -> Result<T, Error>) -> Result<(), Error> {
        drop(self.take());
        let awaited = Awaited::begin();
        let value = job()?;
        drop(awaited);
        self.put(value);
        Ok(())
    }

    fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a job came to, once the store says that it is done.
fn finished<T: Send + 'static>(
    done: BoxFuture<'static, Result<(), Error>>,
    came_to: Arc<JobValue<T>>,
) -> BoxFuture<'static, Result<T, Error>> {
    Box::pin(async move {
        done.await?;
        came_to.take().ok_or_else(lost)
    })
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

    /// The time, by the store's clock.
    fn now(&self) -> Timestamp;

    /// How often a standby had taken the database's place when what is read of sessions here was like this for the first
    /// time, as far as anybody here knows: whoever knows more of them from before such a moment, knows what may have been
    /// taken back. 0 for a store that has no standbys.
    fn promotions(&self) -> u64;

    /// A session without its messages.
    fn session(&self, id: SessionId) -> Result<Option<Session>, Error>;

    /// What a session remembers; empty for an unknown one.
    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error>;

    /// Up to `limit` of the messages that a session remembers, from the one at `first` on; no others are looked at.
    fn messages_page(&self, id: SessionId, first: usize, limit: usize) -> Result<Vec<ChatMessage>, Error>;

    /// Sessions in the order of their making, with their titles.
    fn sessions(&self, query: &SessionQuery) -> Result<Page<TitledSession>, Error>;

    /// How many sessions there are; where many servers share the store, how many there were a moment ago.
    fn count_sessions(&self) -> Result<usize, Error>;

    /// One interrupt.
    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error>;

    /// The pending interrupts of a session in order of arrival.
    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error>;

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

    /// A turn's journal in order; empty for an unknown turn, and after [`Upkeep::compact_journals`].
    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error>;

    /// What a turn's journal holds after `index`; all of it after `None`.
    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error>;

    /// The last entry of a turn's journal, if it has any; no other is looked at.
    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error>;

    /// Up to `limit` entries of a turn's journal from the one at `first` on; no more than these are looked at.
    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error>;

    /// What a request with this key was answered with; `scope` keeps the keys of one route and session apart.
    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error>;

    /// Every key, the revoked ones too, oldest first.
    fn keys(&self) -> Result<Vec<Key>, Error>;

    /// Everybody who has signed in, in no order that means anything.
    fn sign_ins(&self) -> Result<Vec<SignIn>, Error>;

    /// The policy that was pushed, if there is one.
    fn pushed_policy(&self) -> Result<Option<PushedPolicy>, Error>;

    /// Up to `limit` events with a number above `after`, of one session or of all, in order: those that were appended, and
    /// entries of journals that are told ([`Transaction::append_told`]), as far as no event after them was swept. Those of a
    /// session are as new as all else that a job reads. Those of all are told as far as their order is final: what was
    /// committed before the job was called is among them, unless somebody's transaction has held it up for long, and what was
    /// committed since may not be.
    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error>;

    /// The number up to which every event is there for [`Reader::events_after`], and none will be added any more; 0 when
    /// there is none.
    fn last_event(&self) -> Result<u64, Error>;

    /// The number of the newest event of a session that was appended as one; 0 when there is none.
    fn last_event_of(&self, session: SessionId) -> Result<u64, Error>;

    /// Rows of the audit, oldest first.
    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error>;

    /// Where the audit ends.
    fn audit_head(&self) -> Result<Head, Error>;

    /// Whether the audit tells that `actor` has seen the interrupt.
    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error>;
}

/// The interrupts with these ids, in their order. Each is looked for before any is missed: who shares a database asks for all
/// of them at once then.
///
/// # Errors
/// The first of [`Reader::interrupt`].
pub(crate) fn each_interrupt(
    reader: &dyn Reader,
    ids: impl IntoIterator<Item = InterruptId>,
) -> Result<Vec<Option<Interrupt>>, Error> {
    let found: Vec<_> = ids.into_iter().map(|id| reader.interrupt(id)).collect();
    found.into_iter().collect()
}

/// The error of [`Transaction::set_messages_from`] for a session that remembers fewer than `first` messages.
pub(in crate::store) fn too_few_messages(first: usize) -> Error {
    Error::Internal(format!("{first} messages are to stay, and the session has fewer"))
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
    fn set_messages(&mut self, id: SessionId, messages: &[ChatMessage]) -> Result<(), Error> {
        self.set_messages_from(id, 0, messages)
    }

    /// Replaces what a session remembers from the message at `first` on; those before it stay as they are.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::Internal`] where it remembers fewer than `first`.
    fn set_messages_from(&mut self, id: SessionId, first: usize, messages: &[ChatMessage]) -> Result<(), Error>;

    /// Removes a session with its turns, journals and interrupts; its events and what the audit tells of it stay.
    /// Whether it was there.
    fn delete_session(&mut self, id: SessionId) -> Result<bool, Error>;

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

    /// The same where nothing changes but what becomes of it ([`Interrupt::differs_in_outcome_only`]): a store need not write
    /// the rest, nor look at it. Builds for tests refuse what changes more.
    ///
    /// # Errors
    /// Those of [`Transaction::update_interrupt`].
    fn update_outcome(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        self.update_interrupt(interrupt)
    }

    /// It is not due any more, although nothing has come of it: [`Error::Unreadable`] stands in the way.
    fn set_aside(&mut self, due: DueKind) -> Result<(), Error>;

    /// Appends to a turn's journal for the owner at `epoch`: the entry's index, counted from 0 without a gap.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`] when the turn was claimed since; [`Error::TurnNotOpen`] when it has ended.
    fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error>;

    /// As [`Transaction::append`], and tells listeners of the entry: it is an event from then on, with the next number, for
    /// as long as it is there. One of which nobody is told ([`crate::domain::told`]) has none.
    ///
    /// # Errors
    /// Those of [`Transaction::append`].
    fn append_told(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error>;

    /// Appends what does not come from the turn's owner (an answer, an expiry, a timer, a cancel): the entry's index.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`].
    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error>;

    /// Keeps the reply to a request with an idempotency key, in the place of an older one.
    fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error>;

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

    /// Puts another policy in the place of the one that was pushed, or none.
    fn change_policy(&mut self, change: &PolicyChange) -> Result<(), Error>;

    /// Appends an event; its number, which is above those of all events of its session before it.
    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<EventNumber, Error>;
}

//! Upkeep: what is done over everything in a store, and for no session in particular. What is due is found here, what is
//! old goes, what there is of everything is counted.
//!
//! A job about one session cannot do any of it: a store that many servers share brings that session's rows to a job, and no
//! others. So each of these is a method, and how it comes about is the store's own: that hands what it finds to one server
//! at a time, where there are several. A store that one process has for itself ([`LocalStore`]) does it with jobs over all
//! that it holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graphs::{
    ChannelValue, Checkpoint, CheckpointKey, CheckpointQuery, GraphReader, GraphStates, GraphWrite, GraphWriter,
    StoredCheckpoint,
};
use super::outbox::OutboxFigures;
use super::record::{Due, PendingCount, RetriableTurn, Turn};
use super::signals::{AccessVersion, KnownTurn, LeftTurn, OrphanedTurn, OthersSnapshot, TurnTaker};
use super::{BoxFuture, JobValue, Reader, Store, Transaction, finished};
use crate::domain::audit::{Deed, Head};
use crate::domain::journal::{CodeVersion, Entry, PendingTimer};
use crate::domain::notice::Notice;
use crate::domain::turn::TurnState;
use crate::domain::{Error, SessionId, Timestamp, TurnId};

/// Whose notices are looked for, by their origins ([`Notice::origin`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receivers {
    /// Those of every receiver, but of these.
    AllBut(Vec<String>),
    /// Those of these alone.
    Only(Vec<String>),
}

impl Receivers {
    /// Every one.
    pub fn all() -> Self {
        Self::AllBut(Vec::new())
    }

    /// Whether nobody's are.
    pub fn are_none(&self) -> bool {
        matches!(self, Self::Only(origins) if origins.is_empty())
    }

    /// The origins, and whether they are those that are looked for.
    pub fn origins(&self) -> (&[String], bool) {
        match self {
            Self::AllBut(origins) => (origins, false),
            Self::Only(origins) => (origins, true),
        }
    }
}

/// What a store does over everything it holds, and for what is in no session. All of it may fail with
/// [`Error::StoreUnavailable`].
pub trait Upkeep: GraphStates {
    /// The turns that are open, not parked, and at nobody, since whoever had them is gone or has let go of them; oldest
    /// first. Of those of the agent of `taker` it is those that it may take up. Where one process has the store, it has
    /// claimed none yet. Costs nothing for those that are parked.
    fn orphaned_turns(&self, taker: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>>;

    /// Of `orphans` those that are still under way, at the epochs that are told of them, in the order of `orphans`; or why what
    /// is stored of one cannot be read. One statement, however many they are.
    fn left_turns(&self, orphans: Vec<OrphanedTurn>) -> BoxFuture<'static, Result<LeftTurns, Error>>;

    /// The turns that could go on and that nobody has, of all agents that a server is there for; `None` where one process has
    /// the store for itself: then every turn is its. Takes longer the more turns are under way; those that are parked cost nothing.
    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>>;

    /// What others have left to do that `taker` may, the first of it, and what they have done to the turns that this process has
    /// in memory; nothing where it has the store for itself.
    fn look(&self, taker: TurnTaker, known: Vec<KnownTurn>) -> BoxFuture<'static, Result<OthersSnapshot, Error>>;

    /// Whether others have changed what this process keeps in memory beside all sessions. Whatever holds up what is asked of
    /// sessions and turns does not hold this up; always the same where this process has the store for itself.
    fn access_version(&self) -> BoxFuture<'static, Result<AccessVersion, Error>>;

    /// Up to `limit` things whose time has come at `now`, earliest first: pending interrupts that expire, except those of
    /// suspended turns, and timers of parked turns.
    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>>;

    /// When the next thing is due.
    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>>;

    /// Up to `limit` turns of `agent` that were suspended under other code than `code`, oldest first, of those that come after
    /// the place `after` ([`RetriableTurn::place`]).
    fn retriable_turns(
        &self,
        agent: String,
        code: String,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<RetriableTurn>, Error>>;

    /// Up to `limit` turns that were suspended before `before`, those first that were suspended first, without the first
    /// `skip` of them.
    fn suspended_turns(
        &self,
        before: Timestamp,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TurnId>, Error>>;

    /// Up to `limit` notices to `receivers` whose time has come at `now`, earliest first.
    fn due_notices(
        &self,
        now: Timestamp,
        receivers: Receivers,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>>;

    /// When the next notice to `receivers` is due.
    fn next_notice_at(&self, receivers: Receivers) -> BoxFuture<'static, Result<Option<Timestamp>, Error>>;

    /// Notices that were leased by whoever is gone are due at `now`, as far as that is known: beside another server, leases
    /// end by themselves.
    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>>;

    /// Forgets up to `limit` rows of that kind from before `before`, the oldest first; how many.
    fn sweep(&self, kind: Sweep, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>>;

    /// Removes up to `limit` idle and error sessions that have not changed since `before` and have no suspended turn, those
    /// longest unchanged first; their ids, oldest session first. The audit tells `deed` of each, at `now`.
    fn sweep_sessions(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, Error>>;

    /// Removes the journals of up to `limit` turns that ended before `before` and have not been through this yet, those
    /// that ended first first; how many. Turns and interrupts stay.
    fn compact_journals(&self, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>>;

    /// How much there is of everything, and where the audit ends.
    fn totals(&self) -> BoxFuture<'static, Result<Totals, Error>>;

    /// How many notices are pending, and since when.
    fn outbox_figures(&self) -> BoxFuture<'static, Result<OutboxFigures, Error>>;

    /// How many interrupts are pending, by type and by age at `now`; looks at all of them.
    fn count_pending(&self, now: Timestamp) -> BoxFuture<'static, Result<Vec<PendingCount>, Error>>;
}

/// What [`Upkeep::left_turns`] finds.
pub type LeftTurns = Vec<(OrphanedTurn, Result<LeftTurn, Error>)>;

/// Rows that go by their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Replies to requests with an idempotency key, by when they were given.
    Replies,
    /// Events, by when they were stored: up to the first that is younger, and never the newest one, from which the next
    /// number is counted. At most the first `limit` are looked at.
    Events,
    /// Notices that are settled, by when that was.
    Notices,
    /// Sign-ins, by when they ended: also those that end at that moment.
    SignIns,
}

/// How much there is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Sessions.
    pub sessions: usize,
    /// Where the audit ends.
    pub audit: Head,
}

/// Turns that wait for whoever has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadyTurns {
    /// How many there are of each code that goes on with them first (`TurnCode::code`).
    pub by_code: BTreeMap<Option<CodeVersion>, u64>,
    /// Since when the first of them could go on: of one whose server is gone, when it was written to last.
    pub since: Option<Timestamp>,
}

impl ReadyTurns {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.by_code.values().sum()
    }
}

/// What a local store finds over all it holds: see [`Upkeep`].
pub trait UpkeepReader: Reader + GraphReader {
    /// The turns that are open and not parked, oldest first. Costs nothing for those that are parked.
    fn unparked_turns(&self) -> Result<Vec<TurnId>, Error>;

    /// See [`Upkeep::due`].
    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, Error>;

    /// See [`Upkeep::next_due`].
    fn next_due(&self) -> Result<Option<Timestamp>, Error>;

    /// See [`Upkeep::retriable_turns`].
    fn retriable_turns(&self, agent: &str, code: &str, after: u64, limit: usize) -> Result<Vec<RetriableTurn>, Error>;

    /// See [`Upkeep::suspended_turns`].
    fn suspended_turns(&self, before: Timestamp, skip: usize, limit: usize) -> Result<Vec<TurnId>, Error>;

    /// See [`Upkeep::due_notices`].
    fn due_notices(&self, now: Timestamp, receivers: &Receivers, limit: usize) -> Result<Vec<Notice>, Error>;

    /// See [`Upkeep::next_notice_at`].
    fn next_notice_at(&self, receivers: &Receivers) -> Result<Option<Timestamp>, Error>;

    /// See [`Upkeep::outbox_figures`].
    fn outbox_figures(&self) -> Result<OutboxFigures, Error>;

    /// See [`Upkeep::count_pending`].
    fn count_pending(&self, now: Timestamp) -> Result<Vec<PendingCount>, Error>;
}

/// What a local store changes over all it holds: see [`Upkeep`].
pub trait UpkeepWriter: Transaction + GraphWriter {
    /// See [`Upkeep::release_notices`].
    fn release_notices(&mut self, now: Timestamp) -> Result<(), Error>;

    /// See [`Upkeep::sweep_sessions`], which tells the audit too.
    fn sweep_sessions(&mut self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// See [`Upkeep::compact_journals`].
    fn compact_journals(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// See [`Sweep::Replies`].
    fn sweep_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// See [`Sweep::Events`].
    fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// See [`Sweep::Notices`].
    fn sweep_notices(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error>;

    /// See [`Sweep::SignIns`].
    fn sweep_sign_ins(&mut self, now: Timestamp, limit: usize) -> Result<usize, Error>;
}

/// A job over all that a local store holds; it runs as a [`super::WriteJob`] does.
pub type UpkeepWriteJob = Box<dyn Fn(&mut dyn UpkeepWriter) -> Result<(), Error> + Send>;

/// A look at all that a local store holds.
pub type UpkeepReadJob = Box<dyn FnOnce(&dyn UpkeepReader) -> Result<(), Error> + Send>;

/// A store that one process has for itself, or a few in turns: upkeep is jobs like all others, in line with them.
pub trait LocalStore: Store {
    /// As [`Store::write`].
    ///
    /// # Errors
    /// Those of [`Store::write`].
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, Result<(), Error>>;

    /// As [`Store::read`].
    ///
    /// # Errors
    /// Those of [`Store::read`].
    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, Result<(), Error>>;
}

impl<S: LocalStore + ?Sized> Upkeep for S {
    fn orphaned_turns(&self, _: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>> {
        // Of others than whoever asks there is none: all are the last one's that had the store.
        read(self, orphans)
    }

    fn left_turns(&self, orphans: Vec<OrphanedTurn>) -> BoxFuture<'static, Result<LeftTurns, Error>> {
        read(self, move |reader| left_turns(reader, &orphans))
    }

    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn look(&self, _: TurnTaker, _: Vec<KnownTurn>) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        Box::pin(std::future::ready(Ok(OthersSnapshot::default())))
    }

    fn access_version(&self) -> BoxFuture<'static, Result<AccessVersion, Error>> {
        Box::pin(std::future::ready(Ok(AccessVersion::default())))
    }

    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>> {
        read(self, move |reader| reader.due(now, limit))
    }

    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        read(self, |reader| reader.next_due())
    }

    fn retriable_turns(
        &self,
        agent: String,
        code: String,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<RetriableTurn>, Error>> {
        read(self, move |reader| reader.retriable_turns(&agent, &code, after, limit))
    }

    fn suspended_turns(
        &self,
        before: Timestamp,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        read(self, move |reader| reader.suspended_turns(before, skip, limit))
    }

    fn due_notices(
        &self,
        now: Timestamp,
        receivers: Receivers,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>> {
        read(self, move |reader| reader.due_notices(now, &receivers, limit))
    }

    fn next_notice_at(&self, receivers: Receivers) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        read(self, move |reader| reader.next_notice_at(&receivers))
    }

    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.release_notices(now))
    }

    fn sweep(&self, kind: Sweep, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        write(self, move |tx| match kind {
            Sweep::Replies => tx.sweep_replies(before, limit),
            Sweep::Events => tx.sweep_events(before, limit),
            Sweep::Notices => tx.sweep_notices(before, limit),
            Sweep::SignIns => tx.sweep_sign_ins(before, limit),
        })
    }

    fn sweep_sessions(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, Error>> {
        write(self, move |tx| {
            let swept = tx.sweep_sessions(before, limit)?;
            swept.iter().try_for_each(|session| tx.append_audit(deed.clone().session(*session), now))?;
            Ok(swept)
        })
    }

    fn compact_journals(&self, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        write(self, move |tx| tx.compact_journals(before, limit))
    }

    fn totals(&self) -> BoxFuture<'static, Result<Totals, Error>> {
        read(self, |reader| Ok(Totals { sessions: reader.count_sessions()?, audit: reader.audit_head()? }))
    }

    fn outbox_figures(&self) -> BoxFuture<'static, Result<OutboxFigures, Error>> {
        read(self, |reader| reader.outbox_figures())
    }

    fn count_pending(&self, now: Timestamp) -> BoxFuture<'static, Result<Vec<PendingCount>, Error>> {
        read(self, move |reader| reader.count_pending(now))
    }
}

impl<S: LocalStore + ?Sized> GraphStates for S {
    fn put_checkpoint(
        &self,
        checkpoint: Checkpoint,
        values: Vec<ChannelValue>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.put_checkpoint(&checkpoint, &values))
    }

    fn put_writes(&self, key: CheckpointKey, writes: Vec<GraphWrite>) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.put_writes(&key, &writes))
    }

    fn checkpoints(&self, query: CheckpointQuery) -> BoxFuture<'static, Result<Vec<StoredCheckpoint>, Error>> {
        read(self, move |reader| reader.checkpoints(&query))
    }

    fn delete_thread(&self, thread: String) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.delete_thread(&thread))
    }

    fn delete_checkpoints(&self, thread: String, keys: Vec<(String, String)>) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.delete_checkpoints(&thread, &keys))
    }

    fn copy_thread(&self, from: String, to: String) -> BoxFuture<'static, Result<(), Error>> {
        write(self, move |tx| tx.copy_thread(&from, &to))
    }
}

/// The turns under way, where each of them is nobody's.
///
/// # Errors
/// The store's.
pub fn orphans(reader: &dyn UpkeepReader) -> Result<Vec<OrphanedTurn>, Error> {
    let epoch = |turn| match reader.life(turn) {
        Err(Error::Unreadable(_)) => Ok(None),
        read => read.map(|life| life.map(|life| life.epoch)),
    };
    reader.unparked_turns()?.into_iter().map(|turn| Ok(OrphanedTurn { turn, epoch: epoch(turn)? })).collect()
}

/// See [`Upkeep::left_turns`].
///
/// # Errors
/// The store's.
pub fn left_turns(reader: &dyn UpkeepReader, orphans: &[OrphanedTurn]) -> Result<LeftTurns, Error> {
    let mut left = Vec::new();
    for orphan in orphans {
        match left_turn(reader, *orphan) {
            Err(why @ Error::Unreadable(_)) => left.push((*orphan, Err(why))),
            read => left.extend(read?.map(|turn| (*orphan, Ok(turn)))),
        }
    }
    Ok(left)
}

fn left_turn(reader: &dyn UpkeepReader, orphan: OrphanedTurn) -> Result<Option<LeftTurn>, Error> {
    let is_still = |turn: &Turn| {
        turn.life.state == TurnState::UnderWay && orphan.epoch.is_none_or(|epoch| epoch == turn.life.epoch)
    };
    let Some(turn) = reader.turn(orphan.turn)?.filter(is_still) else { return Ok(None) };
    let Some(session) = reader.session(turn.session_id)? else { return Ok(None) };
    let paused = reader.last_entry(turn.id)?.and_then(|last| paused(last.entry));
    Ok(Some(LeftTurn { epoch: turn.life.epoch, session, paused }))
}

/// The timers of an entry that is a pause.
pub(super) fn paused(entry: Entry) -> Option<Vec<PendingTimer>> {
    match entry {
        Entry::Pause { timers, .. } => Some(timers),
        _ => None,
    }
}

fn write<S: LocalStore + ?Sized, T: Send + 'static>(
    store: &S,
    job: impl Fn(&mut dyn UpkeepWriter) -> Result<T, Error> + Send + 'static,
) -> BoxFuture<'static, Result<T, Error>> {
    let came_to = Arc::new(JobValue::new());
    let slot = Arc::clone(&came_to);
    finished(store.write_upkeep(Box::new(move |tx| slot.run(|| job(tx)))), came_to)
}

fn read<S: LocalStore + ?Sized, T: Send + 'static>(
    store: &S,
    job: impl FnOnce(&dyn UpkeepReader) -> Result<T, Error> + Send + 'static,
) -> BoxFuture<'static, Result<T, Error>> {
    let came_to = Arc::new(JobValue::new());
    let slot = Arc::clone(&came_to);
    let look = move |reader: &dyn UpkeepReader| {
        slot.put(job(reader)?);
        Ok(())
    };
    finished(store.read_upkeep(Box::new(look)), came_to)
}

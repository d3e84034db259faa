//! What a job has changed: rows, as they are to be from then on.

use std::collections::HashSet;

use crate::domain::access::{Key, SignIn};
use crate::domain::audit::Deed;
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::RecordedEntry;
use crate::domain::message::ChatMessage;
use crate::domain::notice::Notice;
use crate::domain::policy::PolicyChange;
use crate::domain::session::Session;
use crate::domain::status::InterruptStatus;
use crate::domain::{KeyId, SessionId, Timestamp, TurnId};
use crate::store::carried::Carried;
use crate::store::owner::TurnOwner;
use crate::store::record::{DueKind, StoredReply, Turn};
use crate::store::signals::Signal;

use super::job::session_in;
use super::question::{StoreQuestion, Version};

/// Everything that one job changes, committed as one or not at all. Of each row there is one entry: what it is in the end.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Every session of which anything is changed, also where its own row stays as it is.
    pub sessions: Vec<SessionChange>,
    /// What sessions remember, from an index on: what stood there and after it goes.
    pub messages: Vec<(SessionId, usize, Vec<ChatMessage>)>,
    /// Turns, before their entries.
    pub turns: Vec<TurnChange>,
    /// Entries, each journal's in order.
    pub entries: Vec<NewEntry>,
    /// Interrupts: each with whether it is new.
    pub interrupts: Vec<(Interrupt, bool)>,
    /// What is not due any more, although nothing has come of it.
    pub set_aside: Vec<(SessionId, DueKind)>,
    /// Replies that are kept.
    pub replies: Vec<ReplyChange>,
    /// What is known of turns that are carried about.
    pub carried: Vec<(TurnId, Carried)>,
    /// Notices that go, as they were seen, before others take their ids.
    pub deleted_notices: Vec<Notice>,
    /// Notices.
    pub notices: Vec<NoticeChange>,
    /// Lanes of notices, by session and address, whose first one is due where it waits, once all of the above is written.
    pub first_due: Vec<(SessionId, String, Timestamp)>,
    /// Events, in order.
    pub events: Vec<(StoredEvent, Timestamp)>,
    /// Rows of the audit, in order; they are linked afterwards.
    pub deeds: Vec<(Deed, Timestamp)>,
    /// Keys that are revoked, before others take their names.
    pub revoked_keys: Vec<(KeyId, Timestamp)>,
    /// New keys.
    pub keys: Vec<Key>,
    /// New sign-ins.
    pub sign_ins: Vec<SignIn>,
    /// Tokens of those that are over.
    pub deleted_sign_ins: Vec<crate::domain::access::Digest>,
    /// What becomes of the policy that was pushed.
    pub policy: Option<PolicySwap>,
}

/// Another policy in the place of the one that was pushed, where that is still the one that was seen.
#[derive(Debug, Clone)]
pub struct PolicySwap {
    /// The digest of the one that was seen; `None` where there was none.
    pub seen: Option<String>,
    /// What becomes of it.
    pub change: PolicyChange,
}

/// Of what rows a commit is that others can go with: two of one form are the same statements for a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitForm(u16);

/// A session of which something is changed.
#[derive(Debug, Clone)]
pub struct SessionChange {
    /// Which.
    pub id: SessionId,
    /// As it was read; `None` where there was none.
    pub seen: Option<Version>,
    /// As it is to be.
    pub next: Version,
    /// What becomes of its row.
    pub row: RowChange,
}

/// What becomes of a session's row.
#[derive(Debug, Clone)]
pub enum RowChange {
    /// Nothing but its version.
    Kept,
    /// This; new where there was none.
    Written(Box<Session>),
    /// It goes, with its messages, turns, journals and interrupts. Its events stay, its notices, and what the audit tells.
    Deleted,
    /// It goes in the same way, and another one takes its id.
    Replaced(Box<Session>),
}

impl RowChange {
    /// Whether what the session had went with its row.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::Replaced(_))
    }
}

/// A turn that is new, or is another one now.
#[derive(Debug, Clone)]
pub struct TurnChange {
    /// As it is to be.
    pub turn: Turn,
    /// Whether it is new.
    pub is_new: bool,
    /// How many entries its journal has then.
    pub entries: u64,
    /// Whose it is from now on ([`TurnOwner::NOBODY`]: whoever claims it); `None` leaves that as it is.
    pub owner: Option<TurnOwner>,
    /// Whether it is suspended from now on, or no longer: nobody could be told of an expiry meanwhile, so its pending
    /// interrupts are due only while it is not.
    pub moves_due: bool,
}

/// A notice that is new, or is another one now. It outlives its session, and with it what the session is compared by: it is
/// compared itself.
#[derive(Debug, Clone)]
pub struct NoticeChange {
    /// As it is to be.
    pub notice: Notice,
    /// As it was read; `None` where it is new. What of it can change is compared.
    pub seen: Option<Notice>,
}

/// A reply that is kept.
#[derive(Debug, Clone)]
pub struct ReplyChange {
    /// See [`Reader::reply`](crate::store::Reader::reply).
    pub scope: String,
    /// The idempotency key.
    pub key: String,
    /// What is kept.
    pub reply: StoredReply,
    /// Whether the job has found none: another one that is there by now was first. Else it takes the place of an older one.
    pub is_new: bool,
}

/// An entry that is appended.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// The turn's session.
    pub session: SessionId,
    /// Whose journal.
    pub turn: TurnId,
    /// Counted from 0 without a gap.
    pub index: u64,
    /// The entry.
    pub entry: RecordedEntry,
    /// Of one that listeners are told of: its place among these and the events of the job.
    pub told: Option<usize>,
}

impl SessionChange {
    /// The session's version once this is committed; `None` where it is gone.
    pub fn left(&self) -> (SessionId, Option<Version>) {
        let is_gone = matches!(self.row, RowChange::Deleted);
        (self.id, (!is_gone).then_some(self.next))
    }
}

impl Changes {
    /// What is to be asked of where a row that is new may be there already.
    pub fn new_rows(&self) -> Vec<StoreQuestion> {
        let sessions =
            self.sessions.iter().filter(|change| change.seen.is_none()).map(|it| StoreQuestion::Session(it.id));
        let turns = self.turns.iter().filter(|change| change.is_new).map(|change| StoreQuestion::Turn(change.turn.id));
        let interrupts = self.interrupts.iter().filter(|(_, is_new)| *is_new);
        let notices = self.notices.iter().filter(|change| change.seen.is_none());
        sessions
            .chain(turns)
            .chain(interrupts.map(|(interrupt, _)| StoreQuestion::Interrupt(interrupt.interrupt_id)))
            .chain(notices.map(|change| StoreQuestion::Notice(change.notice.id)))
            .collect()
    }

    /// The places of the events among all that listeners are told of: those that no entry has.
    pub fn event_places(&self) -> Vec<usize> {
        let taken: HashSet<usize> = self.entries.iter().filter_map(|entry| entry.told).collect();
        (0..).filter(|place| !taken.contains(place)).take(self.events.len()).collect()
    }

    /// How many places there are of which listeners are told; of an entry that was deleted again one is left free.
    pub fn places_told(&self) -> usize {
        let of_events = self.event_places().last().map_or(0, |last| last + 1);
        self.entries.iter().filter_map(|entry| Some(entry.told? + 1)).max().unwrap_or_default().max(of_events)
    }

    /// Of what form it is, where it can go with others of other sessions. What goes by itself: what is compared by more than one
    /// session or by something else, and what takes rows away.
    pub fn form(&self) -> Option<CommitForm> {
        let [session] = self.sessions.as_slice() else { return None };
        let guard = match (&session.row, session.seen) {
            (RowChange::Kept, Some(_)) => 0,
            (RowChange::Written(_), Some(_)) => 1,
            (RowChange::Written(_), None) => 2,
            _ => return None,
        };
        let is_another = |change: &ReplyChange| session_in(&change.scope) != Some(session.id);
        let counts = [self.set_aside.len(), self.carried.len(), self.deleted_notices.len(), self.notices.len()];
        let goes_alone = counts.into_iter().any(|count| count > 0)
            || !self.first_due.is_empty()
            || self.is_of_access()
            || self.replies.iter().any(is_another)
            || self.turns.iter().any(|turn| turn.moves_due);
        let is_due = |(it, _): &(Interrupt, bool)| it.status == InterruptStatus::Pending && it.expires_at.is_some();
        let has = [
            !self.messages.is_empty(),
            self.messages.iter().any(|(_, _, messages)| !messages.is_empty()),
            self.turns.iter().any(|turn| turn.is_new),
            self.turns.iter().any(|turn| !turn.is_new),
            !self.entries.is_empty(),
            self.interrupts.iter().any(|(_, is_new)| *is_new),
            self.interrupts.iter().any(|(_, is_new)| !*is_new),
            self.interrupts.iter().any(is_due),
            self.replies.iter().any(|change| change.is_new),
            self.replies.iter().any(|change| !change.is_new),
            !self.events.is_empty(),
            !self.deeds.is_empty(),
        ];
        let form = has.into_iter().fold(guard, |form, has| form << 1 | u16::from(has));
        (!goes_alone).then_some(CommitForm(form))
    }

    /// Takes in those of other sessions, which come after these.
    pub fn join(&mut self, others: Self) {
        let Self {
            sessions,
            messages,
            turns,
            entries,
            interrupts,
            set_aside,
            replies,
            carried,
            deleted_notices,
            notices,
            first_due,
            events,
            deeds,
            revoked_keys,
            keys,
            sign_ins,
            deleted_sign_ins,
            policy,
        } = others;
        let told = self.places_told();
        let after = |entry: NewEntry| NewEntry { told: entry.told.map(|place| place + told), ..entry };
        self.sessions.extend(sessions);
        self.messages.extend(messages);
        self.turns.extend(turns);
        self.entries.extend(entries.into_iter().map(after));
        self.interrupts.extend(interrupts);
        self.set_aside.extend(set_aside);
        self.replies.extend(replies);
        self.carried.extend(carried);
        self.deleted_notices.extend(deleted_notices);
        self.notices.extend(notices);
        self.first_due.extend(first_due);
        self.events.extend(events);
        self.deeds.extend(deeds);
        self.revoked_keys.extend(revoked_keys);
        self.keys.extend(keys);
        self.sign_ins.extend(sign_ins);
        self.deleted_sign_ins.extend(deleted_sign_ins);
        self.policy = policy.or_else(|| self.policy.take());
    }

    /// Whether keys, sign-ins or the policy that was pushed are others than before.
    pub fn is_of_access(&self) -> bool {
        let rows = [self.keys.len(), self.revoked_keys.len(), self.sign_ins.len(), self.deleted_sign_ins.len()];
        self.policy.is_some() || rows.into_iter().any(|count| count > 0)
    }

    /// What other processes are to hear of at once.
    pub fn signals(&self) -> Vec<Signal> {
        let is_told = !self.events.is_empty() || self.entries.iter().any(|entry| entry.told.is_some());
        let of_sessions = self.sessions.iter().filter_map(|change| match change.row {
            RowChange::Deleted | RowChange::Replaced(_) => Some(Signal::Deleted(change.id)),
            RowChange::Written(_) | RowChange::Kept => is_told.then_some(Signal::Session(change.id)),
        });
        let left = |is_new| {
            let is_left = |it: &TurnChange| it.owner == Some(TurnOwner::NOBODY) && it.is_new == is_new;
            self.turns.iter().any(is_left)
        };
        of_sessions
            .chain(left(false).then_some(Signal::Ready))
            .chain(left(true).then_some(Signal::NewTurn))
            .chain(self.is_of_access().then_some(Signal::Access))
            .collect()
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        let Self {
            sessions,
            messages,
            turns,
            entries,
            interrupts,
            set_aside,
            replies,
            carried,
            deleted_notices,
            notices,
            first_due,
            events,
            deeds,
            revoked_keys,
            keys,
            sign_ins,
            deleted_sign_ins,
            policy,
        } = self;
        let rows = [turns.len(), entries.len(), interrupts.len(), set_aside.len(), replies.len(), carried.len()];
        let others = [messages.len(), notices.len(), deleted_notices.len(), events.len(), deeds.len(), keys.len()];
        let access = [revoked_keys.len(), sign_ins.len(), deleted_sign_ins.len(), sessions.len(), first_due.len()];
        policy.is_none() && rows.into_iter().chain(others).chain(access).all(|count| count == 0)
    }
}

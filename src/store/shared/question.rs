//! What a job can ask of a database that is elsewhere, and what it is told.
//!
//! A job is a function over a [`Reader`](crate::store::Reader). What it reads is asked for here, in as many questions as it
//! takes, all of them answered on one snapshot in one round trip; then it runs on the answers, in memory.

use crate::domain::access::{Key, SignIn};
use crate::domain::audit::{AuditRow, Head};
use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{RecordedEntry, StepIdentity};
use crate::domain::message::ChatMessage;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::PushedPolicy;
use crate::domain::session::Session;
use crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::carried::Carried;
use crate::store::query::{AuditQuery, InterruptQuery, NoticeQuery, Page, SessionQuery, TitledSession};
use crate::store::record::{StoredReply, Turn};

/// One thing to know. See the methods of [`Reader`](crate::store::Reader) of the same names.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreQuestion {
    /// Which store this is.
    StoreId,
    /// A session with its newest turn and what of it is pending: what nearly every job asks for.
    Session(SessionId),
    /// What a session remembers.
    Messages(SessionId),
    /// Part of what a session remembers.
    MessagesPage {
        /// The session.
        session: SessionId,
        /// The index of the first message.
        first: usize,
        /// At most so many.
        limit: usize,
    },
    /// A turn, without its journal.
    Turn(TurnId),
    /// A turn's journal, all of it.
    Journal(TurnId),
    /// The last entry of a turn's journal.
    LastEntry(TurnId),
    /// Part of a turn's journal.
    JournalPage {
        /// The turn.
        turn: TurnId,
        /// The index of the first entry.
        first: u64,
        /// At most so many.
        limit: usize,
    },
    /// The step of a turn that asked for an interrupt.
    AskingStep(TurnId, InterruptId),
    /// The step at a path of a turn, as it was when it last began.
    BegunStep(TurnId, String),
    /// The interrupts that a turn asked for and that name approvers, the last asked first.
    WithApprovers(TurnId),
    /// One interrupt.
    Interrupt(InterruptId),
    /// Whose a turn is, also where the rest of its row cannot be read.
    SessionOfTurn(TurnId),
    /// Who sent a turn's message, also where the rest of its row cannot be read.
    SenderOfTurn(TurnId),
    /// Whose an interrupt is, also where the rest of its row cannot be read.
    SessionOfInterrupt(InterruptId),
    /// What a request was answered with.
    Reply {
        /// See [`Reader::reply`](crate::store::Reader::reply).
        scope: String,
        /// The idempotency key.
        key: String,
    },
    /// What is known of a turn that is carried about.
    Carried(TurnId),
    /// One notice.
    Notice(NoticeId),
    /// The first pending notices of a session to an address.
    Lane {
        /// The session.
        session: SessionId,
        /// The address.
        url: String,
        /// At most so many.
        limit: usize,
    },
    /// Whether the audit tells that somebody has seen an interrupt.
    Seen(InterruptId, String),
    /// Every key.
    Keys,
    /// Everybody who has signed in.
    SignIns,
    /// The policy that was pushed.
    PushedPolicy,
    /// How many sessions there are.
    CountSessions,
    /// Up to which number the events are all there.
    LastEvent,
    /// The number of the newest event of a session.
    LastEventOf(SessionId),
    /// Where the audit ends.
    AuditHead,
    /// Events after a number.
    EventsAfter {
        /// The number.
        after: u64,
        /// Of one session, or of all.
        session: Option<SessionId>,
        /// At most so many.
        limit: usize,
    },
    /// A page of sessions.
    Sessions(SessionQuery),
    /// A page of interrupts.
    Interrupts(InterruptQuery),
    /// A page of notices.
    Notices(NoticeQuery),
    /// A page of the audit.
    Audit(AuditQuery),
}

/// What is told, in the order of the questions: the variant that belongs to each. What cannot be read is
/// [`Error::Unreadable`] in the place of an answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Of [`StoreQuestion::StoreId`].
    StoreId(StoreId),
    /// Of [`StoreQuestion::Session`].
    Session {
        /// How often a standby had taken the database's place by then, also where there is no such session: who makes one knows
        /// of it from then on.
        promotions: u64,
        /// The session; `None` where it is not there.
        slice: Option<Box<SessionSlice>>,
    },
    /// Of [`StoreQuestion::Messages`] and [`StoreQuestion::MessagesPage`].
    Messages(Vec<ChatMessage>),
    /// Of [`StoreQuestion::Turn`].
    Turn(Option<Box<StoredTurn>>),
    /// Of [`StoreQuestion::Journal`], [`StoreQuestion::JournalPage`] and, one at most, [`StoreQuestion::LastEntry`].
    Entries(Vec<RecordedEntry>),
    /// Of [`StoreQuestion::AskingStep`] and [`StoreQuestion::BegunStep`].
    Step(Option<Box<StepIdentity>>),
    /// Of [`StoreQuestion::WithApprovers`].
    Asked(Vec<Interrupt>),
    /// Of [`StoreQuestion::Interrupt`].
    Interrupt(Option<Box<StoredInterrupt>>),
    /// Of [`StoreQuestion::SessionOfTurn`] and [`StoreQuestion::SessionOfInterrupt`].
    Whose(Option<SessionId>),
    /// Of [`StoreQuestion::SenderOfTurn`].
    Sender(Option<String>),
    /// Of [`StoreQuestion::Reply`].
    Reply(Option<StoredReply>),
    /// Of [`StoreQuestion::Carried`].
    Carried(Option<Carried>),
    /// Of [`StoreQuestion::Notice`].
    Notices(Vec<StoredNotice>),
    /// Of [`StoreQuestion::Lane`]: those before the first that cannot be read, and why that one cannot.
    Lane(Vec<StoredNotice>, Option<Error>),
    /// Of [`StoreQuestion::Seen`].
    Seen(bool),
    /// Of [`StoreQuestion::Keys`].
    Keys(Vec<Key>),
    /// Of [`StoreQuestion::SignIns`].
    SignIns(Vec<SignIn>),
    /// Of [`StoreQuestion::PushedPolicy`].
    PushedPolicy(Option<PushedPolicy>),
    /// Of [`StoreQuestion::CountSessions`], [`StoreQuestion::LastEvent`] and [`StoreQuestion::LastEventOf`].
    Number(u64),
    /// Of [`StoreQuestion::AuditHead`].
    Head(Head),
    /// Of [`StoreQuestion::EventsAfter`].
    Events(Vec<NumberedEvent>),
    /// Of [`StoreQuestion::Sessions`].
    Sessions(Page<TitledSession>),
    /// Of [`StoreQuestion::Interrupts`].
    Interrupts(Page<Interrupt>),
    /// Of [`StoreQuestion::Notices`].
    NoticePage(Page<Notice>),
    /// Of [`StoreQuestion::Audit`].
    Audit(Page<AuditRow>),
}

/// Which of all states a session was in: it is written only where it still is in that one.
///
/// The count alone would do, were it not for databases that take commits back when they fail over: then the same count is
/// given out twice. What was drawn at the commit is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// How often it was written.
    pub count: u64,
    /// Drawn by whoever wrote it last.
    pub token: u64,
}

/// See [`StoreQuestion::Session`].
#[derive(Debug, Clone)]
pub struct SessionSlice {
    /// Of the whole slice, also where a part of it cannot be read.
    pub version: Version,
    /// The latest time that is written in it, by whichever server's clock; `None` where none is known.
    pub latest: Option<Timestamp>,
    /// The session.
    pub session: Result<Session, Error>,
    /// Its newest turn.
    pub turn: Result<Option<StoredTurn>, Error>,
    /// In order of arrival.
    pub pending: Result<Vec<StoredInterrupt>, Error>,
}

/// A turn as it is stored.
#[derive(Debug, Clone)]
pub struct StoredTurn {
    /// Its place in the order of arrival.
    pub place: u64,
    /// The row.
    pub turn: Turn,
    /// How many entries its journal has; 0 once that was removed.
    pub entries: u64,
    /// Whether its journal was removed.
    pub is_compacted: bool,
}

/// An interrupt as it is stored.
#[derive(Debug, Clone)]
pub struct StoredInterrupt {
    /// Its place in the order of arrival.
    pub place: u64,
    /// The row.
    pub interrupt: Interrupt,
}

/// A notice as it is stored.
#[derive(Debug, Clone)]
pub struct StoredNotice {
    /// Its place in the order of arrival.
    pub place: u64,
    /// The row.
    pub notice: Notice,
}

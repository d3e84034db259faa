//! How a run without a server ([`crate::engine::run`]) begins, and what is left of it. Its state ([`RunState`]) is what is
//! in the store once it waits. A state that is run again is brought in here: into a store that does not know its turn, or
//! on top of what that store has of it.

use std::sync::Arc;

use crate::domain::audit::Deed;
use crate::domain::grant::Grant;
use crate::domain::id::GrantId;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::run_state::{JournalPosition, RunState};
use crate::domain::session::{self, Failure, Phase, Session};
use crate::domain::status::Status;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::journal::closing::close;
use crate::engine::placement::turn_claims::TurnClaim;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::{Engine, clock};
use crate::store::about::About;
use crate::store::carried::Carried;
use crate::store::clock::{Clock, WallClock};
use crate::store::record::Turn;
use crate::store::{Reader, StoreExt, Transaction, each_interrupt};

/// What a run begins with.
#[derive(Debug)]
pub enum Begin {
    /// A message, for a session that is made where it is not there.
    Message {
        /// Whose.
        session: SessionId,
        /// The id of the new turn.
        turn: TurnId,
        /// What it says.
        message: Arc<ChatMessage>,
        /// The span that it is a part of (`traceparent` of W3C's Trace Context), where whoever runs it is in one.
        traceparent: Option<String>,
    },
    /// The state of an earlier run.
    State(Box<RunState>),
}

impl Begin {
    /// Of which session it is, and which turn.
    pub fn ids(&self) -> (SessionId, TurnId) {
        match self {
            Self::Message { session, turn, .. } => (*session, *turn),
            Self::State(state) => (state.session, state.turn),
        }
    }
}

/// The time, for decisions that are made outside of any store.
pub fn now() -> Timestamp {
    WallClock.now()
}

/// The id of a new grant.
pub fn grant_id() -> GrantId {
    clock::grant_id()
}

/// Ids for a new session and a new turn.
pub fn new_ids() -> (SessionId, TurnId) {
    (clock::session_id(), clock::turn_id())
}

/// How a run came out.
#[derive(Debug)]
pub struct RunOutcome {
    /// The session as it is now.
    pub session: Session,
    /// What it remembers.
    pub messages: Vec<ChatMessage>,
    /// Where the run can go on from: open interrupts, or a failure that can be mended.
    pub state: Option<Box<RunState>>,
}

/// A run's turn, claimed, and what is owed; `None` where nobody has decided anything and it is where it was.
type Begun = Option<(TurnClaim, AfterCommit)>;

impl Engine {
    /// Begins a run's turn: whether there is anything to run. There is nothing where nobody has decided anything.
    ///
    /// # Errors
    /// [`Error::RunInterrupted`] for a message to a session whose turn is not over, [`Error::AlreadyResumed`] for a state
    /// whose turn has gone on since, and the store's.
    pub(in crate::engine) async fn begin_run(self: &Arc<Self>, begin: Begin) -> Result<bool, Error> {
        let (session, _) = begin.ids();
        let engine = Arc::clone(self);
        let begun = self.store.transact(About::Session(session), move |tx| {
            let now = tx.now();
            match &begin {
                Begin::Message { session, turn, message, traceparent } => {
                    engine.begin_message(tx, (*session, *turn), Arc::clone(message), traceparent.clone(), now)
                }
                Begin::State(state) => engine.begin_state(tx, state, now),
            }
        });
        let Some((claim, after_commit)) = begun.await? else { return Ok(false) };
        self.telling.run(after_commit);
        self.begin(claim);
        Ok(true)
    }

    fn begin_message(
        &self,
        tx: &mut dyn Transaction,
        (id, turn): (SessionId, TurnId),
        message: Arc<ChatMessage>,
        traceparent: Option<String>,
        now: Timestamp,
    ) -> Result<Begun, Error> {
        let session = match tx.session(id)? {
            Some(session) => session,
            None => {
                let session = Session::new(id, &self.settings.agent, 0, now);
                tx.insert_session(&session, &[])?;
                session
            }
        };
        if session.turn().is_some() {
            return Err(Error::RunInterrupted);
        }
        let mut after_commit = self.telling.after_commit();
        let row = Turn::new(turn, id, message, None, now);
        tx.insert_turn(&row)?;
        let session = after_commit.change(tx, &session, session::Event::MessageReceived { turn }, now)?;
        Ok(Some((self.claim_new(tx, &session, &row, traceparent, now)?, after_commit)))
    }

    fn begin_state(&self, tx: &mut dyn Transaction, state: &RunState, now: Timestamp) -> Result<Begun, Error> {
        let mut after_commit = self.telling.after_commit();
        let caught_up = match tx.session(state.session)? {
            None => None,
            Some(session) => catch_up(tx, session, state, &mut after_commit, now)?,
        };
        match caught_up {
            None => {
                let state = state.expired(now);
                insert(tx, &state, &self.settings.agent, now)?;
                record_imported(tx, &after_commit, &state, now)?;
            }
            Some(mut session) => {
                for expired in tx.pending(state.session)?.iter().filter_map(|pending| pending.expire(now)) {
                    let entry = Entry::Expire { interrupt_id: expired.interrupt_id };
                    (_, session) = close(tx, &session, &expired, &entry, &mut after_commit, now)?;
                }
            }
        }
        let row = tx.turn(state.turn)?.ok_or(Error::TurnNotOpen(None))?;
        let waits = matches!(tx.last_entry(state.turn)?.map(|last| last.entry), Some(Entry::Pause { .. }));
        if waits && !tx.pending(state.session)?.is_empty() {
            if !row.life.is_parked() {
                let epoch = tx.claim_turn(row.id, self.store.owner(), 0)?;
                tx.park_turn(row.id, epoch, None, row.life.worked_ms)?;
            }
            return Ok(None);
        }
        // A mark, so that the state that led here is behind its turn from now on.
        let runtime = self.placement.runtime()?;
        let mark = Entry::Taken { code: runtime.code, python: runtime.python, policy: None };
        tx.append_foreign(row.id, &mark, now)?;
        Ok(Some((self.claim(tx, &row, now)?, after_commit)))
    }
}

/// How the run of a turn came out, `agent` and `code` being those that ran it.
///
/// # Errors
/// [`Error::SessionDeleted`] where it is not there any more, and the store's.
pub(in crate::engine) fn read_outcome(
    reader: &dyn Reader,
    id: SessionId,
    turn: TurnId,
    agent: &str,
    code: &str,
) -> Result<RunOutcome, Error> {
    let row = reader.turn(turn)?.ok_or(Error::SessionDeleted)?;
    let session = reader.session(id)?.ok_or(Error::SessionDeleted)?;
    let messages = reader.messages(id)?;
    let state = read_state(reader, &session, &row, &messages, agent, code)?.map(Box::new);
    Ok(RunOutcome { session, messages, state })
}

/// The state of a session's open or suspended turn; `None` where it has none. `agent` and `code` name who writes it.
///
/// # Errors
/// [`Error::SessionNotFound`], and the store's.
pub fn export(reader: &dyn Reader, id: SessionId, agent: &str, code: &str) -> Result<Option<RunState>, Error> {
    let session = reader.session(id)?.ok_or(Error::SessionNotFound)?;
    let Some(turn) = session.turn().or_else(|| session.retry().map(|retry| retry.turn)) else { return Ok(None) };
    let row = reader.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
    read_state(reader, &session, &row, &reader.messages(id)?, agent, code)
}

fn read_state(
    reader: &dyn Reader,
    session: &Session,
    row: &Turn,
    messages: &[ChatMessage],
    agent: &str,
    code: &str,
) -> Result<Option<RunState>, Error> {
    let interrupts = match (session.turn() == Some(row.id), session.retry()) {
        (true, _) => reader.pending(session.id)?,
        (false, Some(retry)) if retry.turn == row.id => {
            each_interrupt(reader, retry.pending.iter().copied())?.into_iter().flatten().collect()
        }
        _ => return Ok(None),
    };
    let state = RunState {
        library: env!("CARGO_PKG_VERSION").to_owned(),
        agent: agent.to_owned(),
        agent_name: None,
        code: code.to_owned(),
        store: Some(reader.store_id()?),
        session: session.id,
        turn: row.id,
        message: ChatMessage::clone(&row.message),
        messages: messages.to_vec(),
        journal: reader.journal(row.id)?,
        interrupts,
        grants: session.grants.clone(),
        rules: session.rules.clone(),
        context: None,
    };
    Ok(Some(state.with_context_apart()))
}

/// Brings what the store has of the state's turn up to the state: the session from then on, if there is any of it.
///
/// # Errors
/// [`Error::AlreadyResumed`] where the turn, or its session, has gone on since.
fn catch_up(
    tx: &mut dyn Transaction,
    mut session: Session,
    state: &RunState,
    after_commit: &mut AfterCommit,
    now: Timestamp,
) -> Result<Option<Session>, Error> {
    let Some(row) = tx.turn(state.turn)? else {
        let is_where_it_was =
            session.turn().is_none() && session.retry().is_none() && tx.messages(session.id)? == state.messages;
        return if is_where_it_was { Ok(None) } else { Err(Error::AlreadyResumed) };
    };
    let is_suspended = session.retry().is_some_and(|retry| retry.turn == row.id);
    if session.turn() != Some(row.id) && !is_suspended {
        return Err(Error::AlreadyResumed);
    }
    let stored: Vec<RecordedEntry> = tx.journal(row.id)?.into_iter().map(without_context).collect();
    let Some(new) = state.journal.strip_prefix(stored.as_slice()) else { return Err(Error::AlreadyResumed) };
    if is_suspended {
        tx.reopen_turn(row.id)?;
        session = after_commit.change(tx, &session, session::Event::TurnReopened { turn: row.id }, now)?;
    }
    for RecordedEntry { at, entry } in new {
        let Entry::Answer { interrupt_id, .. } = entry else { return Err(Error::AlreadyResumed) };
        let of_state = state.interrupts.iter().find(|answered| answered.interrupt_id == *interrupt_id);
        let answered = of_state.ok_or(Error::AlreadyResumed)?;
        let stored = tx.interrupt(*interrupt_id)?;
        if !stored.is_some_and(|stored| stored.differs_in_outcome_only(answered)) {
            tx.update_interrupt(answered)?;
        }
        (_, session) = close(tx, &session, answered, entry, after_commit, *at)?;
    }
    let is_new = |grant: &&Grant| session.grants.iter().all(|known| known.grant_id != grant.grant_id);
    let granted =
        state.grants.iter().filter(is_new).fold(session.clone(), |session, grant| session.granted(grant.clone(), now));
    if granted.grants != session.grants {
        tx.update_session(&granted)?;
    }
    Ok(Some(granted))
}

/// The entry as a state holds it.
fn without_context(mut recorded: RecordedEntry) -> RecordedEntry {
    if let Entry::Pause { context, .. } = &mut recorded.entry {
        *context = None;
    }
    recorded
}

/// A new session that stands where the state stands.
pub(in crate::engine) fn session_of(state: &RunState, agent: &str, now: Timestamp) -> Session {
    let began = state.journal.first().map_or(now, |first| first.at);
    let pending: Vec<_> = state.pending().map(|interrupt| interrupt.interrupt_id).collect();
    let phase = if pending.is_empty() {
        Phase::Running { turn: state.turn }
    } else {
        Phase::Interrupted { turn: state.turn, pending }
    };
    let abandoned = match state.journal.first().map(|first| &first.entry) {
        Some(Entry::Start { abandoned, .. }) => abandoned.clone(),
        _ => None,
    };
    let (grants, rules) = (state.grants.clone(), state.rules.clone());
    let new = Session::new(state.session, agent, state.messages.len(), began);
    Session { phase, grants, rules, abandoned, ..new }
}

/// Writes a session that stands where the state stands.
pub(in crate::engine) fn insert(
    tx: &mut dyn Transaction,
    state: &RunState,
    agent: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let stands = session_of(state, agent, now);
    let began = stands.created_at;
    match tx.session(state.session)? {
        Some(session) => {
            let Session { phase, grants, abandoned, .. } = stands;
            tx.update_session(&Session { phase, updated_at: now, grants, abandoned, ..session })?;
        }
        None => tx.insert_session(&stands, &state.messages)?,
    }
    tx.insert_turn(&Turn::new(state.turn, state.session, state.message.clone(), None, began))?;
    for RecordedEntry { at, entry } in state.whole_journal() {
        tx.append_foreign(state.turn, &entry, at)?;
    }
    state.interrupts.iter().try_for_each(|interrupt| tx.insert_interrupt(interrupt))
}

/// What a run brings along was asked and decided elsewhere, and counts here from now on.
pub(in crate::engine) fn record_imported(
    tx: &mut dyn Transaction,
    after_commit: &AfterCommit,
    state: &RunState,
    now: Timestamp,
) -> Result<(), Error> {
    let deeds = state.interrupts.iter().map(|interrupt| Deed::of(interrupt).with("imported", true));
    deeds.into_iter().try_for_each(|deed| after_commit.record(tx, deed, now))
}

/// Notes where the open or suspended turn of a session stands that is about to be deleted, if it was carried about: a
/// state of it goes on from there, and from nowhere before.
pub(in crate::engine) fn note_left(tx: &mut dyn Transaction, session: &Session) -> Result<(), Error> {
    let Some(turn) = session.turn().or_else(|| session.retry().map(|retry| retry.turn)) else { return Ok(()) };
    if tx.carried(turn)?.is_some() {
        let stand = JournalPosition::of(&tx.journal(turn)?)?;
        tx.note_carried(turn, &Carried { left_at: Some(stand) })?;
    }
    Ok(())
}

impl RunOutcome {
    /// What the session's status is to whoever ran it.
    pub fn status(&self) -> Status {
        self.session.status()
    }

    /// What the agent said.
    pub fn response(&self) -> Option<&ChatMessage> {
        match &self.session.phase {
            Phase::Idle { response } => response.as_ref(),
            _ => None,
        }
    }

    /// Why it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.session.failure()
    }
}

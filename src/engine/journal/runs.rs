//! Runs without a server: an engine for one turn.
//!
//! It touches nothing but the turn that it was given: no recovery, no due work, no sweeping; the file may be another
//! process's at the same time. A turn that waits for somebody is parked at once, and the run is over; its state
//! ([`RunState`]) is what is in the store then. A state that is run again is brought in here: into a store that does not
//! know its turn, or on top of what that store has of it.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::domain::audit::Deed;
use crate::domain::grant::Grant;
use crate::domain::id::GrantId;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::run_state::RunState;
use crate::domain::session::{self, Failure, Phase, Session};
use crate::domain::status::Status;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::access::keyring::Keyring;
use crate::engine::journal::answers::close;
use crate::engine::placement::claims::TurnClaim;
use crate::engine::ports::dispatch::{Dispatch, Lost};
use crate::engine::settings::Settings;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::feed::Feed;
use crate::engine::{Engine, clock};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::record::Turn;
use crate::store::{Reader, Store, StoreExt, Transaction};

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

/// Why the turn of a run is at no worker any more.
#[derive(Debug)]
pub(in crate::engine) enum RunOver {
    /// It is parked or has ended; the store says the rest.
    ParkedOrEnded,
    /// Another run has it.
    Elsewhere,
    /// Nobody waits for it any more.
    Stopped,
    /// It is still open.
    Lost(Lost),
}

/// A run's turn, claimed, and what is owed; `None` where nobody has decided anything and it is where it was.
type Begun = Option<(TurnClaim, AfterCommit)>;

impl Engine {
    /// An engine for one run: a few maps, so that each run can have its own. `is_heard`: somebody will subscribe to it.
    ///
    /// # Errors
    /// The store's.
    pub async fn for_run(
        agent: String,
        store: Arc<dyn Store>,
        dispatch: Arc<dyn Dispatch>,
        is_heard: bool,
    ) -> Result<Arc<Self>, Error> {
        let settings = Settings { agent, workers: usize::MAX, one_run: true, ..Settings::default() };
        let stopping = CancellationToken::new();
        let feed = if is_heard {
            let last_event = store.query(|reader| reader.last_event()).await?;
            Feed::start(Arc::clone(&store), last_event, stopping.clone())
        } else {
            Feed::silent(Arc::clone(&store), stopping.clone())
        };
        let engine = Self::of(settings, store, stopping, feed, Keyring::default(), None);
        // Nobody else has this engine yet.
        engine.placement.attach(dispatch);
        Ok(engine)
    }

    /// Runs a turn until it is over, waits for people, or is to `stop`: then it is let go of, its journal as it is.
    ///
    /// # Errors
    /// [`Error::RunInterrupted`] for a message to a session whose turn is not over, [`Error::AlreadyResumed`] for a state
    /// whose turn has gone on since, [`Error::StoreUnavailable`], also where it was stopped.
    pub async fn run(self: &Arc<Self>, begin: Begin, stop: CancellationToken) -> Result<RunOutcome, Error> {
        let (session, turn) = begin.ids();
        let engine = Arc::clone(self);
        let begun = self.store.transact(About::Session(session), move |tx| {
            let now = tx.now();
            match &begin {
                Begin::Message { session, turn, message } => {
                    engine.begin_message(tx, *session, *turn, Arc::clone(message), now)
                }
                Begin::State(state) => engine.begin_state(tx, state, now),
            }
        });
        if let Some((claim, after_commit)) = begun.await? {
            self.telling.run(after_commit);
            self.begin(claim);
            tokio::select! {
                () = self.placement.gone(turn) => {}
                () = stop.cancelled() => {
                    self.run_is_over(RunOver::Stopped);
                    self.forget(turn);
                    self.placement.drop_at_worker(turn);
                }
            }
        }
        match self.run_over.get() {
            None | Some(RunOver::ParkedOrEnded) => {
                let came_out = self.came_out.lock().unwrap_or_else(PoisonError::into_inner).take();
                match came_out {
                    Some(outcome) => Ok(outcome),
                    None => self.run_outcome(session, turn).await,
                }
            }
            Some(RunOver::Elsewhere) => Err(Error::AlreadyResumed),
            Some(RunOver::Lost(Lost::Unstored { message })) => Err(Error::StoreUnavailable(message.clone())),
            Some(RunOver::Stopped | RunOver::Lost(_)) => Err(Error::RunStopped),
        }
    }

    /// The turn at `epoch` is another run's now.
    pub fn lost_to_another(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        self.run_is_over(RunOver::Elsewhere);
        self.leave(turn, epoch);
    }

    /// Ends what listens to the run, once it has heard everything.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish_events(&self) -> Result<(), Error> {
        self.telling.finish_events().await
    }

    /// Notes the first of what ended a run.
    pub(in crate::engine) fn run_is_over(&self, over: RunOver) {
        if self.settings.one_run {
            drop(self.run_over.set(over));
        }
    }

    /// How the run came out, read in the transaction that settles its turn; `None` for a turn that is no run.
    pub(in crate::engine) fn outcome(
        &self,
        tx: &dyn Transaction,
        id: SessionId,
        turn: TurnId,
    ) -> Result<Option<RunOutcome>, Error> {
        if !self.settings.one_run {
            return Ok(None);
        }
        let runtime = self.placement.runtime()?;
        read_outcome(tx, id, turn, &self.settings.agent, &runtime.code).map(Some)
    }

    /// That transaction is durable.
    pub(in crate::engine) fn came_out(&self, outcome: Option<RunOutcome>) {
        if outcome.is_some() {
            *self.came_out.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        }
    }

    /// Ends everything of the run; the store stays open.
    pub fn end_run(&self) {
        self.stopping.cancel();
        self.stopped.cancel();
        self.placement.clear();
    }

    /// The worker of a run has no more of its turn.
    pub(in crate::engine) async fn run_lost(
        self: &Arc<Self>,
        turn: TurnId,
        epoch: u64,
        lost: Lost,
    ) -> Result<(), Error> {
        if let Lost::Violation { message } = lost {
            return self.turn_failed(turn, epoch, Failure::new("worker_protocol", message)).await;
        }
        self.run_is_over(RunOver::Lost(lost));
        self.leave(turn, epoch);
        Ok(())
    }

    fn begin_message(
        &self,
        tx: &mut dyn Transaction,
        id: SessionId,
        turn: TurnId,
        message: Arc<ChatMessage>,
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
        Ok(Some((self.claim_new(tx, &session, &row, now)?, after_commit)))
    }

    fn begin_state(&self, tx: &mut dyn Transaction, state: &RunState, now: Timestamp) -> Result<Begun, Error> {
        let mut after_commit = self.telling.after_commit();
        let is_new = match tx.session(state.session)? {
            None => true,
            Some(session) => !catch_up(tx, &session, state, &mut after_commit, now)?,
        };
        if is_new {
            let state = state.expired(now);
            insert(tx, &state, &self.settings.agent, now)?;
            record_imported(tx, &after_commit, &state, now)?;
        } else {
            for expired in tx.pending(state.session)?.iter().filter_map(|pending| pending.expire(now)) {
                let entry = Entry::Expire { interrupt_id: expired.interrupt_id };
                close(tx, &expired, &entry, &mut after_commit, now)?;
            }
        }
        let row = tx.turn(state.turn)?.ok_or(Error::TurnNotOpen(None))?;
        let waits = matches!(tx.last_entry(state.turn)?.map(|last| last.entry), Some(Entry::Pause { .. }));
        if waits && !tx.pending(state.session)?.is_empty() {
            if !row.life.is_parked() {
                let epoch = tx.claim_turn(row.id, self.store.owner())?;
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

    async fn run_outcome(&self, id: SessionId, turn: TurnId) -> Result<RunOutcome, Error> {
        let agent = self.settings.agent.clone();
        let code = self.placement.runtime()?.code;
        self.store.query(move |reader| read_outcome(reader, id, turn, &agent, &code)).await
    }
}

fn read_outcome(
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
            let records = retry.pending.iter().map(|id| reader.interrupt(*id)).collect::<Result<Vec<_>, _>>()?;
            records.into_iter().flatten().collect()
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

/// Brings what the store has of the state's turn up to the state: whether it has any.
///
/// # Errors
/// [`Error::AlreadyResumed`] where the turn, or its session, has gone on since.
fn catch_up(
    tx: &mut dyn Transaction,
    session: &Session,
    state: &RunState,
    after_commit: &mut AfterCommit,
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(row) = tx.turn(state.turn)? else {
        let is_where_it_was =
            session.turn().is_none() && session.retry().is_none() && tx.messages(session.id)? == state.messages;
        return if is_where_it_was { Ok(false) } else { Err(Error::AlreadyResumed) };
    };
    let is_suspended = session.retry().is_some_and(|retry| retry.turn == row.id);
    if session.turn() != Some(row.id) && !is_suspended {
        return Err(Error::AlreadyResumed);
    }
    let stored: Vec<RecordedEntry> = tx.journal(row.id)?.into_iter().map(without_context).collect();
    let Some(new) = state.journal.strip_prefix(stored.as_slice()) else { return Err(Error::AlreadyResumed) };
    if is_suspended {
        tx.reopen_turn(row.id)?;
        after_commit.change(tx, session, session::Event::TurnReopened { turn: row.id }, now)?;
    }
    for RecordedEntry { at, entry } in new {
        let Entry::Answer { interrupt_id, .. } = entry else { return Err(Error::AlreadyResumed) };
        let of_state = state.interrupts.iter().find(|answered| answered.interrupt_id == *interrupt_id);
        let answered = of_state.ok_or(Error::AlreadyResumed)?;
        close(tx, answered, entry, after_commit, *at)?;
    }
    if let Some(session) = tx.session(session.id)? {
        let is_new = |grant: &&Grant| session.grants.iter().all(|known| known.grant_id != grant.grant_id);
        let granted = state
            .grants
            .iter()
            .filter(is_new)
            .fold(session.clone(), |session, grant| session.granted(grant.clone(), now));
        if granted.grants != session.grants {
            tx.update_session(&granted)?;
        }
    }
    Ok(true)
}

/// The entry as a state holds it.
fn without_context(mut recorded: RecordedEntry) -> RecordedEntry {
    if let Entry::Pause { context, .. } = &mut recorded.entry {
        *context = None;
    }
    recorded
}

/// Writes a session that stands where the state stands.
pub(in crate::engine) fn insert(
    tx: &mut dyn Transaction,
    state: &RunState,
    agent: &str,
    now: Timestamp,
) -> Result<(), Error> {
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
    match tx.session(state.session)? {
        Some(session) => {
            let grants = state.grants.clone();
            tx.update_session(&Session { phase, updated_at: now, grants, abandoned, ..session })?;
        }
        None => {
            let (grants, rules) = (state.grants.clone(), state.rules.clone());
            let session = Session {
                phase,
                grants,
                rules,
                abandoned,
                ..Session::new(state.session, agent, state.messages.len(), began)
            };
            tx.insert_session(&session, &state.messages)?;
        }
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

//! What is known of a database: some of its rows, in a memory store's form, and which questions they answer.
//!
//! Whatever is read goes through here. What is not known yet is noted as missing, and the job that wanted it is over for
//! this time: it runs again once the answer is there.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use uuid::Uuid;

use super::question::{Answer, SessionSlice, StoreQuestion, StoredInterrupt, StoredNotice, StoredTurn, Version};
use crate::domain::message::ChatMessage;
use crate::domain::size::{size_of_members, size_of_value};
use crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::clock::Clock;
use crate::store::memory::state::{MemoryState, Ordered, SessionRow, TurnRow};

/// See the module.
pub struct Image {
    /// The rows.
    pub(super) state: MemoryState,
    /// What they answer.
    pub(super) known: Knowledge,
    as_of: u64,
    /// Whether something else is there by now, as far as anybody knows: it answers nothing any more.
    is_outdated: bool,
}

/// Which questions are answered, and how far that is from rows.
#[derive(Default)]
pub struct Knowledge {
    /// Answered in rows.
    questions: Vec<StoreQuestion>,
    /// Answered, and no rows: lists, counts.
    answers: Vec<(StoreQuestion, Answer)>,
    /// Answered with something that cannot be read.
    unreadable: Vec<(StoreQuestion, Error)>,
    /// Sessions whose newest turn cannot be read.
    unreadable_turns: Vec<(SessionId, Error)>,
    /// Sessions of whose pending interrupts one cannot be read.
    unreadable_pending: Vec<(SessionId, Error)>,
    /// How far lanes of notices are known.
    lanes: Vec<KnownLane>,
    /// Sessions as they were read, also those that are not there.
    versions: Vec<(SessionId, Option<Version>)>,
    /// The latest time that is written in what was read, or was told here.
    latest: Cell<Option<Timestamp>>,
    /// See [`Reader::promotions`](crate::store::Reader::promotions).
    pub(super) promotions: u64,
    /// What somebody wanted to know and nobody has asked for.
    missing: RefCell<Vec<StoreQuestion>>,
}

/// How far the pending notices of a session to an address are known.
struct KnownLane {
    session: SessionId,
    url: String,
    /// How many were asked for.
    limit: usize,
    /// The place of the last one; `None` where there are no more.
    reach: Option<u64>,
    /// Why the one after it cannot be read, where it cannot.
    unreadable: Option<Error>,
}

impl Image {
    /// Of a database of which nothing is known, at the time of `clock`; see [`Image::as_of`].
    pub fn new(clock: Arc<dyn Clock>, as_of: u64) -> Self {
        let mut state = MemoryState::new(StoreId(Uuid::nil()), clock);
        // A row that a job makes gets its place here, one that is read has the database's: the same number is not the same
        // row, and what is made is newer than all that was read.
        state.sessions = Ordered::after_others();
        state.turns = Ordered::after_others();
        state.interrupts = Ordered::after_others();
        state.notices = Ordered::after_others();
        Self { state, known: Knowledge::default(), as_of, is_outdated: false }
    }

    /// What was known `before` of the same sessions. Those that are as they were have lost nothing, whichever database tells so
    /// by now.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        let Knowledge { versions, promotions, .. } = &mut self.known;
        if versions.iter().all(|version| before.known.versions.contains(version)) {
            *promotions = before.known.promotions.min(*promotions);
        }
        self
    }

    /// Others were first, or nobody knows what came of the commit that was to leave `versions`: what is kept is which versions
    /// there may be if nothing was taken back.
    pub fn outdate(&mut self, versions: &[(SessionId, Option<Version>)]) {
        self.is_outdated = true;
        self.known.versions.extend_from_slice(versions);
    }

    /// Whether it is good for no more than [`Image::after`].
    pub fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Takes in what was answered: rows before what hangs on them. What is known already stays.
    ///
    /// # Errors
    /// What an answer failed with, but for what cannot be read.
    pub fn install_all(
        &mut self,
        questions: &[StoreQuestion],
        answers: Vec<Result<Answer, Error>>,
    ) -> Result<(), Error> {
        let mut told: Vec<_> = questions.iter().zip(answers).collect();
        told.sort_by_key(|(question, _)| match question {
            StoreQuestion::Session(_) => 0,
            StoreQuestion::Turn(_) => 1,
            _ => 2,
        });
        for (question, answer) in told {
            if !self.knows(question) {
                self.install(question.clone(), answer)?;
            }
        }
        Ok(())
    }

    fn install(&mut self, question: StoreQuestion, answer: Result<Answer, Error>) -> Result<(), Error> {
        let answer = match answer {
            Err(why @ Error::Unreadable(_)) => {
                self.known.unreadable.push((question, why));
                return Ok(());
            }
            answer => answer?,
        };
        match (&question, answer) {
            (StoreQuestion::Session(id), Answer::Session { promotions, slice }) => {
                self.known.promotions = self.known.promotions.max(promotions);
                self.install_session(*id, slice);
            }
            (StoreQuestion::Messages(id), Answer::Messages(messages)) => {
                if let Some(row) = self.state.sessions.get_mut(*id) {
                    row.messages = messages;
                }
            }
            (StoreQuestion::Turn(_), Answer::Turn(turn)) => self.install_turn(turn.map(|turn| *turn)),
            (StoreQuestion::Journal(turn) | StoreQuestion::LastEntry(turn), Answer::Entries(entries)) => {
                // Without its turn it is asked for again, once that is known.
                let Some(row) = self.state.turns.get_mut(*turn) else { return Ok(()) };
                if row.journal.len() > entries.len() {
                    // The whole journal has come before its last entry.
                    return Ok(());
                }
                row.first = row.entries().saturating_sub(entries.len() as u64);
                row.journal = entries;
            }
            (StoreQuestion::Interrupt(_), Answer::Interrupt(interrupt)) => {
                self.install_interrupts(interrupt.into_iter().map(|interrupt| *interrupt));
            }
            (StoreQuestion::Reply { scope, key }, Answer::Reply(reply)) => {
                if let Some(reply) = reply {
                    self.state.replies.insert((scope.clone(), key.clone()), reply);
                }
            }
            (StoreQuestion::Carried(turn), Answer::Carried(carried)) => {
                if let Some(carried) = carried {
                    self.state.carried.insert(*turn, carried);
                }
            }
            (StoreQuestion::Notice(_), Answer::Notices(notices)) => self.install_notices(notices),
            (StoreQuestion::Lane { session, url, limit }, Answer::Lane(notices, unreadable)) => {
                let are_all = notices.len() < *limit && unreadable.is_none();
                let reach = if are_all { None } else { Some(notices.last().map_or(0, |last| last.place)) };
                let lane = KnownLane { session: *session, url: url.clone(), limit: *limit, reach, unreadable };
                self.known.lanes.push(lane);
                self.install_notices(notices);
            }
            (StoreQuestion::Keys, Answer::Keys(keys)) => self.state.keys = keys,
            (StoreQuestion::SignIns, Answer::SignIns(sign_ins)) => self.state.sign_ins = sign_ins,
            (StoreQuestion::PushedPolicy, Answer::PushedPolicy(policy)) => self.state.policy = policy,
            (_, answer) => {
                self.known.answers.push((question, answer));
                return Ok(());
            }
        }
        self.known.questions.push(question);
        Ok(())
    }

    fn install_session(&mut self, id: SessionId, slice: Option<Box<SessionSlice>>) {
        let Some(slice) = slice else {
            self.known.versions.push((id, None));
            return;
        };
        let SessionSlice { version, latest, session, turn, pending } = *slice;
        self.known.latest.set(self.known.latest.get().max(latest));
        self.known.versions.push((id, Some(version)));
        match session {
            Ok(session) => self.state.sessions.push(id, SessionRow { session, messages: Vec::new() }),
            Err(why) => self.known.unreadable.push((StoreQuestion::Session(id), why)),
        }
        match turn {
            Ok(turn) => self.install_turn(turn),
            Err(why) => self.known.unreadable_turns.push((id, why)),
        }
        match pending {
            Ok(pending) => self.install_interrupts(pending),
            Err(why) => self.known.unreadable_pending.push((id, why)),
        }
    }

    fn install_turn(&mut self, stored: Option<StoredTurn>) {
        let Some(StoredTurn { place, turn, entries, is_compacted }) = stored else { return };
        let row = TurnRow { turn, journal: Vec::new(), first: entries, is_compacted };
        // Where it is here already, so are some of its entries.
        if !self.state.turns.contains(row.turn.id) {
            self.state.turns.put(place, row.turn.id, row);
        }
    }

    fn install_interrupts(&mut self, stored: impl IntoIterator<Item = StoredInterrupt>) {
        for StoredInterrupt { place, interrupt } in stored {
            if !self.state.interrupts.contains(interrupt.interrupt_id) {
                self.state.interrupts.put(place, interrupt.interrupt_id, interrupt);
            }
        }
    }

    fn install_notices(&mut self, stored: Vec<StoredNotice>) {
        for StoredNotice { place, notice } in stored {
            if !self.state.notices.contains(notice.id) {
                self.state.notices.put(place, notice.id, notice);
            }
        }
    }

    /// Since when it is known that all of it is so.
    pub fn as_of(&self) -> u64 {
        self.as_of
    }

    /// What is missing, once; a job that was told so has come to nothing.
    pub fn take_missing(&self) -> Vec<StoreQuestion> {
        self.known.missing.take()
    }

    /// The sessions of which something is known.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.known.versions.iter().map(|(id, _)| *id).collect()
    }

    /// Whether `question` is answered.
    pub fn knows(&self, question: &StoreQuestion) -> bool {
        let Knowledge { questions, answers, unreadable, .. } = &self.known;
        questions.contains(question)
            || answers.iter().any(|(known, _)| known == question)
            || unreadable.iter().any(|(known, _)| known == question)
    }

    /// Whether an answer tells of another version of a session than the one that is known.
    pub fn has_moved<'a>(
        &self,
        mut answers: impl Iterator<Item = (&'a StoreQuestion, &'a Result<Answer, Error>)>,
    ) -> bool {
        answers.any(|(question, answer)| match (question, answer) {
            (StoreQuestion::Session(id), Ok(Answer::Session { slice, .. })) => {
                let known = self.known.versions.iter().find(|(known, _)| known == id);
                known.is_some_and(|(_, version)| *version != slice.as_ref().map(|slice| slice.version))
            }
            _ => false,
        })
    }

    /// What a job has left here is committed: sessions have these versions, or are gone; all of it was so at `as_of`.
    pub fn committed(&mut self, versions: &[(SessionId, Option<Version>)], as_of: u64) {
        for (id, next) in versions {
            if let Some((_, version)) = self.known.versions.iter_mut().find(|(known, _)| known == id) {
                *version = *next;
            }
        }
        self.as_of = as_of;
    }

    /// Keeps of it what the next job about `session` will want, and nothing that could change while the session does not.
    /// `None` where there is no such session.
    pub fn keep_only(mut self, session: SessionId) -> Option<Self> {
        self.known.versions.retain(|(id, version)| *id == session && version.is_some());
        // What cannot be read may be another row by now: then it is looked at again.
        let is_readable = self.known.unreadable.is_empty()
            && self.known.unreadable_turns.is_empty()
            && self.known.unreadable_pending.is_empty();
        if self.known.versions.is_empty() || !is_readable || !self.state.sessions.contains(session) {
            return None;
        }
        let is_of_session = |question: &StoreQuestion| matches!(question, StoreQuestion::Session(id) | StoreQuestion::Messages(id) if *id == session);
        self.known.questions.retain(is_of_session);
        self.known.answers.clear();
        self.known.lanes.clear();
        self.state.replies.clear();
        self.state.carried.clear();
        self.state.notices = Ordered::after_others();
        self.forget_the_past(session);
        Some(self)
    }

    /// About how many bytes it holds: of messages, of what turns were sent and people are asked, and of entries.
    pub fn size(&self) -> usize {
        let messages = self.state.sessions.values().flat_map(|row| &row.messages).map(ChatMessage::size);
        let sent = self.state.turns.values().map(|row| row.turn.message.size());
        let asked = self.state.interrupts.values().map(|asked| {
            let schema = asked.response_schema.as_deref().map_or(0, size_of_value);
            size_of_members(&asked.payload) + schema + asked.metadata.as_ref().map_or(0, size_of_members)
        });
        let said = self.state.turns.values().flat_map(|row| &row.journal).map(|recorded| recorded.entry.size());
        messages.chain(sent).chain(asked).chain(said).sum()
    }

    /// Of the turns only the newest stays, without the entries before its last; of the interrupts those that are pending.
    fn forget_the_past(&mut self, session: SessionId) {
        // A job may have looked at turns of others.
        let newest = self.state.turns.values().rfind(|row| row.turn.session_id == session).map(|row| row.turn.id);
        let over: Vec<TurnId> =
            self.state.turns.values().map(|row| row.turn.id).filter(|id| Some(*id) != newest).collect();
        for turn in over {
            drop(self.state.turns.remove(turn));
        }
        if let Some(row) = newest.and_then(|newest| self.state.turns.get_mut(newest)) {
            let past = row.journal.len().saturating_sub(1);
            row.journal.drain(..past);
            row.first = row.first.saturating_add(past as u64);
        }
        let settled: Vec<InterruptId> = self
            .state
            .interrupts
            .values()
            .filter(|interrupt| interrupt.session_id != session || !interrupt.is_pending())
            .map(|interrupt| interrupt.interrupt_id)
            .collect();
        for interrupt in settled {
            drop(self.state.interrupts.remove(interrupt));
        }
    }
}

impl Knowledge {
    /// As a session was read; `None` where it was not there.
    ///
    /// # Errors
    /// Where it was not read yet.
    pub fn version(&self, session: SessionId) -> Result<Option<Version>, Error> {
        match self.versions.iter().rev().find(|(id, _)| *id == session) {
            Some((_, version)) => Ok(*version),
            None => Err(self.miss(StoreQuestion::Session(session))),
        }
    }

    /// How late it is where the clock says `clock`: never before what is written already. Servers' clocks differ, and no time
    /// in a session goes back.
    pub(super) fn now(&self, clock: Timestamp) -> Timestamp {
        let now = self.latest.get().map_or(clock, |latest| latest.max(clock));
        self.latest.set(Some(now));
        now
    }

    /// Rows that answer `question` are there from now on, because this job has made them.
    pub fn add(&mut self, question: StoreQuestion) {
        self.questions.push(question);
    }

    /// Whether the rows answer `question`, which nobody asks for that.
    pub fn has_told(&self, question: &StoreQuestion) -> bool {
        self.questions.contains(question)
    }

    /// How much is known, to go back to it.
    pub fn mark(&self) -> usize {
        self.questions.len()
    }

    /// What was added since `mark` was never there.
    pub fn forget_since(&mut self, mark: usize) {
        self.questions.truncate(mark);
    }

    /// Whether the rows answer `question`.
    ///
    /// # Errors
    /// [`Error::Unreadable`] where they do and cannot be read; anything where they do not, and somebody has to ask.
    pub(super) fn need(&self, question: StoreQuestion) -> Result<(), Error> {
        if let Some((_, why)) = self.unreadable.iter().find(|(known, _)| *known == question) {
            return Err(why.clone());
        }
        if self.questions.contains(&question) {
            return Ok(());
        }
        Err(self.miss(question))
    }

    /// Whether the first pending notice of a lane is the one that is at `first` here; `None` where none is.
    ///
    /// # Errors
    /// As [`Knowledge::need`].
    pub(super) fn need_first_of_lane(&self, session: SessionId, url: &str, first: Option<u64>) -> Result<(), Error> {
        let known = self.lanes.iter().rev().find(|lane| lane.session == session && lane.url == url);
        let is_first = |lane: &KnownLane| lane.reach.is_none_or(|reach| first.is_some_and(|first| first <= reach));
        match known {
            Some(lane) if is_first(lane) => Ok(()),
            Some(KnownLane { unreadable: Some(why), .. }) => Err(why.clone()),
            // All that were told are settled by now: twice as many, so that a few questions are enough for any lane.
            Some(lane) => self.need(lane_question(session, url, lane.limit.saturating_mul(2))),
            // The one that a job is about, and the one after it.
            None => self.need(lane_question(session, url, 2)),
        }
    }

    /// The answer to `question`, which is no rows.
    ///
    /// # Errors
    /// As [`Knowledge::need`].
    pub(super) fn answer(&self, question: StoreQuestion) -> Result<&Answer, Error> {
        if let Some((_, why)) = self.unreadable.iter().find(|(known, _)| *known == question) {
            return Err(why.clone());
        }
        match self.answers.iter().find(|(known, _)| *known == question) {
            Some((_, answer)) => Ok(answer),
            None => Err(self.miss(question)),
        }
    }

    /// The newest turn of a session can be read.
    ///
    /// # Errors
    /// As [`Knowledge::need`].
    pub(super) fn need_last_turn(&self, session: SessionId) -> Result<(), Error> {
        self.version(session)?;
        first_of(&self.unreadable_turns, session)
    }

    /// What of a session is pending can be read.
    ///
    /// # Errors
    /// As [`Knowledge::need`].
    pub(super) fn need_pending(&self, session: SessionId) -> Result<(), Error> {
        self.version(session)?;
        first_of(&self.unreadable_pending, session)
    }

    fn miss(&self, question: StoreQuestion) -> Error {
        let mut missing = self.missing.borrow_mut();
        if !missing.contains(&question) {
            missing.push(question);
        }
        Error::Internal("a job goes on without what it asked for".to_owned())
    }
}

fn first_of(unreadable: &[(SessionId, Error)], session: SessionId) -> Result<(), Error> {
    unreadable.iter().find(|(id, _)| *id == session).map_or(Ok(()), |(_, why)| Err(why.clone()))
}

fn lane_question(session: SessionId, url: &str, limit: usize) -> StoreQuestion {
    StoreQuestion::Lane { session, url: url.to_owned(), limit }
}

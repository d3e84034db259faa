//! Reading what is known.

use super::image::{Image, Knowledge};
use super::question::{Answer, StoreQuestion};
use crate::domain::access::{Key, SignIn};
use crate::domain::audit::{AuditRow, Head};
use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry, StepIdentity};
use crate::domain::message::ChatMessage;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::PushedPolicy;
use crate::domain::session::Session;
use crate::domain::turn::Life;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::Reader;
use crate::store::asked::{AskedReader, InterruptPredicate};
use crate::store::carried::{Carried, CarriedReader};
use crate::store::memory::state::{MemoryState, TurnRow};
use crate::store::outbox::OutboxReader;
use crate::store::query::{AuditQuery, InterruptQuery, NoticeQuery, Page, SessionQuery, TitledSession};
use crate::store::record::{StoredReply, Turn};

/// A look at what is known. What is not, is noted as missing, and an error.
pub struct KnowledgeReader<'a> {
    pub(super) state: &'a MemoryState,
    pub(super) known: &'a Knowledge,
}

impl Image {
    /// A look at all of it.
    pub fn look(&self) -> KnowledgeReader<'_> {
        KnowledgeReader { state: &self.state, known: &self.known }
    }
}

/// What an answer holds, where it is of the kind that belongs to its question.
macro_rules! told {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(told) => Ok(told),
            // What it holds may be a secret, or somebody's message: it stays out of texts.
            _ => Err(Error::Internal(concat!("a question was not answered with ", stringify!($kind)).to_owned())),
        }
    };
}

impl KnowledgeReader<'_> {
    /// A turn's row, if there is such a turn.
    pub(super) fn turn_row(&self, id: TurnId) -> Result<Option<&TurnRow>, Error> {
        match self.state.turns.get(id) {
            Some(row) => Ok(Some(row)),
            None => self.known.need(StoreQuestion::Turn(id)).map(|()| None),
        }
    }

    /// The same, with its journal from `first` on.
    fn turn_from(&self, id: TurnId, first: u64) -> Result<Option<&TurnRow>, Error> {
        let row = self.turn_row(id)?;
        match row {
            Some(row) if row.first > first => self.known.need(StoreQuestion::Journal(id)).map(|()| Some(row)),
            row => Ok(row),
        }
    }

    /// The newest of a turn's entries that `find` finds something in, of those that are here; and whether all are.
    fn newest<T>(&self, id: TurnId, find: impl Fn(&Entry) -> Option<T>) -> Result<(Option<T>, bool), Error> {
        let Some(row) = self.turn_row(id)? else { return Ok((None, true)) };
        Ok((row.journal.iter().rev().find_map(|recorded| find(&recorded.entry)), row.first == 0))
    }

    fn number(&self, question: StoreQuestion) -> Result<u64, Error> {
        told!(self.known.answer(question)?, Number).copied()
    }

    /// Whether everything that is known of a turn's or an interrupt's session can be told although its row cannot be read.
    fn is_unreadable<T>(read: &Result<T, Error>) -> bool {
        matches!(read, Err(Error::Unreadable(_)))
    }
}

impl Reader for KnowledgeReader<'_> {
    fn store_id(&self) -> Result<StoreId, Error> {
        told!(self.known.answer(StoreQuestion::StoreId)?, StoreId).copied()
    }

    fn now(&self) -> Timestamp {
        self.known.now(self.state.now())
    }

    fn promotions(&self) -> u64 {
        self.known.promotions
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
        self.known.need(StoreQuestion::Session(id))?;
        self.state.session(id)
    }

    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> {
        if self.known.version(id)?.is_some() || self.state.sessions.contains(id) {
            self.known.need(StoreQuestion::Messages(id))?;
        }
        self.state.messages(id)
    }

    fn messages_page(&self, id: SessionId, first: usize, limit: usize) -> Result<Vec<ChatMessage>, Error> {
        if !self.state.sessions.contains(id) || self.known.has_told(&StoreQuestion::Messages(id)) {
            return self.messages(id).map(|all| all.into_iter().skip(first).take(limit).collect());
        }
        told!(self.known.answer(StoreQuestion::MessagesPage { session: id, first, limit })?, Messages).cloned()
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Page<TitledSession>, Error> {
        told!(self.known.answer(StoreQuestion::Sessions(query.clone()))?, Sessions).cloned()
    }

    fn count_sessions(&self) -> Result<usize, Error> {
        self.number(StoreQuestion::CountSessions).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error> {
        if !self.state.interrupts.contains(id) {
            self.known.need(StoreQuestion::Interrupt(id))?;
        }
        self.state.interrupt(id)
    }

    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error> {
        self.known.need_pending(session)?;
        self.state.pending(session)
    }

    fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error> {
        told!(self.known.answer(StoreQuestion::Interrupts(query.clone()))?, Interrupts).cloned()
    }

    fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        Ok(self.turn_row(id)?.map(|row| row.turn.clone()))
    }

    fn life(&self, turn: TurnId) -> Result<Option<Life>, Error> {
        Ok(self.turn_row(turn)?.map(|row| row.turn.life.clone()))
    }

    fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error> {
        self.known.need_last_turn(session)?;
        self.state.last_turn(session)
    }

    fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error> {
        let row = self.turn_row(id);
        if Self::is_unreadable(&row) {
            return told!(self.known.answer(StoreQuestion::SessionOfTurn(id))?, Whose).copied();
        }
        Ok(row?.map(|row| row.turn.session_id))
    }

    fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error> {
        let row = self.turn_row(id);
        if Self::is_unreadable(&row) {
            return told!(self.known.answer(StoreQuestion::SenderOfTurn(id))?, Sender).cloned();
        }
        Ok(row?.and_then(|row| row.turn.sent_by.clone()))
    }

    fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error> {
        let interrupt = self.interrupt(id);
        if Self::is_unreadable(&interrupt) {
            return told!(self.known.answer(StoreQuestion::SessionOfInterrupt(id))?, Whose).copied();
        }
        Ok(interrupt?.map(|interrupt| interrupt.session_id))
    }

    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error> {
        self.journal_after(turn, None)
    }

    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error> {
        let row = self.turn_from(turn, index.map_or(0, |index| index.saturating_add(1)))?;
        row.map_or(Ok(Vec::new()), |_| self.state.journal_after(turn, index))
    }

    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error> {
        let Some(row) = self.turn_row(turn)? else { return Ok(None) };
        if row.journal.is_empty() && row.first > 0 {
            self.known.need(StoreQuestion::LastEntry(turn))?;
        }
        Ok(row.journal.last().cloned())
    }

    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error> {
        let Some(row) = self.turn_row(turn)? else { return Ok(Vec::new()) };
        if row.first <= first {
            return self.state.journal_page(turn, first, limit);
        }
        told!(self.known.answer(StoreQuestion::JournalPage { turn, first, limit })?, Entries).cloned()
    }

    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error> {
        let known = self.state.reply(scope, key)?;
        if known.is_none() {
            self.known.need(StoreQuestion::Reply { scope: scope.to_owned(), key: key.to_owned() })?;
        }
        Ok(known)
    }

    fn keys(&self) -> Result<Vec<Key>, Error> {
        self.known.need(StoreQuestion::Keys)?;
        self.state.keys()
    }

    fn sign_ins(&self) -> Result<Vec<SignIn>, Error> {
        self.known.need(StoreQuestion::SignIns)?;
        self.state.sign_ins()
    }

    fn pushed_policy(&self) -> Result<Option<PushedPolicy>, Error> {
        self.known.need(StoreQuestion::PushedPolicy)?;
        self.state.pushed_policy()
    }

    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
        told!(self.known.answer(StoreQuestion::EventsAfter { after, session, limit })?, Events).cloned()
    }

    fn last_event(&self) -> Result<u64, Error> {
        self.number(StoreQuestion::LastEvent)
    }

    fn last_event_of(&self, session: SessionId) -> Result<u64, Error> {
        self.number(StoreQuestion::LastEventOf(session))
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error> {
        told!(self.known.answer(StoreQuestion::Audit(query.clone()))?, Audit).cloned()
    }

    fn audit_head(&self) -> Result<Head, Error> {
        told!(self.known.answer(StoreQuestion::AuditHead)?, Head).cloned()
    }

    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error> {
        told!(self.known.answer(StoreQuestion::Seen(interrupt, actor.to_owned()))?, Seen).copied()
    }
}

impl OutboxReader for KnowledgeReader<'_> {
    fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error> {
        Ok(self.turn_row(id)?.and_then(|row| row.turn.webhook.clone()))
    }

    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
        if !self.state.notices.contains(id) {
            self.known.need(StoreQuestion::Notice(id))?;
        }
        self.state.notice(id)
    }

    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
        told!(self.known.answer(StoreQuestion::Notices(query.clone()))?, NoticePage).cloned()
    }

    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
        // Any that is known will do, also where it is not the first.
        if self.state.has_pending_notice(session, url)? {
            return Ok(true);
        }
        let first = self.first_pending_notice(session, url);
        // One that cannot be read is pending all the same.
        Ok(Self::is_unreadable(&first) || first?.is_some())
    }

    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
        let first = self.state.first_pending_notice(session, url)?;
        let place = first.as_ref().and_then(|first| self.state.notices.place(first.id));
        self.known.need_first_of_lane(session, url, place)?;
        Ok(first)
    }
}

impl AskedReader for KnowledgeReader<'_> {
    fn asking_step(&self, turn: TurnId, interrupt: InterruptId) -> Result<Option<StepIdentity>, Error> {
        let (here, is_all) = self.newest(turn, |entry| {
            entry.asked().filter(|(asked, _)| *asked == interrupt).map(|(_, step)| step.clone())
        })?;
        if here.is_some() || is_all {
            return Ok(here);
        }
        let step = told!(self.known.answer(StoreQuestion::AskingStep(turn, interrupt))?, Step)?;
        Ok(step.as_deref().cloned())
    }

    fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error> {
        let (here, is_all) = self.newest(turn, |entry| entry.intent().filter(|step| step.path == path).cloned())?;
        if here.is_some() || is_all {
            return Ok(here);
        }
        let step = told!(self.known.answer(StoreQuestion::BegunStep(turn, path.to_owned()))?, Step)?;
        Ok(step.as_deref().cloned())
    }

    fn last_with_approvers(&self, turn: TurnId, is_it: InterruptPredicate<'_>) -> Result<Option<Interrupt>, Error> {
        let Some(row) = self.turn_row(turn)? else { return Ok(None) };
        let mut are_here = row.first == 0;
        for (interrupt, _) in row.journal.iter().rev().filter_map(|recorded| recorded.entry.asked()) {
            if !self.state.interrupts.contains(interrupt) {
                // One question has it and all before it, where each of them would be one of its own.
                are_here = false;
                break;
            }
            let asked = self.interrupt(interrupt)?;
            if let Some(asked) = asked.filter(|asked| !asked.approvers.is_empty() && is_it(asked)) {
                return Ok(Some(asked));
            }
        }
        if are_here {
            return Ok(None);
        }
        let before = told!(self.known.answer(StoreQuestion::WithApprovers(turn))?, Asked)?;
        Ok(before.iter().find(|asked| is_it(asked)).cloned())
    }
}

impl CarriedReader for KnowledgeReader<'_> {
    fn carried(&self, turn: TurnId) -> Result<Option<Carried>, Error> {
        let known = self.state.carried(turn)?;
        if known.is_none() {
            self.known.need(StoreQuestion::Carried(turn))?;
        }
        Ok(known)
    }
}

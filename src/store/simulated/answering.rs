//! What is there.

use super::{LeftOut, Rows};
use crate::domain::notice::Notice;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::store::Reader;
use crate::store::asked::AskedReader;
use crate::store::carried::CarriedReader;
use crate::store::outbox::OutboxReader;
use crate::store::shared::question::{Answer, SessionSlice, StoreQuestion, StoredInterrupt, StoredNotice, StoredTurn};

impl Rows {
    /// The answer to one question.
    pub(super) fn answer(&self, question: &StoreQuestion) -> Result<Answer, Error> {
        let state = &self.state;
        Ok(match question {
            StoreQuestion::StoreId => Answer::StoreId(state.store_id()?),
            StoreQuestion::Session(id) => {
                Answer::Session { promotions: self.told_promotions(), slice: self.slice(*id)?.map(Box::new) }
            }
            StoreQuestion::Messages(id) => Answer::Messages(state.messages(*id)?),
            StoreQuestion::MessagesPage { session, first, limit } => {
                Answer::Messages(state.messages_page(*session, *first, *limit)?)
            }
            StoreQuestion::Turn(id) => Answer::Turn(self.turn(*id).map(Box::new)),
            StoreQuestion::Journal(turn) => Answer::Entries(state.journal(*turn)?),
            StoreQuestion::LastEntry(turn) => Answer::Entries(state.last_entry(*turn)?.into_iter().collect()),
            StoreQuestion::JournalPage { turn, first, limit } => {
                Answer::Entries(state.journal_page(*turn, *first, *limit)?)
            }
            StoreQuestion::AskingStep(turn, interrupt) => {
                Answer::Step(state.asking_step(*turn, *interrupt)?.map(Box::new))
            }
            StoreQuestion::BegunStep(turn, path) => Answer::Step(state.begun_step(*turn, path)?.map(Box::new)),
            StoreQuestion::WithApprovers(turn) => {
                let journal = state.journal(*turn)?;
                let asked = journal.iter().rev().filter_map(|recorded| recorded.entry.asked());
                let asked = asked.filter_map(|(id, _)| state.interrupts.get(id));
                Answer::Asked(asked.filter(|asked| !asked.approvers.is_empty()).cloned().collect())
            }
            StoreQuestion::Interrupt(id) => Answer::Interrupt(self.interrupt(*id).map(Box::new)),
            StoreQuestion::SessionOfTurn(turn) => Answer::Whose(state.session_of_turn(*turn)?),
            StoreQuestion::SenderOfTurn(turn) => Answer::Sender(state.sender_of_turn(*turn)?),
            StoreQuestion::SessionOfInterrupt(interrupt) => Answer::Whose(state.session_of_interrupt(*interrupt)?),
            StoreQuestion::Reply { scope, key } => Answer::Reply(state.reply(scope, key)?),
            StoreQuestion::Carried(turn) => Answer::Carried(state.carried(*turn)?),
            StoreQuestion::Notice(id) => Answer::Notices(self.notices(state.notice(*id)?.as_ref())),
            StoreQuestion::Lane { session, url, limit } => {
                let lane = state.pending_notices().filter(|it| it.session_id == *session && it.url == *url);
                Answer::Lane(self.notices(lane.take(*limit)), None)
            }
            StoreQuestion::Seen(interrupt, actor) => Answer::Seen(state.has_seen(*interrupt, actor)?),
            StoreQuestion::Keys => Answer::Keys(state.keys()?),
            StoreQuestion::SignIns => Answer::SignIns(state.sign_ins()?),
            StoreQuestion::PushedPolicy => Answer::PushedPolicy(state.pushed_policy()?),
            StoreQuestion::CountSessions => Answer::Number(state.count_sessions()? as u64),
            StoreQuestion::LastEvent => Answer::Number(state.last_event()?),
            StoreQuestion::LastEventOf(session) => Answer::Number(state.last_event_of(*session)?),
            StoreQuestion::AuditHead => Answer::Head(state.audit_head()?),
            StoreQuestion::EventsAfter { after, session, limit } => {
                Answer::Events(state.events_after(*after, *session, *limit)?)
            }
            StoreQuestion::Sessions(query) => Answer::Sessions(state.sessions(query)?),
            StoreQuestion::Interrupts(query) => Answer::Interrupts(state.interrupts(query)?),
            StoreQuestion::Notices(query) => Answer::NoticePage(OutboxReader::notices(state, query)?),
            StoreQuestion::Audit(query) => Answer::Audit(state.audit(query)?),
        })
    }

    fn slice(&self, id: SessionId) -> Result<Option<SessionSlice>, Error> {
        let (Some(row), Some(version)) = (self.state.sessions.get(id), self.versions.get(&id)) else { return Ok(None) };
        let newest = self.state.last_turn(id)?.and_then(|turn| self.turn(turn.id));
        let pending = self.state.pending(id)?.into_iter().filter_map(|it| self.interrupt(it.interrupt_id)).collect();
        Ok(Some(SessionSlice {
            version: *version,
            latest: match self.left_out {
                Some(LeftOut::Latest) => None,
                _ => self.latest_of(id, row.session.updated_at),
            },
            session: Ok(row.session.clone()),
            turn: Ok(newest),
            pending: Ok(pending),
        }))
    }

    pub(super) fn told_promotions(&self) -> u64 {
        if self.left_out == Some(LeftOut::Promotions) { 0 } else { self.promotions }
    }

    /// The latest of its change, its newest event and the last entry of its newest turn: whatever is written writes one of them.
    fn latest_of(&self, id: SessionId, updated_at: Timestamp) -> Option<Timestamp> {
        let event = self.state.events.values().rev().find(|(event, _)| event.session_id == id).map(|(_, at)| *at);
        let newest = self.state.turns.values().rfind(|row| row.turn.session_id == id);
        let entry = newest.and_then(|row| row.journal.last()).map(|recorded| recorded.at);
        Some(updated_at).max(event).max(entry)
    }

    fn turn(&self, id: TurnId) -> Option<StoredTurn> {
        let row = self.state.turns.get(id)?;
        Some(StoredTurn {
            place: self.state.turns.place(id)?,
            turn: row.turn.clone(),
            entries: row.entries(),
            is_compacted: row.is_compacted,
        })
    }

    fn interrupt(&self, id: InterruptId) -> Option<StoredInterrupt> {
        let interrupt = self.state.interrupts.get(id)?.clone();
        Some(StoredInterrupt { place: self.state.interrupts.place(id)?, interrupt })
    }

    fn notices<'n>(&self, notices: impl IntoIterator<Item = &'n Notice>) -> Vec<StoredNotice> {
        let stored = notices.into_iter().filter_map(|notice| {
            Some(StoredNotice { place: self.state.notices.place(notice.id)?, notice: notice.clone() })
        });
        stored.collect()
    }
}

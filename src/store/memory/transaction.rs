//! Writing, with a way back.

use std::collections::HashSet;

use super::state::{MemoryState, SessionRow};
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::{AuditRow, Deed, Head};
use crate::domain::event::{NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::session::Session;
use crate::domain::status::Status;
use crate::domain::turn::Life;
use crate::domain::{Error, InterruptId, KeyId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::query::{AuditQuery, InterruptQuery, Page, SessionQuery};
use crate::store::record::{Due, DueKind, PendingCount, StoredReply, Turn};
use crate::store::turns::check_owner;
use crate::store::{Reader, Transaction};

/// Takes back one change.
type Undo = Box<dyn FnOnce(&mut MemoryState)>;

/// A job's view of the state.
pub(super) struct MemoryTransaction<'s> {
    pub(super) state: &'s mut MemoryState,
    /// How to take back what was done, in the order it was done.
    undo: Vec<Undo>,
}

impl<'s> MemoryTransaction<'s> {
    pub(super) fn new(state: &'s mut MemoryState) -> Self {
        Self { state, undo: Vec::new() }
    }

    /// Takes everything back, the last change first.
    pub(super) fn undo(self) {
        for undo in self.undo.into_iter().rev() {
            undo(self.state);
        }
    }

    pub(super) fn on_undo(&mut self, undo: impl FnOnce(&mut MemoryState) + 'static) {
        self.undo.push(Box::new(undo));
    }

    pub(super) fn require_session(&self, id: SessionId) -> Result<(), Error> {
        if self.state.sessions.contains(id) { Ok(()) } else { Err(Error::SessionNotFound) }
    }

    fn change_sign_ins(&mut self, change: impl FnOnce(&mut Vec<SignIn>)) {
        let before = self.state.sign_ins.clone();
        change(&mut self.state.sign_ins);
        self.on_undo(move |state| state.sign_ins = before);
    }

    fn remove_turns_of(&mut self, session: SessionId) {
        let ids: Vec<TurnId> =
            self.state.turns.values().filter(|row| row.turn.session_id == session).map(|row| row.turn.id).collect();
        for id in ids {
            if let Some((seq, row)) = self.state.turns.remove(id) {
                self.on_undo(move |state| state.turns.put(seq, id, row));
            }
        }
    }

    fn remove_interrupts_of(&mut self, session: SessionId) {
        let ids: Vec<InterruptId> = self
            .state
            .interrupts
            .values()
            .filter(|interrupt| interrupt.session_id == session)
            .map(|interrupt| interrupt.interrupt_id)
            .collect();
        for id in ids {
            if let Some((seq, interrupt)) = self.state.interrupts.remove(id) {
                self.on_undo(move |state| state.interrupts.put(seq, id, interrupt));
            }
        }
    }
}

impl Transaction for MemoryTransaction<'_> {
    fn insert_session(&mut self, session: &Session, messages: &[ChatMessage]) -> Result<(), Error> {
        let id = session.id;
        if self.state.sessions.contains(id) {
            return Err(Error::SessionExists);
        }
        self.state.sessions.push(id, SessionRow { session: session.clone(), messages: messages.to_vec() });
        self.on_undo(move |state| state.sessions.unpush(id));
        Ok(())
    }

    fn update_session(&mut self, session: &Session) -> Result<(), Error> {
        let id = session.id;
        let row = self.state.sessions.get_mut(id).ok_or(Error::SessionNotFound)?;
        let before = std::mem::replace(&mut row.session, session.clone());
        self.on_undo(move |state| {
            if let Some(row) = state.sessions.get_mut(id) {
                row.session = before;
            }
        });
        Ok(())
    }

    fn set_messages(&mut self, id: SessionId, messages: &[ChatMessage]) -> Result<(), Error> {
        let row = self.state.sessions.get_mut(id).ok_or(Error::SessionNotFound)?;
        let before = std::mem::replace(&mut row.messages, messages.to_vec());
        self.on_undo(move |state| {
            if let Some(row) = state.sessions.get_mut(id) {
                row.messages = before;
            }
        });
        Ok(())
    }

    fn delete_session(&mut self, id: SessionId) -> Result<bool, Error> {
        let Some((seq, row)) = self.state.sessions.remove(id) else {
            return Ok(false);
        };
        self.on_undo(move |state| state.sessions.put(seq, id, row));
        self.remove_turns_of(id);
        self.remove_interrupts_of(id);
        Ok(true)
    }

    fn sweep_sessions(&mut self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error> {
        let turns = self.state.turns.values().map(|row| &row.turn);
        let suspended: HashSet<SessionId> =
            turns.filter(|turn| turn.life.suspended().is_some()).map(|turn| turn.session_id).collect();
        let old = |session: &&Session| {
            matches!(session.status(), Status::Idle | Status::Error)
                && session.updated_at < before
                && !suspended.contains(&session.id)
        };
        let sessions = self.state.sessions.values().map(|row| &row.session).filter(old);
        let mut swept: Vec<_> =
            (0..).zip(sessions).map(|(seq, session)| (session.updated_at, seq, session.id)).collect();
        swept.sort_unstable_by_key(|(updated_at, seq, _)| (*updated_at, *seq));
        swept.truncate(limit);
        swept.sort_unstable_by_key(|(_, seq, _): &(_, usize, _)| *seq);
        let swept: Vec<SessionId> = swept.into_iter().map(|(.., id)| id).collect();
        for id in &swept {
            self.delete_session(*id)?;
        }
        Ok(swept)
    }

    fn insert_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        let id = interrupt.interrupt_id;
        self.require_session(interrupt.session_id)?;
        if self.state.interrupts.contains(id) {
            return Err(Error::Internal(format!("interrupt {id} is stored already")));
        }
        self.state.interrupts.push(id, interrupt.clone());
        self.on_undo(move |state| state.interrupts.unpush(id));
        Ok(())
    }

    fn update_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        let id = interrupt.interrupt_id;
        self.require_session(interrupt.session_id)?;
        let row = self.state.interrupts.get_mut(id).ok_or_else(|| Error::UnknownInterrupt(id.to_string()))?;
        let before = std::mem::replace(row, interrupt.clone());
        self.on_undo(move |state| {
            if let Some(row) = state.interrupts.get_mut(id) {
                *row = before;
            }
        });
        Ok(())
    }

    fn set_aside(&mut self, _due: DueKind) -> Result<(), Error> {
        // Whatever is in memory can be read.
        Ok(())
    }

    fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        check_owner(self.require_life(turn)?, epoch)?;
        self.append_foreign(turn, entry, now)
    }

    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        self.require_life(turn)?.check_open()?;
        let row = self.state.turns.get_mut(turn).ok_or(Error::TurnNotOpen(None))?;
        let index = row.journal.len() as u64;
        row.journal.push(RecordedEntry { at: now, entry: entry.clone() });
        self.on_undo(move |state| {
            if let Some(row) = state.turns.get_mut(turn) {
                row.journal.pop();
            }
        });
        Ok(index)
    }

    fn compact_journals(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let rows = self.state.turns.values().filter(|row| !row.is_compacted);
        let mut old: Vec<(Timestamp, TurnId)> = rows
            .filter_map(|row| Some((row.turn.life.ended_at()?, row.turn.id)))
            .filter(|(ended_at, _)| *ended_at < before)
            .collect();
        old.sort_by_key(|(ended_at, _)| *ended_at);
        old.truncate(limit);
        for (_, id) in &old {
            let Some(row) = self.state.turns.get_mut(*id) else { continue };
            row.is_compacted = true;
            let (id, journal) = (*id, std::mem::take(&mut row.journal));
            self.on_undo(move |state| {
                if let Some(row) = state.turns.get_mut(id) {
                    row.is_compacted = false;
                    row.journal = journal;
                }
            });
        }
        Ok(old.len())
    }

    fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error> {
        let place = (scope.to_owned(), key.to_owned());
        let before = self.state.replies.insert(place.clone(), reply.clone());
        self.on_undo(move |state| {
            match before {
                Some(reply) => state.replies.insert(place, reply),
                None => state.replies.remove(&place),
            };
        });
        Ok(())
    }

    fn sweep_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let old = self.state.replies.iter().filter(|(_, reply)| reply.created_at < before);
        let mut old: Vec<_> = old.map(|(place, reply)| (reply.created_at, place.clone())).collect();
        old.sort_unstable();
        old.truncate(limit);
        let swept = old.len();
        for (_, place) in old {
            if let Some(reply) = self.state.replies.remove(&place) {
                self.on_undo(move |state| drop(state.replies.insert(place, reply)));
            }
        }
        Ok(swept)
    }

    fn append_audit(&mut self, deed: Deed, now: Timestamp) -> Result<(), Error> {
        let row = AuditRow::after(&self.state.audit_head()?, deed, now);
        self.state.audit.push(row);
        self.on_undo(|state| drop(state.audit.pop()));
        Ok(())
    }

    fn insert_key(&mut self, key: &Key) -> Result<(), Error> {
        if self.state.keys.iter().any(|other| other.revoked_at.is_none() && other.name == key.name) {
            return Err(Error::KeyExists(key.name.clone()));
        }
        self.state.keys.push(key.clone());
        self.on_undo(|state| drop(state.keys.pop()));
        Ok(())
    }

    fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<(), Error> {
        let mut keys = self.state.keys.iter_mut().enumerate();
        let found = keys.find(|(_, key)| key.key_id == id && key.revoked_at.is_none());
        let (place, key) = found.ok_or_else(|| Error::UnknownKey(id.to_string()))?;
        key.revoked_at = Some(now);
        self.on_undo(move |state| state.keys[place].revoked_at = None);
        Ok(())
    }

    fn insert_sign_in(&mut self, sign_in: &SignIn) -> Result<(), Error> {
        self.change_sign_ins(|sign_ins| sign_ins.push(*sign_in));
        Ok(())
    }

    fn delete_sign_in(&mut self, token: &Digest) -> Result<(), Error> {
        self.change_sign_ins(|sign_ins| sign_ins.retain(|sign_in| sign_in.token != *token));
        Ok(())
    }

    fn sweep_sign_ins(&mut self, now: Timestamp, limit: usize) -> Result<usize, Error> {
        let mut ended: Vec<SignIn> = self.state.sign_ins.iter().copied().filter(|it| it.ends_at <= now).collect();
        ended.sort_unstable_by_key(|sign_in| (sign_in.ends_at, *sign_in.token.bytes()));
        ended.truncate(limit);
        let ended: HashSet<Digest> = ended.into_iter().map(|sign_in| sign_in.token).collect();
        self.change_sign_ins(|sign_ins| sign_ins.retain(|sign_in| !ended.contains(&sign_in.token)));
        Ok(ended.len())
    }

    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<u64, Error> {
        let number = self.state.last_event()? + 1;
        self.state.events.insert(number, (event.clone(), now));
        self.on_undo(move |state| drop(state.events.remove(&number)));
        Ok(number)
    }

    fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let newest = self.state.last_event()?;
        let old: Vec<u64> = self
            .state
            .events
            .range(..newest)
            .take(limit)
            .take_while(|(_, (_, stored_at))| *stored_at < before)
            .map(|(number, _)| *number)
            .collect();
        let swept = old.len();
        for number in old {
            if let Some(row) = self.state.events.remove(&number) {
                self.on_undo(move |state| drop(state.events.insert(number, row)));
            }
        }
        Ok(swept)
    }
}

/// Reads see what the transaction has written so far.
impl Reader for MemoryTransaction<'_> {
    fn store_id(&self) -> Result<StoreId, Error> {
        self.state.store_id()
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
        self.state.session(id)
    }

    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> {
        self.state.messages(id)
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Page<Session>, Error> {
        self.state.sessions(query)
    }

    fn count_sessions(&self) -> Result<usize, Error> {
        self.state.count_sessions()
    }

    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error> {
        self.state.interrupt(id)
    }

    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error> {
        self.state.pending(session)
    }

    fn count_pending(&self, now: Timestamp) -> Result<Vec<PendingCount>, Error> {
        self.state.count_pending(now)
    }

    fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error> {
        self.state.interrupts(query)
    }

    fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        self.state.turn(id)
    }

    fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error> {
        self.state.last_turn(session)
    }

    fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error> {
        self.state.session_of_turn(id)
    }

    fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error> {
        self.state.sender_of_turn(id)
    }

    fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error> {
        self.state.session_of_interrupt(id)
    }

    fn life(&self, turn: TurnId) -> Result<Option<Life>, Error> {
        self.state.life(turn)
    }

    fn unparked_turns(&self) -> Result<Vec<TurnId>, Error> {
        self.state.unparked_turns()
    }

    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error> {
        self.state.journal(turn)
    }

    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error> {
        self.state.journal_after(turn, index)
    }

    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error> {
        self.state.last_entry(turn)
    }

    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error> {
        self.state.journal_page(turn, first, limit)
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, Error> {
        self.state.due(now, limit)
    }

    fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.state.next_due()
    }

    fn retriable_turns(&self, code: &str, limit: usize) -> Result<Vec<TurnId>, Error> {
        self.state.retriable_turns(code, limit)
    }

    fn suspended_turns(&self, before: Timestamp, skip: usize, limit: usize) -> Result<Vec<TurnId>, Error> {
        self.state.suspended_turns(before, skip, limit)
    }

    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error> {
        self.state.reply(scope, key)
    }

    fn keys(&self) -> Result<Vec<Key>, Error> {
        self.state.keys()
    }

    fn sign_ins(&self) -> Result<Vec<SignIn>, Error> {
        self.state.sign_ins()
    }

    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
        self.state.events_after(after, session, limit)
    }

    fn last_event(&self) -> Result<u64, Error> {
        self.state.last_event()
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error> {
        self.state.audit(query)
    }

    fn audit_head(&self) -> Result<Head, Error> {
        self.state.audit_head()
    }

    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error> {
        self.state.has_seen(interrupt, actor)
    }
}

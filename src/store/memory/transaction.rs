//! Writing, with a way back.

use super::state::{MemoryState, SessionRow};
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::{AuditRow, Deed};
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::message::ChatMessage;
use crate::domain::policy::PolicyChange;
use crate::domain::session::Session;
use crate::domain::told::StepEvent;
use crate::domain::{Error, InterruptId, KeyId, SessionId, Timestamp, TurnId};
use crate::store::record::{DueKind, EventNumber, StoredReply};
use crate::store::turns::check_owner;
use crate::store::{Reader, Transaction};

/// Takes back one change.
type Undo = Box<dyn FnOnce(&mut MemoryState)>;

/// A job's view of the state.
pub(in crate::store) struct MemoryTransaction<'s> {
    pub(in crate::store) state: &'s mut MemoryState,
    /// How to take back what was done, in the order it was done.
    undo: Vec<Undo>,
}

impl<'s> MemoryTransaction<'s> {
    pub(in crate::store) fn new(state: &'s mut MemoryState) -> Self {
        Self { state, undo: Vec::new() }
    }

    /// Takes everything back, the last change first.
    pub(in crate::store) fn undo(self) {
        for undo in self.undo.into_iter().rev() {
            undo(self.state);
        }
    }

    pub(in crate::store) fn on_undo(&mut self, undo: impl FnOnce(&mut MemoryState) + 'static) {
        self.undo.push(Box::new(undo));
    }

    pub(in crate::store) fn require_session(&self, id: SessionId) -> Result<(), Error> {
        if self.state.sessions.contains(id) { Ok(()) } else { Err(Error::SessionNotFound) }
    }

    pub(in crate::store) fn change_sign_ins(&mut self, change: impl FnOnce(&mut Vec<SignIn>)) {
        let before = self.state.sign_ins.clone();
        change(&mut self.state.sign_ins);
        self.on_undo(move |state| state.sign_ins = before);
    }

    /// Tells listeners of an entry, where there is anything to tell.
    pub(in crate::store) fn tell_entry(&mut self, turn: TurnId, index: u64, entry: &Entry) -> Result<(), Error> {
        if StepEvent::of(entry).is_some() {
            let number = self.state.last_event()? + 1;
            self.state.told.insert(number, (turn, index));
            self.on_undo(move |state| {
                state.told.remove(&number);
            });
        }
        Ok(())
    }

    /// Appends to a turn's journal, whatever has become of the turn: the entry's index.
    pub(in crate::store) fn append_anyway(&mut self, turn: TurnId, entry: &RecordedEntry) -> Result<u64, Error> {
        let row = self.state.turns.get_mut(turn).ok_or(Error::TurnNotOpen(None))?;
        let index = row.entries();
        row.journal.push(entry.clone());
        self.on_undo(move |state| {
            if let Some(row) = state.turns.get_mut(turn) {
                row.journal.pop();
            }
        });
        Ok(index)
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

    fn set_messages_from(&mut self, id: SessionId, first: usize, messages: &[ChatMessage]) -> Result<(), Error> {
        let row = self.state.sessions.get_mut(id).ok_or(Error::SessionNotFound)?;
        if row.messages.len() < first {
            return Err(crate::store::too_few_messages(first));
        }
        let before = row.messages.split_off(first);
        row.messages.extend_from_slice(messages);
        self.on_undo(move |state| {
            if let Some(row) = state.sessions.get_mut(id) {
                row.messages.truncate(first);
                row.messages.extend(before);
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

    fn append_told(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        let index = self.append(turn, epoch, entry, now)?;
        self.tell_entry(turn, index, entry)?;
        Ok(index)
    }

    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        self.require_life(turn)?.check_open()?;
        self.append_anyway(turn, &RecordedEntry { at: now, entry: entry.clone() })
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

    fn change_policy(&mut self, change: &PolicyChange) -> Result<(), Error> {
        let next = match change {
            PolicyChange::Pushed(policy) => Some(policy.clone()),
            PolicyChange::Removed => None,
        };
        let before = std::mem::replace(&mut self.state.policy, next);
        self.on_undo(move |state| state.policy = before);
        Ok(())
    }

    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<EventNumber, Error> {
        let number = self.state.last_event()? + 1;
        self.state.events.insert(number, (event.clone(), now));
        self.on_undo(move |state| drop(state.events.remove(&number)));
        Ok(number.into())
    }
}

crate::store::reads_from!(MemoryTransaction<'_>, state);

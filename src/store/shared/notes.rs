//! Which rows a job has written: the rows themselves are read once it is over, so that each is written once.

use super::changes::{Changes, NewEntry, NoticeChange, PolicySwap, ReplyChange, RowChange, SessionChange, TurnChange};
use super::image::Knowledge;
use super::question::Version;
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::Deed;
use crate::domain::event::StoredEvent;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::{Error, InterruptId, KeyId, SessionId, Timestamp, TurnId};
use crate::store::memory::state::MemoryState;
use crate::store::owner::TurnOwner;
use crate::store::record::{DueKind, EventNumber};

/// See the module.
#[derive(Default)]
pub struct Notes {
    touched: Vec<SessionId>,
    written: Vec<SessionId>,
    deleted: Vec<SessionId>,
    messages: Vec<(SessionId, usize)>,
    turns: Vec<NotedTurn>,
    interrupts: Vec<(InterruptId, bool)>,
    replies: Vec<(String, String, bool)>,
    carried: Vec<TurnId>,
    /// Each as it was before; `None` where it is new.
    notices: Vec<(NoticeId, Option<Notice>)>,
    deleted_notices: Vec<Notice>,
    /// Lanes of notices whose first one is due, and since when.
    pub first_due: Vec<(SessionId, String, Timestamp)>,
    /// Entries, in order.
    pub entries: Vec<NewEntry>,
    /// What is not due any more.
    pub set_aside: Vec<(SessionId, DueKind)>,
    /// Events, in order.
    pub events: Vec<(StoredEvent, Timestamp, EventNumber)>,
    /// Rows of the audit, in order.
    pub deeds: Vec<(Deed, Timestamp)>,
    /// New keys.
    pub keys: Vec<Key>,
    revoked_keys: Vec<(KeyId, Timestamp)>,
    /// New sign-ins.
    pub sign_ins: Vec<SignIn>,
    /// Tokens of those that are over.
    pub deleted_sign_ins: Vec<Digest>,
    /// What becomes of the policy that was pushed.
    pub policy: Option<PolicySwap>,
}

struct NotedTurn {
    id: TurnId,
    is_new: bool,
    owner: Option<TurnOwner>,
    moves_due: bool,
}

impl Notes {
    /// Something of a session is another now.
    pub fn touch(&mut self, session: SessionId) {
        once(&mut self.touched, session);
    }

    /// A session is new: it comes after those that were made before it, whoever was looked for first.
    pub fn insert_session(&mut self, session: SessionId) {
        self.touched.retain(|id| *id != session);
        self.touched.push(session);
        once(&mut self.written, session);
    }

    /// A session's row is another now.
    pub fn write_session(&mut self, session: SessionId) {
        once(&mut self.written, session);
    }

    /// A session is gone, with what was written of it before in this job.
    pub fn delete_session(&mut self, session: SessionId) {
        once(&mut self.deleted, session);
        self.written.retain(|id| *id != session);
        self.messages.retain(|(id, _)| *id != session);
        self.entries.retain(|entry| entry.session != session);
        self.set_aside.retain(|(id, _)| *id != session);
    }

    /// What a session remembers is another from `index` on.
    pub fn set_messages(&mut self, session: SessionId, index: usize) {
        match self.messages.iter_mut().find(|(id, _)| *id == session) {
            Some((_, first)) => *first = index.min(*first),
            None => self.messages.push((session, index)),
        }
    }

    /// A turn is new.
    pub fn insert_turn(&mut self, id: TurnId) {
        self.turns.push(NotedTurn { id, is_new: true, owner: None, moves_due: false });
    }

    /// A turn is another one now.
    pub fn write_turn(&mut self, id: TurnId) {
        self.noted_turn(id);
    }

    /// A turn is somebody's, or nobody's.
    pub fn give_turn(&mut self, id: TurnId, owner: TurnOwner) {
        self.noted_turn(id).owner = Some(owner);
    }

    /// A turn is suspended now, or no longer: what its interrupts are due for changes with it.
    pub fn move_due(&mut self, id: TurnId) {
        self.noted_turn(id).moves_due = true;
    }

    fn noted_turn(&mut self, id: TurnId) -> &mut NotedTurn {
        let place = self.turns.iter().position(|turn| turn.id == id).unwrap_or_else(|| {
            self.turns.push(NotedTurn { id, is_new: false, owner: None, moves_due: false });
            self.turns.len() - 1
        });
        &mut self.turns[place]
    }

    /// An interrupt is new, or another now.
    pub fn write_interrupt(&mut self, id: InterruptId, is_new: bool) {
        if !self.interrupts.iter().any(|(noted, _)| *noted == id) {
            self.interrupts.push((id, is_new));
        }
    }

    /// The place of the next entry that listeners are told of, among these and the events.
    pub fn next_told(&self) -> usize {
        self.events.len() + self.entries.iter().filter(|entry| entry.told.is_some()).count()
    }

    /// A reply is kept; a new one where there was none.
    pub fn write_reply(&mut self, scope: &str, key: &str, is_new: bool) {
        if !self.replies.iter().any(|noted| noted.0 == scope && noted.1 == key) {
            self.replies.push((scope.to_owned(), key.to_owned(), is_new));
        }
    }

    /// What is known of a turn that is carried about is another now.
    pub fn carry(&mut self, turn: TurnId) {
        once(&mut self.carried, turn);
    }

    /// A notice is new, or another now than it was when this job has `seen` it.
    pub fn write_notice(&mut self, id: NoticeId, seen: Option<Notice>) {
        if !self.notices.iter().any(|(noted, _)| *noted == id) {
            self.notices.push((id, seen));
        }
    }

    /// A notice that was `seen` is gone.
    pub fn delete_notice(&mut self, seen: Notice) {
        let noted = self.notices.iter().position(|(noted, _)| *noted == seen.id);
        match noted.map(|index| self.notices.remove(index)) {
            // It was never there for anybody else.
            Some((_, None)) => {}
            Some((_, Some(before))) => self.deleted_notices.push(before),
            None => self.deleted_notices.push(seen),
        }
    }

    /// A key is revoked.
    pub fn revoke_key(&mut self, id: KeyId, now: Timestamp) {
        match self.keys.iter_mut().find(|key| key.key_id == id) {
            Some(key) => key.revoked_at = Some(now),
            None => self.revoked_keys.push((id, now)),
        }
    }

    /// All of it as rows, with the handles of the events.
    ///
    /// # Errors
    /// [`Error::Internal`] where a row that was written is not there.
    pub fn into_changes(
        self,
        state: &MemoryState,
        known: &Knowledge,
        mut draw: impl FnMut() -> u64,
    ) -> Result<(Changes, Vec<EventNumber>), Error> {
        let mut changes = Changes::default();
        for id in &self.touched {
            let seen = known.version(*id)?;
            let is_deleted = self.deleted.contains(id) && seen.is_some();
            let written = if self.written.contains(id) { Some(state.sessions.get(*id)) } else { None };
            let row = match (written, is_deleted) {
                (Some(row), is_deleted) => {
                    let session = Box::new(row.ok_or_else(gone)?.session.clone());
                    if is_deleted { RowChange::Replaced(session) } else { RowChange::Written(session) }
                }
                (None, true) => RowChange::Deleted,
                // There is none: what is told of it is nobody's row.
                (None, false) if seen.is_none() => continue,
                (None, false) => RowChange::Kept,
            };
            let count = seen.map_or(0, |seen| seen.count).saturating_add(1);
            changes.sessions.push(SessionChange { id: *id, seen, next: Version { count, token: draw() }, row });
        }
        for (id, first) in self.messages {
            let row = state.sessions.get(id).ok_or_else(gone)?;
            changes.messages.push((id, first, row.messages.get(first..).unwrap_or_default().to_vec()));
        }
        for NotedTurn { id, is_new, owner, moves_due } in self.turns {
            // It went with its session.
            let Some(row) = state.turns.get(id) else { continue };
            let (turn, entries) = (row.turn.clone(), row.entries());
            changes.turns.push(TurnChange { turn, is_new, entries, owner, moves_due });
        }
        let interrupts = self.interrupts.into_iter();
        changes.interrupts =
            interrupts.filter_map(|(id, is_new)| Some((state.interrupts.get(id)?.clone(), is_new))).collect();
        for (scope, key, is_new) in self.replies {
            let place = (scope, key);
            let reply = state.replies.get(&place).ok_or_else(gone)?.clone();
            changes.replies.push(ReplyChange { scope: place.0, key: place.1, reply, is_new });
        }
        for turn in self.carried {
            changes.carried.push((turn, state.carried.get(&turn).ok_or_else(gone)?.clone()));
        }
        for (id, seen) in self.notices {
            changes.notices.push(NoticeChange { notice: state.notices.get(id).ok_or_else(gone)?.clone(), seen });
        }
        changes.first_due = self.first_due;
        changes.entries = self.entries;
        changes.set_aside = self.set_aside;
        changes.deleted_notices = self.deleted_notices;
        let mut numbers = Vec::with_capacity(self.events.len());
        for (event, at, number) in self.events {
            changes.events.push((event, at));
            numbers.push(number);
        }
        changes.deeds = self.deeds;
        changes.keys = self.keys;
        changes.revoked_keys = self.revoked_keys;
        changes.sign_ins = self.sign_ins;
        changes.deleted_sign_ins = self.deleted_sign_ins;
        changes.policy = self.policy;
        Ok((changes, numbers))
    }
}

fn once<T: PartialEq>(noted: &mut Vec<T>, item: T) {
    if !noted.contains(&item) {
        noted.push(item);
    }
}

fn gone() -> Error {
    Error::Internal("a row was written and is not there".to_owned())
}

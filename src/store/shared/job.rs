//! A job at work: it reads what is known and writes to the image, and what it has written is noted.

use super::changes::{Changes, NewEntry, PolicySwap};
use super::image::{Image, Knowledge};
use super::knowledge_reader::KnowledgeReader;
use super::notes::Notes;
use super::question::StoreQuestion;
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::Deed;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::message::ChatMessage;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::PolicyChange;
use crate::domain::session::Session;
use crate::domain::told::StepEvent;
use crate::domain::turn::{Life, TurnEvent};
use crate::domain::{Error, KeyId, SessionId, Timestamp, TurnId};
use crate::store::carried::{Carried, CarriedWriter};
use crate::store::memory::transaction::MemoryTransaction;
use crate::store::outbox::{OutboxReader, OutboxWriter};
use crate::store::owner::TurnOwner;
use crate::store::record::{DueKind, EventNumber, StoredReply, Turn};
use crate::store::turns::TurnWriter;
use crate::store::{Reader, Transaction, WriteJob, guard};

/// See the module.
struct JobTransaction<'i> {
    inner: MemoryTransaction<'i>,
    known: &'i mut Knowledge,
    notes: Notes,
    /// How much was known before.
    mark: usize,
}

/// What came of one run of a job.
pub struct JobOutcome {
    /// What it has written, with the handles of its events; `None` where it failed.
    pub written: Option<(Changes, Vec<EventNumber>)>,
    /// Its own outcome.
    pub outcome: Result<(), Error>,
    /// What it asked for in vain: then the rest means nothing.
    pub missing: Vec<StoreQuestion>,
}

/// Runs a job on what is known. What it has written is in the image; where it failed, nothing is.
pub fn run(job: &mut WriteJob, known: &mut Image) -> JobOutcome {
    let mut transaction = JobTransaction::new(known);
    let outcome = guard(|| job(&mut transaction));
    let written = match &outcome {
        Ok(()) => Some(transaction.finish()),
        Err(_) => {
            transaction.undo();
            None
        }
    };
    let missing = known.take_missing();
    match written.transpose() {
        Ok(written) => JobOutcome { written, outcome, missing },
        Err(error) => JobOutcome { written: None, outcome: Err(error), missing },
    }
}

/// The session that a key's scope names, where it does.
pub(super) fn session_in(scope: &str) -> Option<SessionId> {
    scope.split(':').find_map(|part| part.parse().ok())
}

/// A token that nobody has drawn before.
fn draw() -> u64 {
    #[cfg(test)]
    if let Some(id) = crate::domain::seeds::id() {
        return id.as_u64_pair().1;
    }
    uuid::Uuid::new_v4().as_u64_pair().0
}

impl<'i> JobTransaction<'i> {
    /// Over what is known.
    fn new(image: &'i mut Image) -> Self {
        let Image { state, known, .. } = image;
        let mark = known.mark();
        Self { inner: MemoryTransaction::new(state), known, notes: Notes::default(), mark }
    }

    /// Takes back everything that was written.
    fn undo(self) {
        self.known.forget_since(self.mark);
        self.inner.undo();
    }

    /// What was written, with the handles of its events. The image stays as the job has left it.
    ///
    /// # Errors
    /// [`Error::Internal`] where a row that was written is not there.
    fn finish(self) -> Result<(Changes, Vec<EventNumber>), Error> {
        self.notes.into_changes(self.inner.state, self.known, draw)
    }

    fn looking(&self) -> KnowledgeReader<'_> {
        KnowledgeReader { state: self.inner.state, known: self.known }
    }

    /// Something of a session changes.
    fn touch(&mut self, session: SessionId) -> Result<(), Error> {
        self.known.version(session)?;
        self.notes.touch(session);
        Ok(())
    }

    /// The same, where that session has to be there.
    fn touch_existing(&mut self, session: SessionId) -> Result<(), Error> {
        self.touch(session)?;
        // One that cannot be read is there all the same.
        match self.session(session) {
            Ok(None) => Err(Error::SessionNotFound),
            Ok(Some(_)) | Err(Error::Unreadable(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Something of a turn's session changes.
    fn touch_turn(&mut self, turn: TurnId) -> Result<SessionId, Error> {
        let session = self.session_of_turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
        self.touch(session)?;
        Ok(session)
    }
}

crate::store::reads_from!(JobTransaction<'_>, looking());

impl Transaction for JobTransaction<'_> {
    fn insert_session(&mut self, session: &Session, messages: &[ChatMessage]) -> Result<(), Error> {
        if self.session(session.id)?.is_some() {
            return Err(Error::SessionExists);
        }
        self.inner.insert_session(session, messages)?;
        self.known.add(StoreQuestion::Messages(session.id));
        self.notes.insert_session(session.id);
        self.notes.set_messages(session.id, 0);
        Ok(())
    }

    fn update_session(&mut self, session: &Session) -> Result<(), Error> {
        self.touch_existing(session.id)?;
        self.notes.write_session(session.id);
        self.inner.update_session(session)
    }

    fn set_messages_from(&mut self, id: SessionId, first: usize, messages: &[ChatMessage]) -> Result<(), Error> {
        self.touch_existing(id)?;
        // All of them: what is written is cut out of what the image has.
        let before = self.messages(id)?;
        let before = before.get(first..).ok_or_else(|| crate::store::too_few_messages(first))?;
        let same = before.iter().zip(messages).take_while(|(before, after)| before == after).count();
        self.inner.set_messages_from(id, first, messages)?;
        if same < before.len().max(messages.len()) {
            self.notes.set_messages(id, first.saturating_add(same));
        }
        Ok(())
    }

    fn delete_session(&mut self, id: SessionId) -> Result<bool, Error> {
        let is_there = match self.session(id) {
            Err(Error::Unreadable(_)) => true,
            read => read?.is_some(),
        };
        if is_there {
            self.notes.touch(id);
            self.notes.delete_session(id);
            self.inner.delete_session(id)?;
        }
        Ok(is_there)
    }

    fn insert_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        self.touch_existing(interrupt.session_id)?;
        self.inner.insert_interrupt(interrupt)?;
        self.notes.write_interrupt(interrupt.interrupt_id, true);
        Ok(())
    }

    fn update_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        self.touch_existing(interrupt.session_id)?;
        drop(self.interrupt(interrupt.interrupt_id)?);
        self.inner.update_interrupt(interrupt)?;
        self.notes.write_interrupt(interrupt.interrupt_id, false);
        Ok(())
    }

    fn set_aside(&mut self, due: DueKind) -> Result<(), Error> {
        let session = match due {
            DueKind::Interrupt(interrupt) => self.session_of_interrupt(interrupt)?,
            DueKind::Timers(turn) => self.session_of_turn(turn)?,
        };
        let Some(session) = session else { return Ok(()) };
        self.touch(session)?;
        self.notes.set_aside.push((session, due));
        Ok(())
    }

    fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        drop(self.life(turn)?);
        let index = self.inner.append(turn, epoch, entry, now)?;
        self.note_entry(turn, index, None)
    }

    fn append_told(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        drop(self.life(turn)?);
        // Its number is drawn where it is committed.
        let index = self.inner.append(turn, epoch, entry, now)?;
        let place = StepEvent::of(entry).map(|_| self.notes.next_told());
        self.note_entry(turn, index, place)
    }

    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        drop(self.life(turn)?);
        let index = self.inner.append_foreign(turn, entry, now)?;
        self.note_entry(turn, index, None)
    }

    fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error> {
        if let Some(session) = session_in(scope) {
            self.touch(session)?;
        }
        // Who did not look for one takes the place of whatever is there.
        let looked = StoreQuestion::Reply { scope: scope.to_owned(), key: key.to_owned() };
        let is_new = self.known.has_told(&looked) && self.inner.state.reply(scope, key)?.is_none();
        self.inner.insert_reply(scope, key, reply)?;
        self.notes.write_reply(scope, key, is_new);
        Ok(())
    }

    fn append_audit(&mut self, deed: Deed, now: Timestamp) -> Result<(), Error> {
        // Its place in the audit is found when it is linked, in the order of commits: no two wait for each other here.
        if let Some(session) = deed.session_id {
            self.touch(session)?;
        }
        self.notes.deeds.push((deed, now));
        Ok(())
    }

    fn insert_key(&mut self, key: &Key) -> Result<(), Error> {
        drop(self.keys()?);
        self.inner.insert_key(key)?;
        self.notes.keys.push(key.clone());
        Ok(())
    }

    fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<(), Error> {
        drop(self.keys()?);
        self.inner.revoke_key(id, now)?;
        self.notes.revoke_key(id, now);
        Ok(())
    }

    fn insert_sign_in(&mut self, sign_in: &SignIn) -> Result<(), Error> {
        self.inner.insert_sign_in(sign_in)?;
        self.notes.sign_ins.push(*sign_in);
        Ok(())
    }

    fn delete_sign_in(&mut self, token: &Digest) -> Result<(), Error> {
        if self.sign_ins()?.iter().all(|sign_in| sign_in.token != *token) {
            return Ok(());
        }
        self.inner.delete_sign_in(token)?;
        self.notes.sign_ins.retain(|sign_in| sign_in.token != *token);
        self.notes.deleted_sign_ins.push(*token);
        Ok(())
    }

    fn change_policy(&mut self, change: &PolicyChange) -> Result<(), Error> {
        let seen = self.pushed_policy()?.map(|policy| policy.digest);
        self.inner.change_policy(change)?;
        // What the job has changed itself is not there for others to have seen.
        let seen = self.notes.policy.take().map_or(seen, |before| before.seen);
        self.notes.policy = Some(PolicySwap { seen, change: change.clone() });
        Ok(())
    }

    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<EventNumber, Error> {
        self.touch(event.session_id)?;
        let number = EventNumber::default();
        self.notes.events.push((event.clone(), now, number.clone()));
        Ok(number)
    }
}

impl JobTransaction<'_> {
    fn note_entry(&mut self, turn: TurnId, index: u64, told: Option<usize>) -> Result<u64, Error> {
        let session = self.touch_turn(turn)?;
        let entry = self.inner.state.turns.get(turn).and_then(|row| row.journal.last().cloned());
        let entry = entry.ok_or_else(|| Error::Internal("an entry was appended and is not there".to_owned()))?;
        self.notes.entries.push(NewEntry { session, turn, index, entry, told });
        self.notes.write_turn(turn);
        Ok(index)
    }
}

impl TurnWriter for JobTransaction<'_> {
    fn insert_turn(&mut self, turn: &Turn) -> Result<(), Error> {
        self.touch_existing(turn.session_id)?;
        self.inner.insert_turn(turn)?;
        self.notes.insert_turn(turn.id);
        Ok(())
    }

    fn write_life(&mut self, turn: TurnId, life: &Life) -> Result<(), Error> {
        self.touch_turn(turn)?;
        self.inner.write_life(turn, life)?;
        self.notes.write_turn(turn);
        Ok(())
    }

    fn stop_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
        self.inner.stop_expiry(turn)?;
        self.notes.move_due(turn);
        Ok(())
    }

    fn resume_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
        self.inner.resume_expiry(turn)?;
        self.notes.move_due(turn);
        Ok(())
    }

    fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error> {
        drop(self.life(id)?);
        self.inner.note_turn(id, impure_at, warnings)?;
        self.touch_turn(id)?;
        self.notes.write_turn(id);
        Ok(())
    }

    fn route_turn(&mut self, id: TurnId, code: TurnCode) -> Result<(), Error> {
        drop(self.life(id)?.ok_or(Error::TurnNotOpen(None))?);
        self.touch_turn(id)?;
        self.inner.route_turn(id, code)?;
        self.notes.write_turn(id);
        Ok(())
    }

    fn claim_turn(&mut self, id: TurnId, owner: TurnOwner, entries: u64) -> Result<u64, Error> {
        let epoch = self.change_turn(id, TurnEvent::Claimed { entries })?.epoch;
        self.notes.give_turn(id, owner);
        Ok(epoch)
    }

    fn release_turn(&mut self, id: TurnId) -> Result<(), Error> {
        drop(self.life(id)?.ok_or(Error::TurnNotOpen(None))?);
        self.touch_turn(id)?;
        self.notes.give_turn(id, TurnOwner::NOBODY);
        Ok(())
    }
}

impl CarriedWriter for JobTransaction<'_> {
    fn note_carried(&mut self, turn: TurnId, carried: &Carried) -> Result<(), Error> {
        self.inner.note_carried(turn, carried)?;
        self.notes.carry(turn);
        Ok(())
    }
}

impl OutboxWriter for JobTransaction<'_> {
    fn insert_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        self.touch(notice.session_id)?;
        self.inner.insert_notice(notice)?;
        self.notes.write_notice(notice.id, None);
        Ok(())
    }

    fn update_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        let seen = self.notice(notice.id)?;
        self.touch(notice.session_id)?;
        self.inner.update_notice(notice)?;
        self.notes.write_notice(notice.id, seen);
        Ok(())
    }

    fn make_first_due(&mut self, session: SessionId, url: &str, now: Timestamp) -> Result<(), Error> {
        self.touch(session)?;
        self.notes.first_due.push((session, url.to_owned(), now));
        Ok(())
    }

    fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error> {
        let Some(notice) = self.notice(id)? else { return Ok(false) };
        self.touch(notice.session_id)?;
        self.notes.delete_notice(notice);
        self.inner.delete_notice(id)
    }
}

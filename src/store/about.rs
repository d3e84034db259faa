//! What a write job is about. A store that one process has for itself needs none of it; one that many share brings that
//! session's rows to the job, and lets jobs about others run beside it. Builds for tests hold the code to it.

use crate::domain::{InterruptId, SessionId, TurnId};
use crate::store::record::DueKind;

/// Whose rows a write job changes: those of one session, of whoever may come in, or of neither. It may add rows that are
/// nobody's, such as some of the audit's, whatever it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A session, also one that is about to be made.
    Session(SessionId),
    /// The session of a turn.
    Turn(TurnId),
    /// The session of an interrupt.
    Interrupt(InterruptId),
    /// Keys and sign-ins, and the policy that was pushed.
    Access,
    /// No session, and nobody who may come in.
    Nothing,
}

impl From<DueKind> for About {
    fn from(due: DueKind) -> Self {
        match due {
            DueKind::Interrupt(interrupt) => Self::Interrupt(interrupt),
            DueKind::Timers(turn) => Self::Turn(turn),
        }
    }
}

/// Runs `job` on `transaction`; in builds for tests it panics where it changes rows that `about` does not say.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub(super) fn confined_to<T>(
    _about: About,
    transaction: &mut dyn crate::store::Transaction,
    job: impl FnOnce(&mut dyn crate::store::Transaction) -> T,
) -> T {
    job(transaction)
}

#[cfg(any(test, feature = "failpoints"))]
pub(super) use checked::confined_to;

#[cfg(any(test, feature = "failpoints"))]
mod checked {
    use std::cell::Cell;

    use super::About;
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
    use crate::domain::turn::Life;
    use crate::domain::{Error, KeyId, SessionId, Timestamp, TurnId};
    use crate::store::Transaction;
    use crate::store::carried::{Carried, CarriedWriter};
    use crate::store::outbox::OutboxWriter;
    use crate::store::owner::TurnOwner;
    use crate::store::record::{DueKind, EventNumber, StoredReply, Turn};
    use crate::store::turns::TurnWriter;

    /// See the outer one, of builds without checks.
    pub fn confined_to<T>(
        about: About,
        transaction: &mut dyn Transaction,
        job: impl FnOnce(&mut dyn Transaction) -> T,
    ) -> T {
        job(&mut ConfinedTransaction { inner: transaction, about, session: Cell::new(None) })
    }

    /// A transaction in which rows of one session alone can be written.
    struct ConfinedTransaction<'t> {
        inner: &'t mut dyn Transaction,
        about: About,
        /// Of a turn or an interrupt: whose it is, once that was asked.
        session: Cell<Option<SessionId>>,
    }

    crate::store::reads_from!(ConfinedTransaction<'_>, inner);

    impl ConfinedTransaction<'_> {
        /// The session that the job is about.
        fn session(&self) -> Result<Option<SessionId>, Error> {
            if self.session.get().is_none() {
                self.session.set(match self.about {
                    About::Session(id) => Some(id),
                    About::Turn(turn) => self.inner.session_of_turn(turn)?,
                    About::Interrupt(interrupt) => self.inner.session_of_interrupt(interrupt)?,
                    About::Access | About::Nothing => None,
                });
            }
            Ok(self.session.get())
        }

        /// A row of this session is written.
        fn writes_of(&self, session: SessionId) -> Result<(), Error> {
            let about = self.session()?;
            assert!(about == Some(session), "a job about {:?} ({about:?}) changes rows of {session}", self.about);
            Ok(())
        }

        /// A row of that turn's session is written, if there is such a turn.
        fn writes_of_turn(&self, turn: TurnId) -> Result<(), Error> {
            self.inner.session_of_turn(turn)?.map_or(Ok(()), |session| self.writes_of(session))
        }

        fn writes_access(&self) {
            assert!(self.about == About::Access, "a job about {:?} changes keys, sign-ins or the policy", self.about);
        }
    }

    impl Transaction for ConfinedTransaction<'_> {
        fn insert_session(&mut self, session: &Session, messages: &[ChatMessage]) -> Result<(), Error> {
            self.writes_of(session.id)?;
            self.inner.insert_session(session, messages)
        }

        fn update_session(&mut self, session: &Session) -> Result<(), Error> {
            self.writes_of(session.id)?;
            self.inner.update_session(session)
        }

        fn set_messages_from(&mut self, id: SessionId, first: usize, messages: &[ChatMessage]) -> Result<(), Error> {
            self.writes_of(id)?;
            self.inner.set_messages_from(id, first, messages)
        }

        fn delete_session(&mut self, id: SessionId) -> Result<bool, Error> {
            self.writes_of(id)?;
            self.inner.delete_session(id)
        }

        fn insert_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
            self.writes_of(interrupt.session_id)?;
            self.inner.insert_interrupt(interrupt)
        }

        fn update_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
            self.writes_of(interrupt.session_id)?;
            self.inner.update_interrupt(interrupt)
        }

        fn update_outcome(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
            self.writes_of(interrupt.session_id)?;
            if let Ok(Some(stored)) = self.inner.interrupt(interrupt.interrupt_id) {
                assert!(
                    stored.differs_in_outcome_only(interrupt),
                    "more than its outcome: {stored:?} -> {interrupt:?}"
                );
            }
            self.inner.update_outcome(interrupt)
        }

        fn set_aside(&mut self, due: DueKind) -> Result<(), Error> {
            let session = match due {
                DueKind::Interrupt(interrupt) => self.inner.session_of_interrupt(interrupt)?,
                DueKind::Timers(turn) => self.inner.session_of_turn(turn)?,
            };
            session.map_or(Ok(()), |session| self.writes_of(session))?;
            self.inner.set_aside(due)
        }

        fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
            self.writes_of_turn(turn)?;
            self.inner.append(turn, epoch, entry, now)
        }

        fn append_told(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
            self.writes_of_turn(turn)?;
            self.inner.append_told(turn, epoch, entry, now)
        }

        fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
            self.writes_of_turn(turn)?;
            self.inner.append_foreign(turn, entry, now)
        }

        fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error> {
            // Those of a session name it; it may be gone by now.
            if let Some(session) = scope.split(':').find_map(|part| part.parse().ok()) {
                self.writes_of(session)?;
            }
            self.inner.insert_reply(scope, key, reply)
        }

        fn append_audit(&mut self, deed: Deed, now: Timestamp) -> Result<(), Error> {
            deed.session_id.map_or(Ok(()), |session| self.writes_of(session))?;
            self.inner.append_audit(deed, now)
        }

        fn insert_key(&mut self, key: &Key) -> Result<(), Error> {
            self.writes_access();
            self.inner.insert_key(key)
        }

        fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<(), Error> {
            self.writes_access();
            self.inner.revoke_key(id, now)
        }

        fn insert_sign_in(&mut self, sign_in: &SignIn) -> Result<(), Error> {
            self.writes_access();
            self.inner.insert_sign_in(sign_in)
        }

        fn delete_sign_in(&mut self, token: &Digest) -> Result<(), Error> {
            self.writes_access();
            self.inner.delete_sign_in(token)
        }

        fn change_policy(&mut self, change: &PolicyChange) -> Result<(), Error> {
            self.writes_access();
            self.inner.change_policy(change)
        }

        fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<EventNumber, Error> {
            self.writes_of(event.session_id)?;
            self.inner.append_event(event, now)
        }
    }

    impl TurnWriter for ConfinedTransaction<'_> {
        fn insert_turn(&mut self, turn: &Turn) -> Result<(), Error> {
            self.writes_of(turn.session_id)?;
            self.inner.insert_turn(turn)
        }

        fn write_life(&mut self, turn: TurnId, life: &Life) -> Result<(), Error> {
            self.writes_of_turn(turn)?;
            self.inner.write_life(turn, life)
        }

        fn stop_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
            self.writes_of_turn(turn)?;
            self.inner.stop_expiry(turn)
        }

        fn resume_expiry(&mut self, turn: TurnId) -> Result<(), Error> {
            self.writes_of_turn(turn)?;
            self.inner.resume_expiry(turn)
        }

        fn route_turn(&mut self, id: TurnId, code: TurnCode) -> Result<(), Error> {
            self.writes_of_turn(id)?;
            self.inner.route_turn(id, code)
        }

        fn claim_turn(&mut self, id: TurnId, owner: TurnOwner, entries: u64) -> Result<u64, Error> {
            self.writes_of_turn(id)?;
            self.inner.claim_turn(id, owner, entries)
        }

        fn release_turn(&mut self, id: TurnId) -> Result<(), Error> {
            self.writes_of_turn(id)?;
            self.inner.release_turn(id)
        }

        fn note_turn(&mut self, id: TurnId, impure_at: Option<String>, warnings: Vec<String>) -> Result<(), Error> {
            self.writes_of_turn(id)?;
            self.inner.note_turn(id, impure_at, warnings)
        }
    }

    impl CarriedWriter for ConfinedTransaction<'_> {
        fn note_carried(&mut self, turn: TurnId, carried: &Carried) -> Result<(), Error> {
            self.writes_of_turn(turn)?;
            self.inner.note_carried(turn, carried)
        }
    }

    impl OutboxWriter for ConfinedTransaction<'_> {
        fn insert_notice(&mut self, notice: &Notice) -> Result<(), Error> {
            self.writes_of(notice.session_id)?;
            self.inner.insert_notice(notice)
        }

        fn update_notice(&mut self, notice: &Notice) -> Result<(), Error> {
            self.writes_of(notice.session_id)?;
            self.inner.update_notice(notice)
        }

        fn make_first_due(&mut self, session: SessionId, url: &str, now: Timestamp) -> Result<(), Error> {
            self.writes_of(session)?;
            self.inner.make_first_due(session, url, now)
        }

        fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error> {
            let notice = self.inner.notice(id)?;
            notice.map_or(Ok(()), |notice| self.writes_of(notice.session_id))?;
            self.inner.delete_notice(id)
        }
    }
}

//! What can be written, in SQL.

use rusqlite::{Params, params};

use super::connection::Handle;
use super::rows::{self, Cells as _, PhaseColumns, approved_tool};
use super::sql;
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::{AuditRow, Deed};
use crate::domain::event::{EventBody, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::message::{ChatMessage, Lean};
use crate::domain::policy::PolicyChange;
use crate::domain::session::Session;
use crate::domain::told::StepEvent;
use crate::domain::{Error, KeyId, SessionId, Timestamp, TurnId, answer};
use crate::faults::{self, Point};
use crate::store::record::{DueKind, EventNumber, StoredReply};
use crate::store::{Reader, Transaction};

impl Handle<'_> {
    /// Runs `sql`: how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, Error> {
        #[cfg(test)]
        super::statements::writes(sql);
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.error(&error))?;
        statement.execute(params).map_err(|error| self.error(&error))
    }

    /// Before entries go: the numbers of those that are told are not given away again.
    pub(super) fn keep_number(&self) -> Result<(), Error> {
        self.execute(sql!("events/keep_number"), []).map(drop)
    }

    pub(super) fn require_session(&self, id: SessionId) -> Result<i64, Error> {
        self.session_seq(id)?.map(rows::integer).ok_or(Error::SessionNotFound)
    }

    fn insert_messages(&self, session: i64, first: usize, messages: &[String]) -> Result<(), Error> {
        for (index, message) in (first..).zip(messages) {
            self.execute(sql!("messages/insert"), params![session, rows::count(index), message])?;
        }
        Ok(())
    }

    /// When an interrupt is due, as far as the store lets it.
    fn due_at(&self, interrupt: &Interrupt, session: i64) -> Result<Option<i64>, Error> {
        let Some(expires_at) = interrupt.expires_at.filter(|_| interrupt.is_pending()) else { return Ok(None) };
        let params = params![interrupt.turn_id.0.as_bytes(), session];
        let suspended = self.one("turns", sql!("turns/is_suspended"), params, |_| Ok(()))?;
        Ok(if suspended.is_some() { None } else { Some(expires_at.millis()) })
    }

    fn write_interrupt(&self, sql: &str, interrupt: &Interrupt) -> Result<usize, Error> {
        let session = self.require_session(interrupt.session_id)?;
        let is_built_in = interrupt.response_schema.is_some()
            && interrupt.response_schema == answer::built_in_schema(interrupt.into(), self.forms);
        let schema = interrupt.response_schema.as_deref().filter(|_| !is_built_in);
        self.execute(
            sql,
            params![
                interrupt.interrupt_id.0.as_bytes(),
                session,
                interrupt.turn_id.0.as_bytes(),
                interrupt.kind,
                rows::json(&interrupt.payload)?,
                interrupt.status.as_str(),
                interrupt.message,
                is_built_in,
                rows::json_or_none(schema)?,
                rows::json_or_none(interrupt.allowed_decisions.as_ref())?,
                approved_tool(interrupt),
                interrupt.tool_call_id,
                interrupt.agent,
                interrupt.rule,
                interrupt.args_digest,
                interrupt.created_at.millis(),
                interrupt.expires_at.map(Timestamp::millis),
                rows::json_or_none(interrupt.value.as_ref())?,
                interrupt.resolved_by,
                interrupt.resolved_at.map(Timestamp::millis),
                rows::json_or_none(interrupt.metadata.as_ref())?,
                interrupt.tool_source,
                rows::json_or_none(interrupt.args_schema.as_ref())?,
                self.due_at(interrupt, session)?,
                interrupt.claimed_by,
                interrupt.claimed_until.map(Timestamp::millis),
                interrupt.snoozed_by,
                interrupt.snoozed_until.map(Timestamp::millis),
                interrupt.sent_by,
                rows::list_or_none(&interrupt.approvers)?,
                interrupt.rule_failed,
                rows::list_or_none(&interrupt.tool_approvers)?,
                interrupt.lets_run.then_some(true),
                interrupt.is_hidden.then_some(true),
            ],
        )
    }

    fn write_session(&self, sql: &str, session: &Session) -> Result<usize, Error> {
        let phase = PhaseColumns::of(&session.phase)?;
        self.execute(
            sql,
            params![
                session.id.0.as_bytes(),
                session.agent,
                session.created_at.millis(),
                session.updated_at.millis(),
                rows::count(session.total_messages),
                session.status().as_str(),
                phase.turn.as_ref().map(|id| id.as_bytes()),
                phase.pending,
                phase.response,
                phase.failure_code,
                phase.failure_message,
                rows::list_or_none(&session.rules)?,
                rows::list_or_none(&session.grants)?,
                rows::json_or_none(session.webhook.as_ref())?,
                rows::json_or_none(session.abandoned.as_ref())?,
            ],
        )
    }
}

impl Transaction for Handle<'_> {
    fn insert_session(&mut self, session: &Session, messages: &[ChatMessage]) -> Result<(), Error> {
        if self.session_seq(session.id)?.is_some() {
            return Err(Error::SessionExists);
        }
        self.write_session(sql!("sessions/insert"), session)?;
        self.insert_messages(self.connection.last_insert_rowid(), 0, &texts(messages)?)
    }

    fn update_session(&mut self, session: &Session) -> Result<(), Error> {
        match self.write_session(sql!("sessions/update"), session)? {
            0 => Err(Error::SessionNotFound),
            _ => Ok(()),
        }
    }

    fn set_messages_from(&mut self, id: SessionId, first: usize, messages: &[ChatMessage]) -> Result<(), Error> {
        let session = self.require_session(id)?;
        // With the last one that stays: it shows that all are there, for their numbers have no gaps.
        let from = first.saturating_sub(1);
        let params = params![session, rows::count(from)];
        let mut stored: Vec<String> = self.all("messages", sql!("messages/from"), params, |cells| cells.plain())?;
        if stored.len() < first - from {
            return Err(crate::store::too_few_messages(first));
        }
        let stored = stored.split_off(first - from);
        let wanted = texts(messages)?;
        let same = stored.iter().zip(&wanted).take_while(|(stored, wanted)| stored == wanted).count();
        let place = first.saturating_add(same);
        if stored.len() > same {
            self.execute(sql!("messages/delete_from"), params![session, rows::count(place)])?;
        }
        self.insert_messages(session, place, wanted.get(same..).unwrap_or_default())?;
        faults::at(Point::StoreMessagesSet);
        Ok(())
    }

    fn delete_session(&mut self, id: SessionId) -> Result<bool, Error> {
        self.session.set(None);
        self.turn.replace(None);
        self.keep_number()?;
        Ok(self.execute(sql!("sessions/delete"), [id.0.as_bytes()])? > 0)
    }

    fn insert_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        if self.write_interrupt(sql!("interrupts/insert"), interrupt)? == 0 {
            return Err(Error::Internal(format!("interrupt {} is stored already", interrupt.interrupt_id)));
        }
        faults::at(Point::StoreInterruptInserted);
        Ok(())
    }

    fn update_interrupt(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        match self.write_interrupt(sql!("interrupts/update"), interrupt)? {
            0 => Err(Error::UnknownInterrupt(interrupt.interrupt_id.to_string())),
            _ => Ok(()),
        }
    }

    fn update_outcome(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        let session = self.require_session(interrupt.session_id)?;
        let params = params![
            interrupt.interrupt_id.0.as_bytes(),
            interrupt.status.as_str(),
            rows::json_or_none(interrupt.value.as_ref())?,
            interrupt.resolved_by,
            interrupt.resolved_at.map(Timestamp::millis),
            self.due_at(interrupt, session)?,
            interrupt.claimed_by,
            interrupt.claimed_until.map(Timestamp::millis),
            interrupt.snoozed_by,
            interrupt.snoozed_until.map(Timestamp::millis),
            interrupt.rule,
        ];
        if self.execute(sql!("interrupts/update_outcome"), params)? == 0 {
            return Err(Error::UnknownInterrupt(interrupt.interrupt_id.to_string()));
        }
        faults::at(Point::StoreOutcomeWritten);
        Ok(())
    }

    fn set_aside(&mut self, due: DueKind) -> Result<(), Error> {
        match due {
            DueKind::Interrupt(id) => self.execute(sql!("interrupts/set_aside"), [id.0.as_bytes()]).map(drop),
            DueKind::Timers(turn) => self.execute(sql!("turns/set_aside"), [turn.0.as_bytes()]).map(drop),
        }
    }

    fn append(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        let place = self.owned_turn(turn, epoch)?;
        self.append_entry(sql!("journal/append"), turn, place, entry, now)
    }

    fn append_told(&mut self, turn: TurnId, epoch: u64, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        if StepEvent::of(entry).is_none() {
            return self.append(turn, epoch, entry, now);
        }
        let place = self.owned_turn(turn, epoch)?;
        self.append_entry(sql!("journal/append_told"), turn, place, entry, now)
    }

    fn append_foreign(&mut self, turn: TurnId, entry: &Entry, now: Timestamp) -> Result<u64, Error> {
        let place = self.open_turn(turn)?;
        self.append_entry(sql!("journal/append"), turn, place, entry, now)
    }

    fn insert_reply(&mut self, scope: &str, key: &str, reply: &StoredReply) -> Result<(), Error> {
        let params = params![scope, key, reply.request_digest, rows::json(&reply.body)?, reply.created_at.millis()];
        self.execute(sql!("replies/upsert"), params).map(drop)
    }

    fn append_audit(&mut self, deed: Deed, now: Timestamp) -> Result<(), Error> {
        let row = AuditRow::after(&self.audit_head()?, deed, now);
        let params = params![
            rows::integer(row.seq),
            row.at.millis(),
            row.action.as_str(),
            row.session_id.as_ref().map(|id| id.0.as_bytes()),
            row.interrupt_id.as_ref().map(|id| id.0.as_bytes()),
            row.actor,
            row.address.map(|address| address.to_string()),
            rows::audited_json(&row.details)?,
            row.prev,
            row.hash,
        ];
        self.execute(sql!("audit/append"), params).map(drop)
    }

    fn insert_key(&mut self, key: &Key) -> Result<(), Error> {
        if self.keys()?.iter().any(|other| other.revoked_at.is_none() && other.name == key.name) {
            return Err(Error::KeyExists(key.name.clone()));
        }
        let params = params![
            key.key_id.0.as_bytes(),
            key.name,
            rows::json(&key.scopes)?,
            rows::json(&key.groups)?,
            key.digest.bytes(),
            key.created_at.millis(),
            key.created_by,
            key.revoked_at.map(Timestamp::millis),
        ];
        self.execute(sql!("keys/insert"), params).map(drop)
    }

    fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<(), Error> {
        match self.execute(sql!("keys/revoke"), params![id.0.as_bytes(), now.millis()])? {
            0 => Err(Error::UnknownKey(id.to_string())),
            _ => Ok(()),
        }
    }

    fn insert_sign_in(&mut self, sign_in: &SignIn) -> Result<(), Error> {
        let params = params![sign_in.token.bytes(), sign_in.key.bytes(), sign_in.ends_at.millis()];
        self.execute(sql!("sign_ins/insert"), params).map(drop)
    }

    fn delete_sign_in(&mut self, token: &Digest) -> Result<(), Error> {
        self.execute(sql!("sign_ins/delete"), [token.bytes()]).map(drop)
    }

    fn change_policy(&mut self, change: &PolicyChange) -> Result<(), Error> {
        self.execute(sql!("policy/delete"), [])?;
        let PolicyChange::Pushed(policy) = change else { return Ok(()) };
        let params = params![policy.text, policy.digest, policy.pushed_at.millis(), policy.pushed_by];
        self.execute(sql!("policy/insert"), params).map(drop)
    }

    fn append_event(&mut self, event: &StoredEvent, now: Timestamp) -> Result<EventNumber, Error> {
        let (status, interrupt, error) = match &event.what {
            EventBody::Session { status, error } => (status.as_str(), None, error.as_deref()),
            EventBody::Interrupt { interrupt_id, status } => (status.as_str(), Some(interrupt_id.0.as_bytes()), None),
            EventBody::Triage { interrupt_id, triage } => (triage.as_str(), Some(interrupt_id.0.as_bytes()), None),
        };
        let params = params![event.session_id.0.as_bytes(), status, interrupt, error, now.millis()];
        self.execute(sql!("events/append"), params)?;
        u64::try_from(self.connection.last_insert_rowid())
            .map(EventNumber::from)
            .map_err(|_| Error::Internal("an event got a negative number".to_owned()))
    }
}

/// Messages as they are stored: nulls left out.
fn texts(messages: &[ChatMessage]) -> Result<Vec<String>, Error> {
    messages.iter().map(|message| rows::json(&Lean(message))).collect()
}

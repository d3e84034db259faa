//! Between rows and domain objects, the same for every database that has columns. What does not read back is an error that
//! names the column, never a panic.

pub(super) mod entries;
pub(super) mod graphs;
pub(super) mod notices;
pub(super) mod readable;

use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use self::readable::Readable;
use super::kept::KeptForms;
use super::query::TitledSession;
use super::record::{RetriableTurn, StoredReply, Turn};
use crate::domain::access::{Digest, Key, SignIn};
use crate::domain::audit::{Action, AuditRow};
use crate::domain::cluster::routing::TurnCode;
use crate::domain::decision::TOOL_APPROVAL;
use crate::domain::event::{EventBody, StoredEvent, Triage};
use crate::domain::interrupt::Interrupt;
use crate::domain::json as strict_json;
use crate::domain::naming;
use crate::domain::payload::MAX_STORED_DEPTH;
use crate::domain::policy::PushedPolicy;
use crate::domain::session::{Failure, Phase, Retry, Session};
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::turn::{Life, TurnState};
use crate::domain::{Error, InterruptId, KeyId, SessionId, Timestamp, TurnId, answer};

/// What a cell can hold as it is, in every database.
pub(super) trait Plain: rusqlite::types::FromSql + Readable {}

impl<T: rusqlite::types::FromSql + Readable> Plain for T {}

/// The cells of one row of a table, taken from left to right.
pub(super) trait Cells {
    /// The next cell.
    fn plain<T: Plain>(&mut self) -> Result<T, Error>;

    /// The next cell is the one at the left, whichever was taken last.
    fn rewind(&mut self);

    /// The cell that was taken last is not what it should be.
    fn malformed(&self, why: impl Display) -> Error;

    /// The cell at the left, whichever was taken last.
    fn first(&mut self) -> Result<u64, Error> {
        self.rewind();
        self.number()
    }

    fn number(&mut self) -> Result<u64, Error> {
        let number: i64 = self.plain()?;
        u64::try_from(number).map_err(|error| self.malformed(error))
    }

    fn uuid(&mut self) -> Result<Uuid, Error> {
        self.plain().map(Uuid::from_bytes)
    }

    fn time(&mut self) -> Result<Timestamp, Error> {
        self.plain().map(Timestamp::from_millis)
    }

    fn time_or_none(&mut self) -> Result<Option<Timestamp>, Error> {
        Ok(self.plain::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    fn json<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let text: String = self.plain()?;
        serde_json::from_str(&text).map_err(|error| self.malformed(error))
    }

    fn json_or_none<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        match self.plain::<Option<String>>()? {
            None => Ok(None),
            Some(text) => serde_json::from_str(&text).map(Some).map_err(|error| self.malformed(error)),
        }
    }
}

/// How deep the audit nests: what it tells of is stored elsewhere too, and nests a little deeper here.
pub(super) const MAX_AUDITED_DEPTH: usize = MAX_STORED_DEPTH + 2;

/// `value` as compact JSON.
pub(super) fn json(value: &impl Serialize) -> Result<String, Error> {
    json_within(value, MAX_STORED_DEPTH)
}

/// Details of a row of the audit.
pub(super) fn audited_json(value: &impl Serialize) -> Result<String, Error> {
    json_within(value, MAX_AUDITED_DEPTH)
}

fn json_within(value: &impl Serialize, most: usize) -> Result<String, Error> {
    let text =
        serde_json::to_string(value).map_err(|error| Error::Internal(format!("cannot be written as JSON: {error}")))?;
    if depth(&text) > most {
        return Err(Error::Internal(format!("JSON that nests deeper than {most} cannot be stored")));
    }
    Ok(text)
}

pub(super) fn json_or_none(value: Option<&impl Serialize>) -> Result<Option<String>, Error> {
    value.map(json).transpose()
}

/// An empty list is none.
pub(super) fn list_or_none<T: Serialize>(list: &[T]) -> Result<Option<String>, Error> {
    if list.is_empty() { Ok(None) } else { json(&list).map(Some) }
}

/// How deep JSON text nests.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A number as databases hold it.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count or limit as databases hold it.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a session's phase is in columns.
pub(super) struct PhaseColumns {
    pub(super) turn: Option<Uuid>,
    pub(super) pending: Option<Vec<u8>>,
    pub(super) response: Option<String>,
    pub(super) failure_code: Option<String>,
    pub(super) failure_message: Option<String>,
}

impl PhaseColumns {
    pub(super) fn of(phase: &Phase) -> Result<Self, Error> {
        let mut columns = Self { turn: None, pending: None, response: None, failure_code: None, failure_message: None };
        match phase {
            Phase::Idle { response } => columns.response = json_or_none(response.as_ref())?,
            Phase::Running { turn } => columns.turn = Some(turn.0),
            Phase::Interrupted { turn, pending } => {
                columns.turn = Some(turn.0);
                columns.pending = Some(bytes(pending));
            }
            Phase::Error { failure, retry } => {
                columns.turn = retry.as_ref().map(|retry| retry.turn.0);
                columns.pending = retry.as_ref().map(|retry| bytes(&retry.pending));
                columns.failure_code = Some(failure.code.clone());
                columns.failure_message = Some(failure.message.clone());
            }
        }
        Ok(columns)
    }
}

fn bytes(pending: &[InterruptId]) -> Vec<u8> {
    pending.iter().flat_map(|id| *id.0.as_bytes()).collect()
}

/// A row of `sessions/select.sql`: its place in order, and the session.
pub(super) fn session(cells: &mut impl Cells) -> Result<(u64, Session), Error> {
    let seq = cells.number()?;
    let session = Session {
        id: SessionId(cells.uuid()?),
        agent: cells.plain()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        total_messages: cells.number().map(|total| usize::try_from(total).unwrap_or(usize::MAX))?,
        phase: phase(cells)?,
        rules: cells.json_or_none()?.unwrap_or_default(),
        grants: cells.json_or_none()?.unwrap_or_default(),
        webhook: cells.json_or_none()?,
        abandoned: cells.json_or_none()?,
    };
    Ok((seq, session))
}

/// A row of `sessions/list.sql`: its place in order, and what a list has of the session.
pub(super) fn titled_session(cells: &mut impl Cells) -> Result<(u64, TitledSession), Error> {
    let seq = cells.number()?;
    let titled = TitledSession {
        id: SessionId(cells.uuid()?),
        agent: cells.plain()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        total_messages: cells.number().map(|total| usize::try_from(total).unwrap_or(usize::MAX))?,
        status: session_status(cells)?,
        turn: turn_id(cells)?,
        title: cells.plain::<Option<String>>()?.as_deref().and_then(naming::title_of_stored),
    };
    Ok((seq, titled))
}

fn session_status(cells: &mut impl Cells) -> Result<Status, Error> {
    let status: String = cells.plain()?;
    Status::parse(&status).ok_or_else(|| cells.malformed(format!("unknown status {status:?}")))
}

fn turn_id(cells: &mut impl Cells) -> Result<Option<TurnId>, Error> {
    Ok(cells.plain::<Option<[u8; 16]>>()?.map(|id| TurnId(Uuid::from_bytes(id))))
}

fn phase(cells: &mut impl Cells) -> Result<Phase, Error> {
    let (status, turn) = (session_status(cells)?, turn_id(cells)?);
    let open_turn = turn.ok_or_else(|| cells.malformed("an open turn is missing"));
    let pending = cells.plain::<Option<Vec<u8>>>()?.unwrap_or_default();
    let (ids, rest) = pending.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(cells.malformed("not a list of ids"));
    }
    let pending = ids.iter().map(|id| InterruptId(Uuid::from_bytes(*id))).collect();
    let response = cells.json_or_none()?;
    let code: Option<String> = cells.plain()?;
    let message: Option<String> = cells.plain()?;
    Ok(match status {
        Status::Idle => Phase::Idle { response },
        Status::Running => Phase::Running { turn: open_turn? },
        Status::Interrupted => Phase::Interrupted { turn: open_turn?, pending },
        Status::Error => Phase::Error {
            failure: Failure::new(&code.unwrap_or_default(), message.unwrap_or_default()),
            retry: turn.map(|turn| Retry { turn, pending }),
        },
    })
}

/// A row of `turns/select.sql`.
pub(super) fn turn(cells: &mut impl Cells) -> Result<Turn, Error> {
    Ok(Turn {
        id: TurnId(cells.uuid()?),
        session_id: SessionId(cells.uuid()?),
        message: Arc::new(cells.json()?),
        webhook: cells.json_or_none()?,
        created_at: cells.time()?,
        impure_at: cells.plain()?,
        warnings: cells.json_or_none()?.unwrap_or_default(),
        sent_by: cells.plain()?,
        life: life(cells)?,
        code: TurnCode::default(),
    })
}

/// A row of `turns/retriable.sql`.
pub(super) fn retriable(cells: &mut impl Cells) -> Result<RetriableTurn, Error> {
    let (place, turn, session) = (cells.number()?, TurnId(cells.uuid()?), SessionId(cells.uuid()?));
    Ok(RetriableTurn { place, turn, session, failure_code: cells.plain()? })
}

/// How a turn stands: the columns from `epoch` on of `turns/select.sql` and `turns/found.sql`.
pub(super) fn life(cells: &mut impl Cells) -> Result<Life, Error> {
    let (epoch, recoveries, worked_ms) = (cells.number()?, cells.plain()?, cells.number()?);
    let claimed = cells.plain::<Option<i64>>()?.and_then(|entries| u64::try_from(entries).ok());
    let (is_parked, wake_at, ended_at) = (cells.plain()?, cells.time_or_none()?, cells.time_or_none()?);
    let state = match (ended_at, cells.plain::<Option<String>>()?) {
        (Some(at), Some(code)) => TurnState::Suspended { at, code },
        (Some(at), None) => TurnState::Ended { at },
        (None, Some(_)) => return Err(cells.malformed("the turn is suspended and nothing says since when")),
        (None, None) if is_parked => TurnState::Parked { wake_at },
        (None, None) => TurnState::UnderWay,
    };
    Ok(Life { epoch, recoveries, worked_ms, claimed, state })
}

/// What a turn's state is in columns.
pub(super) struct StateColumns<'s> {
    pub(super) parked: bool,
    pub(super) wake_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) suspended_code: Option<&'s str>,
    /// What there is to do with it; see the table.
    pub(super) todo: Option<i64>,
}

impl<'s> StateColumns<'s> {
    pub(super) fn of(state: &'s TurnState) -> Self {
        let none = Self { parked: false, wake_at: None, ended_at: None, suspended_code: None, todo: None };
        match state {
            TurnState::UnderWay => Self { todo: Some(0), ..none },
            TurnState::Parked { wake_at } => Self { parked: true, wake_at: wake_at.map(Timestamp::millis), ..none },
            TurnState::Suspended { at, code } => {
                Self { ended_at: Some(at.millis()), suspended_code: Some(code), ..none }
            }
            // 1 at least, because 0 means a turn that is under way.
            TurnState::Ended { at } => Self { ended_at: Some(at.millis()), todo: Some(at.millis().max(1)), ..none },
        }
    }
}

/// A row of `interrupts/select.sql`: its place in order, and the record.
pub(super) fn interrupt(cells: &mut impl Cells, forms: &KeptForms) -> Result<(u64, Interrupt), Error> {
    let seq = cells.number()?;
    let interrupt_id = InterruptId(cells.uuid()?);
    let session_id = SessionId(cells.uuid()?);
    let turn_id = TurnId(cells.uuid()?);
    let kind = cells.plain()?;
    let payload = cells.json()?;
    let status: String = cells.plain()?;
    let Some(status) = InterruptStatus::parse(&status) else {
        return Err(cells.malformed(format!("unknown status {status:?}")));
    };
    let message = cells.plain()?;
    let has_built_in_schema: bool = cells.plain()?;
    let mut interrupt = Interrupt {
        interrupt_id,
        session_id,
        turn_id,
        kind,
        payload,
        status,
        message,
        response_schema: cells.json_or_none()?.map(Arc::new),
        allowed_decisions: cells.json_or_none()?,
        tool_call_id: cells.plain()?,
        agent: cells.plain()?,
        rule: cells.plain()?,
        args_digest: cells.plain()?,
        created_at: cells.time()?,
        expires_at: cells.time_or_none()?,
        value: cells.json_or_none()?,
        resolved_by: cells.plain()?,
        resolved_at: cells.time_or_none()?,
        metadata: cells.json_or_none()?,
        tool_source: cells.plain()?,
        args_schema: cells.json_or_none()?,
        claimed_by: cells.plain()?,
        claimed_until: cells.time_or_none()?,
        snoozed_by: cells.plain()?,
        snoozed_until: cells.time_or_none()?,
        sent_by: cells.plain()?,
        approvers: cells.json_or_none()?.unwrap_or_default(),
        rule_failed: cells.plain()?,
        lets_run: cells.plain::<Option<bool>>()?.unwrap_or_default(),
        is_hidden: cells.plain::<Option<bool>>()?.unwrap_or_default(),
        tool_approvers: cells.json_or_none()?.unwrap_or_default(),
    };
    if has_built_in_schema {
        interrupt.response_schema = answer::built_in_schema((&interrupt).into(), forms);
    }
    Ok((seq, interrupt))
}

/// A row of `replies/select.sql`.
pub(super) fn reply(cells: &mut impl Cells) -> Result<StoredReply, Error> {
    Ok(StoredReply { request_digest: cells.plain()?, body: cells.json()?, created_at: cells.time()? })
}

/// A row of `audit/select.sql`.
pub(super) fn audit(cells: &mut impl Cells) -> Result<(u64, AuditRow), Error> {
    let (seq, at) = (cells.number()?, cells.time()?);
    let action: String = cells.plain()?;
    let Some(action) = Action::parse(&action) else {
        return Err(cells.malformed(format!("unknown action {action:?}")));
    };
    let session_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| SessionId(Uuid::from_bytes(id)));
    let interrupt_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(Uuid::from_bytes(id)));
    let actor = cells.plain()?;
    let address = match cells.plain::<Option<String>>()? {
        Some(text) => Some(text.parse().map_err(|error| cells.malformed(error))?),
        None => None,
    };
    // Whoever opens the file in another way reads the text, so that it has to say one thing only.
    let details = cells.plain::<String>()?;
    let details = strict_json::read_within(details.as_bytes(), MAX_AUDITED_DEPTH)
        .map_err(|refused| cells.malformed(format!("of row {seq}: {refused}")))?;
    let details = serde_json::from_value(details).map_err(|error| cells.malformed(format!("of row {seq}: {error}")))?;
    let (prev, hash) = (cells.plain()?, cells.plain()?);
    Ok((seq, AuditRow { seq, at, action, session_id, interrupt_id, actor, address, details, prev, hash }))
}

/// A row of `keys/select.sql`.
pub(super) fn key(cells: &mut impl Cells) -> Result<Key, Error> {
    Ok(Key {
        key_id: KeyId(cells.uuid()?),
        name: cells.plain()?,
        // A key that says nothing about what it may do may do nothing; others still need one of theirs.
        scopes: or_none(cells.json())?,
        groups: or_none(cells.json())?,
        digest: digest(cells)?,
        created_at: cells.time()?,
        created_by: cells.plain()?,
        revoked_at: cells.time_or_none()?,
    })
}

/// Nothing in the place of what cannot be read.
fn or_none<T: Default>(read: Result<T, Error>) -> Result<T, Error> {
    match read {
        Err(Error::Unreadable(why)) => {
            tracing::error!(why, "a cell of the store cannot be read, and counts as empty");
            Ok(T::default())
        }
        read => read,
    }
}

/// A row of `sign_ins/select.sql`.
pub(super) fn sign_in(cells: &mut impl Cells) -> Result<SignIn, Error> {
    Ok(SignIn { token: digest(cells)?, key: digest(cells)?, ends_at: cells.time()? })
}

/// A row of `policy/select.sql`.
pub(super) fn pushed_policy(cells: &mut impl Cells) -> Result<PushedPolicy, Error> {
    Ok(PushedPolicy {
        text: cells.plain()?,
        digest: cells.plain()?,
        pushed_at: cells.time()?,
        pushed_by: cells.plain()?,
    })
}

fn digest(cells: &mut impl Cells) -> Result<Digest, Error> {
    Ok(cells.plain::<[u8; 32]>()?.into())
}

/// A row of `events/after.sql`: its number, and the event.
pub(super) fn event(cells: &mut impl Cells) -> Result<(u64, StoredEvent), Error> {
    let number = cells.number()?;
    let session_id = SessionId(cells.uuid()?);
    let word: String = cells.plain()?;
    let (of_session, of_interrupt) = (Status::parse(&word), InterruptStatus::parse(&word));
    let triage = Triage::parse(&word);
    let unknown = cells.malformed(format!("unknown status {word:?}"));
    let interrupt_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(Uuid::from_bytes(id)));
    let error = cells.plain()?;
    let what = match interrupt_id {
        None => EventBody::Session { status: of_session.ok_or(unknown)?, error },
        Some(interrupt_id) if triage.is_some() => EventBody::Triage { interrupt_id, triage: triage.ok_or(unknown)? },
        Some(interrupt_id) => EventBody::Interrupt { interrupt_id, status: of_interrupt.ok_or(unknown)? },
    };
    Ok((number, StoredEvent { session_id, what }))
}

/// The tool that an interrupt asks an approval for.
pub(super) fn approved_tool(interrupt: &Interrupt) -> Option<&str> {
    if interrupt.kind == TOOL_APPROVAL { interrupt.payload.get("tool_name")?.as_str() } else { None }
}

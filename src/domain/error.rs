//! The error catalogue: one list for Rust, HTTP, Python (`.code`) and docs/errors.md.
//!
//! A variant is a cause. Its `Display` is the `detail` a client sees, its [`Error::code`] never changes.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::scope::Scope;
use super::status::{NoticeStatus, Status, TurnStatus};
use super::time::Timestamp;

/// What is wrong with one place of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Where: member names and indexes from the outside in, such as `["body", "value", "approved"]`.
    pub loc: Vec<LocSegment>,
    /// What is wrong there, for a person.
    pub msg: String,
    /// A stable word for it, such as `missing`, `wrong_type`, `unknown_member`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl FieldError {
    /// An error at `loc`.
    pub fn new<P: Into<LocSegment>>(loc: impl IntoIterator<Item = P>, kind: &str, msg: impl Into<String>) -> Self {
        Self { loc: loc.into_iter().map(Into::into).collect(), msg: msg.into(), kind: kind.to_owned() }
    }

    /// `must be X, got Y` at `loc`.
    pub fn wrong_type<P: Into<LocSegment>>(loc: impl IntoIterator<Item = P>, wanted: &str, got: &Value) -> Self {
        let got = match got {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Self::new(loc, "wrong_type", format!("must be {wanted}, got {got}"))
    }

    /// The same error seen from further out: `prefix` comes before its place.
    pub fn under(mut self, prefix: &[LocSegment]) -> Self {
        self.loc.splice(0..0, prefix.iter().cloned());
        self
    }
}

impl fmt::Display for FieldError {
    /// `questions.0.options: must hold 2 to 4 options, got 5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.loc.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match place {
                LocSegment::Member(name) => write!(f, "{dot}{name}")?,
                LocSegment::Index(index) => write!(f, "{dot}{index}")?,
            }
        }
        let colon = if self.loc.is_empty() { "" } else { ": " };
        write!(f, "{colon}{}", self.msg)
    }
}

/// The place of what is wrong as a whole.
pub const NOWHERE: [LocSegment; 0] = [];

/// One part of a [`FieldError::loc`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LocSegment {
    /// A member of an object.
    Member(String),
    /// An element of an array.
    Index(usize),
}

impl From<&str> for LocSegment {
    fn from(name: &str) -> Self {
        Self::Member(name.to_owned())
    }
}

impl From<String> for LocSegment {
    fn from(name: String) -> Self {
        Self::Member(name)
    }
}

impl From<usize> for LocSegment {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Everything that can be refused or go wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No such session.
    #[error("Session not found")]
    SessionNotFound,
    /// The session went away while the poll waited.
    #[error("Session deleted")]
    SessionDeleted,
    /// The id of a new session is taken.
    #[error("Session already exists")]
    SessionExists,
    /// The id of a new session is no UUID.
    #[error("Session ID must be a valid UUID")]
    InvalidSessionId,
    /// PUT without `--allow-custom-ids`.
    #[error("Custom session IDs are not enabled")]
    CustomIdsDisabled,
    /// `--max-sessions` is reached.
    #[error("Maximum number of sessions reached")]
    TooManySessions,
    /// A message while a turn is at work or asks.
    #[error("Session is {0}")]
    SessionBusy(Status),
    /// An answer while nothing is asked.
    #[error("Session is {0}, not interrupted")]
    NotInterrupted(Status),
    /// Cancel without a turn.
    #[error("Session has no turn to cancel")]
    NothingToCancel,
    /// A retry where no turn can be taken up again.
    #[error("Session has no turn to retry")]
    NothingToRetry,
    /// The session belongs to another agent than the one served.
    #[error("Session belongs to agent {0}, which this server does not run")]
    OtherAgent(String),
    /// `--queue` is full.
    #[error("Too many turns are waiting for a worker; try again later")]
    QueueFull,
    /// The server runs no turns, and none that is alive does.
    #[error("No server that is alive runs the turns of this agent")]
    NoWorker,
    /// No worker of this server could be started, several times in a row.
    #[error("No worker can be started here; the server's log says why")]
    WorkersFail,
    /// The server is stopping.
    #[error("Server is shutting down")]
    ShuttingDown,
    /// No such interrupt, or not of this session.
    #[error("Unknown interrupt_id: {0}")]
    UnknownInterrupt(String),
    /// No such grant, or not of this session.
    #[error("Unknown grant_id: {0}")]
    UnknownGrant(String),
    /// No such key, or revoked already.
    #[error("Unknown key_id: {0}")]
    UnknownKey(String),
    /// A key that is not revoked has the name.
    #[error("There is a key named {0} already")]
    KeyExists(String),
    /// The caller's key may not do this.
    #[error("This needs a key with the scope {0}")]
    MissingScope(Scope),
    /// The caller's key sent the message whose tools it would let run.
    #[error("Whoever sent the message cannot approve its tools")]
    SelfApproval,
    /// The caller is none of those who may answer.
    #[error("Only these may answer{}, with a key of theirs: {}", of_rule(.rule.as_deref()), .approvers.join(", "))]
    NotAnApprover {
        /// Who may.
        approvers: Vec<String>,
        /// The rule that says so, where it is not the question itself.
        rule: Option<String>,
    },
    /// Somebody answered before, with another value.
    #[error("Interrupt already resolved")]
    AlreadyResolved {
        /// Who, where authentication told.
        resolved_by: Option<String>,
        /// When.
        resolved_at: Timestamp,
    },
    /// Somebody else works on it.
    #[error("Interrupt is claimed by {claimed_by} until {claimed_until}")]
    InterruptClaimed {
        /// Who.
        claimed_by: String,
        /// Until when.
        claimed_until: Timestamp,
    },
    /// The agent withdrew it.
    #[error("Interrupt was cancelled")]
    InterruptCancelled,
    /// Its time is over.
    #[error("Interrupt expired at {0}")]
    InterruptExpired(Timestamp),
    /// One request answers the same interrupt twice.
    #[error("Interrupt {0} is answered twice in one request")]
    DuplicateAnswer(String),
    /// An answer does not fit its interrupt.
    #[error("Invalid answer: {}", summary(.0))]
    InvalidAnswer(Vec<FieldError>),
    /// A request does not have the documented form.
    #[error("Invalid request: {}", summary(.0))]
    InvalidRequest(Vec<FieldError>),
    /// JSON that says two things.
    #[error("Invalid JSON: {}", summary(.0))]
    DuplicateMember(Vec<FieldError>),
    /// JSON with a number that would be rounded.
    #[error("Invalid JSON: {}", summary(.0))]
    NumberOutOfRange(Vec<FieldError>),
    /// A key came again with another request.
    #[error("Idempotency-Key was used before with another request")]
    IdempotencyKeyReused,
    /// An answer is larger than `--max-value`.
    #[error("Value is {size} bytes of JSON, the limit is {limit}")]
    ValueTooLarge {
        /// Bytes of compact JSON.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An interrupt payload is larger than `--max-payload`.
    #[error("Interrupt payload is {size} bytes of JSON, the limit is {limit}")]
    PayloadTooLarge {
        /// Bytes of compact JSON.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A payload is not what `interrupt()` takes.
    #[error("{0}")]
    InvalidPayload(String),
    /// A response schema is no usable JSON Schema.
    #[error("Invalid response_schema: {0}")]
    InvalidSchema(String),
    /// A webhook URL that must not be called.
    #[error("Webhook URL is refused: {0}")]
    WebhookRefused(String),
    /// No such notice.
    #[error("Unknown notice_id: {0}")]
    UnknownNotice(String),
    /// A retry of a notice that was not given up.
    #[error("Notice is {0}, not failed")]
    NoticeNotFailed(NoticeStatus),
    /// An answer to a run that asks nothing.
    #[error("Nothing is pending: the run asks nothing")]
    NothingPending,
    /// A new message for a run that is not over.
    #[error("The run waits for answers; go on with its state before the next message")]
    RunInterrupted,
    /// A run state that is behind its run.
    #[error("This run state was resumed before: its turn has gone on since")]
    AlreadyResumed,
    /// A run that nobody waits for any more.
    #[error("The run was stopped before its turn was over")]
    RunStopped,
    /// A run state for a server that takes none.
    #[error("Run states are not imported here")]
    ImportDisabled,
    /// An export of a session whose turn is over.
    #[error("Session has no turn to export")]
    NothingToExport,
    /// A run state of a later format.
    #[error(
        "The run state has version {found}, written by hitl {}; this version of hitl reads up to {known}",
        .library.as_deref().unwrap_or("of an unknown release")
    )]
    RunStateNewer {
        /// Its version.
        found: u64,
        /// The newest that this build knows.
        known: u64,
        /// Who wrote it.
        library: Option<String>,
    },
    /// A run state of another agent than the one served.
    #[error("The run state is of agent {of}, and this server serves {served}")]
    RunStateOtherAgent {
        /// Whose it is.
        of: String,
        /// Who is served.
        served: String,
    },
    /// A run state whose turn went on here already.
    #[error("The turn of this run state went on in this store already, and its session is gone")]
    RunStateUsed,
    /// A run state with ids that are taken.
    #[error("The turn of this run state, or an interrupt of it, is another session's here")]
    RunStateKnown,
    /// Something that is no run state.
    #[error("Not a run state: {0}")]
    RunStateInvalid(String),
    /// A write by a worker that no longer owns the turn.
    #[error("The turn was taken over by another worker")]
    StaleEpoch,
    /// The turn is suspended, has ended, is not here or never was: where it stands, if that is known.
    #[error("The turn is not open{}", stands(*.0))]
    TurnNotOpen(Option<TurnStatus>),
    /// The store did not take or give something; the outcome of a write is unknown.
    #[error("Store unavailable: {0}")]
    StoreUnavailable(String),
    /// A row of the store is not what it should be: it is damaged, or a later release wrote it. What else is stored can be
    /// read all the same.
    #[error("The store holds a malformed row: {0}")]
    Unreadable(String),
    /// A broken rule inside hitl itself.
    #[error("Internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The stable code of this cause, snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SessionNotFound => "session_not_found",
            Self::SessionDeleted => "session_deleted",
            Self::SessionExists => "session_exists",
            Self::InvalidSessionId => "invalid_session_id",
            Self::CustomIdsDisabled => "custom_ids_disabled",
            Self::TooManySessions => "too_many_sessions",
            Self::SessionBusy(_) => "session_busy",
            Self::NotInterrupted(_) => "not_interrupted",
            Self::NothingToCancel => "nothing_to_cancel",
            Self::NothingToRetry => "nothing_to_retry",
            Self::OtherAgent(_) => "other_agent",
            Self::QueueFull => "queue_full",
            Self::NoWorker => "no_worker",
            Self::WorkersFail => "workers_fail",
            Self::ShuttingDown => "shutting_down",
            Self::UnknownInterrupt(_) => "unknown_interrupt",
            Self::UnknownGrant(_) => "unknown_grant",
            Self::UnknownKey(_) => "unknown_key",
            Self::KeyExists(_) => "key_exists",
            Self::MissingScope(_) => "missing_scope",
            Self::SelfApproval => "self_approval",
            Self::NotAnApprover { .. } => "not_an_approver",
            Self::AlreadyResolved { .. } => "already_resolved",
            Self::InterruptClaimed { .. } => "interrupt_claimed",
            Self::InterruptCancelled => "interrupt_cancelled",
            Self::InterruptExpired(_) => "interrupt_expired",
            Self::DuplicateAnswer(_) => "duplicate_answer",
            Self::InvalidAnswer(_) => "invalid_answer",
            Self::InvalidRequest(_) => "invalid_request",
            Self::DuplicateMember(_) => "duplicate_member",
            Self::NumberOutOfRange(_) => "number_out_of_range",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::ValueTooLarge { .. } => "value_too_large",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::InvalidPayload(_) => "invalid_payload",
            Self::InvalidSchema(_) => "invalid_schema",
            Self::WebhookRefused(_) => "webhook_refused",
            Self::UnknownNotice(_) => "unknown_notice",
            Self::NoticeNotFailed(_) => "notice_not_failed",
            Self::NothingPending => "nothing_pending",
            Self::RunInterrupted => "run_interrupted",
            Self::AlreadyResumed => "already_resumed",
            Self::RunStopped => "run_stopped",
            Self::ImportDisabled => "import_disabled",
            Self::NothingToExport => "nothing_to_export",
            Self::RunStateNewer { .. } => "run_state_newer",
            Self::RunStateOtherAgent { .. } => "run_state_other_agent",
            Self::RunStateUsed => "run_state_used",
            Self::RunStateKnown => "run_state_known",
            Self::RunStateInvalid(_) => "run_state_invalid",
            Self::StaleEpoch => "stale_epoch",
            Self::TurnNotOpen(_) => "turn_not_open",
            Self::StoreUnavailable(_) => "store_unavailable",
            Self::Unreadable(_) => "unreadable",
            Self::Internal(_) => "internal",
        }
    }
}

fn stands(status: Option<TurnStatus>) -> String {
    status.map(|status| format!(": it {status}")).unwrap_or_default()
}

fn of_rule(rule: Option<&str>) -> String {
    rule.map(|rule| format!(" what rule {rule:?} asks about")).unwrap_or_default()
}

/// The first field errors as one sentence; the rest are in the list.
fn summary(errors: &[FieldError]) -> String {
    let Some(first) = errors.first() else {
        return "no reason given".to_owned();
    };
    match errors.len() - 1 {
        0 => first.to_string(),
        more => format!("{first} (and {more} more)"),
    }
}

//! What goes out, and the documented form of what comes in.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::access::Key;
use crate::domain::audit::Head;
use crate::domain::event::EventName;
use crate::domain::interrupt::Interrupt;
use crate::domain::message::ChatMessage;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::Rule;
use crate::domain::scope::{Scope, Scopes};
use crate::domain::session::Phase;
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::webhook::Webhook;
use crate::domain::{InterruptId, SessionId, Timestamp};
use crate::engine::access::policy_file::PolicyStatus;
use crate::engine::ports::held::HeldTurn;
use crate::engine::ports::held::Holder;
use crate::engine::telling::view::{ReplayNotes, Resumed, SessionView};
use crate::store::query::TitledSession;
use crate::store::shared::servers::ServerSnapshot;

/// A session as clients see it.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionResponse {
    /// Its id.
    pub session_id: SessionId,
    /// Where it stands.
    pub status: Status,
    /// What the last turn said; null before the first one ended, and while another is open.
    #[schema(required)]
    pub response: Option<ChatMessage>,
    /// Why the last turn failed: `TypeName: message`; null unless the status is `error`.
    #[schema(required)]
    pub error: Option<String>,
    /// What is asked, in order of arrival; null unless the status is `interrupted`.
    #[schema(required)]
    pub interrupts: Option<Vec<Interrupt>>,
    /// A stable word for `error`.
    #[schema(required)]
    pub error_code: Option<String>,
    /// What is to be said about replays of its newest turn; left out where there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub replay: Option<ReplayResponse>,
    /// `MODULE:ATTR` of its agent.
    pub agent: String,
    /// How many messages it remembers.
    pub total_messages: usize,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its own rules; left out where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub rules: Vec<Rule>,
}

/// A key that was just made.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub record: Key,
    /// Its secret, which is shown this once.
    pub key: String,
}

/// What a key is to be.
#[derive(Debug, ToSchema)]
#[schema(as = NewKey)]
#[schema(examples(json!({"name": "ada", "scopes": ["read", "answer"], "groups": ["finance"]})))]
#[allow(dead_code, reason = "documents what is read strictly elsewhere")]
pub struct NewKeyBody {
    /// Who holds it. No other key that is not revoked has the name.
    #[schema(pattern = "^[a-z0-9._-]{1,64}$")]
    pub name: String,
    /// What it may do; `admin` is everything.
    #[schema(min_items = 1)]
    pub scopes: Vec<Scope>,
    /// Groups that it is in.
    #[schema(required = false, max_items = 32)]
    pub groups: Vec<String>,
}

/// A key to sign in with.
#[derive(Debug, ToSchema)]
#[schema(as = SignIn)]
#[allow(dead_code, reason = "documents what is read strictly elsewhere")]
pub struct SignInBody {
    /// The secret.
    pub key: String,
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Me)]
pub struct MeResponse {
    /// The name of the key; null where the server has no keys.
    #[schema(required)]
    pub name: Option<String>,
    /// What it may do.
    #[schema(value_type = Vec<Scope>)]
    pub scopes: Scopes,
    /// Groups that it is in.
    pub groups: Vec<String>,
    /// Whether the server has keys.
    pub authentication: bool,
    /// Whether whoever sent a message cannot approve its tools.
    pub prevent_self_approval: bool,
    /// The longest request in bytes, as a message with files is one: `--max-body`.
    pub max_body: usize,
}

/// What is to be said about replays of a turn.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayResponse {
    /// Whether everything that the turn did is in its journal.
    pub pure: bool,
    /// Where it first did something that is not, such as I/O outside a step.
    #[schema(required)]
    pub impure_at: Option<String>,
    /// Where a replay differed harmlessly from what was recorded.
    pub warnings: Vec<String>,
    /// What a replay that is under way has waited for over thirty seconds; left out where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub waits_for: Vec<Holder>,
}

impl From<ReplayNotes> for ReplayResponse {
    fn from(notes: ReplayNotes) -> Self {
        let ReplayNotes { impure_at, warnings, waits_for } = notes;
        Self { pure: impure_at.is_none(), impure_at, warnings, waits_for }
    }
}

impl From<SessionView> for SessionResponse {
    fn from(view: SessionView) -> Self {
        let SessionView { session, interrupts, replay } = view;
        let status = session.status();
        let (response, failure) = match session.phase {
            Phase::Idle { response } => (response, None),
            Phase::Error { failure, .. } => (None, Some(failure)),
            Phase::Running { .. } | Phase::Interrupted { .. } => (None, None),
        };
        let (error, error_code) = failure.map(|failure| (failure.message, failure.code)).unzip();
        Self {
            session_id: session.id,
            status,
            response,
            error,
            interrupts: (status == Status::Interrupted).then_some(interrupts),
            error_code,
            replay: replay.map(ReplayResponse::from),
            agent: session.agent,
            total_messages: session.total_messages,
            created_at: session.created_at,
            updated_at: session.updated_at,
            rules: session.rules,
        }
    }
}

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: SessionId,
    /// How many messages it remembers.
    pub total_messages: usize,
    /// Where it stands.
    pub status: Status,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// `MODULE:ATTR` of its agent.
    pub agent: String,
    /// What people call that agent: its own name where this server runs it, else what is left of the path.
    pub agent_name: String,
    /// What it is called: the first message that was sent to it, on one line, at most 80 characters; before that the first of
    /// a person that it began with. Null where there is none.
    #[schema(required)]
    pub title: Option<String>,
}

impl SessionSummary {
    /// A session with the name of its agent.
    pub fn new(titled: TitledSession, agent_name: String) -> Self {
        let TitledSession { id, agent, created_at, updated_at, total_messages, status, turn: _, title } = titled;
        Self { session_id: id, total_messages, status, created_at, updated_at, agent, agent_name, title }
    }
}

/// A session's status after something was taken in.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionStatus {
    /// The session.
    pub session_id: SessionId,
    /// Its status now.
    pub status: Status,
}

/// What one webhook is told of one event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Notice)]
pub struct NoticeResponse {
    /// What the receiver sees as `webhook-id`, the same in all tries.
    #[schema(value_type = String)]
    pub notice_id: NoticeId,
    /// Whose event it is; the session may be gone.
    pub session_id: SessionId,
    /// The interrupt that it is about; null for an event of the session.
    #[schema(required)]
    pub interrupt_id: Option<InterruptId>,
    /// Which event.
    pub event: EventName,
    /// Which reminder of the event it is; 0 for none.
    pub reminder: u32,
    /// The webhook's URL without user and query, which may be secret.
    pub url: String,
    /// Where it stands.
    pub status: NoticeStatus,
    /// How many tries were begun since it was written, or retried.
    pub attempts: u32,
    /// What came of the last one that failed.
    #[schema(required)]
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is tried next; null while one of the same session and URL comes before it, and once it is settled.
    #[schema(required)]
    pub next_try_at: Option<Timestamp>,
    /// When it was delivered or given up.
    #[schema(required)]
    pub settled_at: Option<Timestamp>,
}

impl From<Notice> for NoticeResponse {
    fn from(notice: Notice) -> Self {
        Self {
            notice_id: notice.id,
            session_id: notice.session_id,
            interrupt_id: notice.interrupt_id,
            event: notice.event,
            reminder: notice.id.reminder,
            url: notice.shown_url(),
            status: notice.status,
            attempts: notice.attempts,
            last_error: notice.last_error,
            created_at: notice.created_at,
            next_try_at: notice.due_at,
            settled_at: notice.settled_at,
        }
    }
}

/// What answering came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResumeResponse {
    /// The session.
    pub session_id: SessionId,
    /// `running` after the last pending interrupt was answered, else `interrupted`. For a replay: its status now.
    pub status: Status,
    /// True where every answer had been stored before; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub replayed: bool,
}

impl From<Resumed> for ResumeResponse {
    fn from(resumed: Resumed) -> Self {
        Self { session_id: resumed.session_id, status: resumed.status, replayed: resumed.replayed }
    }
}

/// The body of a new session: none, null, `{}`, or with what it begins with.
#[derive(Debug, ToSchema)]
#[schema(as = NewSession)]
#[allow(dead_code)]
pub struct NewSessionBody {
    /// What the session remembers from the start.
    pub state: Option<Vec<ChatMessage>>,
    /// Rules of its own, which come before those of the server. The first one that matches a tool call decides.
    pub rules: Option<Vec<Rule>>,
    /// Whom to tell of what happens to it.
    pub webhook: Option<Webhook>,
    /// Instead: the state of a run, to go on with it here.
    #[schema(value_type = Option<Object>)]
    pub run_state: Option<serde_json::Value>,
}

/// A message for the agent.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
#[schema(examples(json!({"role": "user", "content": "delete the old logs file"})))]
pub struct NewMessage {
    /// The message; `{}` is one too.
    #[schema(inline = false)]
    #[serde(flatten)]
    pub message: ChatMessage,
    /// Whom to tell of the turn's end.
    pub webhook: Option<Webhook>,
}

/// One answer.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
pub struct Answer {
    /// Which interrupt.
    pub interrupt_id: String,
    /// Any JSON value that fits the interrupt's `response_schema`, null included.
    pub value: serde_json::Value,
    /// The `type` of the interrupt that it is for: an answer to one of another type is refused.
    pub expected_type: Option<String>,
}

/// One answer, or several in `resume`; [`super::openapi`] writes its schema out.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
pub struct Answers {
    /// Several.
    pub resume: Vec<Answer>,
    /// Who answers what they have claimed, where the server has no keys.
    pub r#as: Option<String>,
}

/// The answer to the interrupt in the path.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
#[schema(examples(json!({"value": {"approved": true}})))]
pub struct AnswerValue {
    /// Any JSON value that fits the interrupt's `response_schema`, null included.
    pub value: serde_json::Value,
    /// The `type` of the interrupt that it is for: an answer to one of another type is refused.
    pub expected_type: Option<String>,
    /// Who answers what they have claimed, where the server has no keys.
    #[schema(min_length = 1, max_length = 64)]
    pub r#as: Option<String>,
}

/// How an interrupt is claimed; no body is as good as `{}`.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
pub struct NewClaim {
    /// For how long; 300 where absent, a day at most.
    #[schema(exclusive_minimum = 0, maximum = 86400)]
    pub seconds: Option<f64>,
    /// Who claims it; needed where the server has no keys, and not looked at where it has: there it is the key.
    #[schema(min_length = 1, max_length = 64)]
    pub r#as: Option<String>,
}

/// How an interrupt is snoozed.
#[derive(Debug, ToSchema)]
#[allow(dead_code)]
pub struct NewSnooze {
    /// For how long; a year at most.
    #[schema(exclusive_minimum = 0, maximum = 31536000)]
    pub seconds: f64,
    /// Who, where the server has no keys.
    #[schema(min_length = 1, max_length = 64)]
    pub r#as: Option<String>,
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthResponse {
    /// `ok`.
    #[schema(value_type = String, pattern = "^ok$")]
    pub status: &'static str,
    /// How many turns may be at work (`--workers`).
    pub max_workers: usize,
    /// How many are; turns that wait for people do not count.
    pub running_workers: usize,
    /// How many wait for a worker.
    pub queued: usize,
    /// Sessions of any status.
    pub total_sessions: usize,
    /// Where the audit ends: to be written down, so that a shorter one is told.
    pub audit: Head,
    /// Turns that wait for a person, or for their replay, and are kept in memory by something else; twenty at most.
    pub held: Vec<HeldTurn>,
    /// Turns that have done something which is not stored yet, because the store cannot be written.
    pub unstored: usize,
    /// The server's version.
    #[schema(value_type = String)]
    pub version: &'static str,
    /// How the policy is, of `--policy` or pushed; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub policy: Option<PolicyResponse>,
    /// The servers that share the store, this one among them, by their names; left out where only one can have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub servers: Option<Vec<ServerResponse>>,
    /// What of `servers` is not the same at all of them, without those that end, and should be: `agent`, `version`, `code`,
    /// `options`, `policy`. Left out where `servers` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub differences: Option<Vec<&'static str>>,
}

/// A server, as `hitl servers` lists it; what it says itself is as old as its last beat.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerResponse {
    /// Its machine and process, for people.
    pub name: String,
    /// Which life of that process.
    pub server_id: String,
    /// Its version; empty where it did not say so.
    pub version: String,
    /// The agent whose turns it takes; null where it has not said.
    #[schema(required)]
    pub agent: Option<String>,
    /// The code of the agent, and with it its Python where that is not one of those that replay each other's turns; null where it
    /// runs none.
    #[schema(required)]
    pub code: Option<String>,
    /// Whether it takes requests.
    pub serves_http: bool,
    /// How many turns may be at work there; 0 where it runs none.
    pub max_workers: usize,
    /// How many are.
    pub running_workers: u64,
    /// Whether it ends, or is asked to.
    pub draining: bool,
    /// How long ago its last beat was, in milliseconds.
    pub silent_ms: u64,
}

impl From<ServerSnapshot> for ServerResponse {
    fn from(server: ServerSnapshot) -> Self {
        let ServerSnapshot { row, version, at_work, is_draining, silent_ms, .. } = server;
        Self {
            name: row.name(),
            server_id: row.id.0.to_string(),
            version,
            agent: row.role.agent,
            code: row.role.running.code,
            serves_http: row.role.serves_http,
            max_workers: row.role.workers,
            running_workers: at_work,
            draining: is_draining,
            silent_ms,
        }
    }
}

/// How the policy is.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyResponse {
    /// How many rules hold.
    pub rules: usize,
    /// Where they are from: `file` (`--policy`), or `store` (it was pushed).
    #[schema(value_type = String, pattern = "^(file|store)$")]
    pub source: &'static str,
    /// The SHA-256 of the text that they are from; null where none could be read since the server started.
    #[schema(required)]
    pub digest: Option<String>,
    /// Since when.
    pub loaded_at: Timestamp,
    /// Why the policy as it is now does not count, with the line; the rules from before hold. Null where it does.
    #[schema(required)]
    pub error: Option<String>,
}

impl From<PolicyStatus> for PolicyResponse {
    fn from(status: PolicyStatus) -> Self {
        let PolicyStatus { rules, digest, source, loaded_at, error } = status;
        Self { rules, source: source.as_str(), digest, loaded_at, error }
    }
}

/// The server is alive, or ready.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alive {
    /// `ok`.
    #[schema(value_type = String, pattern = "^ok$")]
    pub status: &'static str,
}

impl Alive {
    /// Alive.
    pub const OK: Self = Self { status: "ok" };
}

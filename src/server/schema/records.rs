//! Records, member by member. Each stands beside one of a layer below, and is never made: it only says what goes out.

#![allow(dead_code, reason = "only their schemas are used")]

use serde_json::Value;
use utoipa::ToSchema;

use super::shown_as;
use crate::domain::access;
use crate::domain::attached;
use crate::domain::audit::{self, Action};
use crate::domain::decision::DecisionKind;
use crate::domain::event::EventName;
use crate::domain::grant::{self, GrantedDecision};
use crate::domain::message::{self, Role, ToolCallKind};
use crate::domain::policy::{self, Effect};
use crate::domain::scope::Scope;
use crate::domain::status::InterruptStatus;
use crate::domain::timeline::{self, EntryKind};
use crate::domain::{GrantId, InterruptId, KeyId, SessionId, Timestamp, TurnId, error, interrupt, webhook};
use crate::engine::ports::held;
use crate::store::query;

shown_as! {
    message::ChatMessage => ChatMessage,
    message::Attachment => Attachment,
    attached::ShownAttachment => ShownAttachment,
    message::ToolCall => ToolCall,
    message::FunctionCall => FunctionCall,
    policy::Rule => Rule,
    webhook::Webhook => Webhook,
    grant::Grant => Grant,
    interrupt::Interrupt => Interrupt,
    audit::AuditRow => AuditRow,
    audit::Head => Head,
    access::Key => Key,
    timeline::StartMessage => StartMessage,
    timeline::TimelineEntry => TimelineEntry,
    error::FieldError => FieldError,
    held::Holder => Holder,
    held::HeldTurn => HeldTurn,
    query::Order => Order,
}

/// One message of a conversation, as docs/http.md has it: everything but `role` is optional.
#[derive(ToSchema)]
struct ChatMessage {
    /// Who said it; `user` where a request leaves it out.
    #[serde(default)]
    role: Role,
    /// The text.
    #[serde(default)]
    content: Option<String>,
    /// The model's reasoning, where it shows it.
    #[serde(default)]
    reasoning: Option<String>,
    /// Reasoning as the provider structures it.
    #[serde(default)]
    reasoning_details: Option<Vec<Value>>,
    /// Tool calls that the assistant wants.
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    /// Which call a `tool` message answers.
    #[serde(default)]
    tool_call_id: Option<String>,
    /// The name of the tool or speaker.
    #[serde(default)]
    name: Option<String>,
    /// An image, base64.
    #[serde(default)]
    base64_image: Option<String>,
    /// Images and other files; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attachments: Option<Vec<Attachment>>,
    /// Parameters of the client's own; never turned into environment variables.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    user_params: Option<Value>,
}

/// An image or another file: its bytes, or where they are.
#[derive(ToSchema)]
struct Attachment {
    /// What it is: `image/png`, `application/pdf`.
    media_type: String,
    /// Its bytes, base64; this or `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Where it is, for the model's provider to fetch: the server never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// An attachment beside an entry of a journal or an event: its bytes or its address as long as there is room for them.
#[derive(ToSchema)]
struct ShownAttachment {
    /// What it is: `image/png`, `application/pdf`.
    media_type: String,
    /// Its bytes, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    data: Option<String>,
    /// Where it is; the server never asks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    url: Option<String>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Whether `data` or `url` is left out, being too long for what it is shown in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    shortened: bool,
}

/// One tool call inside an assistant message.
#[derive(ToSchema)]
struct ToolCall {
    /// The call's id, which the answering `tool` message repeats.
    id: String,
    /// Always `function`.
    #[serde(rename = "type", default)]
    kind: ToolCallKind,
    /// What is called.
    function: FunctionCall,
}

/// A function's name and its arguments as the model wrote them.
#[derive(ToSchema)]
struct FunctionCall {
    /// The tool's name.
    name: String,
    /// JSON text, possibly broken.
    arguments: String,
}

/// One rule. The first one that matches a call decides.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// What records of its decisions name.
    name: String,
    /// What it does.
    effect: Effect,
    /// The tools that it is for: a name, where `*` stands for any characters and `?` for one.
    tool: String,
    /// The agents that it is for, in the same form; all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// A CEL expression over `tool`, `args` and `agent`; the rule is for calls where it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    when: Option<String>,
    /// Why, appended to what the model is told of a denied call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Who alone may answer where it asks: names of keys, and `group:<name>`. They take the place of the tool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, min_items = 1)]
    approvers: Vec<String>,
}

/// Where, how and of what to tell: of a message's turn, a session, or a whole server.
#[derive(ToSchema)]
struct Webhook {
    /// `http` or `https`.
    url: String,
    /// Sent as `Authorization: Bearer <token>`.
    #[serde(default)]
    token: Option<String>,
    /// Whether the body carries the session's messages.
    #[serde(default)]
    include_messages: bool,
    /// Which events to tell of; `session.idle` and `session.error` where absent. A bare status is the session's.
    #[serde(default)]
    events: Option<Vec<EventName>>,
}

/// A decision that was made with `always`.
#[derive(ToSchema)]
struct Grant {
    /// Its id.
    grant_id: GrantId,
    /// The agent that it is for.
    #[schema(required)]
    agent: Option<String>,
    /// The tool that it is for.
    tool: String,
    /// Where the tool is from when it is not the agent's own, such as an MCP server; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool_source: Option<String>,
    /// What was decided.
    decision: GrantedDecision,
    /// Why, for a rejection.
    #[schema(required)]
    reason: Option<String>,
    /// What the model is told of a rejection instead of the built-in text.
    #[schema(required)]
    message: Option<String>,
    /// When.
    created_at: Timestamp,
    /// Who decided, where authentication told; `on_approval` where the tool's own code did.
    #[schema(required)]
    created_by: Option<String>,
    /// Who alone could decide when it was made; left out where whoever may answer at all could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    approvers: Vec<String>,
    /// The turn that it ends with, where the tool's own code made it; left out where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    turn_id: Option<TurnId>,
}

/// The interrupt record, the same wherever interrupts are listed.
#[derive(ToSchema)]
struct Interrupt {
    /// Its id.
    interrupt_id: InterruptId,
    /// The session it belongs to.
    session_id: SessionId,
    /// The turn that asks.
    turn_id: TurnId,
    /// What kind of question, such as `tool_approval`; `unknown` where the payload has no type.
    #[serde(rename = "type")]
    kind: String,
    /// What the agent shows, as it gave it.
    #[schema(value_type = Object)]
    payload: Value,
    /// Where it stands.
    status: InterruptStatus,
    /// One line for a person.
    message: Option<String>,
    /// The JSON Schema of a valid answer; null where any JSON value is one.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    response_schema: Option<Value>,
    /// For a tool approval: what may be decided.
    allowed_decisions: Option<Vec<DecisionKind>>,
    /// For what is asked about a tool's call: the model's id of the call.
    tool_call_id: Option<String>,
    /// The name of the agent that asks.
    agent: Option<String>,
    /// What made it ask, or decided it: `policy:<name of the rule>`, `on_approval` or `grant:<id>`; null where the tool
    /// itself asks a person.
    rule: Option<String>,
    /// For a tool approval: the digest of the exact arguments that the approval is for.
    args_digest: Option<String>,
    /// When it was asked.
    created_at: Timestamp,
    /// From when on it cannot be answered any more; null for never.
    expires_at: Option<Timestamp>,
    /// The answer.
    value: Option<Value>,
    /// Who answered, where authentication told.
    resolved_by: Option<String>,
    /// When it was settled.
    resolved_at: Option<Timestamp>,
    /// The agent's own data about it.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// For a tool approval: where the tool is from when it is not the agent's own, such as an MCP server; left out
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool_source: Option<String>,
    /// The name of the key that sent the message of its turn; left out where nobody was asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sent_by: Option<String>,
    /// Who alone may answer: names of keys, and `group:<name>`; left out where whoever may answer at all may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    approvers: Vec<String>,
    /// Which rules could not tell about the call, and why; left out where each could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    rule_failed: Option<String>,
    /// Whether the answer may let something run although its type does not say so: a hook asks about a tool call, or
    /// middleware does. Left out otherwise, and for a `tool_approval` and an `unknown_outcome`, which always may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    lets_run: bool,
    /// Who works on it: until `claimed_until` nobody else can answer it. Left out where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    claimed_by: Option<String>,
    /// Until when it is somebody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    claimed_until: Option<Timestamp>,
    /// Who put it off, where that is known. It is pending all the same, and anybody can answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    snoozed_by: Option<String>,
    /// Until when it is put off. Left out where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    snoozed_until: Option<Timestamp>,
}

/// A row of the audit. Never changed.
#[derive(ToSchema)]
struct AuditRow {
    /// Its number, from 1 without a gap.
    seq: u64,
    /// When.
    at: Timestamp,
    /// What was done.
    action: Action,
    /// In which session; null for what is about none.
    #[schema(required)]
    session_id: Option<SessionId>,
    /// To which interrupt.
    #[schema(required)]
    interrupt_id: Option<InterruptId>,
    /// By whom: the name of the key that authenticated; null where none did, and for what happened by itself.
    #[schema(required)]
    actor: Option<String>,
    /// From which address.
    #[schema(required)]
    address: Option<String>,
    /// What else there is to say, by action.
    #[schema(value_type = Object)]
    details: Value,
    /// The hash of the row before.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    prev: String,
    /// Its own.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    hash: String,
}

/// The end of the audit: to be written down, so that a shorter one is told.
#[derive(ToSchema)]
struct Head {
    /// The number of the last row; 0 for none.
    seq: u64,
    /// Its hash.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    hash: String,
}

/// A key as it is stored and shown: the secret is not in it, and its digest is not shown.
#[derive(ToSchema)]
struct Key {
    /// Its id.
    key_id: KeyId,
    /// Who holds it: what `resolved_by` says. No other key that is not revoked has the name.
    name: String,
    /// What it may do.
    scopes: Vec<Scope>,
    /// Groups that it is in.
    groups: Vec<String>,
    /// When it was made.
    created_at: Timestamp,
    /// By whom; null on the machine of the store.
    #[schema(required)]
    created_by: Option<String>,
    /// Since when it is worth nothing; null while it is good.
    #[schema(required)]
    revoked_at: Option<Timestamp>,
}

/// What a turn is about.
#[derive(ToSchema)]
struct StartMessage {
    /// Who says it.
    role: Role,
    /// What.
    #[schema(required)]
    content: Option<String>,
}

/// One entry of a journal.
#[derive(ToSchema)]
struct TimelineEntry {
    /// Its place in the journal, from 0.
    index: u64,
    /// When it was written.
    at: Timestamp,
    /// What it is.
    entry: EntryKind,
    /// Of a step: `model`, `tool`, `step`, `guardrail`, `policy`, `clock`, `mcp` or `interrupt`.
    #[schema(required)]
    kind: Option<String>,
    /// Of a step: the function's or tool's name.
    #[schema(required)]
    name: Option<String>,
    /// Of a step: `file.py:12`, where it was asked for.
    #[schema(required)]
    location: Option<String>,
    /// Of a step or timer: what identifies it in the turn. An inner step is `outer/inner`.
    #[schema(required)]
    path: Option<String>,
    /// Of a step that is a call out of a model's message: which one; left out of any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool_call_id: Option<String>,
    /// The interrupt that was asked, answered, expired or withdrawn.
    #[schema(required)]
    interrupt_id: Option<InterruptId>,
    /// Of the start: the message that the turn is about, its first 2 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message: Option<StartMessage>,
    /// What a model or tool call returned, or the answer; left out where there is none to show. Where a tool attached
    /// something stands `[attachment 1: sales.png, image/png]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    result: Option<Value>,
    /// Images and files: of the start, those of the message; of a tool, those in what it returned. The first 32, left out
    /// where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    attachments: Vec<ShownAttachment>,
    /// What a step raised, or why the turn failed; left out where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// Whether `message`, `result` or `error` is the beginning of a longer one: a `result` is text then, of JSON.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    shortened: bool,
}

/// What is wrong with one place of a request or an answer.
#[derive(ToSchema)]
struct FieldError {
    /// Where: member names and indexes from the outside in, such as `["body", "value", "approved"]`.
    loc: Vec<Value>,
    /// What is wrong there, for a person.
    msg: String,
    /// A stable word for it, such as `missing`, `wrong_type`, `unknown_member`.
    #[serde(rename = "type")]
    kind: String,
}

/// One thing that keeps a turn.
#[derive(ToSchema)]
struct Holder {
    /// `raw I/O`, `a child process`, `a thread`, `something unknown`, or the kind and the name of a step.
    what: String,
    /// Where the agent waits for it: `file.py:12`. Null where nobody can tell.
    #[schema(required)]
    location: Option<String>,
}

/// A turn that is held, for `GET /health`.
#[derive(ToSchema)]
struct HeldTurn {
    /// Whose turn.
    session_id: SessionId,
    /// Whether its replay waits; else the turn has an open question, and could rest.
    replay: bool,
    /// Whether something of it must be neither stopped nor repeated; else it gives way after `--hold` seconds.
    at_work: bool,
    /// What keeps it.
    by: Vec<Holder>,
}

/// In which order sessions are listed: of their making.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Order {
    /// The first one first.
    Oldest,
    /// The last one first.
    Newest,
}

//! Interrupts: one question to a person, from asked to settled. First writer wins.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{self, AnswerTerms, Valid};
use super::approver::check_approvers;
use super::decision::{Decision, DecisionKind, Forms, TOOL_APPROVAL};
use super::error::Error;
use super::grant::GrantScope;
use super::id::{InterruptId, SessionId, TurnId};
use super::schema::{Anew, Validators};
use super::status::InterruptStatus;
use super::time::Timestamp;
use super::{JsonObject, payload};

/// The type of what is asked about a step whose outcome nobody knows; an answer may let it run.
pub const UNKNOWN_OUTCOME: &str = "unknown_outcome";

/// How long the name of a tool may be, in bytes of JSON. Approvals are found by it, and what PostgreSQL finds by an index has to
/// fit into a third of a page.
const LONGEST_TOOL: usize = 1024;

/// The interrupt record, the same wherever interrupts are listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its id.
    pub interrupt_id: InterruptId,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// What kind of question, such as `tool_approval`; `unknown` where the payload has no type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the agent shows, as it gave it.
    pub payload: JsonObject,
    /// Where it stands.
    pub status: InterruptStatus,
    /// One line for a person.
    pub message: Option<String>,
    /// The JSON Schema of a valid answer; null where any JSON value is one.
    #[serde(default, with = "shared")]
    pub response_schema: Option<Arc<Value>>,
    /// For a tool approval: what may be decided.
    pub allowed_decisions: Option<Vec<DecisionKind>>,
    /// For what is asked about a tool's call: the model's id of the call.
    pub tool_call_id: Option<String>,
    /// The name of the agent that asks.
    pub agent: Option<String>,
    /// What made it ask, or decided it: `policy:<name of the rule>`, `on_approval` or `grant:<id>`; null where the tool
    /// itself asks a person.
    pub rule: Option<String>,
    /// For a tool approval: the digest of the exact arguments that the approval is for.
    pub args_digest: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// From when on it cannot be answered any more; null for never.
    pub expires_at: Option<Timestamp>,
    /// The answer.
    pub value: Option<Value>,
    /// Who answered, where authentication told.
    pub resolved_by: Option<String>,
    /// When it was settled.
    pub resolved_at: Option<Timestamp>,
    /// The agent's own data about it.
    pub metadata: Option<JsonObject>,
    /// For a tool approval: where the tool is from when it is not the agent's own, such as an MCP server; left out
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_source: Option<String>,
    /// The name of the key that sent the message of its turn; left out where nobody was asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<String>,
    /// Who alone may answer: names of keys, and `group:<name>`; left out where whoever may answer at all may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Which rules could not tell about the call, and why; left out where each could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_failed: Option<String>,
    /// Whether the answer may let something run although its type does not say so: a hook asks about a tool call, or
    /// middleware does. Left out otherwise, and for a `tool_approval` and an `unknown_outcome`, which always may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lets_run: bool,
    /// For a tool approval: whether something else may run than its arguments say. Where there are rules, nobody's decision for always
    /// settles it besides.
    #[serde(default, skip_serializing)]
    pub is_hidden: bool,
    /// Whom the tool itself names, where `approvers` are those of a rule: they answer for a call that no rule is for.
    #[serde(default, skip_serializing)]
    pub tool_approvers: Vec<String>,
    /// For a tool approval that can be edited: the JSON Schema of the tool's arguments. Shown as a part of
    /// `response_schema`.
    #[serde(default, skip_serializing)]
    pub args_schema: Option<Value>,
    /// Who works on it: until `claimed_until` nobody else can answer it. Left out where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Until when it is somebody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_until: Option<Timestamp>,
    /// Who put it off, where that is known. It is pending all the same, and anybody can answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_by: Option<String>,
    /// Until when it is put off. Left out where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_until: Option<Timestamp>,
}

/// What a worker sends to open an interrupt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Ask {
    /// See [`Interrupt::kind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// See [`Interrupt::payload`].
    pub payload: JsonObject,
    /// See [`Interrupt::message`].
    #[serde(default)]
    pub message: Option<String>,
    /// The author's JSON Schema of a valid answer; built-in types bring their own.
    #[serde(default)]
    pub response_schema: Option<Value>,
    /// See [`Interrupt::allowed_decisions`].
    #[serde(default)]
    pub allowed_decisions: Option<Vec<DecisionKind>>,
    /// See [`Interrupt::tool_call_id`].
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// See [`Interrupt::agent`].
    #[serde(default)]
    pub agent: Option<String>,
    /// See [`Interrupt::args_digest`].
    #[serde(default)]
    pub args_digest: Option<String>,
    /// Seconds until it expires; the server's `--interrupt-ttl` where absent.
    #[serde(default)]
    pub expires_in: Option<f64>,
    /// Whether the agent goes on with a value of its own when it expires.
    #[serde(default)]
    pub has_default: bool,
    /// See [`Interrupt::metadata`].
    #[serde(default)]
    pub metadata: Option<JsonObject>,
    /// See [`Interrupt::tool_source`].
    #[serde(default)]
    pub tool_source: Option<String>,
    /// See [`Interrupt::args_schema`]. Not compiled here: a tool whose schema is of no use can still be approved, only its
    /// edits are refused.
    #[serde(default)]
    pub args_schema: Option<Value>,
    /// See [`Interrupt::approvers`]; those of the tool.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// See [`Interrupt::lets_run`].
    #[serde(default)]
    pub lets_run: bool,
    /// For a tool approval: whether somebody has to decide. Where not, it only asks what the rules say.
    #[serde(default = "yes")]
    pub required: bool,
    /// For a tool approval: whether the arguments that are shown say what would run. Where they do not and there are rules, no rule
    /// and no grant lets it run: what they say of the arguments may be wrong.
    #[serde(default = "yes")]
    pub is_run: bool,
    /// For a tool approval: what the tool's own code decided.
    #[serde(default)]
    pub proposed: Option<Value>,
}

fn yes() -> bool {
    true
}

/// Whether an answer to a question of this type may always let something run, whatever whoever asks says of it.
fn is_approval(kind: &str) -> bool {
    kind == TOOL_APPROVAL || kind == UNKNOWN_OUTCOME
}

/// How many times as large as a payload a JSON Schema may be.
const SCHEMA_TIMES: usize = 4;

impl Ask {
    /// The JSON Schema that the record shows, where the author's own is one; may take its time. `max_payload` as in
    /// [`Opening`].
    ///
    /// # Errors
    /// [`Error::InvalidSchema`].
    pub fn schema(
        &self,
        max_payload: usize,
        validators: &dyn Validators,
        forms: &dyn Forms,
    ) -> Result<Option<Arc<Value>>, Error> {
        if let Some(author) = &self.response_schema {
            let (size, limit) = (payload::json_size(author), max_payload.saturating_mul(SCHEMA_TIMES));
            if size > limit {
                return Err(Error::InvalidSchema(format!("is {size} bytes of JSON, the limit is {limit}")));
            }
            validators.validator(author)?;
        }
        Ok(answer::response_schema(self.into(), forms))
    }

    /// # Errors
    /// [`Error::InvalidPayload`]: what is shown besides the payload is too large. What is no text for people may be as long
    /// as a schema: providers put more than a number into the id of a call.
    fn check_sizes(&self, max_payload: usize) -> Result<(), Error> {
        let schema = max_payload.saturating_mul(SCHEMA_TIMES);
        let length = |text: &Option<String>| text.as_ref().map(payload::json_size);
        for (member, size, limit) in [
            ("type", Some(payload::json_size(&self.kind)), schema),
            ("tool_call_id", length(&self.tool_call_id), schema),
            ("agent", length(&self.agent), schema),
            ("tool_name", self.scope().map(|scope| payload::json_size(&scope.tool)), LONGEST_TOOL),
            ("args_digest", length(&self.args_digest), schema),
            ("tool_source", length(&self.tool_source), schema),
            ("message", length(&self.message), max_payload),
            ("metadata", self.metadata.as_ref().map(payload::json_size), max_payload),
            ("args_schema", self.args_schema.as_ref().map(payload::json_size), schema),
        ] {
            if let Some(size) = size.filter(|size| *size > limit) {
                return Err(Error::InvalidPayload(format!("{member} is {size} bytes of JSON, the limit is {limit}")));
            }
        }
        Ok(())
    }

    /// The calls that a decision about it can be for; `None` for what is no tool approval.
    pub fn scope(&self) -> Option<GrantScope<'_>> {
        GrantScope::of(&self.kind, &self.payload, self.agent.as_deref(), self.tool_source.as_deref())
    }
}

/// Ids, time and limits that opening an interrupt needs from outside.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The id it gets.
    pub id: InterruptId,
    /// Whose.
    pub session: SessionId,
    /// Whose turn.
    pub turn: TurnId,
    /// The time.
    pub now: Timestamp,
    /// `--interrupt-ttl` in seconds; 0 for no limit.
    pub default_ttl: f64,
    /// `--max-payload` in bytes of compact JSON.
    pub max_payload: usize,
}

/// What an answer came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// The first answer: this record replaces the pending one.
    Now(Box<Interrupt>),
    /// The same answer was stored before.
    Before,
}

impl Interrupt {
    /// A new pending interrupt, checked in every part before anything is stored. `schema` is what [`Ask::schema`] made.
    ///
    /// # Errors
    /// [`Error::PayloadTooLarge`], [`Error::InvalidPayload`], [`Error::InvalidSchema`].
    pub fn open(ask: Ask, schema: Result<Option<Arc<Value>>, Error>, opening: Opening) -> Result<Self, Error> {
        payload::check_size(&ask.payload, opening.max_payload)?;
        let response_schema = schema?;
        ask.check_sizes(opening.max_payload)?;
        check_approvers(&ask.approvers).map_err(Error::InvalidPayload)?;
        if ask.allowed_decisions.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::InvalidPayload("allowed_decisions must allow something".to_owned()));
        }
        let ttl = match ask.expires_in {
            Some(seconds) if seconds.is_finite() && seconds > 0.0 => Some(seconds),
            Some(seconds) => {
                return Err(Error::InvalidPayload(format!(
                    "expires_in must be a positive number of seconds, got {seconds}"
                )));
            }
            None if opening.default_ttl > 0.0 => Some(opening.default_ttl),
            None => None,
        };
        let lets_run = ask.lets_run && !is_approval(&ask.kind);
        let is_hidden = !ask.is_run;
        Ok(Self {
            interrupt_id: opening.id,
            session_id: opening.session,
            turn_id: opening.turn,
            kind: ask.kind,
            payload: ask.payload,
            status: InterruptStatus::Pending,
            message: ask.message,
            response_schema,
            allowed_decisions: ask.allowed_decisions,
            tool_call_id: ask.tool_call_id,
            agent: ask.agent,
            rule: None,
            args_digest: ask.args_digest,
            created_at: opening.now,
            expires_at: ttl.map(|seconds| opening.now.plus_seconds(seconds)),
            value: None,
            resolved_by: None,
            resolved_at: None,
            metadata: ask.metadata,
            tool_source: ask.tool_source,
            args_schema: ask.args_schema,
            claimed_by: None,
            claimed_until: None,
            snoozed_by: None,
            snoozed_until: None,
            sent_by: None,
            approvers: ask.approvers,
            rule_failed: None,
            lets_run,
            is_hidden,
            tool_approvers: Vec::new(),
        })
    }

    /// Whether an answer may let something run: whoever asks for something is then not the one who allows it.
    pub fn may_let_run(&self) -> bool {
        self.lets_run || is_approval(&self.kind)
    }

    /// The same, looked at on the spot.
    #[cfg(test)]
    pub fn opened(ask: Ask, opening: Opening) -> Result<Self, Error> {
        let schema = ask.schema(opening.max_payload, &Anew, &Anew);
        Self::open(ask, schema, opening)
    }

    /// The same, settled without anybody being asked: decided by `rule`, behind which stands `by`.
    pub fn decided(self, decision: &Decision, rule: String, by: Option<String>, now: Timestamp) -> Self {
        Self {
            status: InterruptStatus::Resolved,
            value: Some(decision.to_value()),
            rule: Some(rule),
            resolved_by: by,
            resolved_at: Some(now),
            ..self.untriaged()
        }
    }

    /// The calls that a decision about it can be for; `None` for what is no tool approval.
    pub fn scope(&self) -> Option<GrantScope<'_>> {
        GrantScope::of(&self.kind, &self.payload, self.agent.as_deref(), self.tool_source.as_deref())
    }

    /// Whether it is an approval of a tool of the name that `ask` asks something else about. What lets something run and does
    /// not say what may be about every tool.
    pub fn is_about_the_name_of(&self, ask: &Ask) -> bool {
        let is_about = match self.payload.get("tool_name") {
            Some(tool) => Some(tool) == ask.payload.get("tool_name"),
            None => self.lets_run,
        };
        is_about && (self.lets_run || self.scope().is_some())
    }

    /// The same, of the tool of the same agent.
    pub fn is_about_the_tool_of(&self, ask: &Ask) -> bool {
        self.is_about_the_name_of(ask) && self.agent == ask.agent
    }

    /// The same, of the very call.
    pub fn is_about_the_call_of(&self, ask: &Ask) -> bool {
        self.tool_call_id.is_some() && self.tool_call_id == ask.tool_call_id && self.is_about_the_tool_of(ask)
    }

    /// Answers it: the first valid answer before `expires_at` wins; the same answer again is no second one. May take its
    /// time.
    ///
    /// # Errors
    /// [`Error::InvalidAnswer`] (still pending), [`Error::AlreadyResolved`] (with who and when),
    /// [`Error::InterruptExpired`], [`Error::InterruptCancelled`]. Whose it is meanwhile is for
    /// [`Interrupt::check_claim`] to say.
    pub fn answer(&self, value: Value, by: Option<&str>, now: Timestamp) -> Result<Answered, Error> {
        if self.status == InterruptStatus::Resolved {
            return self.answer_again(&value);
        }
        self.check_open(now)?;
        Ok(self.settled_by(answer::check(self.into(), value, &Anew)?, by, now))
    }

    /// The same for `value` that was looked at before, if it was: `valid` is what that came to. `None` where it has to be
    /// looked at first.
    ///
    /// # Errors
    /// As [`Interrupt::answer`], but for the first.
    pub fn answer_with(
        &self,
        value: &Value,
        valid: Option<Valid>,
        by: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Answered>, Error> {
        if self.status == InterruptStatus::Resolved {
            return self.answer_again(value).map(Some);
        }
        self.check_open(now)?;
        Ok(valid.map(|valid| self.settled_by(valid, by, now)))
    }

    fn settled_by(&self, valid: Valid, by: Option<&str>, now: Timestamp) -> Answered {
        Answered::Now(Box::new(Self {
            value: Some(valid.into_value()),
            resolved_by: by.map(str::to_owned),
            ..self.settled(InterruptStatus::Resolved, now)
        }))
    }

    /// Whether both ask the same, of the same people: what was found about an answer of the one holds for the other.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let Self {
            interrupt_id,
            session_id: _,
            turn_id,
            kind,
            payload,
            status: _,
            message: _,
            response_schema,
            allowed_decisions,
            tool_call_id: _,
            agent,
            rule: _,
            args_digest: _,
            created_at,
            expires_at,
            value: _,
            resolved_by: _,
            resolved_at: _,
            metadata: _,
            tool_source,
            sent_by: _,
            approvers,
            rule_failed: _,
            lets_run: _,
            is_hidden: _,
            tool_approvers,
            args_schema,
            claimed_by: _,
            claimed_until: _,
            snoozed_by: _,
            snoozed_until: _,
        } = self;
        (interrupt_id, turn_id, kind, payload) == (&other.interrupt_id, &other.turn_id, &other.kind, &other.payload)
            && (created_at, expires_at) == (&other.created_at, &other.expires_at)
            && (response_schema, args_schema) == (&other.response_schema, &other.args_schema)
            && allowed_decisions == &other.allowed_decisions
            && (agent, tool_source) == (&other.agent, &other.tool_source)
            && (approvers, tool_approvers) == (&other.approvers, &other.tool_approvers)
    }

    /// Withdraws it; `None` when it is settled already.
    pub fn cancel(&self, now: Timestamp) -> Option<Self> {
        self.is_pending().then(|| self.settled(InterruptStatus::Cancelled, now))
    }

    /// Lets it expire; `None` when it is settled already or not due yet.
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        (self.is_pending() && self.is_due(now)).then(|| self.settled(InterruptStatus::Expired, now))
    }

    /// Whether it waits for an answer.
    pub fn is_pending(&self) -> bool {
        self.status == InterruptStatus::Pending
    }

    /// Whether its time is over.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|due| now >= due)
    }

    fn expired(&self, now: Timestamp) -> Error {
        Error::InterruptExpired(self.expires_at.or(self.resolved_at).unwrap_or(now))
    }

    /// # Errors
    /// Why it cannot be answered any more: those of [`Interrupt::answer`].
    fn check_open(&self, now: Timestamp) -> Result<(), Error> {
        match self.status {
            InterruptStatus::Resolved => Err(self.already_resolved()),
            InterruptStatus::Cancelled => Err(Error::InterruptCancelled),
            InterruptStatus::Expired => Err(self.expired(now)),
            InterruptStatus::Pending if self.is_due(now) => Err(self.expired(now)),
            InterruptStatus::Pending => Ok(()),
        }
    }

    /// What is settled is nobody's, and not put off.
    fn settled(&self, status: InterruptStatus, now: Timestamp) -> Self {
        Self { status, resolved_at: Some(now), ..self.clone().untriaged() }
    }

    fn answer_again(&self, value: &Value) -> Result<Answered, Error> {
        let stored = self.value.as_ref().unwrap_or(&Value::Null);
        if answer::same(self.into(), stored, value) {
            return Ok(Answered::Before);
        }
        Err(self.already_resolved())
    }

    fn already_resolved(&self) -> Error {
        Error::AlreadyResolved {
            resolved_by: self.resolved_by.clone(),
            resolved_at: self.resolved_at.unwrap_or(self.created_at),
        }
    }
}

mod shared;
mod triage;

impl<'a> From<&'a Ask> for AnswerTerms<'a> {
    fn from(ask: &'a Ask) -> Self {
        Self {
            kind: &ask.kind,
            payload: &ask.payload,
            allowed: ask.allowed_decisions.as_deref(),
            args_schema: ask.args_schema.as_ref(),
            author: ask.response_schema.as_ref(),
        }
    }
}

impl<'a> From<&'a Interrupt> for AnswerTerms<'a> {
    fn from(interrupt: &'a Interrupt) -> Self {
        Self {
            kind: &interrupt.kind,
            payload: &interrupt.payload,
            allowed: interrupt.allowed_decisions.as_deref(),
            args_schema: interrupt.args_schema.as_ref(),
            author: interrupt.response_schema.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Who did what: the rows of the audit, each bound to the one before it.
//!
//! `hash` is the SHA-256 of `prev` (the hash of the row before, 64 hex digits) and the row without `prev` and `hash` as
//! compact JSON with its members sorted. A row that is changed, left out, or put in between shows in its own hash or in
//! that of the next. What was cut off at the end shows only against a head that was written down before.

mod line;
mod verify;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use verify::{Flaw, Verifier};

use super::decision::Decision;
use super::digest::{canonical, hex};
use super::event::Triage;
use super::grant::Grant;
use super::interrupt::Interrupt;
use super::schema::with_defaults_within;
use super::status::InterruptStatus;
use super::{InterruptId, JsonObject, SessionId, Timestamp, answer, digest};

/// What stands for the hash before the first row.
pub const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A person was asked.
    Asked,
    /// Somebody who may answer looked at it, for the first time.
    Seen,
    /// Somebody began to work on it.
    Claimed,
    /// Nobody does any more.
    Released,
    /// It was put off.
    Snoozed,
    /// It was answered, or decided by a rule or a grant.
    Decided,
    /// Nobody answered in time.
    Expired,
    /// It was withdrawn, or its turn or session ended without it.
    Cancelled,
    /// Something was decided for the rest of a session.
    Granted,
    /// That was taken back.
    GrantRevoked,
    /// A session was removed with all it had, by somebody or after its time.
    SessionDeleted,
    /// A turn that had failed was taken up again.
    Retried,
    /// The state of a run was taken out.
    RunExported,
    /// A run was brought in from elsewhere.
    RunImported,
    /// A policy was put into the store.
    PolicyPushed,
    /// It was taken out of the store.
    PolicyRemoved,
    /// The rules of the policy hold at a server from now on.
    PolicyLoaded,
    /// The policy cannot be used; the rules from before hold.
    PolicyRefused,
    /// An API key was made.
    KeyCreated,
    /// An API key was revoked.
    KeyRevoked,
    /// Somebody signed in with a browser.
    SignedIn,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 21] = [
        Self::Asked,
        Self::Seen,
        Self::Claimed,
        Self::Released,
        Self::Snoozed,
        Self::Decided,
        Self::Expired,
        Self::Cancelled,
        Self::Granted,
        Self::GrantRevoked,
        Self::SessionDeleted,
        Self::Retried,
        Self::RunExported,
        Self::RunImported,
        Self::PolicyPushed,
        Self::PolicyRemoved,
        Self::PolicyLoaded,
        Self::PolicyRefused,
        Self::KeyCreated,
        Self::KeyRevoked,
        Self::SignedIn,
    ];

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Seen => "seen",
            Self::Claimed => "claimed",
            Self::Released => "released",
            Self::Snoozed => "snoozed",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Granted => "granted",
            Self::GrantRevoked => "grant_revoked",
            Self::SessionDeleted => "session_deleted",
            Self::Retried => "retried",
            Self::RunExported => "run_exported",
            Self::RunImported => "run_imported",
            Self::PolicyPushed => "policy_pushed",
            Self::PolicyRemoved => "policy_removed",
            Self::PolicyLoaded => "policy_loaded",
            Self::PolicyRefused => "policy_refused",
            Self::KeyCreated => "key_created",
            Self::KeyRevoked => "key_revoked",
            Self::SignedIn => "signed_in",
        }
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

/// What was done, before it has its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Deed {
    /// What.
    pub action: Action,
    /// In which session; `None` for what is about none.
    pub session_id: Option<SessionId>,
    /// To which interrupt.
    pub interrupt_id: Option<InterruptId>,
    /// By whom, as authentication told: the name of a key.
    pub actor: Option<String>,
    /// From where, as the connection told.
    pub address: Option<IpAddr>,
    /// What else there is to say.
    pub details: JsonObject,
}

/// A row of the audit. Never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its number, from 1 without a gap.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What was done.
    pub action: Action,
    /// In which session; null for what is about none.
    pub session_id: Option<SessionId>,
    /// To which interrupt.
    pub interrupt_id: Option<InterruptId>,
    /// By whom: the name of the key that authenticated; null where none did, and for what happened by itself.
    pub actor: Option<String>,
    /// From which address.
    pub address: Option<IpAddr>,
    /// What else there is to say, by action.
    pub details: JsonObject,
    /// The hash of the row before.
    pub prev: String,
    /// Its own.
    pub hash: String,
}

/// The end of the audit: to be written down, so that a shorter one is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last row; 0 for none.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

impl Head {
    /// Before the first row.
    pub fn nothing() -> Self {
        Self { seq: 0, hash: NOTHING.to_owned() }
    }
}

impl AuditRow {
    /// The row of `deed` after the row at `head`.
    pub fn after(head: &Head, deed: Deed, at: Timestamp) -> Self {
        let Deed { action, session_id, interrupt_id, actor, address, details } = deed;
        let (seq, prev, hash) = (head.seq.saturating_add(1), head.hash.clone(), String::new());
        let row = Self { seq, at, action, session_id, interrupt_id, actor, address, details, prev, hash };
        Self { hash: row.expected_hash(), ..row }
    }

    /// What its hash has to be.
    pub fn expected_hash(&self) -> String {
        let hashed = json!({
            "seq": self.seq, "at": self.at, "action": self.action, "session_id": self.session_id,
            "interrupt_id": self.interrupt_id, "actor": self.actor, "address": self.address, "details": self.details,
        });
        let mut hasher = Sha256::new();
        hasher.update(self.prev.as_bytes());
        hasher.update(canonical(&hashed));
        hex(&hasher.finalize())
    }

    /// The end of an audit whose last row it is.
    pub fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash.clone() }
    }
}

impl Deed {
    /// `action` by nobody, about nothing yet.
    pub fn new(action: Action) -> Self {
        let details = JsonObject::new();
        Self { action, session_id: None, interrupt_id: None, actor: None, address: None, details }
    }

    /// By `actor`, from `address`.
    pub fn by(self, actor: Option<&str>, address: Option<IpAddr>) -> Self {
        Self { actor: actor.map(str::to_owned), address, ..self }
    }

    /// In `session`.
    pub fn session(self, id: SessionId) -> Self {
        Self { session_id: Some(id), ..self }
    }

    /// With one more detail; null is none.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.details.insert(name.to_owned(), value);
        }
        self
    }

    /// About an interrupt: what it asks, under which rule, and when it was asked.
    pub fn about(self, interrupt: &Interrupt) -> Self {
        let deed = Self { session_id: Some(interrupt.session_id), interrupt_id: Some(interrupt.interrupt_id), ..self };
        let deed = deed
            .with("type", interrupt.kind.as_str())
            .with("agent", interrupt.agent.as_deref())
            .with("rule", interrupt.rule.as_deref())
            .with("rule_failed", interrupt.rule_failed.as_deref())
            .with("asked_at", json!(interrupt.created_at))
            .with("sent_by", interrupt.sent_by.as_deref())
            .with("approvers", named(&interrupt.approvers));
        match interrupt.payload.get("tool_name").filter(|_| interrupt.scope().is_some()) {
            Some(tool) => deed
                .with("tool", tool.clone())
                .with("tool_source", interrupt.tool_source.as_deref())
                .with("digest", interrupt.args_digest.as_deref())
                .with("args", arguments(interrupt)),
            // What was shown may be large, and is the interrupt's: its digest binds it.
            None => {
                let digest = digest::of(&Value::Object(interrupt.payload.clone()));
                deed.letting_run(interrupt).with("digest", digest)
            }
        }
    }

    /// What an answer may let run that is no tool approval, as far as it says so.
    fn letting_run(self, interrupt: &Interrupt) -> Self {
        if !interrupt.lets_run {
            return self;
        }
        let tool = interrupt.payload.get("tool_name").cloned().unwrap_or_default();
        self.with("lets_run", true).with("tool", tool).with("args", arguments(interrupt))
    }

    /// What has become of an interrupt, as its status says.
    pub fn of(interrupt: &Interrupt) -> Self {
        match interrupt.status {
            InterruptStatus::Pending => Self::asked(interrupt),
            InterruptStatus::Resolved => Self::decided(interrupt),
            InterruptStatus::Expired => Self::new(Action::Expired).about(interrupt),
            InterruptStatus::Cancelled => Self::new(Action::Cancelled).about(interrupt),
        }
    }

    /// What somebody did with a pending interrupt short of answering it: as it was, and as it is since.
    pub fn triaged(was: &Interrupt, is: &Interrupt, triage: Triage) -> Self {
        let (action, until) = match triage {
            Triage::Claimed => (Action::Claimed, is.claimed_until),
            Triage::Released => (Action::Released, None),
            Triage::Snoozed | Triage::Unsnoozed => (Action::Snoozed, is.snoozed_until),
        };
        let deed = Self::new(action).about(is).with("until", json!(until));
        match triage {
            Triage::Released => deed.with("claimed_by", was.claimed_by.as_deref()),
            Triage::Unsnoozed => deed.with("taken_back", true),
            Triage::Claimed | Triage::Snoozed => deed,
        }
    }

    /// Something was decided for the rest of `session`.
    pub fn granted(grant: &Grant, session: SessionId) -> Self {
        Self::new(Action::Granted).of_grant(grant, session)
    }

    /// That was taken back.
    pub fn grant_revoked(grant: &Grant, session: SessionId) -> Self {
        Self::new(Action::GrantRevoked).of_grant(grant, session)
    }

    fn of_grant(self, grant: &Grant, session: SessionId) -> Self {
        self.session(session)
            .with("grant_id", json!(grant.grant_id))
            .with("agent", grant.agent.as_deref())
            .with("tool", grant.tool.as_str())
            .with("tool_source", grant.tool_source.as_deref())
            .with("decision", json!(grant.decision))
            .with("reason", grant.reason.as_deref())
            .with("created_by", grant.created_by.as_deref())
            .with("approvers", named(&grant.approvers))
            .with("turn_id", json!(grant.turn_id))
    }

    /// A person is asked.
    fn asked(interrupt: &Interrupt) -> Self {
        Self::new(Action::Asked).about(interrupt).with("expires_at", json!(interrupt.expires_at))
    }

    /// It was answered or decided: how, and with which arguments the tool runs.
    fn decided(interrupt: &Interrupt) -> Self {
        let value = interrupt.value.clone().unwrap_or_default();
        let by = interrupt.resolved_by.as_deref();
        let deed = Self::new(Action::Decided).about(interrupt).with("resolved_by", by);
        let Some(decision) = answer::decision(interrupt.into(), &value) else { return deed.with("value", value) };
        let deed = deed.with("decision", decision.kind().as_str()).with("value", value);
        let args = match decision {
            Decision::Approve { .. } => arguments(interrupt),
            Decision::Edit { args } => {
                let args = Value::Object(args);
                let schema = interrupt.args_schema.as_ref();
                match schema.map(|schema| with_defaults_within(&args, schema, MOST_FILLED_IN)) {
                    None => args,
                    Some(Some(filled)) => filled,
                    Some(None) => return deed.with("final_args", args).with("defaults_left_out", true),
                }
            }
            Decision::Reject { .. } | Decision::Respond { .. } => Value::Null,
        };
        deed.with("final_args", args)
    }
}

/// How many bytes the defaults in the arguments of a decision may come to, which somebody waits for and which are kept.
const MOST_FILLED_IN: usize = 256 * 1024;

/// Who alone may answer; `None` where anybody may who may answer at all.
fn named(approvers: &[String]) -> Option<Vec<String>> {
    (!approvers.is_empty()).then(|| approvers.to_vec())
}

/// The arguments that a tool approval shows.
fn arguments(interrupt: &Interrupt) -> Value {
    interrupt.payload.get("tool_args").cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;

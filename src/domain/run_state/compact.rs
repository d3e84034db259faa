//! Interrupt records without what the journal or their type says already.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settled;
use crate::domain::decision::DecisionKind;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::schema::Anew;
use crate::domain::status::InterruptStatus;
use crate::domain::time::Timestamp;
use crate::domain::{Error, InterruptId, JsonObject, SessionId, TurnId, answer};

/// An interrupt record as a run state holds it.
#[derive(Serialize, Deserialize)]
pub struct CompactInterrupt {
    id: InterruptId,
    #[serde(rename = "type")]
    kind: String,
    payload: JsonObject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Only where the type does not bring it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed_decisions: Option<Vec<DecisionKind>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved_by: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    approvers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule_failed: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lets_run: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_hidden: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_approvers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<JsonObject>,
}

impl CompactInterrupt {
    /// Leaves out what [`Self::expand`] finds again.
    pub fn of(interrupt: &Interrupt) -> Self {
        let Interrupt {
            interrupt_id,
            session_id: _,
            turn_id: _,
            kind,
            payload,
            status: _,
            message,
            response_schema,
            allowed_decisions,
            tool_call_id,
            tool_source,
            args_schema,
            agent,
            rule,
            args_digest,
            created_at: _,
            expires_at,
            value: _,
            resolved_by,
            resolved_at: _,
            metadata,
            // What people do at one server about a question is no part of the question.
            claimed_by: _,
            claimed_until: _,
            snoozed_by: _,
            snoozed_until: _,
            // Of this server's keys, which are nobody elsewhere.
            sent_by: _,
            approvers,
            rule_failed,
            lets_run,
            is_hidden,
            tool_approvers,
        } = interrupt.clone();
        let built_in = answer::built_in_schema(interrupt.into(), &Anew);
        Self {
            id: interrupt_id,
            response_schema: response_schema
                .filter(|schema| built_in.as_ref() != Some(schema))
                .map(|own| (*own).clone()),
            kind,
            payload,
            message,
            allowed_decisions,
            tool_call_id,
            tool_source,
            args_schema,
            agent,
            rule,
            args_digest,
            expires_at,
            resolved_by,
            approvers,
            rule_failed,
            lets_run,
            is_hidden,
            tool_approvers,
            metadata,
        }
    }

    /// The whole record.
    ///
    /// # Errors
    /// [`Error::RunStateInvalid`] for one that the journal does not know.
    pub fn expand(self, session: SessionId, turn: TurnId, journal: &[RecordedEntry]) -> Result<Interrupt, Error> {
        let asked = journal.iter().find_map(|recorded| match &recorded.entry {
            Entry::Ask { interrupt_id, .. } if *interrupt_id == self.id => Some(recorded.at),
            _ => None,
        });
        let created_at = asked
            .ok_or_else(|| Error::RunStateInvalid(format!("nothing in its journal asks interrupt {}", self.id)))?;
        let (status, resolved_at, value) = match settled(journal, self.id) {
            Some((status, at, value)) => (status, Some(at), value),
            None => (InterruptStatus::Pending, None, None),
        };
        let mut interrupt = Interrupt {
            interrupt_id: self.id,
            session_id: session,
            turn_id: turn,
            kind: self.kind,
            payload: self.payload,
            status,
            message: self.message,
            response_schema: self.response_schema.map(Arc::new),
            allowed_decisions: self.allowed_decisions,
            tool_call_id: self.tool_call_id,
            tool_source: self.tool_source,
            args_schema: self.args_schema,
            agent: self.agent,
            rule: self.rule,
            args_digest: self.args_digest,
            created_at,
            expires_at: self.expires_at,
            value,
            resolved_by: self.resolved_by,
            resolved_at,
            metadata: self.metadata,
            claimed_by: None,
            claimed_until: None,
            snoozed_by: None,
            snoozed_until: None,
            sent_by: None,
            approvers: self.approvers,
            rule_failed: self.rule_failed,
            lets_run: self.lets_run,
            is_hidden: self.is_hidden,
            tool_approvers: self.tool_approvers,
        };
        if interrupt.response_schema.is_none() {
            interrupt.response_schema = answer::built_in_schema((&interrupt).into(), &Anew);
        }
        Ok(interrupt)
    }
}

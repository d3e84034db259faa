//! Grants: decisions that hold for the rest of a session. One is for one tool of one agent, and for nobody else's of
//! the same name.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;
use super::decision::{Decider, Decision, TOOL_APPROVAL};
use super::id::{GrantId, TurnId};
use super::time::Timestamp;

/// A decision that was made with `always`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub grant_id: GrantId,
    /// The agent that it is for.
    pub agent: Option<String>,
    /// The tool that it is for.
    pub tool: String,
    /// Where the tool is from when it is not the agent's own, such as an MCP server; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_source: Option<String>,
    /// What was decided.
    pub decision: GrantedDecision,
    /// Why, for a rejection.
    pub reason: Option<String>,
    /// What the model is told of a rejection instead of the built-in text.
    pub message: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// Who decided, where authentication told; `on_approval` where the tool's own code did.
    pub created_by: Option<String>,
    /// Who alone could decide when it was made; left out where whoever may answer at all could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// The turn that it ends with, where the tool's own code made it; left out where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

/// What can be decided for the rest of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantedDecision {
    /// Calls run without asking.
    Approve,
    /// Calls are rejected without asking.
    Reject,
}

/// Which calls a grant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantScope<'a> {
    /// The agent that calls.
    pub agent: Option<&'a str>,
    /// The tool.
    pub tool: &'a str,
    /// Where the tool is from.
    pub tool_source: Option<&'a str>,
}

impl<'a> GrantScope<'a> {
    /// That of the call that an interrupt is about; `None` for what is no tool approval.
    pub fn of(
        kind: &str,
        payload: &'a JsonObject,
        agent: Option<&'a str>,
        tool_source: Option<&'a str>,
    ) -> Option<Self> {
        let tool = payload.get("tool_name").and_then(Value::as_str).filter(|_| kind == TOOL_APPROVAL)?;
        Some(Self { agent, tool, tool_source })
    }
}

impl Grant {
    /// What `decision` makes of the calls in `scope` from now on; `None` for one that is not for always, or not
    /// about calls. `approvers` alone could make it.
    pub fn new(
        id: GrantId,
        scope: Option<GrantScope<'_>>,
        decision: &Decision,
        by: Option<&str>,
        approvers: &[String],
        now: Timestamp,
    ) -> Option<Self> {
        let scope = scope?;
        let (granted, reason, message) = match decision {
            Decision::Approve { always: true, .. } => (GrantedDecision::Approve, None, None),
            Decision::Reject { always: true, reason, message, .. } => {
                (GrantedDecision::Reject, reason.clone(), message.clone())
            }
            _ => return None,
        };
        Some(Self {
            grant_id: id,
            agent: scope.agent.map(str::to_owned),
            tool: scope.tool.to_owned(),
            tool_source: scope.tool_source.map(str::to_owned),
            decision: granted,
            reason,
            message,
            created_at: now,
            created_by: by.map(str::to_owned),
            approvers: approvers.to_vec(),
            turn_id: None,
        })
    }

    /// The same, made by code: it ends with the turn. What a worker says of its tools is not for later turns, which
    /// other workers run.
    #[must_use]
    pub fn ends_with(self, turn: TurnId) -> Self {
        Self { turn_id: Some(turn), ..self }
    }

    /// Whether it is for the calls of a turn.
    pub fn is_for_turn(&self, turn: TurnId) -> bool {
        self.turn_id.is_none_or(|of| of == turn)
    }

    /// Whether it takes the place of an earlier one. What code says takes nothing from what a person decided.
    pub fn replaces(&self, earlier: &Self) -> bool {
        earlier.scope() == self.scope() && (self.turn_id.is_none() || earlier.turn_id.is_some())
    }

    /// Whether it may decide what `approvers` alone may: those who could make it were the same ones.
    pub fn is_open_to(&self, approvers: &[String]) -> bool {
        approvers.is_empty() || self.approvers == approvers
    }

    /// The calls that it is for.
    pub fn scope(&self) -> GrantScope<'_> {
        GrantScope { agent: self.agent.as_deref(), tool: &self.tool, tool_source: self.tool_source.as_deref() }
    }

    /// What it decides over a call.
    pub fn decision(&self) -> Decision {
        match self.decision {
            GrantedDecision::Approve => Decision::APPROVE,
            GrantedDecision::Reject => Decision::Reject {
                reason: self.reason.clone(),
                message: self.message.clone(),
                always: false,
                by: Decider::Person,
            },
        }
    }

    /// The rule that a record of its decision shows.
    pub fn rule(&self) -> String {
        format!("grant:{}", self.grant_id)
    }
}

//! Decisions: answers to a tool approval. Two wire forms, one meaning (CONTRACT section 3), and no third way:
//! whatever is not exactly one of the forms is refused and leaves the interrupt pending.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::JsonObject;
use super::error::{FieldError, NOWHERE};

/// The type of interrupts that ask whether a tool may run.
pub const TOOL_APPROVAL: &str = "tool_approval";

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// The tool runs with exactly the arguments shown.
    Approve,
    /// The tool does not run; the model is told.
    Reject,
}

impl DecisionKind {
    /// Everything that can be decided.
    pub const ALL: [Self; 2] = [Self::Approve, Self::Reject];

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// One decision, whichever form it came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Decision {
    /// See [`DecisionKind::Approve`].
    Approve,
    /// See [`DecisionKind::Reject`].
    Reject {
        /// Why, appended to the built-in text.
        reason: Option<String>,
        /// What the model is told instead of the built-in text.
        message: Option<String>,
    },
}

impl Decision {
    /// What kind it is.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Approve => DecisionKind::Approve,
            Self::Reject { .. } => DecisionKind::Reject,
        }
    }

    /// Reads `{"approved": bool, "reason"?}` or `{"type": "approve" | "reject", ...}`. A missing `approved` is a no.
    ///
    /// # Errors
    /// Every place that is wrong: another type than boolean, an unknown member, a mixture of the forms, a decision
    /// that `allowed` does not list.
    pub fn read(value: &Value, allowed: &[DecisionKind]) -> Result<Self, Vec<FieldError>> {
        let Value::Object(members) = value else {
            return Err(vec![FieldError::wrong_type(NOWHERE, "an object such as {\"approved\": true}", value)]);
        };
        let decision = if members.contains_key("type") { read_typed(members)? } else { read_approved(members)? };
        if allowed.contains(&decision.kind()) {
            return Ok(decision);
        }
        let names: Vec<&str> = allowed.iter().map(|kind| kind.as_str()).collect();
        let place = if members.contains_key("type") { "type" } else { "approved" };
        Err(vec![FieldError::new(
            [place],
            "not_allowed",
            format!("{} is not allowed here; allowed: {}", decision.kind().as_str(), names.join(", ")),
        )])
    }
}

fn read_approved(members: &JsonObject) -> Result<Decision, Vec<FieldError>> {
    let mut errors = unknown_members(members, &["approved", "reason"]);
    let approved = match members.get("approved") {
        None => false,
        Some(Value::Bool(approved)) => *approved,
        Some(other) => {
            errors.push(FieldError::wrong_type(["approved"], "a boolean", other));
            false
        }
    };
    let reason = read_text(members, "reason", &mut errors);
    if approved && reason.is_some() {
        errors.push(FieldError::new(["reason"], "contradiction", "a reason goes with a rejection"));
    }
    finish(errors, if approved { Decision::Approve } else { Decision::Reject { reason, message: None } })
}

fn read_typed(members: &JsonObject) -> Result<Decision, Vec<FieldError>> {
    match members.get("type").and_then(Value::as_str) {
        Some("approve") => finish(unknown_members(members, &["type"]), Decision::Approve),
        Some("reject") => {
            let mut errors = unknown_members(members, &["type", "reason", "message"]);
            let reason = read_text(members, "reason", &mut errors);
            let message = read_text(members, "message", &mut errors);
            finish(errors, Decision::Reject { reason, message })
        }
        Some(other) => Err(vec![FieldError::new(
            ["type"],
            "unknown_decision",
            format!("unknown decision {other:?}; known: approve, reject"),
        )]),
        None => Err(vec![FieldError::new(["type"], "wrong_type", "must be a string")]),
    }
}

fn finish(errors: Vec<FieldError>, decision: Decision) -> Result<Decision, Vec<FieldError>> {
    if errors.is_empty() { Ok(decision) } else { Err(errors) }
}

fn unknown_members(members: &JsonObject, known: &[&str]) -> Vec<FieldError> {
    members
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            FieldError::new(
                [name.as_str()],
                "unknown_member",
                format!("unknown member; known here: {}", known.join(", ")),
            )
        })
        .collect()
}

fn read_text(members: &JsonObject, name: &str, errors: &mut Vec<FieldError>) -> Option<String> {
    match members.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => {
            errors.push(FieldError::wrong_type([name], "a string", other));
            None
        }
    }
}

/// The JSON Schema of what [`Decision::read`] takes.
pub fn response_schema(allowed: &[DecisionKind]) -> Value {
    let text = json!({"type": ["string", "null"]});
    let mut forms = Vec::new();
    if allowed.contains(&DecisionKind::Approve) {
        forms.push(json!({
            "type": "object", "required": ["approved"], "additionalProperties": false,
            "properties": {"approved": {"const": true}, "reason": {"type": "null"}},
        }));
        forms.push(json!({
            "type": "object", "required": ["type"], "additionalProperties": false,
            "properties": {"type": {"const": "approve"}},
        }));
    }
    if allowed.contains(&DecisionKind::Reject) {
        forms.push(json!({
            "type": "object", "additionalProperties": false,
            "properties": {"approved": {"const": false}, "reason": text},
        }));
        forms.push(json!({
            "type": "object", "required": ["type"], "additionalProperties": false,
            "properties": {"type": {"const": "reject"}, "reason": text, "message": text},
        }));
    }
    // An `anyOf` of nothing is no schema; where nothing may be decided, nothing is valid.
    if forms.is_empty() { json!(false) } else { json!({"anyOf": forms}) }
}

/// What the model is told of a rejection: `message` replaces the built-in text, a reason is appended to it.
pub fn rejection_text(tool_name: &str, reason: Option<&str>, message: Option<&str>) -> String {
    match (message, reason) {
        (Some(message), _) => message.to_owned(),
        (None, Some(reason)) if !reason.is_empty() => format!("User rejected {tool_name}: {reason}"),
        (None, _) => format!("User rejected {tool_name}"),
    }
}

#[cfg(test)]
mod tests;

//! Decisions: answers to a tool approval. Two wire forms, one meaning, and no third way:
//! whatever is not exactly one of the forms is refused and leaves the interrupt pending.

mod form;
mod reading;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::JsonObject;
use super::error::FieldError;
use super::schema::{Anew, Validators};

pub use form::{Forms, response_schema};

/// The type of interrupts that ask whether a tool may run.
pub const TOOL_APPROVAL: &str = "tool_approval";

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// The tool runs with exactly the arguments shown.
    Approve,
    /// The tool runs with other arguments; the model is told.
    Edit,
    /// The tool does not run; the model is told.
    Reject,
    /// The tool does not run; the answer is its result.
    Respond,
}

impl DecisionKind {
    /// Everything that can be decided.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Edit, Self::Reject, Self::Respond];
    /// What can be decided where whoever asks does not say: yes or no.
    pub const UNSAID: [Self; 2] = [Self::Approve, Self::Reject];

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
            Self::Respond => "respond",
        }
    }
}

/// Whose decision a rejection is: the model is told in other words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decider {
    /// A person's, or that of code that stands in for one.
    #[default]
    Person,
    /// A rule's.
    Policy,
}

impl Decider {
    fn is_person(&self) -> bool {
        *self == Self::Person
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "person" => Some(Self::Person),
            "policy" => Some(Self::Policy),
            _ => None,
        }
    }
}

/// One decision, whichever form it came in. As JSON it is the normal form: the typed one, without members that say
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Decision {
    /// See [`DecisionKind::Approve`].
    Approve {
        /// Also for later calls of this tool in this session.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        always: bool,
        /// Whose it is: what a person approved runs once, what only passed a rule may run again after a crash.
        #[serde(skip_serializing_if = "Decider::is_person")]
        by: Decider,
    },
    /// See [`DecisionKind::Edit`].
    Edit {
        /// What it runs with.
        args: JsonObject,
    },
    /// See [`DecisionKind::Reject`].
    Reject {
        /// Why, appended to the built-in text.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What the model is told instead of the built-in text.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Also for later calls of this tool in this session.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        always: bool,
        /// Whose it is.
        #[serde(skip_serializing_if = "Decider::is_person")]
        by: Decider,
    },
    /// See [`DecisionKind::Respond`].
    Respond {
        /// The tool's result, any JSON value.
        message: Value,
    },
}

/// What decides over a decision.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// What may be decided.
    pub allowed: &'a [DecisionKind],
    /// The tool that is asked about, where it is known: an edit cannot make another one of it.
    pub tool_name: Option<&'a str>,
    /// The JSON Schema of the tool's arguments, which those of an edit have to fit.
    pub args_schema: Option<&'a Value>,
}

impl Decision {
    /// An approval of this call alone.
    pub const APPROVE: Self = Self::Approve { always: false, by: Decider::Person };
    /// A rule, or none, lets this call run.
    pub const PASSED: Self = Self::Approve { always: false, by: Decider::Policy };

    /// What kind it is.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Approve { .. } => DecisionKind::Approve,
            Self::Edit { .. } => DecisionKind::Edit,
            Self::Reject { .. } => DecisionKind::Reject,
            Self::Respond { .. } => DecisionKind::Respond,
        }
    }

    /// Whether it is for later calls too.
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Approve { always: true, .. } | Self::Reject { always: true, .. })
    }

    /// The same for this call alone.
    pub fn once(self) -> Self {
        match self {
            Self::Approve { by, .. } => Self::Approve { always: false, by },
            Self::Reject { reason, message, by, .. } => Self::Reject { reason, message, always: false, by },
            other => other,
        }
    }

    /// Reads what somebody decided, in either form: `{"approved": bool, "reason"?, "args"?, "always"?}`, where a missing
    /// `approved` is a no, or `{"type": "approve" | "edit" | "reject" | "respond", ...}`.
    ///
    /// # Errors
    /// Every place that is wrong: another type, an unknown member, a mixture of the forms, a contradiction, a decision
    /// that is not allowed, another tool, arguments that do not fit the tool.
    pub fn read(value: &Value, terms: Terms<'_>, validators: &dyn Validators) -> Result<Self, Vec<FieldError>> {
        reading::read(value, terms, validators)
    }

    /// Reads a decision that stands in a journal: what [`Decision::read`] takes, and what a rule decided, which nobody
    /// can post.
    ///
    /// # Errors
    /// As [`Decision::read`].
    pub fn recorded(value: &Value, terms: Terms<'_>) -> Result<Self, Vec<FieldError>> {
        reading::recorded(value, terms, &Anew)
    }

    /// The normal form.
    pub fn to_value(&self) -> Value {
        json!(self)
    }
}

/// What the model is told of a rejection: `message` replaces the built-in text, a reason is appended to it.
pub fn rejection_text(tool_name: &str, reason: Option<&str>, message: Option<&str>, by: Decider) -> String {
    let who = match by {
        Decider::Person => "User",
        Decider::Policy => "Policy",
    };
    match (message, reason) {
        (Some(message), _) => message.to_owned(),
        (None, Some(reason)) if !reason.is_empty() => format!("{who} rejected {tool_name}: {reason}"),
        (None, _) => format!("{who} rejected {tool_name}"),
    }
}

/// What the model is told, after the result, of a call that ran with other arguments than its own.
pub fn edited_text(args: &JsonObject) -> String {
    format!("[A person changed the arguments of this call to {}]", json!(args))
}

#[cfg(test)]
mod tests;

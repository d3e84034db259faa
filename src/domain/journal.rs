//! The journal of a turn: an ordered list of entries (DESIGN section 2). An entry is written once and never changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;
use super::id::InterruptId;
use super::message::ChatMessage;

/// Which step it is, and by what a replay would recognise it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepIdentity {
    /// Task path and number in that task: `0.1#2`; inside a step body `outer/inner`.
    pub path: String,
    /// The author's key, which then identifies the step instead of its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `model`, `tool`, `step`, `guardrail`, `policy`, `clock`, `mcp` or `interrupt`.
    pub kind: String,
    /// The function's or tool's name.
    pub name: String,
    /// `file.py:12`, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// One digest per argument; the arguments themselves are not stored.
    #[serde(default)]
    pub arguments: JsonObject,
}

/// What a step came to, encoded by the worker's codec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepResult {
    /// It returned.
    Value(Value),
    /// It raised.
    Error(Value),
}

/// How a turn came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The agent returned; the response and state are the session's.
    Done,
    /// It failed with this text.
    Failed(String),
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "lowercase")]
pub enum Entry {
    /// The turn began with this message.
    Start {
        /// What was sent.
        message: ChatMessage,
    },
    /// A step finished.
    Step {
        /// Which.
        step: StepIdentity,
        /// With what.
        result: StepResult,
    },
    /// The turn asked somebody.
    Ask {
        /// Which step asks.
        step: StepIdentity,
        /// The interrupt's record.
        interrupt_id: InterruptId,
    },
    /// Somebody answered.
    Answer {
        /// Which interrupt.
        interrupt_id: InterruptId,
        /// With what.
        value: Value,
    },
    /// Nobody answered in time.
    Expire {
        /// Which interrupt.
        interrupt_id: InterruptId,
    },
    /// The agent does not wait for it any more.
    Withdraw {
        /// Which interrupt.
        interrupt_id: InterruptId,
    },
    /// Somebody stopped the turn.
    Cancel {},
    /// The turn is over.
    End {
        /// How.
        ending: Ending,
    },
}

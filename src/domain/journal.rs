//! The journal of a turn: an ordered list of entries. An entry is written once and never changed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;
use super::id::InterruptId;
use super::size::{size_of_members, size_of_value};
use super::time::{Timestamp, as_millis};

mod abandoned;

pub use abandoned::{Abandoned, AbandonedCall, AbandonedReply, AbandonedTurn, CallOutcome, LONGEST, MOST};

/// Which code a worker runs: a digest of the application's sources (16 hex), or the author's own text.
pub type CodeVersion = String;

/// Which step it is, and by what a replay recognises it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepIdentity {
    /// What identifies it in its turn. Task path and number in that task, `0.1#2`, or where the author gave a key,
    /// `0.1~key` (the second use of a key is `0.1~key#2`); inside a step body `outer/inner`.
    pub path: String,
    /// `model`, `tool`, `step`, `guardrail`, `policy`, `clock`, `mcp` or `interrupt`.
    pub kind: String,
    /// The function's or tool's name.
    pub name: String,
    /// `file.py:12`, where it was asked for. Shown, never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// One digest per argument (32 hex); the arguments themselves are not stored.
    #[serde(default)]
    pub arguments: JsonObject,
    /// Of what belongs to one call of a model's message: the call's id. Never compared; older journals do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
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

/// A timer of the turn that has not fired yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTimer {
    /// Which.
    pub path: String,
    /// When it is to fire.
    #[serde(with = "as_millis")]
    pub due: Timestamp,
}

/// An order mark: something outside the journal (raw I/O, a thread, another turn) woke a task of the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The index of the entry that had been delivered last before it.
    pub after: u64,
    /// The task.
    pub task: String,
    /// `file.py:12`, what the task awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl Wake {
    /// Whether the task belongs to the body of a step, whose path is before a slash.
    pub fn is_in_step(&self) -> bool {
        self.task.contains('/')
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "lowercase")]
pub enum Entry {
    /// The turn began. Its message is in the turn's row.
    Start {
        /// With which code.
        code: CodeVersion,
        /// On which Python, such as `3.11`.
        python: String,
        /// There were rules then: calls of tools that need no approval ask too, since a rule may say otherwise.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        policy: bool,
        /// What turns before it did that came to no answer: its models are told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        abandoned: Option<Box<Abandoned>>,
        /// The span that it is a part of (`traceparent` of W3C's Trace Context), where the request named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
    },
    /// A worker with other code or another Python than the last one took the turn over, or the turn was taken up again
    /// from where nothing was wrong with it: a run from its state, a retry after its model was away. Or there were rules
    /// when it was taken up and had been none, or the other way round.
    Taken {
        /// The code from here on.
        code: CodeVersion,
        /// The Python from here on.
        python: String,
        /// Where that has changed: whether there are rules from here on, for calls that are not in the journal by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<bool>,
    },
    /// The body of a `once` step begins.
    Intent {
        /// Which.
        step: StepIdentity,
        /// Of a tool's call, what it is called with, as far as that is to be seen elsewhere
        /// or the beginning of it. Never compared; older journals do not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
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
    /// A timer of the turn fired.
    Timer {
        /// Which.
        path: String,
        /// When it was to fire.
        #[serde(with = "as_millis")]
        due: Timestamp,
    },
    /// Order marks, written later than what they tell of.
    Wakes {
        /// In their order.
        wakes: Vec<Wake>,
    },
    /// From here on the turn awaits nothing but people and timers. It is paused exactly while this is its last entry.
    Pause {
        /// The timers that it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        timers: Vec<PendingTimer>,
        /// The context object of the run as it was then, encoded by the worker's codec; none for a run without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Value>,
    },
    /// Somebody stopped the turn.
    Cancel {},
    /// The turn is over.
    End {
        /// How.
        ending: Ending,
    },
}

impl Entry {
    /// Whether the turn itself has said it, so that whoever goes on with the turn says it again in a replay.
    pub fn is_of_turn(&self) -> bool {
        match self {
            Self::Intent { .. }
            | Self::Step { .. }
            | Self::Ask { .. }
            | Self::Withdraw { .. }
            | Self::Timer { .. }
            | Self::Wakes { .. }
            | Self::Pause { .. } => true,
            Self::Start { .. }
            | Self::Taken { .. }
            | Self::Answer { .. }
            | Self::Expire { .. }
            | Self::Cancel {}
            | Self::End { .. } => false,
        }
    }

    /// The interrupt that was asked for, with the step that did.
    pub fn asked(&self) -> Option<(InterruptId, &StepIdentity)> {
        match self {
            Self::Ask { step, interrupt_id } => Some((*interrupt_id, step)),
            _ => None,
        }
    }

    /// About how many bytes it has, of what people, models and tools have said.
    pub fn size(&self) -> usize {
        let of_step = |step: &StepIdentity| size_of_members(&step.arguments);
        match self {
            Self::Step { step, result: StepResult::Value(value) | StepResult::Error(value) } => {
                of_step(step) + size_of_value(value)
            }
            Self::Intent { step, arguments } => of_step(step) + arguments.as_ref().map_or(0, size_of_value),
            Self::Ask { step, .. } => of_step(step),
            Self::Answer { value, .. } => size_of_value(value),
            Self::Pause { context: Some(context), .. } => size_of_value(context),
            _ => 0,
        }
    }

    /// The interrupt that was answered.
    pub fn answered(&self) -> Option<InterruptId> {
        match self {
            Self::Answer { interrupt_id, .. } => Some(*interrupt_id),
            _ => None,
        }
    }

    /// The step that began and may only be done once.
    pub fn intent(&self) -> Option<&StepIdentity> {
        match self {
            Self::Intent { step, .. } => Some(step),
            _ => None,
        }
    }
}

/// An entry as it stands in a journal. Its index there is its position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEntry {
    /// When it was appended.
    #[serde(with = "as_millis")]
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub entry: Entry,
}

#[cfg(test)]
mod tests;

//! What turns did that came to no answer: they were given up, failed or were cancelled. The conversation does not have it,
//! since such a turn leaves the messages as they were: so the turn after it is told, in its `start`, and a replay of that
//! turn reads it there.
//!
//! It is bounded: long texts are shortened, and what is oldest is left out first. Of images and files the addresses are
//! kept, and the names and types: their bytes would be told to every later turn of the session.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::domain::JsonObject;
use crate::domain::attached::Marked;
use crate::domain::decision::Decider;
use crate::domain::message::{Attachment, ChatMessage};
use crate::domain::payload::{MAX_DEPTH, depth, json_size};

/// The longest text, and the longest compact JSON, that is kept of one thing, in bytes.
pub const LONGEST: usize = 4096;
/// How large all of it may be as compact JSON, in bytes.
pub const MOST: usize = 32 * 1024;
/// The longest of one thing where a single message of a model has so many calls that it would be more than [`MOST`].
const SHORT: usize = 256;
/// More than the brackets and names are that are written around what is counted by itself.
const AROUND: usize = 64;

/// What turns did that came to no answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Abandoned {
    /// The turns that did something, oldest first.
    pub turns: Vec<AbandonedTurn>,
    /// How many tool calls are left out, all older than those that are not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbandonedTurn {
    /// What it was to answer.
    #[serde(serialize_with = "without_nulls")]
    pub message: ChatMessage,
    /// What its models said and had done, in order; never empty.
    pub replies: Vec<AbandonedReply>,
}

/// A message of a model with tool calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbandonedReply {
    /// What it said beside the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The calls, in its order; never empty.
    pub calls: Vec<AbandonedCall>,
    /// What finished, or was rejected, inside of those calls that came to no end: calls of agents that are tools, and steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<AbandonedCall>,
}

/// A tool call, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbandonedCall {
    /// Its id in the conversation; none for a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name, or the step's.
    pub name: String,
    /// As the model wrote them; none where no model did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// What a person, or the tool's own code, made of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<JsonObject>,
    /// What came of it.
    pub outcome: CallOutcome,
    /// How many output guardrails have seen the result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub guardrails: usize,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It returned this, encoded by the worker's codec.
    Value(Value),
    /// It returned what begins so, and is too long to be kept.
    Beginning(String),
    /// It raised: `TypeName: message`.
    Failed(String),
    /// Somebody said no: it did not run.
    Rejected {
        /// Why.
        #[serde(default)]
        reason: Option<String>,
        /// What the model is told instead of the built-in text.
        #[serde(default)]
        message: Option<String>,
        /// Whose no it is.
        #[serde(default)]
        by: Decider,
    },
    /// Somebody answered in its place: it did not run.
    Responded(Value),
    /// Nobody decided in time: it did not run.
    Expired,
    /// Nobody has decided: it did not run.
    Undecided,
    /// It is `once`, and had begun: nobody knows what came of it.
    Unknown,
    /// Nothing is recorded of its end.
    Unfinished,
    /// A step that is no tool call is over; what it returned is no part of the conversation.
    Finished,
}

impl Abandoned {
    /// What is known after a turn about `message`, which did this, came to no answer; `before` is what was known before it.
    /// `None` where nothing was done. `replies` are all that the turn's models said, or the last of them, together more
    /// than [`MOST`], where `older` calls were before them.
    pub fn with(
        before: Option<&Self>,
        message: &ChatMessage,
        replies: Vec<AbandonedReply>,
        older: usize,
    ) -> Option<Self> {
        let mut all = before.cloned().unwrap_or_default();
        if !replies.is_empty() {
            all.turns.push(AbandonedTurn { message: bounded_message(message), replies });
        }
        all.bound();
        all.left_out += older;
        (!all.turns.is_empty()).then_some(all)
    }

    /// Leaves out the oldest until the rest is small enough; the last message of a model stays, shortened if need be.
    fn bound(&mut self) {
        let mut room = MOST - AROUND;
        let (mut kept, mut is_full) = (Vec::new(), false);
        for AbandonedTurn { message, replies } in std::mem::take(&mut self.turns).into_iter().rev() {
            let mut needed = json_size(&message.without_nulls()) + AROUND;
            let mut newest = Vec::new();
            for mut reply in replies.into_iter().rev() {
                needed += json_size(&reply) + 1;
                let is_last = kept.is_empty() && newest.is_empty();
                if is_last && needed > room {
                    let around = needed - json_size(&reply);
                    self.left_out += reply.bound(room.saturating_sub(around));
                    is_full = true;
                } else if is_full || needed > room {
                    self.left_out += reply.calls.len();
                    is_full = true;
                    continue;
                }
                room = room.saturating_sub(std::mem::take(&mut needed));
                newest.push(reply);
            }
            if !newest.is_empty() {
                newest.reverse();
                kept.push(AbandonedTurn { message, replies: newest });
            }
        }
        kept.reverse();
        self.turns = kept;
    }
}

impl AbandonedReply {
    /// Lets it be no larger than `most`: its texts are shortened, and where that is not enough, its first calls are left
    /// out. How many of its calls are; the last one stays.
    fn bound(&mut self, most: usize) -> usize {
        self.shorten(SHORT);
        let mut room = most.saturating_sub(AROUND + self.content.as_ref().map_or(0, json_size));
        let mut left_out = [0, 0];
        for (calls, left_out) in [&mut self.calls, &mut self.within].into_iter().zip(&mut left_out) {
            let fits = |call: &&AbandonedCall| {
                let left = room.checked_sub(json_size(call) + 1);
                room = left.unwrap_or_default();
                left.is_some()
            };
            *left_out = calls.len() - calls.iter().rev().take_while(fits).count();
        }
        let [of_calls, of_within] = left_out;
        let of_calls = of_calls.min(self.calls.len().saturating_sub(1));
        drop(self.calls.drain(..of_calls));
        drop(self.within.drain(..of_within));
        of_calls
    }

    /// Lets no part of it be longer than `longest`.
    pub(in crate::domain) fn shorten(&mut self, longest: usize) {
        self.content = self.content.take().map(|content| shortened(content, longest));
        self.calls.iter_mut().chain(&mut self.within).for_each(|call| call.shorten(longest));
    }
}

impl AbandonedCall {
    pub(in crate::domain) fn shorten(&mut self, longest: usize) {
        // Providers read the arguments of a call as JSON.
        self.arguments = self.arguments.take().map(|arguments| match beginning(&arguments, longest) {
            Some(start) => json!({"shortened": start}).to_string(),
            None => arguments,
        });
        if self.edited.as_ref().is_some_and(|edited| json!(edited).to_string().len() > longest) {
            let text = self.edited.take().map(|edited| json!(edited).to_string()).unwrap_or_default();
            self.edited = Some(JsonObject::from_iter([("shortened".to_owned(), shortened(text, longest).into())]));
        }
        self.outcome = match std::mem::replace(&mut self.outcome, CallOutcome::Unfinished) {
            CallOutcome::Value(value) => {
                // Before it is measured: a picture is longer than all that is said of it.
                let value = Marked::of(&value).map_or(value, Marked::into_read);
                match beginning_of(&value, longest) {
                    Some(start) => CallOutcome::Beginning(start),
                    None => CallOutcome::Value(value),
                }
            }
            CallOutcome::Responded(value) => match beginning_of(&value, longest) {
                Some(start) => CallOutcome::Beginning(start),
                None => CallOutcome::Responded(value),
            },
            CallOutcome::Beginning(text) => CallOutcome::Beginning(shortened(text, longest)),
            CallOutcome::Failed(text) => CallOutcome::Failed(shortened(text, longest)),
            CallOutcome::Rejected { reason, message, by } => CallOutcome::Rejected {
                reason: reason.map(|reason| shortened(reason, longest)),
                message: message.map(|message| shortened(message, longest)),
                by,
            },
            other => other,
        };
    }
}

/// The message with a text that is not too long, and what is attached to it by address; the rest of it is named in the text.
fn bounded_message(message: &ChatMessage) -> ChatMessage {
    let (attachments, named) = addresses(message);
    let content = message.content.clone().map(|content| shortened(content, LONGEST));
    let content = match (content, named) {
        (content, None) => content,
        (None, named) => named,
        (Some(content), Some(named)) => Some(format!("{content}\n\n{named}").trim_start().to_owned()),
    };
    let is_short = |params: &JsonObject| json!(params).to_string().len() <= LONGEST;
    let user_params = message.user_params.clone().filter(is_short);
    let ChatMessage { role, name, tool_call_id, .. } = message.clone();
    ChatMessage { role, content, name, tool_call_id, attachments, user_params, ..ChatMessage::default() }
}

/// What is attached by its address, as far as there is room, and a line for each of the others.
fn addresses(message: &ChatMessage) -> (Option<Vec<Attachment>>, Option<String>) {
    let mut room = LONGEST;
    let (kept, others): (Vec<_>, Vec<_>) = message.attached().into_iter().partition(|attachment| {
        let left = attachment.url.as_ref().and_then(|_| room.checked_sub(json_size(attachment)));
        room = left.unwrap_or(room);
        left.is_some()
    });
    let lines: Vec<String> =
        others.iter().map(|other| format!("[attached, and left out here: {}]", other.described())).collect();
    let named = (!lines.is_empty()).then(|| shortened(lines.join("\n"), LONGEST));
    ((!kept.is_empty()).then_some(kept), named)
}

/// The beginning of a value's text that is longer than `longest`: of a string itself, else of its JSON. All of the text of
/// one that nests too deeply to be stored where it is told.
fn beginning_of(value: &Value, longest: usize) -> Option<String> {
    match value {
        Value::String(text) => beginning(text, longest),
        other if depth(other) > MAX_DEPTH => Some(shortened(other.to_string(), longest)),
        other => beginning(&other.to_string(), longest),
    }
}

fn beginning(text: &str, longest: usize) -> Option<String> {
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    if text.len() <= longest { None } else { text.get(..end).map(str::to_owned) }
}

/// The text, or its beginning with a mark behind it.
fn shortened(text: String, longest: usize) -> String {
    match beginning(&text, longest) {
        Some(start) => format!("{start}..."),
        None => text,
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn without_nulls<S: Serializer>(message: &ChatMessage, serializer: S) -> Result<S::Ok, S::Error> {
    message.without_nulls().serialize(serializer)
}

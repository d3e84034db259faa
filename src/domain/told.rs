//! What listeners hear of the steps of a turn: a message of a model, a tool that began, a tool that is done. Nothing is
//! stored for it but a number beside the entry of the journal that it is made of.
//!
//! It shows what [`super::timeline`] shows of the same entries, and more of it: whoever follows a conversation needs the
//! message, and not its beginning. Of files less: an event is kept for all who listen, and the journal has them.

use serde_json::{Value, json};

use super::JsonObject;
use super::attached::{Marked, ShownAttachment};
use super::event::EventView;
use super::id::{SessionId, TurnId};
use super::journal::{Entry, StepIdentity, StepResult};
use super::message::Attachment;
use super::text::beginning_of;
use super::timeline::raised;

/// The longest compact JSON of a message, of arguments, or of what a tool returned that an event has, in bytes.
pub const LONGEST: usize = 65_536;
/// How much an event has of the files that a tool returned, in bytes of base64 and addresses.
const MOST_FILES: usize = LONGEST;
/// The longest arguments that are kept beside what a call begins with, in bytes of compact JSON; as much as a person is
/// shown where nothing else is set.
pub const LONGEST_ARGUMENTS: usize = 16_384;
/// What is left of the arguments of each call where a message is too long.
const SHORT_ARGUMENTS: usize = 1024;
/// What a message may have for its content then, and for its calls.
const HALF: usize = LONGEST / 2 - 128;

/// The kinds of such events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEvent {
    /// A model has said something, whole.
    MessageCompleted,
    /// A tool begins.
    ToolStarted,
    /// A tool has returned or raised.
    ToolFinished,
}

impl StepEvent {
    /// What listeners are told of an entry, if anything.
    pub fn of(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Step { step, result } => match (step.kind.as_str(), result) {
                ("model", StepResult::Value(reply)) => message_in(reply).map(|_| Self::MessageCompleted),
                ("tool", _) => Some(Self::ToolFinished),
                _ => None,
            },
            Entry::Intent { step, .. } if step.kind == "tool" => Some(Self::ToolStarted),
            _ => None,
        }
    }

    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MessageCompleted => "message.completed",
            Self::ToolStarted => "tool.started",
            Self::ToolFinished => "tool.finished",
        }
    }
}

/// A tool that begins although nothing in the journal says so: it may run again after a crash. Never stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedTool {
    /// What identifies the step in its turn.
    pub step_id: String,
    /// The tool's name.
    pub name: String,
    /// The call of a model's message that it belongs to.
    pub tool_call_id: Option<String>,
    /// What it is called with, as far as that is to be seen elsewhere.
    pub arguments: Option<Value>,
}

impl StartedTool {
    /// As it goes out.
    pub fn view(&self, session: SessionId, turn: TurnId) -> EventView {
        let call = (self.step_id.as_str(), self.name.as_str(), self.tool_call_id.as_deref());
        started(session, turn, call, self.arguments.as_ref())
    }
}

/// What goes out of an entry of a session's turn; `None` where nobody is told of such an entry.
pub fn view(session: SessionId, turn: TurnId, entry: &Entry) -> Option<EventView> {
    match (StepEvent::of(entry)?, entry) {
        (StepEvent::ToolStarted, Entry::Intent { step, arguments }) => {
            Some(started(session, turn, called(step), arguments.as_ref()))
        }
        (kind @ StepEvent::MessageCompleted, Entry::Step { step, result: StepResult::Value(reply) }) => {
            let mut data = place(session, turn, &step.path);
            let (message, shortened) = whole_or_less(message_in(reply)?);
            data.insert("message".to_owned(), message);
            Some(finished(kind, session, data, shortened))
        }
        (kind @ StepEvent::ToolFinished, Entry::Step { step, result }) => {
            let mut data = place(session, turn, &step.path);
            name(&mut data, called(step));
            let (member, (shown, shortened)) = match result {
                StepResult::Value(value) => match Marked::of(value) {
                    None => ("result", bounded(value, LONGEST)),
                    Some(marked) => {
                        data.insert("attachments".to_owned(), json!(fitting_in(marked.attachments)));
                        ("result", bounded(&marked.value, LONGEST))
                    }
                },
                StepResult::Error(error) => {
                    let text = raised(error, true);
                    let start = beginning_of(&text, LONGEST);
                    ("error", (Value::from(start), start.len() < text.len()))
                }
            };
            data.insert(member.to_owned(), shown);
            Some(finished(kind, session, data, shortened))
        }
        _ => None,
    }
}

/// The arguments as they are kept in a journal: the beginning of their JSON where they are longer than is shown.
pub fn kept_arguments(arguments: Value) -> Value {
    match bounded(&arguments, LONGEST_ARGUMENTS) {
        (_, false) => arguments,
        (start, true) => start,
    }
}

/// What a tool attached, each as long as there is room for it.
fn fitting_in(attached: Vec<Attachment>) -> Vec<ShownAttachment> {
    let mut shown = ShownAttachment::all(attached);
    let mut room = MOST_FILES;
    shown.iter_mut().for_each(|attachment| attachment.fit(&mut room));
    shown
}

type Called<'s> = (&'s str, &'s str, Option<&'s str>);

fn called(step: &StepIdentity) -> Called<'_> {
    (&step.path, &step.name, step.tool_call_id.as_deref())
}

fn started(session: SessionId, turn: TurnId, call: Called<'_>, arguments: Option<&Value>) -> EventView {
    let mut data = place(session, turn, call.0);
    name(&mut data, call);
    // Arguments are an object; of longer ones a journal has the beginning.
    let (shown, shortened) = arguments.map_or((Value::Null, false), |given| bounded(given, LONGEST_ARGUMENTS));
    let shortened = shortened || shown.is_string();
    data.insert("args".to_owned(), shown);
    finished(StepEvent::ToolStarted, session, data, shortened)
}

fn place(session: SessionId, turn: TurnId, step: &str) -> JsonObject {
    let members = [("session_id", json!(session)), ("turn_id", json!(turn)), ("step_id", json!(step))];
    members.map(|(member, value)| (member.to_owned(), value)).into_iter().collect()
}

fn name(data: &mut JsonObject, (_, name, call): Called<'_>) {
    data.insert("tool_call_id".to_owned(), json!(call));
    data.insert("name".to_owned(), json!(name));
}

fn finished(kind: StepEvent, session_id: SessionId, mut data: JsonObject, shortened: bool) -> EventView {
    if shortened {
        data.insert("shortened".to_owned(), json!(true));
    }
    EventView { name: kind.as_str().to_owned(), session_id, data }
}

/// The message in what a model's step returned, whichever framework called it.
fn message_in(reply: &Value) -> Option<&JsonObject> {
    reply.get("message")?.as_object()
}

/// A value, or the beginning of its JSON as text where that is longer than `longest`; and whether it is.
fn bounded(value: &Value, longest: usize) -> (Value, bool) {
    let text = value.to_string();
    let start = beginning_of(&text, longest);
    if start.len() == text.len() { (value.clone(), false) } else { (Value::from(start), true) }
}

/// A message without nulls; of one that is too long, who says it, what it begins with, and its calls.
fn whole_or_less(message: &JsonObject) -> (Value, bool) {
    let said = message.iter().filter(|(_, value)| !value.is_null());
    let whole: JsonObject = said.map(|(member, value)| (member.clone(), value.clone())).collect();
    let whole = Value::Object(whole);
    if whole.to_string().len() <= LONGEST {
        return (whole, false);
    }
    let mut less = JsonObject::new();
    less.insert("role".to_owned(), message.get("role").cloned().unwrap_or_default());
    if let Some(content) = message.get("content").and_then(Value::as_str) {
        less.insert("content".to_owned(), Value::from(fitting(content, HALF)));
    }
    if let Some(calls) = message.get("tool_calls").and_then(Value::as_array) {
        less.insert("tool_calls".to_owned(), fewer(calls));
    }
    (Value::Object(less), true)
}

/// As much of a text as there is room for in JSON.
fn fitting(text: &str, mut room: usize) -> &str {
    for (place, character) in text.char_indices() {
        let length = match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        match room.checked_sub(length) {
            Some(left) => room = left,
            None => return text.get(..place).unwrap_or_default(),
        }
    }
    text
}

/// As many calls as there is room for, with the beginnings of their arguments.
fn fewer(calls: &[Value]) -> Value {
    let mut room = HALF;
    let mut kept = Vec::new();
    for call in calls {
        let mut call = call.clone();
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && let Some(text) = arguments.as_str()
        {
            *arguments = Value::from(beginning_of(text, SHORT_ARGUMENTS));
        }
        let Some(left) = room.checked_sub(call.to_string().len()) else { break };
        room = left;
        kept.push(call);
    }
    Value::Array(kept)
}

#[cfg(test)]
mod tests;

//! A journal as people read it: what happened in a turn, one line an entry.
//!
//! Whoever may read a session's messages may read this, so it shows the same kind of thing: results of model and tool
//! calls, of agents within the agent and of failed turns too, answers, and what is attached to the message that the turn
//! is about and to what tools returned. What another step returned stays in the journal; of its error only the class is
//! shown.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::attached::{Marked, ShownAttachment};
use super::id::{InterruptId, TurnId};
use super::journal::{Ending, Entry, RecordedEntry, StepIdentity, StepResult};
use super::message::{ChatMessage, Role};
use super::text::beginning_of;
use super::time::Timestamp;

/// The longest compact JSON that is shown of a result, an error or an answer, in bytes.
pub const LONGEST: usize = 2048;
/// How much of files a page of a journal has, in bytes of base64 and addresses. Twice what its texts come to at the most (a
/// thousand entries of 2 KiB), and four times what a message may have where nothing else is set (`--max-body`): what a
/// person sent is shown whole, and some pictures of tools besides. A page of fewer entries has room for others.
pub const MOST_FILES: usize = 4 * 1024 * 1024;
/// The kinds of steps whose results are part of the conversation.
const SHOWN: [&str; 2] = ["model", "tool"];

/// Where a page of a journal begins. Of one turn: the next one has a journal of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineCursor {
    /// Whose journal.
    pub turn: TurnId,
    /// The entry's index.
    pub index: u64,
}

impl fmt::Display for TimelineCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.turn, self.index)
    }
}

impl TimelineCursor {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (turn, index) = text.split_once('.')?;
        let is_plain = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        let index = is_plain.then(|| index.parse::<i64>().ok()).flatten()?;
        Some(Self { turn: turn.parse().ok()?, index: u64::try_from(index).ok()? })
    }
}

/// A page of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePage {
    /// The entries.
    pub items: Vec<TimelineEntry>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<TimelineCursor>,
}

impl TimelinePage {
    /// A page with as much of its files as there is room for: of the message that the turn is about first, then of the
    /// newest results. Who decides asks what there is now, and what it is about.
    pub fn of(mut items: Vec<TimelineEntry>, next: Option<TimelineCursor>) -> Self {
        let mut room = MOST_FILES;
        let first = items.iter().take_while(|entry| entry.entry == EntryKind::Start).count();
        let (start, others) = items.split_at_mut(first);
        let attached = start.iter_mut().chain(others.iter_mut().rev()).flat_map(|entry| &mut entry.attachments);
        attached.for_each(|attachment| attachment.fit(&mut room));
        Self { items, next }
    }
}

/// What kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// The turn began.
    Start,
    /// A worker with other code took it over, or it was taken up again.
    Taken,
    /// The body of a `once` step began.
    Intent,
    /// A step finished.
    Step,
    /// Somebody was asked.
    Ask,
    /// Somebody answered.
    Answer,
    /// Nobody answered in time.
    Expire,
    /// The agent does not wait for an answer any more.
    Withdraw,
    /// A timer fired.
    Timer,
    /// Something outside the journal woke a task.
    Wakes,
    /// From here on it waited.
    Pause,
    /// Somebody stopped it.
    Cancel,
    /// The turn is over.
    End,
}

/// What a turn is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartMessage {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Option<String>,
}

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineEntry {
    /// Its place in the journal, from 0.
    pub index: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What it is.
    pub entry: EntryKind,
    /// Of a step: `model`, `tool`, `step`, `guardrail`, `policy`, `clock`, `mcp` or `interrupt`.
    pub kind: Option<String>,
    /// Of a step: the function's or tool's name.
    pub name: Option<String>,
    /// Of a step: `file.py:12`, where it was asked for.
    pub location: Option<String>,
    /// Of a step or timer: what identifies it in the turn. An inner step is `outer/inner`.
    pub path: Option<String>,
    /// Of a step that is a call out of a model's message: which one; left out of any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The interrupt that was asked, answered, expired or withdrawn.
    pub interrupt_id: Option<InterruptId>,
    /// Of the start: the message that the turn is about, its first 2 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<StartMessage>,
    /// What a model or tool call returned, or the answer; left out where there is none to show. Where a tool attached
    /// something stands `[attachment 1: sales.png, image/png]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Images and files: of the start, those of the message; of a tool, those in what it returned. The first 32, left out
    /// where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ShownAttachment>,
    /// What a step raised, or why the turn failed; left out where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether `message`, `result` or `error` is the beginning of a longer one: a `result` is text then, of JSON.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

impl TimelineEntry {
    /// The entry at `index`.
    pub fn of(index: u64, recorded: &RecordedEntry) -> Self {
        let mut shown = Self {
            index,
            at: recorded.at,
            entry: EntryKind::Start,
            kind: None,
            name: None,
            location: None,
            path: None,
            tool_call_id: None,
            interrupt_id: None,
            message: None,
            result: None,
            attachments: Vec::new(),
            error: None,
            shortened: false,
        };
        shown.entry = shown.tell(&recorded.entry);
        shown
    }

    /// The same, which is the start of a turn about `message`.
    pub fn starting(mut self, message: &ChatMessage) -> Self {
        let content = message.content.as_deref();
        let shown = content.map(beginning);
        self.shortened = shown.map(str::len) < content.map(str::len);
        self.attachments = ShownAttachment::all(message.attached());
        self.message = Some(StartMessage { role: message.role, content: shown.map(str::to_owned) });
        self
    }

    fn tell(&mut self, entry: &Entry) -> EntryKind {
        match entry {
            Entry::Start { .. } => EntryKind::Start,
            Entry::Taken { .. } => EntryKind::Taken,
            Entry::Intent { step, .. } => {
                self.identify(step);
                EntryKind::Intent
            }
            Entry::Step { step, result } => {
                self.identify(step);
                let is_shown = SHOWN.contains(&step.kind.as_str());
                match result {
                    StepResult::Value(value) if step.kind == "tool" => self.show_returned(value),
                    StepResult::Value(value) if is_shown => self.show(value),
                    StepResult::Value(_) => {}
                    StepResult::Error(error) => self.fail(&raised(error, is_shown)),
                }
                EntryKind::Step
            }
            Entry::Ask { step, interrupt_id } => {
                self.identify(step);
                self.interrupt_id = Some(*interrupt_id);
                EntryKind::Ask
            }
            Entry::Answer { interrupt_id, value } => {
                self.interrupt_id = Some(*interrupt_id);
                self.show(value);
                EntryKind::Answer
            }
            Entry::Expire { interrupt_id } => {
                self.interrupt_id = Some(*interrupt_id);
                EntryKind::Expire
            }
            Entry::Withdraw { interrupt_id } => {
                self.interrupt_id = Some(*interrupt_id);
                EntryKind::Withdraw
            }
            Entry::Timer { path, .. } => {
                self.path = Some(path.clone());
                EntryKind::Timer
            }
            Entry::Wakes { .. } => EntryKind::Wakes,
            Entry::Pause { .. } => EntryKind::Pause,
            Entry::Cancel {} => EntryKind::Cancel,
            Entry::End { ending } => {
                if let Ending::Failed(message) = ending {
                    self.fail(message);
                }
                EntryKind::End
            }
        }
    }

    fn identify(&mut self, step: &StepIdentity) {
        self.kind = Some(step.kind.clone());
        self.name = Some(step.name.clone());
        self.location.clone_from(&step.location);
        self.path = Some(step.path.clone());
        self.tool_call_id.clone_from(&step.tool_call_id);
    }

    /// What a tool returned; its files are beside it, for their base64 tells nobody anything.
    fn show_returned(&mut self, value: &Value) {
        match Marked::of(value) {
            None => self.show(value),
            Some(marked) => {
                self.show(&marked.value);
                self.attachments = ShownAttachment::all(marked.attachments);
            }
        }
    }

    fn show(&mut self, value: &Value) {
        let text = value.to_string();
        let start = beginning(&text);
        self.shortened = start.len() < text.len();
        self.result = Some(if self.shortened { Value::from(start) } else { value.clone() });
    }

    fn fail(&mut self, message: &str) {
        let start = beginning(message);
        self.shortened = start.len() < message.len();
        self.error = Some(start.to_owned());
    }
}

/// `TypeName: message`, as a failed session says it; `TypeName` alone where the message is not shown.
pub(super) fn raised(error: &Value, with_message: bool) -> String {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    match (member("type"), member("message")) {
        ("", _) => "an error".to_owned(),
        (kind, message) if with_message && !message.is_empty() => format!("{kind}: {message}"),
        (kind, _) => kind.to_owned(),
    }
}

/// As much of `text` as is shown.
fn beginning(text: &str) -> &str {
    beginning_of(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::JsonObject;

    fn step(kind: &str, result: StepResult) -> TimelineEntry {
        let step = StepIdentity {
            path: "0#1".to_owned(),
            kind: kind.to_owned(),
            name: "fetch".to_owned(),
            location: Some("agent.py:12".to_owned()),
            arguments: JsonObject::from_iter([("token".to_owned(), json!("0123"))]),
            tool_call_id: None,
        };
        TimelineEntry::of(3, &RecordedEntry { at: Timestamp::from_millis(0), entry: Entry::Step { step, result } })
    }

    #[test]
    fn a_step_shows_what_it_is_and_where_it_was_asked_for() {
        let shown = json!(step("tool", StepResult::Value(json!({"ok": [1]}))));
        let expected = json!({
            "index": 3, "at": "1970-01-01T00:00:00.000Z", "entry": "step", "kind": "tool", "name": "fetch",
            "location": "agent.py:12", "path": "0#1", "interrupt_id": null, "result": {"ok": [1]},
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_step_that_a_model_called_for_shows_which_call_it_is() {
        let identity = StepIdentity {
            path: "0#2".to_owned(),
            kind: "tool".to_owned(),
            name: "refund".to_owned(),
            location: None,
            arguments: JsonObject::new(),
            tool_call_id: Some("call_1".to_owned()),
        };
        let result = StepResult::Value(json!("done"));
        let entry = Entry::Step { step: identity, result };
        let shown = TimelineEntry::of(1, &RecordedEntry { at: Timestamp::from_millis(0), entry });
        assert_eq!(json!(shown)["tool_call_id"], "call_1");
    }

    #[test]
    fn results_that_are_no_part_of_the_conversation_are_not_shown() {
        for kind in ["step", "guardrail", "policy", "clock", "mcp", "interrupt", "unheard-of"] {
            assert_eq!(step(kind, StepResult::Value(json!("a password"))).result, None, "{kind}");
        }
    }

    #[test]
    fn an_error_is_its_class_and_where_the_conversation_has_it_too_its_message() {
        let error = json!({"type": "KeyError", "module": "builtins", "message": "a password", "args": ["a password"]});
        let said = |kind| step(kind, StepResult::Error(error.clone())).error;
        assert_eq!(said("tool"), Some("KeyError: a password".to_owned()));
        assert_eq!(said("step"), Some("KeyError".to_owned()));
        assert_eq!(step("tool", StepResult::Error(json!(7))).error, Some("an error".to_owned()));
    }

    #[test]
    fn what_is_long_is_shortened_between_two_characters() {
        let short = step("tool", StepResult::Value(json!("x".repeat(LONGEST - 2))));
        assert!(!short.shortened);
        assert_eq!(short.result, Some(json!("x".repeat(LONGEST - 2))));
        let long = step("tool", StepResult::Value(json!("ä".repeat(LONGEST))));
        let text = long.result.as_ref().and_then(Value::as_str).unwrap();
        assert!(long.shortened && text.starts_with("\"ää") && (LONGEST - 1..=LONGEST).contains(&text.len()));
        let error = json!({"type": "E", "message": "x".repeat(LONGEST)});
        let failed = step("model", StepResult::Error(error));
        assert!(failed.shortened && failed.error.is_some_and(|error| error.len() == LONGEST));
    }

    fn picture(name: &str, data: &str) -> Value {
        let fields = json!({"media_type": "image/png", "data": data, "url": null, "name": name});
        json!({"$hitl": "dataclass", "type": "hitl.attachments:Attachment", "value": fields})
    }

    #[test]
    fn what_a_tool_attached_is_beside_its_result() {
        let shown = step("tool", StepResult::Value(json!(["Sales:", picture("sales.png", &"iVBOR".repeat(1000))])));
        assert_eq!(shown.result, Some(json!(["Sales:", "[attachment 1: sales.png, image/png]"])));
        let expected = json!([{"media_type": "image/png", "data": "iVBOR".repeat(1000), "name": "sales.png"}]);
        assert_eq!((json!(shown.attachments), shown.shortened), (expected, false));
        assert_eq!(json!(step("tool", StepResult::Value(json!(7)))).get("attachments"), None);
    }

    #[test]
    fn what_a_person_answered_and_other_steps_returned_is_no_file() {
        let answer = Entry::Answer { interrupt_id: InterruptId(Uuid::from_u128(7)), value: picture("a", "aGk=") };
        let shown = TimelineEntry::of(0, &RecordedEntry { at: Timestamp::from_millis(0), entry: answer });
        assert_eq!((shown.result, shown.attachments), (Some(picture("a", "aGk=")), vec![]));
        assert_eq!(step("step", StepResult::Value(picture("a", "aGk="))).attachments, []);
    }

    fn start(message: &Value) -> TimelineEntry {
        let entry = Entry::Taken { code: String::new(), python: String::new(), policy: None };
        let mut start = TimelineEntry::of(0, &RecordedEntry { at: Timestamp::from_millis(0), entry });
        start.entry = EntryKind::Start;
        start.starting(&serde_json::from_value(message.clone()).unwrap())
    }

    #[test]
    fn the_start_has_what_is_attached_to_the_message() {
        let far = json!({"media_type": "image/png", "url": "https://example.org/far.png", "name": "far.png"});
        let shown = start(&json!({"base64_image": "/9j/4AAQ", "attachments": [far]}));
        assert_eq!(json!(shown.attachments), json!([{"media_type": "image/jpeg", "data": "/9j/4AAQ"}, far]));
        assert_eq!((shown.message.unwrap().content, shown.shortened), (None, false));
        let many = vec![far; 100];
        assert_eq!(start(&json!({"attachments": many})).attachments.len(), 32);
    }

    #[test]
    fn a_page_has_the_files_of_the_message_and_of_the_newest_results_as_far_as_there_is_room() {
        let large = "x".repeat(MOST_FILES / 4 + 1);
        let result = || step("tool", StepResult::Value(json!([picture("a", &large), picture("b", "aGk=")])));
        let message = json!({"attachments": [{"media_type": "text/plain", "data": large}]});
        let page = TimelinePage::of(vec![start(&message), result(), result(), result()], None);
        let has: Vec<Vec<bool>> = page
            .items
            .iter()
            .map(|entry| entry.attachments.iter().map(|one| one.data.is_some() && !one.shortened).collect())
            .collect();
        assert_eq!(has, [vec![true], vec![false, true], vec![true, true], vec![true, true]]);
        let left = json!({"media_type": "image/png", "name": "a", "shortened": true});
        assert_eq!(json!(page.items[1].attachments[0]), left);
        // A page of its own has room for it.
        assert!(TimelinePage::of(vec![result()], None).items[0].attachments.iter().all(|one| !one.shortened));
        let address = format!("https://example.org/{}", "x".repeat(MOST_FILES));
        let page =
            TimelinePage::of(vec![start(&json!({"attachments": [{"media_type": "image/png", "url": address}]}))], None);
        assert_eq!(json!(page.items[0].attachments), json!([{"media_type": "image/png", "shortened": true}]));
    }

    #[test]
    fn an_answer_is_shown_a_pause_tells_nothing_of_its_context() {
        let interrupt_id = InterruptId(Uuid::from_u128(7));
        let tell = |entry| TimelineEntry::of(0, &RecordedEntry { at: Timestamp::from_millis(0), entry });
        let answer = tell(Entry::Answer { interrupt_id, value: Value::Null });
        assert_eq!((answer.interrupt_id, answer.result), (Some(interrupt_id), Some(Value::Null)));
        let pause = tell(Entry::Pause { timers: Vec::new(), context: Some(json!("a password")) });
        assert!(!json!(pause).to_string().contains("password"));
        let ended = tell(Entry::End { ending: Ending::Failed("ValueError: no".to_owned()) });
        assert_eq!((ended.entry, ended.error.as_deref()), (EntryKind::End, Some("ValueError: no")));
    }
}

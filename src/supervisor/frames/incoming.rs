//! What workers say.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Violation;
use crate::domain::interrupt::Ask;
use crate::domain::journal::{PendingTimer, StepIdentity, StepResult, Wake};
use crate::domain::message::{ChatMessage, NextState};
use crate::domain::session::Failure;
use crate::domain::text::beginning_of;
use crate::domain::time::as_millis;
use crate::domain::told::StartedTool;
use crate::domain::{InterruptId, Timestamp, TurnId};
use crate::engine::ports::dispatch::{Record, Runtime};
use crate::engine::ports::held::Held;

/// The most characters of what is wrong with a frame: it is logged, and the error of its turns.
const LONGEST_WHY: usize = 200;

/// The most messages that a turn adds to what its session remembers: all of them are written in one transaction, which others
/// wait for.
const MOST_MESSAGES: usize = 100_000;

/// How much is kept of what a worker says for people to read: what holds a turn, which `GET /health` shows to everybody, and
/// what is to be said of a replay. So many, and so many bytes of each.
const MOST_SHOWN: usize = 100;
const LONGEST_SHOWN: usize = 2048;

/// A frame of a worker.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every frame is the large one, and a box would be one more for each"
)]
#[derive(Debug, PartialEq)]
pub enum FromWorker {
    /// The first one.
    Hello(Hello),
    /// Instead of `hello`: the agent cannot be imported.
    Failed(Failed),
    /// What a turn printed.
    Log(Log),
    /// The answer to `ping`; that it came is all it says.
    Pong,
    /// Something is open in the worker that it closes at its end.
    Opened,
    /// Something about one turn.
    Turn(TurnId, Word),
}

/// `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`](super::PROTOCOL).
    pub protocol: u64,
    /// The worker's process id.
    pub pid: u32,
    /// The version of Python.
    pub python: String,
    /// The version of hitl.
    pub library: String,
    /// What the agent calls itself.
    #[serde(default)]
    pub agent: Option<String>,
    /// The version of the agent's code. Of a worker of another protocol nothing but that protocol is of interest.
    #[serde(default)]
    pub code: String,
    /// Whether the agent can be continued from its journal.
    #[serde(default = "yes")]
    pub replay: bool,
    /// Whether no other code may do so.
    #[serde(default)]
    pub pin: bool,
}

impl Hello {
    /// What it runs, with the full version of Python.
    pub fn runtime(self) -> Runtime {
        let Self { agent, code, python, replay, pin, .. } = self;
        Runtime { agent, code, python, replay, pin }
    }
}

fn yes() -> bool {
    true
}

/// `failed`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Failed {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
}

/// `log`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Log {
    /// Which turn, when it is known.
    pub turn: Option<TurnId>,
    /// Where it was written to.
    pub stream: Stream,
    /// What.
    pub text: String,
}

/// Where an agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a worker says about a turn. `call` is what its acknowledgement repeats.
#[derive(Debug, PartialEq)]
pub enum Word {
    /// `step`, `intent`, `ask` and `timer`, which are acknowledged; `started`, `wakes`, `withdraw` and `waiting`, which are
    /// not.
    Record { call: Option<u64>, record: Record },
    /// `replayed`.
    Replayed { warnings: Vec<String> },
    /// `held`.
    Held(Held),
    /// `delta`.
    Delta { step_id: String, attempt: u32, delta: Value },
    /// `end`.
    End { call: u64, outcome: EndOutcome },
    /// `cancelled` or `parked`; `left` tasks of the turn go on all the same.
    Dropped { left: u64 },
    /// A frame with a value that cannot be read, though it is JSON: the agent is told, the worker is not to blame.
    Beyond { call: u64, bound: ValueBound },
    /// A frame with a member that is none of what it is to be, such as the calls in a message that an agent has made by hand:
    /// it is this turn's alone, whoever else is at its worker.
    Wrong { call: Option<u64>, why: String },
}

/// What a value may not exceed. Python writes it all the same, and who has made it is a model as often as the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueBound {
    /// It is nested too deeply.
    Depth,
    /// It has a number that no double can be.
    Number,
}

impl ValueBound {
    /// The code and the words of a refusal.
    pub fn refusal(self) -> (&'static str, &'static str) {
        match self {
            Self::Depth => ("value_too_deep", "the value is nested too deeply to be stored"),
            Self::Number => ("number_out_of_range", "the value has a number that is out of range"),
        }
    }
}

/// The `result` of an `end`.
#[derive(Debug, PartialEq)]
pub enum EndOutcome {
    /// The agent returned.
    Done { response: Box<ChatMessage>, state: NextState },
    /// The agent raised.
    Failed(Failure),
}

#[derive(Deserialize)]
struct FrameHead<'a> {
    #[serde(borrow)]
    frame: Cow<'a, str>,
    #[serde(default)]
    turn: Option<TurnId>,
    #[serde(default)]
    call: Option<u64>,
}

#[derive(Deserialize)]
struct StepBody {
    call: u64,
    step: StepIdentity,
    result: StepResult,
}

#[derive(Deserialize)]
struct IntentBody {
    call: u64,
    step: StepIdentity,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct StartedBody {
    step_id: String,
    name: String,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct IntendedCall {
    step: StepIdentity,
}

#[derive(Deserialize)]
struct StartedCall {
    step_id: String,
    name: String,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct AskBody {
    call: u64,
    step: StepIdentity,
    interrupt: Box<Ask>,
}

#[derive(Deserialize)]
struct TimerBody {
    call: u64,
    path: String,
    #[serde(with = "as_millis")]
    due: Timestamp,
}

#[derive(Deserialize)]
struct WakesBody {
    wakes: Vec<Wake>,
}

#[derive(Deserialize)]
struct WithdrawBody {
    interrupt_id: InterruptId,
}

#[derive(Deserialize)]
struct WaitingBody {
    #[serde(default)]
    seen: Option<u64>,
    #[serde(default)]
    timers: Vec<PendingTimer>,
    #[serde(default)]
    context: Option<Value>,
}

#[derive(Deserialize)]
struct HeldBody {
    #[serde(flatten)]
    held: Held,
}

#[derive(Deserialize)]
struct ReplayedBody {
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct DeltaBody {
    step_id: String,
    attempt: u32,
    delta: Value,
}

#[derive(Deserialize)]
struct DroppedBody {
    #[serde(default)]
    left: u64,
}

#[derive(Deserialize)]
struct EndBody {
    call: u64,
    result: EndResult,
}

// Not an enum: serde's errors for untagged ones do not say what is missing.
#[derive(Deserialize)]
struct EndResult {
    #[serde(default)]
    error: Option<EndError>,
    #[serde(default)]
    response: Option<Box<ChatMessage>>,
    #[serde(default)]
    state: Option<Vec<ChatMessage>>,
    #[serde(default)]
    kept: usize,
}

#[derive(Deserialize)]
struct EndError {
    #[serde(rename = "type")]
    kind: String,
    message: String,
    #[serde(default)]
    code: Option<String>,
}

/// Reads the JSON of one frame.
///
/// # Errors
/// [`Violation`] for what is no JSON object, has an unknown name, or is about a turn and does not say which.
pub fn parse(body: &[u8]) -> Result<FromWorker, Violation> {
    // serde reads structs from arrays as well.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Violation("a frame is no JSON object".to_owned()));
    }
    let head: FrameHead<'_> = read(body, "")?;
    let name = head.frame.as_ref();
    match name {
        "hello" => return read(body, name).map(FromWorker::Hello),
        "failed" => return read(body, name).map(FromWorker::Failed),
        "log" => return read(body, name).map(FromWorker::Log),
        "pong" => return Ok(FromWorker::Pong),
        "opened" => return Ok(FromWorker::Opened),
        _ => {}
    }
    let Some(word) = read_word(name, body) else {
        let shown: String = name.chars().take(40).collect();
        return Err(Violation(format!("unknown frame {shown:?}")));
    };
    let turn = head.turn.ok_or_else(|| Violation(format!("`{name}` frame: missing field `turn`")))?;
    match (word, head.call) {
        (Ok(word), _) => Ok(FromWorker::Turn(turn, word)),
        (Err(Unread::Beyond(bound)), call) => {
            let bare = without_arguments(name, body).map(|record| Word::Record { call, record });
            let word = bare.or_else(|| call.map(|call| Word::Beyond { call, bound }));
            let wrong = || Word::Wrong { call: None, why: format!("`{name}` frame: {}", bound.refusal().1) };
            Ok(FromWorker::Turn(turn, word.unwrap_or_else(wrong)))
        }
        (Err(Unread::Wrong(Violation(why))), call) => Ok(FromWorker::Turn(turn, Word::Wrong { call, why })),
    }
}

/// A tool's call whose arguments cannot be read, as models write them: it is the call that counts.
fn without_arguments(name: &str, body: &[u8]) -> Option<Record> {
    match name {
        "started" => serde_json::from_slice(body).ok().map(|StartedCall { step_id, name, tool_call_id }| {
            Record::Started(StartedTool { step_id, name, tool_call_id, arguments: None })
        }),
        "intent" => {
            serde_json::from_slice(body).ok().map(|IntendedCall { step }| Record::Intent { step, arguments: None })
        }
        _ => None,
    }
}

enum Unread {
    Beyond(ValueBound),
    Wrong(Violation),
}

/// A frame about a turn; `None` when there is none of this name.
fn read_word(name: &str, body: &[u8]) -> Option<Result<Word, Unread>> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = word(name, &mut reader)?;
    Some(read.map_err(|error| {
        // serde_json has no other way to tell; a test holds these texts.
        match error.to_string() {
            text if text.starts_with("recursion limit exceeded") => Unread::Beyond(ValueBound::Depth),
            text if text.starts_with("number out of range") => Unread::Beyond(ValueBound::Number),
            _ => Unread::Wrong(violation(name, &error)),
        }
    }))
}

/// What a frame says about a turn, in whatever form its members come; `None` when there is no frame of this name.
pub fn word<'de, D: Deserializer<'de>>(name: &str, members: D) -> Option<Result<Word, D::Error>> {
    let acknowledged = |call, record| Word::Record { call: Some(call), record };
    let told = |record| Word::Record { call: None, record };
    Some(match name {
        "step" => StepBody::deserialize(members)
            .map(|StepBody { call, step, result }| acknowledged(call, Record::Step { step, result })),
        "intent" => IntentBody::deserialize(members)
            .map(|IntentBody { call, step, arguments }| acknowledged(call, Record::Intent { step, arguments })),
        "started" => StartedBody::deserialize(members).map(|StartedBody { step_id, name, tool_call_id, arguments }| {
            told(Record::Started(StartedTool { step_id, name, tool_call_id, arguments }))
        }),
        "ask" => AskBody::deserialize(members)
            .map(|AskBody { call, step, interrupt }| acknowledged(call, Record::Ask { step, ask: interrupt })),
        "timer" => TimerBody::deserialize(members)
            .map(|TimerBody { call, path, due }| acknowledged(call, Record::Timer { path, due })),
        "wakes" => WakesBody::deserialize(members).map(|WakesBody { wakes }| told(Record::Wakes(wakes))),
        "withdraw" => WithdrawBody::deserialize(members)
            .map(|WithdrawBody { interrupt_id }| told(Record::Withdraw { interrupt: interrupt_id })),
        "waiting" => WaitingBody::deserialize(members)
            .map(|WaitingBody { seen, timers, context }| told(Record::Waiting { seen, timers, context })),
        "held" => HeldBody::deserialize(members).map(|HeldBody { mut held }| {
            held.by.truncate(MOST_SHOWN);
            for holder in &mut held.by {
                shorten(&mut holder.what);
                holder.location.as_mut().map(shorten);
            }
            Word::Held(held)
        }),
        "replayed" => ReplayedBody::deserialize(members).map(|ReplayedBody { mut warnings }| {
            warnings.truncate(MOST_SHOWN);
            warnings.iter_mut().for_each(shorten);
            Word::Replayed { warnings }
        }),
        "delta" => DeltaBody::deserialize(members).map(|DeltaBody { step_id, attempt, delta }| Word::Delta {
            step_id,
            attempt,
            delta,
        }),
        "cancelled" | "parked" => DroppedBody::deserialize(members).map(|DroppedBody { left }| Word::Dropped { left }),
        "end" => EndBody::deserialize(members).and_then(|EndBody { call, result }| {
            outcome(result).map(|outcome| Word::End { call, outcome }).map_err(D::Error::custom)
        }),
        _ => return None,
    })
}

fn shorten(text: &mut String) {
    text.truncate(beginning_of(text, LONGEST_SHOWN).len());
}

fn outcome(result: EndResult) -> Result<EndOutcome, &'static str> {
    match result {
        EndResult { error: Some(error), .. } => {
            let text = if error.message.is_empty() { error.kind } else { format!("{}: {}", error.kind, error.message) };
            Ok(EndOutcome::Failed(Failure::raised(error.code.as_deref().unwrap_or("agent_error"), &text)))
        }
        EndResult { response: Some(_), state: Some(messages), .. } if messages.len() > MOST_MESSAGES => {
            let text = format!("The agent returned {} new messages at once; {MOST_MESSAGES} are taken", messages.len());
            Ok(EndOutcome::Failed(Failure::new("turn_too_large", text)))
        }
        EndResult { response: Some(response), state: Some(messages), kept, .. } => {
            Ok(EndOutcome::Done { response, state: NextState { kept, messages } })
        }
        _ => Err("`result` has neither `error` nor both `response` and `state`"),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8], name: &str) -> Result<T, Violation> {
    serde_json::from_slice(body).map_err(|error| violation(name, &error))
}

fn violation(name: &str, error: &serde_json::Error) -> Violation {
    // It may repeat what is wrong, and that may be as long as the frame.
    let whole = error.to_string();
    let shown: String = whole.chars().take(LONGEST_WHY).collect();
    let why = if shown.len() < whole.len() { format!("{shown}...") } else { shown };
    if error.is_syntax() || error.is_eof() {
        Violation(format!("a frame is no JSON: {why}"))
    } else if name.is_empty() {
        Violation(format!("a frame is wrong: {why}"))
    } else {
        Violation(format!("`{name}` frame: {why}"))
    }
}

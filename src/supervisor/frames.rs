//! Frames of the worker protocol (docs/worker-protocol.md) as types, and their bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::interrupt::Ask;
use crate::domain::journal::{StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::session::Failure;
use crate::domain::{InterruptId, SessionId, TurnId};

/// The version of the protocol.
pub const PROTOCOL: u64 = 1;

/// The largest frame, in bytes of JSON.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// Bytes of the length before a frame.
pub const PREFIX: usize = 4;

/// A worker broke the protocol, in words for the session's `error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

impl Violation {
    /// How the worker's turns end.
    pub fn failure(&self) -> Failure {
        Failure::new("worker_protocol", format!("WorkerProtocolError: {}", self.0))
    }
}

/// A frame of a worker.
#[derive(Debug, PartialEq)]
pub enum FromWorker {
    /// The first one.
    Hello(Hello),
    /// Instead of `hello`: the agent cannot be imported.
    Failed(Failed),
    /// What a turn printed.
    Log(Log),
    /// Something about one turn.
    Turn(TurnId, Box<Word>),
}

/// `hello`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u64,
    /// The worker's process id.
    pub pid: u32,
    /// The version of Python.
    pub python: String,
    /// The version of hitl.
    pub library: String,
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
    /// `step`.
    Step { call: u64, step: StepIdentity, result: StepResult },
    /// `ask`.
    Ask { call: u64, step: StepIdentity, ask: Box<Ask> },
    /// `withdraw`.
    Withdraw { interrupt: InterruptId },
    /// `waiting`, having received the journal up to `seen`.
    Waiting { seen: Option<u64> },
    /// `delta`.
    Delta { step_id: String, attempt: u32, delta: Value },
    /// `end`.
    End { call: u64, outcome: Outcome },
    /// `cancelled`; `left` tasks of the turn go on all the same.
    Cancelled { left: u64 },
    /// A frame whose value is nested too deeply to be read: the agent is told, the worker is not to blame.
    TooDeep { call: u64 },
}

/// The `result` of an `end`.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The agent returned.
    Done { response: Box<ChatMessage>, state: Vec<ChatMessage> },
    /// The agent raised.
    Failed(Failure),
}

#[derive(Deserialize)]
struct Head<'a> {
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
struct AskBody {
    call: u64,
    step: StepIdentity,
    interrupt: Box<Ask>,
}

#[derive(Deserialize)]
struct WithdrawBody {
    interrupt_id: InterruptId,
}

#[derive(Deserialize)]
struct DeltaBody {
    step_id: String,
    attempt: u32,
    delta: Value,
}

#[derive(Deserialize)]
struct WaitingBody {
    #[serde(default)]
    seen: Option<u64>,
}

#[derive(Deserialize)]
struct CancelledBody {
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
/// [`Violation`] for what is no JSON object, has an unknown name, or lacks a member.
pub fn parse(body: &[u8]) -> Result<FromWorker, Violation> {
    // serde reads structs from arrays as well.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Violation("a frame is no JSON object".to_owned()));
    }
    let head: Head<'_> = read(body, "")?;
    let name = head.frame.as_ref();
    match name {
        "hello" => return read(body, name).map(FromWorker::Hello),
        "failed" => return read(body, name).map(FromWorker::Failed),
        "log" => return read(body, name).map(FromWorker::Log),
        "step" | "ask" | "withdraw" | "waiting" | "delta" | "end" | "cancelled" => {}
        _ => {
            let shown: String = name.chars().take(40).collect();
            return Err(Violation(format!("unknown frame {shown:?}")));
        }
    }
    let turn = head.turn.ok_or_else(|| Violation(format!("`{name}` frame: missing field `turn`")))?;
    match (word(name, body), head.call) {
        (Ok(word), _) => Ok(FromWorker::Turn(turn, Box::new(word))),
        (Err(Unread::TooDeep), Some(call)) => Ok(FromWorker::Turn(turn, Box::new(Word::TooDeep { call }))),
        (Err(Unread::TooDeep), None) => Err(Violation(format!("`{name}` frame: nested too deeply"))),
        (Err(Unread::Wrong(violation)), _) => Err(violation),
    }
}

enum Unread {
    TooDeep,
    Wrong(Violation),
}

fn word(name: &str, body: &[u8]) -> Result<Word, Unread> {
    Ok(match name {
        "step" => {
            let StepBody { call, step, result } = read_deep(body, name)?;
            Word::Step { call, step, result }
        }
        "ask" => {
            let AskBody { call, step, interrupt } = read_deep(body, name)?;
            Word::Ask { call, step, ask: interrupt }
        }
        "withdraw" => Word::Withdraw { interrupt: read_deep::<WithdrawBody>(body, name)?.interrupt_id },
        "delta" => {
            let DeltaBody { step_id, attempt, delta } = read_deep(body, name)?;
            Word::Delta { step_id, attempt, delta }
        }
        "cancelled" => Word::Cancelled { left: read_deep::<CancelledBody>(body, name)?.left },
        "end" => {
            let EndBody { call, result } = read_deep(body, name)?;
            Word::End { call, outcome: outcome(result).map_err(Unread::Wrong)? }
        }
        _ => Word::Waiting { seen: read_deep::<WaitingBody>(body, name)?.seen },
    })
}

fn outcome(result: EndResult) -> Result<Outcome, Violation> {
    match result {
        EndResult { error: Some(error), .. } => {
            let text = if error.message.is_empty() { error.kind } else { format!("{}: {}", error.kind, error.message) };
            Ok(Outcome::Failed(Failure::new(error.code.as_deref().unwrap_or("agent_error"), text)))
        }
        EndResult { response: Some(response), state: Some(state), .. } => Ok(Outcome::Done { response, state }),
        _ => Err(Violation("`end` frame: `result` has neither `error` nor both `response` and `state`".to_owned())),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8], name: &str) -> Result<T, Violation> {
    serde_json::from_slice(body).map_err(|error| violation(name, &error))
}

fn read_deep<'a, T: Deserialize<'a>>(body: &'a [u8], name: &str) -> Result<T, Unread> {
    serde_json::from_slice(body).map_err(|error| {
        // serde_json has no other way to tell; a test holds this text.
        if error.to_string().starts_with("recursion limit exceeded") {
            Unread::TooDeep
        } else {
            Unread::Wrong(violation(name, &error))
        }
    })
}

fn violation(name: &str, error: &serde_json::Error) -> Violation {
    if error.is_syntax() || error.is_eof() {
        Violation(format!("a frame is no JSON: {error}"))
    } else if name.is_empty() {
        Violation(format!("a frame is wrong: {error}"))
    } else {
        Violation(format!("`{name}` frame: {error}"))
    }
}

/// A frame of the server.
#[derive(Debug, Serialize)]
#[serde(tag = "frame", rename_all = "lowercase")]
pub enum ToWorker<'a> {
    /// A turn begins.
    Turn {
        turn: TurnId,
        session_id: SessionId,
        message: &'a ChatMessage,
        state: &'a [ChatMessage],
        journal: [(); 0],
        max_payload: usize,
    },
    /// It is committed.
    Ack {
        turn: TurnId,
        call: u64,
        index: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<InterruptId>,
    },
    /// It is not stored.
    Refused { turn: TurnId, call: u64, code: &'a str, message: &'a str },
    /// Somebody answered.
    Answer { turn: TurnId, index: u64, interrupt_id: InterruptId, value: &'a Value },
    /// Nobody answered in time.
    Expired { turn: TurnId, index: u64, interrupt_id: InterruptId },
    /// The session is settled without the turn.
    Cancel { turn: TurnId, message: &'a str },
    /// End when there is no turn any more.
    Shutdown {},
}

/// The bytes of a frame, its length first.
///
/// # Errors
/// [`Violation`] when it is larger than [`MAX_FRAME`].
pub fn encode(frame: &ToWorker<'_>) -> Result<Bytes, Violation> {
    let mut bytes = vec![0; PREFIX];
    serde_json::to_writer(&mut bytes, frame)
        .map_err(|error| Violation(format!("a frame cannot be written: {error}")))?;
    let size = bytes.len() - PREFIX;
    match u32::try_from(size) {
        Ok(length) if size <= MAX_FRAME => {
            bytes[..PREFIX].copy_from_slice(&length.to_be_bytes());
            Ok(Bytes::from(bytes))
        }
        _ => Err(Violation(format!("a frame of {size} bytes is above the limit of {MAX_FRAME}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    const TURN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn violation(frame: &str) -> String {
        parse(frame.replace("TURN", TURN).as_bytes()).unwrap_err().0
    }

    fn heard(frame: &str) -> Word {
        match parse(frame.replace("TURN", TURN).as_bytes()).unwrap() {
            FromWorker::Turn(_, word) => *word,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_frame_is_said() {
        for (frame, said) in [
            ("[\"hello\"]", "a frame is no JSON object"),
            ("", "a frame is no JSON object"),
            ("{\"frame\":\"waiting\",", "a frame is no JSON"),
            ("{}", "a frame is wrong: missing field `frame`"),
            (r#"{"frame":"waiting"}"#, "`waiting` frame: missing field `turn`"),
            (r#"{"frame":"waiting","turn":"x"}"#, "UUID"),
            (r#"{"frame":"delta","turn":"TURN","step_id":"0#1","attempt":-1,"delta":{}}"#, "invalid value"),
            (r#"{"frame":"step","turn":"TURN","call":1,"result":{"value":1}}"#, "missing field `step`"),
            (r#"{"frame":"end","turn":"TURN","call":1,"result":{"state":[]}}"#, "neither `error` nor both"),
            (r#"{"frame":"log","turn":null,"stream":"disk","text":""}"#, "unknown variant `disk`"),
        ] {
            assert!(violation(frame).contains(said), "{frame}: {}", violation(frame));
        }
    }

    #[test]
    fn a_null_is_a_value() {
        let step = r#""step":{"path":"0#1","kind":"step","name":"f"}"#;
        let word = heard(&format!(r#"{{"frame":"step","turn":"TURN","call":3,{step},"result":{{"value":null}}}}"#));
        assert!(matches!(word, Word::Step { call: 3, result: StepResult::Value(Value::Null), .. }));
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_is_told_apart() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let step = r#""step":{"path":"0#1","kind":"step","name":"f"}"#;
        let word = heard(&format!(r#"{{"frame":"step","turn":"TURN","call":3,{step},"result":{{"value":{deep}}}}}"#));
        assert_eq!(word, Word::TooDeep { call: 3 });
    }

    #[test]
    fn an_error_without_a_message_is_its_type() {
        let end =
            |error: &str| heard(&format!(r#"{{"frame":"end","turn":"TURN","call":1,"result":{{"error":{error}}}}}"#));
        let Word::End { outcome: Outcome::Failed(plain), .. } = end(r#"{"type":"KeyError","message":""}"#) else {
            panic!("no end")
        };
        assert_eq!(plain, Failure::new("agent_error", "KeyError"));
        let coded = r#"{"type":"ReplayMismatch","message":"no","code":"replay_mismatch"}"#;
        let Word::End { outcome: Outcome::Failed(coded), .. } = end(coded) else { panic!("no end") };
        assert_eq!(coded, Failure::new("replay_mismatch", "ReplayMismatch: no"));
    }

    #[test]
    fn a_frame_begins_with_its_length() {
        let bytes = encode(&ToWorker::Shutdown {}).unwrap();
        assert_eq!(&bytes[..], b"\0\0\0\x14{\"frame\":\"shutdown\"}");
    }

    #[test]
    fn a_turn_that_is_too_large_is_refused() {
        let message = ChatMessage { content: Some("x".repeat(MAX_FRAME)), ..ChatMessage::default() };
        let (turn, session_id) = (TurnId(uuid::Uuid::nil()), SessionId(uuid::Uuid::nil()));
        let frame = ToWorker::Turn { turn, session_id, message: &message, state: &[], journal: [], max_payload: 1 };
        assert!(encode(&frame).is_err());
    }
}

//! Any frame of a worker that was broken, or taken over.

use proptest::prelude::*;

use super::*;
use crate::domain::fuzzing::{config, texts, values};

/// The most that is said of a frame, in bytes: it is logged, and the session's error.
const LONGEST_WHY: usize = 1000;

fn valid() -> Vec<Value> {
    let step = json!({"path": "0#1", "kind": "step", "name": "charge", "location": "a.py:3", "arguments": {"a": 1}});
    let ask = json!({"type": "tool_approval", "payload": {"tool_name": "pay", "tool_args": {"n": 1}}, "expires_in": 5.5,
        "allowed_decisions": ["approve"], "approvers": ["ada"]});
    let said = json!({"role": "assistant", "content": "done", "tool_calls": []});
    vec![
        json!({"frame": "hello", "protocol": 3, "pid": 7, "python": "3.11", "library": "0.1.0", "code": "c"}),
        json!({"frame": "failed", "message": "no such module", "hint": "install it"}),
        json!({"frame": "log", "turn": TURN, "stream": "stdout", "text": "hi"}),
        json!({"frame": "pong"}),
        json!({"frame": "step", "turn": TURN, "call": 1, "step": step, "result": {"value": {"a": [1]}}}),
        json!({"frame": "step", "turn": TURN, "call": 1, "step": step, "result": {"error": {"type": "E", "message": "m"}}}),
        json!({"frame": "intent", "turn": TURN, "call": 2, "step": step}),
        json!({"frame": "ask", "turn": TURN, "call": 3, "step": step, "interrupt": ask}),
        json!({"frame": "timer", "turn": TURN, "call": 4, "path": "0@1", "due": 1}),
        json!({"frame": "wakes", "turn": TURN, "wakes": [{"after": 0, "task": "0"}]}),
        json!({"frame": "withdraw", "turn": TURN, "interrupt_id": TURN}),
        json!({"frame": "waiting", "turn": TURN, "seen": 3, "timers": [{"path": "0@1", "due": 1}], "context": {}}),
        json!({"frame": "delta", "turn": TURN, "step_id": "0#1", "attempt": 1, "delta": {"content": "x"}}),
        json!({"frame": "parked", "turn": TURN, "left": 0}),
        json!({"frame": "end", "turn": TURN, "call": 9, "result": {"response": said, "state": [said]}}),
        json!({"frame": "end", "turn": TURN, "call": 9, "result": {"error": {"type": "E", "message": "m"}}}),
    ]
}

/// Whatever it says, it is about the turn that it names, and what is wrong with it is said in few words.
fn hear(body: &[u8]) -> Result<(), TestCaseError> {
    match parse(body) {
        Ok(FromWorker::Turn(turn, _)) => {
            let frame: Value = serde_json::from_slice(body).unwrap_or_default();
            prop_assert!(frame.is_null() || frame["turn"] == json!(turn));
        }
        Ok(_) => {}
        Err(Violation(why)) => {
            prop_assert!(!why.is_empty());
            prop_assert!(
                why.len() <= LONGEST_WHY,
                "{} bytes: {}...",
                why.len(),
                why.chars().take(200).collect::<String>()
            );
        }
    }
    Ok(())
}

#[test]
fn the_frames_that_are_changed_are_valid() {
    for frame in valid() {
        assert!(parse(frame.to_string().as_bytes()).is_ok(), "{frame}: {:?}", parse(frame.to_string().as_bytes()));
    }
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn fuzz_a_changed_frame_is_heard_or_a_violation(frame in values(valid())) {
        hear(frame.to_string().as_bytes())?;
    }

    #[test]
    fn fuzz_bytes_are_heard_or_a_violation(body in texts(valid().iter().map(Value::to_string).collect())) {
        hear(&body)?;
    }
}

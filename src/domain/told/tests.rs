//! What is told of which entry, and how much of it.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::InterruptId;

const SESSION: SessionId = SessionId(Uuid::from_u128(1));
const TURN: TurnId = TurnId(Uuid::from_u128(2));

fn identity(kind: &str, call: Option<&str>) -> StepIdentity {
    StepIdentity {
        path: "0#3".to_owned(),
        kind: kind.to_owned(),
        name: "pay".to_owned(),
        location: Some("agent.py:12".to_owned()),
        arguments: JsonObject::from_iter([("token".to_owned(), json!("0123"))]),
        tool_call_id: call.map(str::to_owned),
    }
}

fn step(kind: &str, result: StepResult) -> Entry {
    Entry::Step { step: identity(kind, Some("call_1")), result }
}

fn told(entry: &Entry) -> (String, Value) {
    let view = view(SESSION, TURN, entry).unwrap();
    assert_eq!(view.session_id, SESSION);
    assert_eq!(view.name, StepEvent::of(entry).unwrap().as_str());
    (view.name, Value::Object(view.data))
}

fn said(message: &Value) -> Value {
    let reply = json!({"message": message, "usage": {"total_tokens": 7}, "native": {"key": "a password"}});
    told(&step("model", StepResult::Value(reply))).1
}

#[test]
fn a_model_that_has_spoken_is_told_with_its_message_and_nothing_else_of_the_reply() {
    let calls = json!([{"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls, "name": null});
    let expected = json!({
        "session_id": SESSION, "turn_id": TURN, "step_id": "0#3",
        "message": {"role": "assistant", "tool_calls": calls},
    });
    assert_eq!(said(&message), expected);
}

#[test]
fn a_tool_that_is_done_is_told_with_what_came_of_it() {
    let (name, data) = told(&step("tool", StepResult::Value(json!({"paid": [1]}))));
    let expected = json!({
        "session_id": SESSION, "turn_id": TURN, "step_id": "0#3", "tool_call_id": "call_1", "name": "pay",
        "result": {"paid": [1]},
    });
    assert_eq!((name.as_str(), data), ("tool.finished", expected));
    let error = json!({"type": "KeyError", "module": "builtins", "message": "no such account", "args": [1]});
    let (_, data) = told(&step("tool", StepResult::Error(error)));
    assert_eq!((&data["error"], data.get("result")), (&json!("KeyError: no such account"), None));
    let (_, data) = told(&step("tool", StepResult::Value(Value::Null)));
    assert_eq!(data.get("result"), Some(&Value::Null));
}

#[test]
fn a_tool_that_begins_once_is_told_with_what_it_was_approved_with() {
    let begins = |call, arguments| told(&Entry::Intent { step: identity("tool", call), arguments });
    let (name, data) = begins(Some("call_1"), Some(json!({"to": "ada"})));
    let expected = json!({
        "session_id": SESSION, "turn_id": TURN, "step_id": "0#3", "tool_call_id": "call_1", "name": "pay",
        "args": {"to": "ada"},
    });
    assert_eq!((name.as_str(), data), ("tool.started", expected.clone()));
    let (_, data) = begins(None, None);
    assert_eq!((&data["tool_call_id"], &data["args"]), (&Value::Null, &Value::Null));
    // The same as is told of one that may run again.
    let tool = StartedTool {
        step_id: "0#3".to_owned(),
        name: "pay".to_owned(),
        tool_call_id: Some("call_1".to_owned()),
        arguments: Some(json!({"to": "ada"})),
    };
    let view = tool.view(SESSION, TURN);
    assert_eq!((view.name.as_str(), Value::Object(view.data)), ("tool.started", expected));
}

#[test]
fn what_is_no_part_of_the_conversation_is_told_to_nobody() {
    let error = json!({"type": "TimeoutError", "message": "later"});
    let silent = [
        step("step", StepResult::Value(json!("a password"))),
        step("guardrail", StepResult::Value(json!({"token": "a password"}))),
        step("mcp", StepResult::Value(json!([]))),
        step("model", StepResult::Error(error)),
        step("model", StepResult::Value(json!("of a release that wrote something else"))),
        Entry::Intent { step: identity("step", None), arguments: None },
        Entry::Ask { step: identity("tool", None), interrupt_id: InterruptId(Uuid::from_u128(7)) },
        Entry::Cancel {},
    ];
    for entry in silent {
        assert_eq!((StepEvent::of(&entry), view(SESSION, TURN, &entry)), (None, None), "{entry:?}");
    }
}

#[test]
fn the_beginning_is_told_of_what_is_long() {
    let fits = json!("x".repeat(LONGEST - 2));
    let (_, data) = told(&step("tool", StepResult::Value(fits.clone())));
    assert_eq!((&data["result"], data.get("shortened")), (&fits, None));
    let (_, data) = told(&step("tool", StepResult::Value(json!({"text": "ä".repeat(LONGEST)}))));
    let text = data["result"].as_str().unwrap();
    assert!(text.starts_with("{\"text\":\"ää") && (LONGEST - 1..=LONGEST).contains(&text.len()));
    assert_eq!(data["shortened"], json!(true));
    let error = json!({"type": "E", "message": "x".repeat(LONGEST)});
    let (_, data) = told(&step("tool", StepResult::Error(error)));
    assert_eq!((data["error"].as_str().unwrap().len(), &data["shortened"]), (LONGEST, &json!(true)));
}

#[test]
fn what_a_tool_attached_is_told_beside_its_result_as_far_as_there_is_room() {
    let encoded = |data: &str| {
        let fields = json!({"media_type": "image/png", "data": data, "url": null, "name": "a.png"});
        json!({"$hitl": "dataclass", "type": "hitl.attachments:Attachment", "value": fields})
    };
    let (small, large) = ("iVBOR".repeat(2000), "x".repeat(LONGEST));
    let (_, data) = told(&step("tool", StepResult::Value(json!([encoded(&small), encoded(&large), encoded("aGk=")]))));
    let mark = |number: usize| format!("[attachment {number}: a.png, image/png]");
    assert_eq!((&data["result"], data.get("shortened")), (&json!([mark(1), mark(2), mark(3)]), None));
    let one = |data: &str| json!({"media_type": "image/png", "data": data, "name": "a.png"});
    let left_out = json!({"media_type": "image/png", "name": "a.png", "shortened": true});
    assert_eq!(data["attachments"], json!([one(&small), left_out, one("aGk=")]));
    let (_, data) = told(&step("tool", StepResult::Value(json!("done"))));
    assert_eq!(data.get("attachments"), None);
}

#[test]
fn of_a_long_message_its_calls_are_told_as_far_as_there_is_room() {
    let long = "\u{1}".repeat(LONGEST);
    let call = |id: usize| json!({"id": format!("c{id}"), "function": {"name": "f", "arguments": long}});
    let calls: Vec<Value> = (0..100).map(call).collect();
    let shown = said(&json!({"role": "assistant", "content": long, "tool_calls": calls, "reasoning": long}));
    let message = &shown["message"];
    assert_eq!((&message["role"], &shown["shortened"]), (&json!("assistant"), &json!(true)));
    assert!(message.to_string().len() <= LONGEST, "{}", message.to_string().len());
    assert!(message["content"].as_str().is_some_and(|content| content.len() > 1000));
    assert!(message["tool_calls"].as_array().is_some_and(|kept| kept.len() > 3 && kept[0]["id"] == json!("c0")));
    assert_eq!(message.get("reasoning"), None);
    let few = said(&json!({"role": "assistant", "tool_calls": [call(0)]}));
    assert_eq!(few["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().len(), SHORT_ARGUMENTS);
}

#[test]
fn long_arguments_are_kept_as_their_beginning_and_told_so() {
    let short = json!({"to": "ada"});
    assert_eq!(kept_arguments(short.clone()), short);
    let kept = kept_arguments(json!({"text": "x".repeat(LONGEST)}));
    assert_eq!(kept.as_str().unwrap().len(), LONGEST_ARGUMENTS);
    let (_, data) = told(&Entry::Intent { step: identity("tool", Some("call_1")), arguments: Some(kept.clone()) });
    assert_eq!((data["args"].as_str().unwrap().len(), &data["shortened"]), (LONGEST_ARGUMENTS, &json!(true)));
}

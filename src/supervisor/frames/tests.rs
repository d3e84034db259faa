#![allow(clippy::unwrap_used, clippy::panic)]

mod fuzz;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::incoming::ValueBound;
use super::*;
use crate::domain::journal::{Entry, PendingTimer, RecordedEntry, StepResult, Wake};
use crate::domain::message::{ChatMessage, Lean, Role};
use crate::domain::session::Failure;
use crate::domain::told::StartedTool;
use crate::domain::{InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::ports::dispatch::{Delivery, Record};

const TURN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// What is wrong with it: for the worker, or for the turn that it is about.
fn violation(frame: &str) -> String {
    match parse(frame.replace("TURN", TURN).as_bytes()) {
        Err(violation) => violation.0,
        Ok(FromWorker::Turn(_, Word::Wrong { why, .. })) => why,
        Ok(other) => panic!("{other:?}"),
    }
}

fn heard(frame: &str) -> Word {
    match parse(frame.replace("TURN", TURN).as_bytes()).unwrap() {
        FromWorker::Turn(_, word) => word,
        other => panic!("{other:?}"),
    }
}

fn record(frame: &str) -> (Option<u64>, Record) {
    match heard(frame) {
        Word::Record { call, record } => (call, record),
        other => panic!("{other:?}"),
    }
}

fn sent(frame: &ToWorker<'_>) -> Value {
    serde_json::from_slice(&encode(frame).unwrap()[PREFIX..]).unwrap()
}

#[test]
fn what_is_no_frame_is_said() {
    for (frame, said) in [
        ("[\"hello\"]", "a frame is no JSON object"),
        ("", "a frame is no JSON object"),
        ("{\"frame\":\"waiting\",", "a frame is no JSON"),
        ("{}", "a frame is wrong: missing field `frame`"),
        (r#"{"frame":"surprise","turn":"TURN"}"#, "unknown frame \"surprise\""),
        (r#"{"frame":"waiting"}"#, "`waiting` frame: missing field `turn`"),
        (r#"{"frame":"waiting","turn":"x"}"#, "UUID"),
        (r#"{"frame":"delta","turn":"TURN","step_id":"0#1","attempt":-1,"delta":{}}"#, "invalid value"),
        (r#"{"frame":"step","turn":"TURN","call":1,"result":{"value":1}}"#, "missing field `step`"),
        (r#"{"frame":"timer","turn":"TURN","call":1,"path":"0@1"}"#, "missing field `due`"),
        (r#"{"frame":"end","turn":"TURN","call":1,"result":{"state":[]}}"#, "neither `error` nor both"),
        (r#"{"frame":"log","turn":null,"stream":"disk","text":""}"#, "unknown variant `disk`"),
    ] {
        assert!(violation(frame).contains(said), "{frame}: {}", violation(frame));
    }
}

#[test]
fn what_is_wrong_with_a_frame_is_said_in_few_words() {
    let long = "x".repeat(10_000);
    for frame in [
        format!(r#"{{"frame":"log","turn":null,"stream":"{long}","text":""}}"#),
        format!(r#"{{"frame":"end","turn":"TURN","call":9,"result":"{long}"}}"#),
        format!(r#"{{"frame":"{long}","turn":"TURN"}}"#),
    ] {
        let said = violation(&frame);
        assert!(said.len() < 300, "{said}");
    }
}

#[test]
fn a_worker_cannot_say_that_somebody_has_answered() {
    // What it hears of answers, and what the API calls them: none of it is a word of its own.
    for word in ["answer", "expired", "ack", "resume", "resolve", "approve", "decide", "grant", "message"] {
        let frame = format!(
            r#"{{"frame":"{word}","turn":"TURN","call":1,"index":1,"at":1,"interrupt_id":"{TURN}","value":{{"approved":true}}}}"#
        );
        assert_eq!(violation(&frame), format!("unknown frame \"{word}\""));
    }
}

#[test]
fn records_are_read() {
    let due = Timestamp::from_millis(1_795_000_000_123);
    let timer = || "0@1".to_owned();
    assert_eq!(
        record(r#"{"frame":"timer","turn":"TURN","call":7,"path":"0@1","due":1795000000123}"#),
        (Some(7), Record::Timer { path: timer(), due })
    );
    assert_eq!(
        record(r#"{"frame":"waiting","turn":"TURN","seen":4,"timers":[{"path":"0@1","due":1795000000123}]}"#),
        (None, Record::Waiting { seen: Some(4), timers: vec![PendingTimer { path: timer(), due }], context: None })
    );
    assert_eq!(
        record(r#"{"frame":"waiting","turn":"TURN","seen":null}"#),
        (None, Record::Waiting { seen: None, timers: Vec::new(), context: None })
    );
    assert_eq!(
        record(r#"{"frame":"wakes","turn":"TURN","wakes":[{"after":2,"task":"0.1","location":null}]}"#),
        (None, Record::Wakes(vec![Wake { after: 2, task: "0.1".to_owned(), location: None }]))
    );
    let intent = r#"{"frame":"intent","turn":"TURN","call":1,"step":{"path":"0#1","kind":"step","name":"f"}}"#;
    assert!(matches!(record(intent), (Some(1), Record::Intent { step, .. }) if step.name == "f"));
    assert_eq!(
        heard(r#"{"frame":"replayed","turn":"TURN","warnings":["w"]}"#),
        Word::Replayed { warnings: vec!["w".to_owned()] }
    );
    for name in ["cancelled", "parked"] {
        assert_eq!(heard(&format!(r#"{{"frame":"{name}","turn":"TURN","left":2}}"#)), Word::Dropped { left: 2 });
    }
    assert_eq!(parse(br#"{"frame":"pong"}"#).unwrap(), FromWorker::Pong);
    assert_eq!(parse(br#"{"frame":"opened"}"#).unwrap(), FromWorker::Opened);
}

#[test]
fn a_null_is_a_value() {
    let step = r#""step":{"path":"0#1","kind":"step","name":"f"}"#;
    let heard = record(&format!(r#"{{"frame":"step","turn":"TURN","call":3,{step},"result":{{"value":null}}}}"#));
    assert!(matches!(heard, (Some(3), Record::Step { result: StepResult::Value(Value::Null), .. })));
}

#[test]
fn a_value_that_cannot_be_read_is_told_apart_and_a_call_with_one_counts() {
    let step = r#""step":{"path":"0#1","kind":"tool","name":"f"}"#;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (value, bound) in
        [(deep, ValueBound::Depth), ("1".repeat(310), ValueBound::Number), ("1e400".to_owned(), ValueBound::Number)]
    {
        let word = |frame: &str| heard(&frame.replace("VALUE", &value).replace("STEP", step));
        let said = word(r#"{"frame":"step","turn":"TURN","call":3,STEP,"result":{"value":VALUE}}"#);
        assert_eq!(said, Word::Beyond { call: 3, bound });
        let asked =
            word(r#"{"frame":"ask","turn":"TURN","call":4,STEP,"interrupt":{"type":"x","payload":{"a":VALUE}}}"#);
        assert_eq!(asked, Word::Beyond { call: 4, bound });
        let intended = word(r#"{"frame":"intent","turn":"TURN","call":5,STEP,"arguments":{"x":VALUE}}"#);
        let Word::Record { call: Some(5), record: Record::Intent { arguments: None, .. } } = intended else {
            panic!("{intended:?}")
        };
        let begun = word(r#"{"frame":"started","turn":"TURN","step_id":"0#1","name":"f","arguments":{"x":VALUE}}"#);
        let Word::Record { call: None, record: Record::Started(StartedTool { arguments: None, .. }) } = begun else {
            panic!("{begun:?}")
        };
    }
}

#[test]
fn a_frame_of_a_turn_that_cannot_be_read_is_that_turns() {
    let calls = r#""response":{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":{}}}]}"#;
    let end = heard(&format!(r#"{{"frame":"end","turn":"TURN","call":7,"result":{{{calls}}}}}"#));
    let Word::Wrong { call: Some(7), why } = end else { panic!("{end:?}") };
    assert!(why.starts_with("`end` frame: invalid type: map, expected a string"), "{why}");
    let waiting = heard(r#"{"frame":"waiting","turn":"TURN","timers":[{"path":"0#1","due":1e300}]}"#);
    assert!(matches!(waiting, Word::Wrong { call: None, .. }), "{waiting:?}");
}

#[test]
fn an_error_without_a_message_is_its_type() {
    let end = |error: &str| heard(&format!(r#"{{"frame":"end","turn":"TURN","call":1,"result":{{"error":{error}}}}}"#));
    let Word::End { outcome: EndOutcome::Failed(plain), .. } = end(r#"{"type":"KeyError","message":""}"#) else {
        panic!("no end")
    };
    assert_eq!(plain, Failure::new("agent_error", "KeyError"));
    let coded = r#"{"type":"ReplayMismatch","message":"no","code":"replay_mismatch"}"#;
    let Word::End { outcome: EndOutcome::Failed(coded), .. } = end(coded) else { panic!("no end") };
    assert_eq!(coded, Failure::new("replay_mismatch", "ReplayMismatch: no"));
}

#[test]
fn a_turn_that_adds_more_messages_than_others_can_wait_for_has_failed() {
    let end = |count: usize| {
        let result = json!({"response": {}, "kept": 7, "state": vec![json!({}); count]});
        heard(&json!({"frame": "end", "turn": "TURN", "call": 1, "result": result}).to_string())
    };
    let Word::End { outcome: EndOutcome::Done { state, .. }, .. } = end(100_000) else { panic!("no end") };
    assert_eq!(state.total(), 100_007);
    let Word::End { outcome: EndOutcome::Failed(failure), .. } = end(100_001) else { panic!("no end") };
    assert_eq!(failure.code, "turn_too_large");
    assert_eq!(failure.message, "The agent returned 100001 new messages at once; 100000 are taken");
}

#[test]
fn of_what_holds_a_turn_and_of_warnings_the_first_are_kept_and_their_beginnings() {
    let (text, beginning) = ("é".repeat(1 << 16), "é".repeat(1024));
    let by = vec![json!({"what": text, "location": text}); 101];
    let held = json!({"frame": "held", "turn": "TURN", "by": by, "at_work": false});
    let Word::Held(held) = heard(&held.to_string()) else { panic!("not held") };
    assert_eq!((held.by.len(), &held.by[99].what, held.by[99].location.as_ref()), (100, &beginning, Some(&beginning)));
    let replayed = json!({"frame": "replayed", "turn": "TURN", "warnings": vec![text; 101]});
    let Word::Replayed { warnings } = heard(&replayed.to_string()) else { panic!("not replayed") };
    assert_eq!(warnings, vec![beginning; 100]);
}

#[test]
fn of_a_long_error_everybody_is_shown_the_beginning() {
    let (text, code) = ("é".repeat(1 << 20), "c".repeat(1 << 20));
    let error = json!({"type": "HTTPError", "message": text, "code": code});
    let end = json!({"frame": "end", "turn": "TURN", "call": 1, "result": {"error": error}});
    let Word::End { outcome: EndOutcome::Failed(long), .. } = heard(&end.to_string()) else { panic!("no end") };
    assert!(long.message.starts_with("HTTPError: éé") && long.message.ends_with("é..."), "{}", long.message.len());
    assert!(long.message.len() <= 16 * 1024 + 3 && long.code.len() == 128, "{}", long.message.len());
}

#[test]
fn a_worker_of_another_version_says_at_least_that() {
    let hello = parse(br#"{"frame":"hello","protocol":1,"pid":1,"python":"3.11.7","library":"0.1.0"}"#).unwrap();
    assert!(matches!(hello, FromWorker::Hello(Hello { protocol: 1, .. })));
}

#[test]
fn a_frame_begins_with_its_length() {
    let bytes = encode(&ToWorker::Shutdown {}).unwrap();
    assert_eq!(&bytes[..], b"\0\0\0\x14{\"frame\":\"shutdown\"}");
}

#[test]
fn a_turn_comes_with_its_journal_and_without_nulls() {
    let message = ChatMessage { content: Some("hello".to_owned()), ..ChatMessage::default() };
    let reply = ChatMessage { role: Role::Assistant, name: Some("a".to_owned()), ..ChatMessage::default() };
    let journal = [
        Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: None,
            traceparent: None,
        },
        Entry::Pause {
            timers: vec![PendingTimer { path: "0@1".to_owned(), due: Timestamp::from_millis(9) }],
            context: None,
        },
    ]
    .map(|entry| RecordedEntry { at: Timestamp::from_millis(5), entry });
    let turn = TurnId(TURN.parse().unwrap());
    let frame = ToWorker::Turn {
        turn,
        epoch: 3,
        session_id: SessionId(turn.0),
        message: Lean(&message),
        state: vec![Lean(&reply)],
        journal: &journal,
        answered_by: &BTreeMap::new(),
        sent_by: Some("ada"),
        max_payload: 1,
        hold: Some(60.0),
    };
    assert_eq!(
        sent(&frame),
        json!({
            "frame": "turn", "turn": TURN, "epoch": 3, "session_id": TURN, "max_payload": 1, "hold": 60.0,
            "sent_by": "ada",
            "message": {"role": "user", "content": "hello"},
            "state": [{"role": "assistant", "name": "a"}],
            "journal": [
                {"at": 5, "entry": "start", "code": "c", "python": "3.11"},
                {"at": 5, "entry": "pause", "timers": [{"path": "0@1", "due": 9}]},
            ],
        })
    );
}

#[test]
fn an_answer_says_by_whom_where_they_have_a_name() {
    let (turn, interrupt) = (TurnId(TURN.parse().unwrap()), InterruptId(TURN.parse().unwrap()));
    let delivery = |by: Option<&str>| {
        let by = by.map(str::to_owned);
        let (index, at) = (3, Timestamp::from_millis(7));
        sent(&ToWorker::delivery(turn, &Delivery::Answer { index, at, interrupt, value: json!(1), by }))
    };
    let nobody = json!({"frame": "answer", "turn": TURN, "index": 3, "at": 7, "interrupt_id": TURN, "value": 1});
    assert_eq!(delivery(None), nobody);
    assert_eq!(delivery(Some("ada"))["by"], "ada");
}

#[test]
fn acknowledgements_say_where_and_when() {
    let turn = TurnId(TURN.parse().unwrap());
    let ack = ToWorker::Ack { turn, call: 4, index: 2, at: Timestamp::from_millis(7), interrupt_id: None };
    assert_eq!(sent(&ack), json!({"frame": "ack", "turn": TURN, "call": 4, "index": 2, "at": 7}));
    let ended = ToWorker::Ended { turn, call: 5, index: None };
    assert_eq!(sent(&ended), json!({"frame": "ack", "turn": TURN, "call": 5, "index": null}));
}

#[test]
fn a_turn_that_is_too_large_is_refused() {
    let message = ChatMessage { content: Some("x".repeat(MAX_FRAME)), ..ChatMessage::default() };
    let (turn, session_id) = (TurnId(uuid::Uuid::nil()), SessionId(uuid::Uuid::nil()));
    let frame = ToWorker::Turn {
        turn,
        epoch: 1,
        session_id,
        message: Lean(&message),
        state: Vec::new(),
        journal: &[],
        answered_by: &BTreeMap::new(),
        sent_by: None,
        max_payload: 1,
        hold: None,
    };
    assert!(encode(&frame).is_err());
}

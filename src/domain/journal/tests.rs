//! How entries are written.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

fn identity() -> StepIdentity {
    StepIdentity {
        path: "0.1~pay#2".to_owned(),
        kind: "tool".to_owned(),
        name: "pay".to_owned(),
        location: Some("agent.py:12".to_owned()),
        arguments: JsonObject::new(),
        tool_call_id: None,
    }
}

/// Every kind of entry, and how it is written.
fn entries() -> Vec<(Entry, Value)> {
    let interrupt_id = InterruptId(Uuid::from_u128(7));
    let due = Timestamp::from_millis(1_700_000_000_500);
    let step = json!({"path": "0.1~pay#2", "kind": "tool", "name": "pay", "location": "agent.py:12", "arguments": {}});
    let (code, python) = ("0123456789abcdef".to_owned(), "3.11".to_owned());
    vec![
        (
            Entry::Start {
                code: code.clone(),
                python: python.clone(),
                policy: false,
                abandoned: None,
                traceparent: None,
            },
            json!({"entry": "start", "code": "0123456789abcdef", "python": "3.11"}),
        ),
        (
            Entry::Taken { code: code.clone(), python: python.clone(), policy: None },
            json!({"entry": "taken", "code": "0123456789abcdef", "python": "3.11"}),
        ),
        (
            Entry::Taken { code, python, policy: Some(false) },
            json!({"entry": "taken", "code": "0123456789abcdef", "python": "3.11", "policy": false}),
        ),
        (Entry::Intent { step: identity(), arguments: None }, json!({"entry": "intent", "step": step})),
        (
            Entry::Intent { step: identity(), arguments: Some(json!({"to": "ada"})) },
            json!({"entry": "intent", "step": step, "arguments": {"to": "ada"}}),
        ),
        (
            Entry::Step { step: identity(), result: StepResult::Error(json!({"type": "ValueError"})) },
            json!({"entry": "step", "step": step, "result": {"error": {"type": "ValueError"}}}),
        ),
        (
            Entry::Ask { step: identity(), interrupt_id },
            json!({"entry": "ask", "step": step, "interrupt_id": interrupt_id}),
        ),
        (
            Entry::Answer { interrupt_id, value: json!(null) },
            json!({"entry": "answer", "interrupt_id": interrupt_id, "value": null}),
        ),
        (Entry::Expire { interrupt_id }, json!({"entry": "expire", "interrupt_id": interrupt_id})),
        (Entry::Withdraw { interrupt_id }, json!({"entry": "withdraw", "interrupt_id": interrupt_id})),
        (
            Entry::Timer { path: "0@1".to_owned(), due },
            json!({"entry": "timer", "path": "0@1", "due": 1_700_000_000_500_i64}),
        ),
        (
            Entry::Wakes { wakes: vec![Wake { after: 3, task: "0.1".to_owned(), location: None }] },
            json!({"entry": "wakes", "wakes": [{"after": 3, "task": "0.1"}]}),
        ),
        (Entry::Pause { timers: Vec::new(), context: None }, json!({"entry": "pause"})),
        (
            Entry::Pause { timers: Vec::new(), context: Some(json!({"user": 3})) },
            json!({"entry": "pause", "context": {"user": 3}}),
        ),
        (
            Entry::Pause { timers: vec![PendingTimer { path: "0@1".to_owned(), due }], context: None },
            json!({"entry": "pause", "timers": [{"path": "0@1", "due": 1_700_000_000_500_i64}]}),
        ),
        (Entry::Cancel {}, json!({"entry": "cancel"})),
        (Entry::End { ending: Ending::Done }, json!({"entry": "end", "ending": "done"})),
    ]
}

#[test]
fn entries_are_written_in_one_way_and_read_back() {
    for (entry, written) in entries() {
        assert_eq!(serde_json::to_value(&entry).unwrap(), written);
        assert_eq!(serde_json::from_value::<Entry>(written).unwrap(), entry);
    }
}

#[test]
fn a_recorded_entry_is_the_entry_with_its_time() {
    for (entry, mut written) in entries() {
        let recorded = RecordedEntry { at: Timestamp::from_millis(1_700_000_000_000), entry };
        written["at"] = json!(1_700_000_000_000_i64);
        assert_eq!(serde_json::to_value(&recorded).unwrap(), written);
        let text = serde_json::to_string(&recorded).unwrap();
        assert_eq!(serde_json::from_str::<RecordedEntry>(&text).unwrap(), recorded);
    }
}

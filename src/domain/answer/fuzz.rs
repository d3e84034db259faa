//! Anything as an answer to anything that is asked.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::decision::Decision;
use crate::domain::fuzzing::{config, values};
use crate::domain::interrupt::{Answered, Interrupt, Opening};
use crate::domain::schema::Anew;
use crate::domain::{InterruptId, SessionId, Timestamp, TurnId};

/// What agents ask.
fn asks() -> Vec<Value> {
    let approval = json!({"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": 5}});
    let questions = json!([
        {"question": "Which?", "header": "Which", "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}], "multiSelect": false},
        {"question": "All?", "header": "All", "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}], "multiSelect": true},
    ]);
    let schema = json!({
        "type": "object", "properties": {"amount": {"type": "integer", "maximum": 10}}, "required": ["amount"],
        "additionalProperties": false,
    });
    vec![
        json!({"type": "tool_approval", "payload": approval}),
        json!({"type": "tool_approval", "payload": approval, "allowed_decisions": ["reject", "edit"], "args_schema": schema}),
        json!({"type": "tool_approval", "payload": approval, "allowed_decisions": ["approve", "edit", "reject", "respond"],
            "args_schema": {"type": "object"}}),
        json!({"type": "user_input", "payload": {"type": "user_input", "questions": questions}}),
        json!({"type": "unknown_outcome", "payload": {"type": "unknown_outcome"},
            "response_schema": {"properties": {"outcome": {"enum": ["done", "not_done"]}}, "required": ["outcome"]}}),
        json!({"type": "form", "payload": {"type": "form"}, "response_schema": schema}),
        json!({"type": "free", "payload": {"type": "free"}}),
    ]
}

fn answers() -> Vec<Value> {
    vec![
        json!({"approved": true}),
        json!({"approved": false, "reason": "no"}),
        json!({"approved": true, "args": {"amount": 7}}),
        json!({"approved": true, "always": true}),
        json!({"type": "approve", "always": true}),
        json!({"type": "edit", "args": {"amount": 7}, "name": "pay"}),
        json!({"type": "reject", "reason": "no", "message": "ask me"}),
        json!({"type": "respond", "message": {"paid": [1]}}),
        json!({"answers": {"Which?": "A", "All?": ["A", "B"]}}),
        json!({"outcome": "done", "value": 3}),
        json!({"amount": 7}),
    ]
}

fn open(ask: &Value) -> Option<Interrupt> {
    let ask = serde_json::from_value(ask.clone()).ok()?;
    let (id, session, turn) = (InterruptId(Uuid::nil()), SessionId(Uuid::nil()), TurnId(Uuid::nil()));
    let now = Timestamp::from_millis(0);
    Interrupt::opened(ask, Opening { id, session, turn, now, default_ttl: 0.0, max_payload: 20_000 }).ok()
}

fn answer(interrupt: &Interrupt, value: &Value) -> Result<Answered, Error> {
    interrupt.answer(value.clone(), Some("ada"), Timestamp::from_millis(1))
}

fn says_yes(value: &Value) -> bool {
    value["approved"] == true || value["type"] == "approve"
}

proptest! {
    #![proptest_config(config(8))]

    /// What is no answer says why; what is one is kept as it is, reads back equal, and says the same when it is repeated.
    #[test]
    fn fuzz_answers_are_refused_or_kept_as_they_are(ask in select(asks()), value in values(answers())) {
        let Some(interrupt) = open(&ask) else { return Err(TestCaseError::fail("asks are valid")) };
        let resolved = match answer(&interrupt, &value) {
            Err(Error::InvalidAnswer(errors)) => {
                prop_assert!(!errors.is_empty());
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            Ok(Answered::Before) => return Err(TestCaseError::fail("nobody has answered before")),
            Ok(Answered::Now(resolved)) => *resolved,
        };
        prop_assert_eq!(resolved.value.as_ref(), Some(&value));
        let text = json!(resolved).to_string();
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).map_err(|error| TestCaseError::fail(error.to_string()))?, &json!(resolved));
        prop_assert_eq!(answer(&resolved, &value), Ok(Answered::Before));
        if let Some(schema) = built_in_schema((&interrupt).into(), &Anew).or_else(|| interrupt.response_schema.clone()) {
            prop_assert!(schema::validate(&schema, &value, &Anew).is_empty(), "the schema that is shown refuses it");
        }
        if interrupt.kind != TOOL_APPROVAL {
            return Ok(());
        }
        let Some(decision) = decision((&interrupt).into(), &value) else {
            return Err(TestCaseError::fail("what was taken is no decision"));
        };
        prop_assert!(terms((&interrupt).into()).allowed.contains(&decision.kind()));
        match &decision {
            Decision::Approve { .. } => prop_assert!(says_yes(&value)),
            Decision::Edit { args } => prop_assert_eq!(Some(args), value["args"].as_object()),
            Decision::Respond { message } => prop_assert_eq!(message, &value["message"]),
            Decision::Reject { .. } => prop_assert!(!says_yes(&value)),
        }
        // The normal form means the same.
        prop_assert_eq!(answer(&resolved, &decision.to_value()), Ok(Answered::Before));
        prop_assert_eq!(Decision::recorded(&decision.to_value(), terms((&interrupt).into())), Ok(decision));
    }

    /// What is asked may be anything as well.
    #[test]
    fn fuzz_what_is_asked_is_refused_or_can_be_answered(ask in values(asks()), value in values(answers())) {
        if let Some(interrupt) = open(&ask) {
            let first = answer(&interrupt, &value);
            prop_assert_eq!(answer(&interrupt, &value), first);
            let kept: Result<Interrupt, _> = serde_json::from_value(json!(interrupt));
            prop_assert!(kept.is_ok_and(|kept| json!(kept) == json!(interrupt)));
        }
    }
}

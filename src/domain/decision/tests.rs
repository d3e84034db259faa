use proptest::prelude::*;

use super::*;
use crate::domain::schema;

fn read(value: &Value) -> Result<Decision, Vec<FieldError>> {
    Decision::read(value, &DecisionKind::ALL)
}

fn reject(reason: Option<&str>, message: Option<&str>) -> Decision {
    Decision::Reject { reason: reason.map(str::to_owned), message: message.map(str::to_owned) }
}

#[test]
fn both_forms_mean_the_same() {
    for (value, decision) in [
        (json!({"approved": true}), Decision::Approve),
        (json!({"approved": true, "reason": null}), Decision::Approve),
        (json!({"type": "approve"}), Decision::Approve),
        (json!({"approved": false}), reject(None, None)),
        (json!({"approved": false, "reason": "too risky"}), reject(Some("too risky"), None)),
        (json!({"type": "reject"}), reject(None, None)),
        (json!({"type": "reject", "reason": "too risky"}), reject(Some("too risky"), None)),
        (json!({"type": "reject", "message": "Ask legal first"}), reject(None, Some("Ask legal first"))),
        (json!({"type": "reject", "reason": null, "message": null}), reject(None, None)),
    ] {
        assert_eq!(read(&value), Ok(decision), "{value}");
    }
}

#[test]
fn a_missing_approved_is_a_no() {
    assert_eq!(read(&json!({})), Ok(reject(None, None)));
    assert_eq!(read(&json!({"reason": "later"})), Ok(reject(Some("later"), None)));
}

/// Whatever was ever seen to approve by accident, and what belongs to later versions.
fn malformed() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(1),
        json!("yes"),
        json!("approve"),
        json!([]),
        json!([{"approved": true}]),
        json!({"approved": "false"}),
        json!({"approved": "true"}),
        json!({"approved": 1}),
        json!({"approved": 0}),
        json!({"approved": null}),
        json!({"approved": []}),
        json!({"approved": {}}),
        json!({"Approved": true}),
        json!({"approve": true}),
        json!({"approved": true, "extra": 1}),
        json!({"approved": true, "reason": "fine"}),
        json!({"approved": true, "reason": 7}),
        json!({"approved": false, "reason": 7}),
        json!({"approved": false, "reason": ["no"]}),
        json!({"approved": false, "message": "no"}),
        json!({"approved": true, "args": {"path": "/"}}),
        json!({"approved": true, "always": true}),
        json!({"type": "approve", "approved": false}),
        json!({"type": "approve", "approved": true}),
        json!({"type": "approve", "reason": "fine"}),
        json!({"type": "approve", "args": {}}),
        json!({"type": "Approve"}),
        json!({"type": "approved"}),
        json!({"type": "accept"}),
        json!({"type": ""}),
        json!({"type": null}),
        json!({"type": true}),
        json!({"type": ["approve"]}),
        json!({"type": "reject", "reason": 5}),
        json!({"type": "reject", "message": {"text": "no"}}),
        json!({"type": "reject", "approved": false}),
        json!({"type": "edit", "args": {"path": "/"}}),
        json!({"type": "respond", "message": "done"}),
        json!({"decisions": [{"type": "approve"}]}),
        json!({"value": {"approved": true}}),
    ]
}

#[test]
fn nothing_else_is_a_decision() {
    let schema = response_schema(&DecisionKind::ALL);
    for value in malformed() {
        let errors = read(&value).expect_err(&value.to_string());
        assert!(!errors.is_empty(), "{value}");
        assert!(!schema::validate(&schema, &value).is_empty(), "the schema takes {value}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let errors = read(&json!({"approved": "false", "extra": 1})).unwrap_err();
    let said: Vec<(Value, &str, &str)> = errors
        .iter()
        .map(|error| (serde_json::to_value(&error.loc).unwrap(), error.kind.as_str(), error.msg.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (json!(["extra"]), "unknown_member", "unknown member; known here: approved, reason"),
            (json!(["approved"]), "wrong_type", "must be a boolean, got a string"),
        ]
    );
}

#[test]
fn what_is_not_allowed_is_refused_in_both_forms() {
    let only_reject = [DecisionKind::Reject];
    for value in [json!({"approved": true}), json!({"type": "approve"})] {
        let errors = Decision::read(&value, &only_reject).unwrap_err();
        assert_eq!(errors[0].kind, "not_allowed");
        assert!(errors[0].msg.contains("allowed: reject"), "{}", errors[0].msg);
    }
    let only_approve = [DecisionKind::Approve];
    assert!(Decision::read(&json!({}), &only_approve).is_err());
    assert_eq!(Decision::read(&json!({"approved": true}), &only_approve), Ok(Decision::Approve));
}

#[test]
fn the_model_is_told_the_reason_or_the_message() {
    assert_eq!(rejection_text("delete_file", None, None), "User rejected delete_file");
    assert_eq!(rejection_text("delete_file", Some(""), None), "User rejected delete_file");
    assert_eq!(rejection_text("delete_file", Some("not mine"), None), "User rejected delete_file: not mine");
    assert_eq!(rejection_text("delete_file", Some("not mine"), Some("Ask first")), "Ask first");
}

/// JSON near to a decision: the known members with values of every kind.
fn near_decision() -> impl Strategy<Value = Value> {
    let value = prop::sample::select(vec![
        json!(true),
        json!(false),
        json!(null),
        json!(0),
        json!(1),
        json!("approve"),
        json!("reject"),
        json!("edit"),
        json!("true"),
        json!(""),
        json!([]),
        json!({}),
    ]);
    let name = prop::sample::select(vec!["approved", "type", "reason", "message", "args", "always", "x"]);
    prop_oneof![
        1 => value.clone(),
        9 => prop::collection::btree_map(name, value, 0..4).prop_map(|members| {
            Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_schema_takes_exactly_what_is_read(
        value in near_decision(),
        allowed in prop::sample::subsequence(DecisionKind::ALL.to_vec(), 0..=DecisionKind::ALL.len()),
    ) {
        let is_read = Decision::read(&value, &allowed).is_ok();
        let errors = schema::validate(&response_schema(&allowed), &value);
        prop_assert_eq!(is_read, errors.is_empty(), "{} {:?}", value, errors);
    }

    #[test]
    fn only_a_plain_yes_approves(value in near_decision()) {
        if read(&value) == Ok(Decision::Approve) {
            let is_plain = value.get("approved") == Some(&json!(true)) || value == json!({"type": "approve"});
            prop_assert!(is_plain, "{}", value);
        }
    }
}

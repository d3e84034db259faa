use proptest::prelude::*;

use super::*;
use crate::domain::schema::{self, Anew};

const ANYTHING: Terms<'_> = Terms { allowed: &DecisionKind::ALL, tool_name: Some("delete_file"), args_schema: None };

fn read(value: &Value) -> Result<Decision, Vec<FieldError>> {
    Decision::read(value, ANYTHING, &Anew)
}

fn approve(always: bool) -> Decision {
    Decision::Approve { always, by: Decider::Person }
}

fn edit(args: Value) -> Decision {
    Decision::Edit { args: args.as_object().cloned().unwrap() }
}

fn reject(reason: Option<&str>, message: Option<&str>) -> Decision {
    Decision::Reject {
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        always: false,
        by: Decider::Person,
    }
}

fn always_reject(reason: Option<&str>) -> Decision {
    Decision::Reject { reason: reason.map(str::to_owned), message: None, always: true, by: Decider::Person }
}

fn respond(message: Value) -> Decision {
    Decision::Respond { message }
}

#[test]
fn both_forms_mean_the_same() {
    for (value, decision) in [
        (json!({"approved": true}), approve(false)),
        (json!({"approved": true, "reason": null}), approve(false)),
        (json!({"approved": true, "always": false}), approve(false)),
        (json!({"type": "approve"}), approve(false)),
        (json!({"approved": true, "always": true}), approve(true)),
        (json!({"type": "approve", "always": true}), approve(true)),
        (json!({"approved": true, "args": {"path": "/a"}}), edit(json!({"path": "/a"}))),
        (json!({"approved": true, "args": {}, "reason": null, "always": false}), edit(json!({}))),
        (json!({"type": "edit", "args": {"path": "/a"}}), edit(json!({"path": "/a"}))),
        (json!({"type": "edit", "args": {}, "name": "delete_file", "always": false}), edit(json!({}))),
        (json!({"approved": false, "always": true, "reason": "never"}), always_reject(Some("never"))),
        (json!({"type": "reject", "always": true, "reason": "never"}), always_reject(Some("never"))),
        (json!({"type": "respond", "message": "done by hand"}), respond(json!("done by hand"))),
        (json!({"type": "respond", "message": {"rows": [1]}}), respond(json!({"rows": [1]}))),
        (json!({"type": "respond", "message": null}), respond(json!(null))),
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

/// Whatever was ever seen to approve by accident, and whatever says two things.
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
        json!({"approved": true, "args": null}),
        json!({"approved": true, "args": [1]}),
        json!({"approved": true, "args": "{}"}),
        json!({"approved": true, "args": {}, "always": true}),
        json!({"approved": true, "args": {}, "reason": "fine"}),
        json!({"approved": true, "args": {}, "name": "delete_file"}),
        json!({"approved": false, "args": {}}),
        json!({"args": {}}),
        json!({"always": true}),
        json!({"approved": true, "always": "true"}),
        json!({"approved": true, "always": 1}),
        json!({"approved": true, "always": null}),
        json!({"approved": false, "by": "policy"}),
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
        json!({"type": "approve", "always": null}),
        json!({"type": "reject", "by": "policy"}),
        json!({"type": "reject", "always": "yes"}),
        json!({"type": "reject", "args": {}}),
        json!({"type": "edit"}),
        json!({"type": "edit", "args": null}),
        json!({"type": "edit", "args": []}),
        json!({"type": "edit", "args": {}, "always": true}),
        json!({"type": "edit", "args": {}, "approved": true}),
        json!({"type": "edit", "args": {}, "name": "delete_all"}),
        json!({"type": "edit", "args": {}, "name": null}),
        json!({"type": "edit", "args": {}, "reason": "typo"}),
        json!({"type": "respond"}),
        json!({"type": "respond", "value": "done"}),
        json!({"type": "respond", "message": "done", "always": true}),
        json!({"decisions": [{"type": "approve"}]}),
        json!({"value": {"approved": true}}),
    ]
}

#[test]
fn nothing_else_is_a_decision() {
    let schema = response_schema(ANYTHING);
    for value in malformed() {
        let errors = read(&value).expect_err(&value.to_string());
        assert!(!errors.is_empty(), "{value}");
        assert!(!schema::validate(&schema, &value, &Anew).is_empty(), "the schema takes {value}");
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
            (json!(["extra"]), "unknown_member", "unknown member; known here: approved, reason, args, always"),
            (json!(["approved"]), "wrong_type", "must be a boolean, got a string"),
        ]
    );
}

#[test]
fn what_is_not_allowed_is_refused_in_both_forms() {
    for (allowed, value, place) in [
        (DecisionKind::Reject, json!({"approved": true}), "approved"),
        (DecisionKind::Reject, json!({"type": "approve"}), "type"),
        (DecisionKind::Approve, json!({}), "approved"),
        (DecisionKind::Approve, json!({"approved": true, "args": {}}), "args"),
        (DecisionKind::Approve, json!({"type": "edit", "args": {}}), "type"),
        (DecisionKind::Edit, json!({"approved": true}), "approved"),
        (DecisionKind::Edit, json!({"type": "respond", "message": 1}), "type"),
    ] {
        let errors = Decision::read(&value, Terms { allowed: &[allowed], ..ANYTHING }, &Anew).unwrap_err();
        assert_eq!(
            (errors[0].kind.as_str(), errors[0].loc.as_slice()),
            ("not_allowed", &[place.into()][..]),
            "{value}"
        );
        assert!(errors[0].msg.contains(&format!("allowed: {}", allowed.as_str())), "{}", errors[0].msg);
    }
}

#[test]
fn the_arguments_of_an_edit_fit_the_tool() {
    let schema = json!({
        "type": "object", "required": ["amount"], "additionalProperties": false,
        "properties": {"amount": {"$ref": "#/$defs/Cents"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "$defs": {"Cents": {"type": "integer", "minimum": 1}},
    });
    let terms = Terms { args_schema: Some(&schema), ..ANYTHING };
    let read = |args: Value| Decision::read(&json!({"type": "edit", "args": args}), terms, &Anew);
    assert_eq!(read(json!({"amount": 5})), Ok(edit(json!({"amount": 5}))));
    for (args, place) in [
        (json!({}), "args"),
        (json!({"amount": "5"}), "args.amount"),
        (json!({"amount": 0}), "args.amount"),
        (json!({"amount": 5, "to": "me"}), "args"),
        (json!({"amount": 5, "tags": ["a", 1]}), "args.tags.1"),
    ] {
        let errors = read(args).unwrap_err();
        assert!(errors[0].to_string().starts_with(&format!("{place}: ")), "{}", errors[0]);
    }
    // The same as the record shows it, with what the tool's schema refers to in itself.
    let shown = response_schema(Terms { tool_name: Some("pay"), ..terms });
    for (args, is_valid) in [(json!({"amount": 5}), true), (json!({"amount": "5"}), false), (json!({}), false)] {
        for value in [json!({"type": "edit", "args": args}), json!({"approved": true, "args": args})] {
            assert_eq!(schema::validate(&shown, &value, &Anew).is_empty(), is_valid, "{value}");
        }
    }
}

#[test]
fn the_schema_of_an_edit_says_what_is_checked_whichever_draft_the_tools_is_of() {
    let draft = |name: &str, more: Value| {
        let mut schema = json!({
            "$schema": name,
            "type": "object",
            "definitions": {"cents": {"type": "integer", "minimum": 1}, "const": {"type": "string"}},
            "properties": {
                "amount": {"$ref": "#/definitions/cents", "maximum": 5},
                "pair": {
                    "type": "array",
                    "items": [{"type": "string"}, {"$ref": "#/definitions/cents"}],
                    "additionalItems": false,
                },
                "open": {"type": "array", "items": [{"type": "string"}]},
                "list": {"items": {"type": "string"}, "additionalItems": false},
                "second": {"$ref": "#/properties/pair/items/1"},
                "const": {"$ref": "#/definitions/const"},
                "tree": {"properties": {"deeper": {"$ref": "#"}}},
                "later": {"prefixItems": [{"type": "string"}], "dependentRequired": {"a": ["b"]}},
                "chosen": {"if": {"type": "string"}, "then": {"minLength": 2}},
            },
            "dependencies": {"pair": ["amount"], "const": {"required": ["amount"]}},
        });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let recursive = json!({"$recursiveAnchor": true, "additionalProperties": {"$recursiveRef": "#"}});
    let limits = json!({"minimum": 3, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false});
    let exclusive = json!({"additionalProperties": limits});
    let schemas = [
        draft("http://json-schema.org/draft-04/schema#", exclusive),
        draft("http://json-schema.org/draft-06/schema#", json!({"additionalProperties": {"exclusiveMinimum": 3}})),
        draft("http://json-schema.org/draft-07/schema#", json!({"propertyNames": {"maxLength": 6}})),
        draft("https://json-schema.org/draft/2019-09/schema", recursive),
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {"cents": {"type": "integer", "minimum": 1}},
            "properties": {"pair": {"prefixItems": [{"type": "string"}, {"$ref": "#/$defs/cents"}], "items": false}},
        }),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/all", "required": ["x"],
            "definitions": {"all": {"properties": {"pair": {"items": [{"type": "string"}]}}}}}),
    ];
    let args = [
        json!({}),
        json!({"amount": 5}),
        json!({"amount": 6}),
        json!({"amount": 0}),
        json!({"amount": 5, "pair": ["a", 1]}),
        json!({"amount": 5, "pair": ["a", 0]}),
        json!({"amount": 5, "pair": ["a", 1, 2]}),
        json!({"amount": 5, "pair": [1]}),
        json!({"pair": ["a", 1]}),
        json!({"open": ["a", 1]}),
        json!({"open": [1]}),
        json!({"list": ["a"]}),
        json!({"list": ["a", 1]}),
        json!({"second": 1}),
        json!({"second": "a"}),
        json!({"const": "a"}),
        json!({"const": "a", "amount": 1}),
        json!({"const": 1, "amount": 1}),
        json!({"tree": {"deeper": {"amount": 0}}}),
        json!({"tree": {"deeper": {"amount": 1}}}),
        json!({"later": [1]}),
        json!({"later": {"a": 1}}),
        json!({"chosen": "a"}),
        json!({"longer name": 3}),
        json!({"other": 3}),
        json!({"other": 4}),
        json!({"other": 10}),
        json!({"other": {"amount": 0}}),
    ];
    for schema in schemas {
        let terms = Terms { args_schema: Some(&schema), ..ANYTHING };
        let shown = response_schema(terms);
        schema::compile(&schema).unwrap();
        schema::compile(&shown).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let taken = args.iter().filter(|args| {
            let value = json!({"type": "edit", "args": args});
            let is_read = Decision::read(&value, terms, &Anew).is_ok();
            assert_eq!(schema::validate(&shown, &value, &Anew).is_empty(), is_read, "{value} of {shown}");
            is_read
        });
        let taken = taken.count();
        assert!(taken > 0 && taken < args.len(), "{taken} of {schema}");
    }
}

#[test]
fn a_rule_decides_what_nobody_can_post() {
    let denied = Decision::Reject { reason: None, message: None, always: false, by: Decider::Policy };
    let value = denied.to_value();
    assert_eq!(value, json!({"type": "reject", "by": "policy"}));
    assert!(read(&value).is_err());
    let only_approve = Terms { allowed: &[DecisionKind::Approve], ..ANYTHING };
    assert_eq!(Decision::recorded(&value, only_approve), Ok(denied));
    let passed = Decision::PASSED.to_value();
    assert_eq!(passed, json!({"type": "approve", "by": "policy"}));
    assert!(read(&passed).is_err());
    assert_eq!(Decision::recorded(&passed, only_approve), Ok(Decision::PASSED));
    for forged in [
        json!({"type": "edit", "args": {}, "by": "policy"}),
        json!({"type": "respond", "message": 1, "by": "policy"}),
        json!({"type": "approve", "by": "nobody"}),
    ] {
        assert!(Decision::recorded(&forged, ANYTHING).is_err(), "{forged}");
    }
}

#[test]
fn the_normal_form_says_no_more_than_it_has_to() {
    for (decision, value) in [
        (approve(false), json!({"type": "approve"})),
        (approve(true), json!({"type": "approve", "always": true})),
        (edit(json!({"a": 1})), json!({"type": "edit", "args": {"a": 1}})),
        (reject(None, None), json!({"type": "reject"})),
        (reject(Some("r"), Some("m")), json!({"type": "reject", "reason": "r", "message": "m"})),
        (respond(json!(null)), json!({"type": "respond", "message": null})),
    ] {
        assert_eq!(decision.to_value(), value);
        assert_eq!(read(&value), Ok(decision));
    }
}

#[test]
fn the_model_is_told_the_reason_or_the_message() {
    let text = |reason, message, by| rejection_text("delete_file", reason, message, by);
    assert_eq!(text(None, None, Decider::Person), "User rejected delete_file");
    assert_eq!(text(Some(""), None, Decider::Person), "User rejected delete_file");
    assert_eq!(text(Some("not mine"), None, Decider::Person), "User rejected delete_file: not mine");
    assert_eq!(text(Some("not mine"), Some("Ask first"), Decider::Person), "Ask first");
    assert_eq!(text(None, None, Decider::Policy), "Policy rejected delete_file");
    assert_eq!(text(Some("read only"), None, Decider::Policy), "Policy rejected delete_file: read only");
}

#[test]
fn the_model_is_told_of_other_arguments() {
    let args = json!({"path": "/ü", "n": 1}).as_object().cloned().unwrap();
    assert_eq!(edited_text(&args), r#"[A person changed the arguments of this call to {"path":"/ü","n":1}]"#);
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
        json!("respond"),
        json!("true"),
        json!(""),
        json!([]),
        json!({}),
    ]);
    let name = prop::sample::select(vec!["approved", "type", "reason", "message", "args", "always", "name", "by", "x"]);
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
        tool_name in prop::sample::select(vec![None, Some("approve")]),
        args_schema in prop::sample::select(vec![None, Some(json!({})), Some(json!({"required": ["path"]}))]),
    ) {
        let terms = Terms { allowed: &allowed, tool_name, args_schema: args_schema.as_ref() };
        let is_read = Decision::read(&value, terms, &Anew).is_ok();
        let errors = schema::validate(&response_schema(terms), &value, &Anew);
        prop_assert_eq!(is_read, errors.is_empty(), "{} {:?}", value, errors);
    }

    #[test]
    fn only_a_plain_yes_runs_the_tool(value in near_decision()) {
        let said_yes = value.get("approved") == Some(&json!(true));
        match read(&value) {
            Ok(Decision::Approve { .. }) => prop_assert!(said_yes || value["type"] == "approve", "{}", value),
            Ok(Decision::Edit { .. }) => {
                prop_assert!(said_yes || value["type"] == "edit", "{}", value);
                prop_assert!(value["args"].is_object(), "{}", value);
            }
            Ok(Decision::Reject { .. } | Decision::Respond { .. }) | Err(_) => {}
        }
    }

    #[test]
    fn what_was_read_is_read_again_from_its_normal_form(value in near_decision()) {
        if let Ok(decision) = read(&value) {
            prop_assert_eq!(&read(&decision.to_value()), &Ok(decision.clone()));
            prop_assert_eq!(Decision::recorded(&decision.to_value(), ANYTHING), Ok(decision));
        }
    }
}

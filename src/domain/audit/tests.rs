mod fuzz;

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::TurnId;
use crate::domain::interrupt::{Answered, Ask, Opening};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn chain(deeds: Vec<Deed>) -> Vec<AuditRow> {
    let mut rows: Vec<AuditRow> = Vec::new();
    for (seconds, deed) in (0..).zip(deeds) {
        let head = rows.last().map_or_else(Head::nothing, AuditRow::head);
        rows.push(AuditRow::after(&head, deed, at(seconds)));
    }
    rows
}

fn verify(rows: &[AuditRow], head: Option<Head>) -> Result<Head, Flaw> {
    let mut verifier = Verifier::new(head);
    rows.iter().try_for_each(|row| verifier.take(row))?;
    verifier.finish()
}

fn three() -> Vec<AuditRow> {
    let deed = |action| Deed::new(action).by(Some("ada"), Some([127, 0, 0, 1].into()));
    chain(vec![deed(Action::Asked), deed(Action::Seen).with("n", 0.1), deed(Action::Decided)])
}

fn asked(kind: &str, payload: Value) -> Interrupt {
    let ask: Ask = serde_json::from_value(json!({
        "type": kind, "payload": payload, "agent": "files", "args_digest": "sha256:1",
        "args_schema": {"type": "object"}, "allowed_decisions": ["approve", "edit", "reject", "respond"],
    }))
    .unwrap();
    let nil = Uuid::nil();
    let (id, session, turn) = (InterruptId(nil), SessionId(nil), TurnId(nil));
    Interrupt::opened(ask, Opening { id, session, turn, now: at(5), default_ttl: 0.0, max_payload: 10_000 }).unwrap()
}

fn approval() -> Interrupt {
    asked("tool_approval", json!({"type": "tool_approval", "tool_name": "rm", "tool_args": {"path": "/a"}}))
}

fn decided(interrupt: &Interrupt, value: Value) -> Value {
    match interrupt.answer(value, Some("ada"), at(9)) {
        Ok(Answered::Now(answered)) => Value::Object(Deed::of(&answered).details),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_is_hashed_as_documented() {
    let [first, second, _] = three().try_into().unwrap();
    let text = r#"{"action":"seen","actor":"ada","address":"127.0.0.1","at":"1970-01-01T00:00:01.000Z","#.to_owned()
        + r#""details":{"n":0.1},"interrupt_id":null,"seq":2,"session_id":null}"#;
    assert_eq!(first.prev, NOTHING);
    assert_eq!(second.prev, first.hash);
    assert_eq!(second.hash, hex(&Sha256::digest(format!("{}{text}", first.hash))));
}

#[test]
fn a_whole_audit_ends_at_its_head() {
    let rows = three();
    assert_eq!(verify(&rows, None), Ok(rows[2].head()));
    assert_eq!(verify(&rows, Some(rows[1].head())), Ok(rows[2].head()), "it has gone on since");
    assert_eq!(verify(&[], Some(Head::nothing())), Ok(Head::nothing()));
}

#[test]
fn a_changed_row_is_named() {
    let mut rows = three();
    rows[1].actor = Some("bob".to_owned());
    assert_eq!(verify(&rows, None), Err(Flaw::Changed { seq: 2 }));
    // With a hash of its own it does not fit the next row any more.
    rows[1].hash = rows[1].expected_hash();
    assert_eq!(verify(&rows, None), Err(Flaw::Torn { seq: 3, expected: 3 }));
}

#[test]
fn a_missing_a_moved_and_a_doubled_row_are_named() {
    let rows = three();
    let [first, second, third] = [&rows[0], &rows[1], &rows[2]].map(Clone::clone);
    let torn = |rows: &[AuditRow]| verify(rows, None);
    assert_eq!(torn(&[first.clone(), third.clone()]), Err(Flaw::Torn { seq: 3, expected: 2 }));
    assert_eq!(torn(&[second.clone(), third.clone()]), Err(Flaw::Torn { seq: 2, expected: 1 }));
    assert_eq!(torn(&[first.clone(), first.clone()]), Err(Flaw::Torn { seq: 1, expected: 2 }));
    assert_eq!(torn(&[first, third, second]), Err(Flaw::Torn { seq: 3, expected: 2 }));
}

#[test]
fn what_was_cut_off_shows_against_a_head() {
    let rows = three();
    let (end, head) = (rows[1].head(), rows[2].head());
    let cut = verify(&rows[..2], Some(head.clone()));
    assert_eq!(cut, Err(Flaw::Cut { end, head: head.clone() }));
    assert_eq!(verify(&rows[..2], None), Ok(rows[1].head()), "and only against one");
    // Cut off and gone on with something else.
    let other = AuditRow::after(&rows[1].head(), Deed::new(Action::SignedIn), at(7));
    let forged = [rows[0].clone(), rows[1].clone(), other];
    let flaw = verify(&forged, Some(head)).unwrap_err();
    assert_eq!(flaw.to_string(), "row 3 is another than the one that was written down");
}

#[test]
fn a_decision_tells_original_and_final_arguments_and_both_times() {
    let (same, none) = (json!({"path": "/a"}), Value::Null);
    for (value, word, final_args) in [
        (json!({"approved": true}), "approve", &same),
        (json!({"type": "edit", "args": {"path": "/b"}}), "edit", &json!({"path": "/b"})),
        (json!({"approved": false, "reason": "no"}), "reject", &none),
        (json!({"type": "respond", "message": "it is gone"}), "respond", &none),
    ] {
        let details = decided(&approval(), value.clone());
        assert_eq!((&details["decision"], &details["args"]), (&json!(word), &same));
        assert_eq!(details.get("final_args").unwrap_or(&Value::Null), final_args, "{word}");
        assert_eq!((&details["value"], &details["digest"]), (&value, &json!("sha256:1")));
        assert_eq!(details["asked_at"], json!(at(5)));
    }
}

#[test]
fn the_final_arguments_of_an_edit_are_those_that_the_tool_fills_in_too() {
    let schema = json!({"type": "object", "properties": {"path": {}, "force": {"default": false}}});
    let asked = Interrupt { args_schema: Some(schema), ..approval() };
    let details = decided(&asked, json!({"type": "edit", "args": {"path": "/b"}}));
    assert_eq!(details["final_args"], json!({"path": "/b", "force": false}));
    assert_eq!(details["value"], json!({"type": "edit", "args": {"path": "/b"}}), "as it was posted");
}

#[test]
fn defaults_that_would_make_a_decision_many_times_as_long_are_not_filled_in() {
    let row = json!({"type": "object", "properties": {"note": {"default": "x".repeat(1000)}}});
    let schema = json!({"type": "object", "properties": {"rows": {"type": "array", "items": row}}});
    let asked = Interrupt { args_schema: Some(schema), ..approval() };
    let edited = |rows: usize| decided(&asked, json!({"type": "edit", "args": {"rows": vec![json!({}); rows]}}));
    let few = edited(100);
    assert_eq!(few["final_args"]["rows"][99]["note"], json!("x".repeat(1000)));
    assert_eq!(few.get("defaults_left_out"), None);
    let many = edited(10_000);
    assert_eq!(many["final_args"]["rows"][9_999], json!({}));
    assert_eq!(many["defaults_left_out"], json!(true));
}

#[test]
fn a_rule_that_could_not_tell_is_named() {
    let asked = Interrupt { rule_failed: Some("rule \"odd\" could not tell: no limit".to_owned()), ..approval() };
    for details in [Value::Object(Deed::of(&asked).details), decided(&asked, json!({"approved": true}))] {
        assert_eq!(details["rule_failed"], "rule \"odd\" could not tell: no limit");
    }
}

#[test]
fn another_answer_is_told_with_the_digest_of_what_was_asked() {
    let question = asked("question", json!({"type": "question", "text": "x".repeat(5000)}));
    let details = decided(&question, json!([1]));
    assert_eq!(details["value"], json!([1]));
    assert_eq!(details["digest"], json!(digest::of(&Value::Object(question.payload.clone()))));
    assert!(details.to_string().len() < 500);
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let value =
        prop_oneof![any::<f64>().prop_map(Value::from), ".{0,5}".prop_map(Value::from), Just(json!([null, {}]))];
    let details = prop::collection::btree_map(".{0,3}", value, 0..3);
    (prop::sample::select(&Action::ALL[..]), prop::option::of("[a-z]{1,3}"), details).prop_map(
        |(action, actor, details)| Deed {
            actor,
            details: details.into_iter().collect(),
            ..Deed::new(action).session(SessionId(Uuid::nil()))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_audit_survives_being_exported(deeds in prop::collection::vec(any_deed(), 0..6)) {
        let rows = chain(deeds);
        let lines: Vec<String> = rows.iter().map(|row| json!(row).to_string()).collect();
        let again: Vec<AuditRow> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(&again, &rows);
        let head = rows.last().map_or_else(Head::nothing, AuditRow::head);
        prop_assert_eq!(verify(&again, Some(head.clone())), Ok(head));
    }

    #[test]
    fn any_change_of_one_row_is_told_with_the_head(
        deeds in prop::collection::vec(any_deed(), 1..6), place in any::<prop::sample::Index>(), other in any_deed(),
        rehashed in any::<bool>(),
    ) {
        let rows = chain(deeds);
        let head = rows.last().unwrap().head();
        let place = place.index(rows.len());
        let mut changed = rows.clone();
        let row = &mut changed[place];
        *row = AuditRow { action: other.action, actor: other.actor, details: other.details, ..row.clone() };
        if rehashed {
            row.hash = row.expected_hash();
        }
        let is_same = changed == rows;
        prop_assert_eq!(verify(&changed, Some(head)).is_ok(), is_same);
    }

    #[test]
    fn leaving_anything_out_is_told_with_the_head(
        deeds in prop::collection::vec(any_deed(), 1..6), place in any::<prop::sample::Index>(),
    ) {
        let rows = chain(deeds);
        let head = rows.last().unwrap().head();
        let mut fewer = rows.clone();
        fewer.remove(place.index(rows.len()));
        prop_assert!(verify(&fewer, Some(head)).is_err());
    }
}

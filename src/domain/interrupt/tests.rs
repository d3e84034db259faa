use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::decision::TOOL_APPROVAL;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap()
}

fn ask(kind: &str, payload: Value) -> Ask {
    serde_json::from_value(json!({"type": kind, "payload": payload})).unwrap()
}

fn approval() -> Ask {
    let payload = json!({"type": TOOL_APPROVAL, "tool_name": "delete_file", "tool_args": {"path": "/tmp/x"}});
    ask(TOOL_APPROVAL, payload)
}

fn opening() -> Opening {
    Opening {
        id: InterruptId(Uuid::from_u128(1)),
        session: SessionId(Uuid::from_u128(2)),
        turn: TurnId(Uuid::from_u128(3)),
        now: at(0),
        default_ttl: 0.0,
        max_payload: payload::MAX_PAYLOAD,
    }
}

fn open(ask: Ask) -> Interrupt {
    Interrupt::opened(ask, opening()).unwrap()
}

/// The record after an answer that must be the first one.
fn answered(interrupt: &Interrupt, value: Value) -> Interrupt {
    match interrupt.answer(value, Some("alice"), at(10)).unwrap() {
        Answered::Now(record) => *record,
        Answered::Before => panic!("it was answered before"),
    }
}

#[test]
fn a_new_one_is_pending_and_shows_what_a_valid_answer_is() {
    let interrupt = open(approval());
    assert_eq!(interrupt.status, InterruptStatus::Pending);
    assert_eq!((interrupt.created_at, interrupt.expires_at), (at(0), None));
    assert!(interrupt.response_schema.is_some());
    assert_eq!(open(ask("color_picker", json!({}))).response_schema, None);
}

#[test]
fn a_payload_may_fill_its_limit_and_not_a_byte_more() {
    let sized = |size: usize| {
        let payload = json!({"text": ""});
        let overhead = payload.to_string().len();
        // Two bytes a character: what counts are bytes of UTF-8, not escaped.
        json!({"text": "ä".repeat((size - overhead) / 2) + &"x".repeat((size - overhead) % 2)})
    };
    let opening = Opening { max_payload: 101, ..opening() };
    assert!(Interrupt::opened(ask("x", sized(101)), opening).is_ok());
    let refused = Interrupt::opened(ask("x", sized(102)), opening);
    assert_eq!(refused, Err(Error::PayloadTooLarge { size: 102, limit: 101 }));
}

#[test]
fn an_unusable_response_schema_is_refused_when_it_is_asked() {
    for schema in [json!({"type": "colour"}), json!([]), json!({"$ref": "https://example.com/schema.json"})] {
        let refused = Interrupt::opened(Ask { response_schema: Some(schema), ..ask("x", json!({})) }, opening());
        assert!(matches!(refused, Err(Error::InvalidSchema(_))), "{refused:?}");
    }
}

#[test]
fn an_approval_that_allows_nothing_could_never_be_answered_and_is_refused() {
    let refused = Interrupt::opened(Ask { allowed_decisions: Some(vec![]), ..approval() }, opening());
    assert!(matches!(refused, Err(Error::InvalidPayload(_))), "{refused:?}");
}

#[test]
fn a_time_to_live_is_a_positive_number_of_seconds() {
    let expiring = |seconds| Ask { expires_in: Some(seconds), ..approval() };
    assert_eq!(open(expiring(1.5)).expires_at, Some(at(1500)));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = Interrupt::opened(expiring(seconds), opening());
        assert!(matches!(refused, Err(Error::InvalidPayload(_))), "{refused:?}");
    }
}

#[test]
fn the_servers_time_to_live_is_for_those_without_their_own() {
    let opening = Opening { default_ttl: 60.0, ..opening() };
    let inherited = Interrupt::opened(approval(), opening).unwrap();
    assert_eq!(inherited.expires_at, Some(at(60_000)));
    let own = Interrupt::opened(Ask { expires_in: Some(1.0), ..approval() }, opening).unwrap();
    assert_eq!(own.expires_at, Some(at(1000)));
}

#[test]
fn the_first_answer_wins_and_the_loser_is_told_who_won() {
    let resolved = answered(&open(approval()), json!({"approved": true}));
    assert_eq!(resolved.status, InterruptStatus::Resolved);
    assert_eq!(resolved.value, Some(json!({"approved": true})));
    assert_eq!((resolved.resolved_by.as_deref(), resolved.resolved_at), (Some("alice"), Some(at(10))));
    let loser = resolved.answer(json!({"approved": false}), Some("bob"), at(20));
    assert_eq!(loser, Err(Error::AlreadyResolved { resolved_by: Some("alice".to_owned()), resolved_at: at(10) }));
}

#[test]
fn the_same_answer_again_is_no_second_one_in_whichever_form() {
    let approved = answered(&open(approval()), json!({"approved": true}));
    for again in [json!({"approved": true}), json!({"type": "approve"}), json!({"reason": null, "approved": true})] {
        assert_eq!(approved.answer(again.clone(), None, at(20)), Ok(Answered::Before), "{again}");
    }
    let rejected = answered(&open(approval()), json!({"type": "reject", "reason": "no"}));
    let again = rejected.answer(json!({"approved": false, "reason": "no"}), None, at(20));
    assert_eq!(again, Ok(Answered::Before));
    for other in [json!({"approved": false}), json!({"type": "reject", "message": "no"}), json!({"type": "nonsense"})] {
        let lost = rejected.answer(other.clone(), None, at(20));
        assert!(matches!(lost, Err(Error::AlreadyResolved { .. })), "{other}: {lost:?}");
    }
}

#[test]
fn a_custom_answer_is_repeated_only_by_the_same_value() {
    let resolved = answered(&open(ask("x", json!({}))), json!({"a": 1, "b": [null]}));
    assert_eq!(resolved.answer(json!({"b": [null], "a": 1}), None, at(20)), Ok(Answered::Before));
    for other in [json!({"a": 1}), json!(null), json!({"a": "1", "b": [null]})] {
        assert!(matches!(resolved.answer(other, None, at(20)), Err(Error::AlreadyResolved { .. })));
    }
}

#[test]
fn falsy_values_are_answers() {
    for value in [json!(null), json!(false), json!(0), json!(""), json!([]), json!({})] {
        let resolved = answered(&open(ask("x", json!({}))), value.clone());
        assert_eq!(resolved.value, Some(value.clone()));
        assert_eq!(resolved.answer(value, None, at(20)), Ok(Answered::Before));
    }
}

#[test]
fn a_malformed_answer_changes_nothing_and_the_right_one_still_counts() {
    let interrupt = open(approval());
    let before = interrupt.clone();
    for malformed in [json!(null), json!("yes"), json!({"approved": "false"}), json!({"type": "edit", "args": {}})] {
        let refused = interrupt.answer(malformed, None, at(10));
        assert!(matches!(refused, Err(Error::InvalidAnswer(_))), "{refused:?}");
    }
    assert_eq!(interrupt, before);
    assert_eq!(answered(&interrupt, json!({"approved": true})).status, InterruptStatus::Resolved);
}

#[test]
fn a_custom_answer_has_to_fit_the_authors_schema() {
    let schema = json!({"type": "object", "required": ["hex"], "properties": {"hex": {"type": "string"}}});
    let interrupt = open(Ask { response_schema: Some(schema), ..ask("color_picker", json!({})) });
    let Err(Error::InvalidAnswer(errors)) = interrupt.answer(json!({"hex": 7}), None, at(1)) else {
        panic!("a number is no string");
    };
    assert_eq!(errors[0].loc, [crate::domain::error::LocSegment::from("hex")]);
    assert_eq!(answered(&interrupt, json!({"hex": "#fff"})).status, InterruptStatus::Resolved);
}

#[test]
fn it_expires_exactly_at_its_time() {
    let interrupt = open(Ask { expires_in: Some(1.0), ..approval() });
    assert!(interrupt.answer(json!({"approved": true}), None, at(999)).is_ok());
    assert_eq!(interrupt.expire(at(999)), None);
    let late = interrupt.answer(json!({"approved": true}), None, at(1000));
    assert_eq!(late, Err(Error::InterruptExpired(at(1000))));
    let expired = interrupt.expire(at(1000)).unwrap();
    assert_eq!((expired.status, expired.resolved_at), (InterruptStatus::Expired, Some(at(1000))));
    assert_eq!(expired.answer(json!({"approved": true}), None, at(1)), Err(Error::InterruptExpired(at(1000))));
    assert_eq!(expired.expire(at(2000)), None);
}

#[test]
fn a_late_repetition_of_an_answer_in_time_is_still_a_repetition() {
    let interrupt = open(Ask { expires_in: Some(1.0), ..approval() });
    let resolved = answered(&interrupt, json!({"approved": true}));
    assert_eq!(resolved.answer(json!({"approved": true}), None, at(5000)), Ok(Answered::Before));
    assert_eq!(resolved.expire(at(5000)), None);
}

#[test]
fn a_cancelled_one_cannot_be_answered() {
    let cancelled = open(approval()).cancel(at(5)).unwrap();
    assert_eq!((cancelled.status, cancelled.resolved_at), (InterruptStatus::Cancelled, Some(at(5))));
    assert_eq!(cancelled.answer(json!({"approved": true}), None, at(6)), Err(Error::InterruptCancelled));
    assert_eq!((cancelled.cancel(at(6)), cancelled.expire(at(6))), (None, None));
}

#[test]
fn what_is_settled_is_not_withdrawn() {
    let resolved = answered(&open(approval()), json!({"approved": true}));
    assert_eq!(resolved.cancel(at(20)), None);
}

#[test]
fn the_record_on_the_wire_has_every_member_nulls_too() {
    let record = serde_json::to_value(open(approval())).unwrap();
    let names: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "interrupt_id session_id turn_id type payload status message response_schema allowed_decisions \
                    tool_call_id agent rule args_digest created_at expires_at value resolved_by resolved_at metadata";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(object(record)["created_at"], "1970-01-01T00:16:40.000Z");
}

#[test]
fn what_is_shown_beside_the_payload_is_bounded_with_it() {
    let opening = Opening { max_payload: 100, ..opening() };
    let text = |size: usize| "x".repeat(size - 2);
    let metadata = |size: usize| Some(object(json!({"a": text(size - 6)})));
    let schema = |size: usize| Some(json!({"title": text(size - 10)}));
    let open = |ask: Ask| Interrupt::opened(ask, opening).map(drop);
    let with = |message, metadata, response_schema, args_schema| Ask {
        message,
        metadata,
        response_schema,
        args_schema,
        ..ask("x", json!({}))
    };
    assert_eq!(open(with(Some(text(100)), metadata(100), schema(400), schema(400))), Ok(()));
    for (refused, what) in [
        (with(Some(text(101)), None, None, None), "message is 101 bytes of JSON, the limit is 100"),
        (with(None, metadata(101), None, None), "metadata is 101 bytes of JSON, the limit is 100"),
        (with(None, None, None, schema(401)), "args_schema is 401 bytes of JSON, the limit is 400"),
        (ask(&text(401), json!({})), "type is 401 bytes of JSON, the limit is 400"),
        (Ask { agent: Some(text(401)), ..ask("x", json!({})) }, "agent is 401 bytes of JSON, the limit is 400"),
        (Ask { tool_call_id: Some(text(401)), ..approval() }, "tool_call_id is 401 bytes of JSON, the limit is 400"),
        (Ask { tool_source: Some(text(401)), ..approval() }, "tool_source is 401 bytes of JSON, the limit is 400"),
        (Ask { args_digest: Some(text(401)), ..approval() }, "args_digest is 401 bytes of JSON, the limit is 400"),
    ] {
        assert_eq!(open(refused), Err(Error::InvalidPayload(what.to_owned())));
    }
    let opening = Opening { max_payload: 4096, ..opening };
    let of_tool = |size: usize| Ask { payload: object(json!({"tool_name": text(size)})), ..approval() };
    assert!(Interrupt::opened(of_tool(1024), opening).is_ok());
    let too_long = Error::InvalidPayload("tool_name is 1025 bytes of JSON, the limit is 1024".to_owned());
    assert_eq!(Interrupt::opened(of_tool(1025), opening).map(drop), Err(too_long));
    let what = "is 401 bytes of JSON, the limit is 400".to_owned();
    assert_eq!(open(with(None, None, schema(401), None)), Err(Error::InvalidSchema(what)));
}

#[test]
fn what_was_found_about_an_answer_is_not_found_out_again() {
    // The schema is none: whoever looked at it would refuse the edit.
    let args_schema = Some(json!({"type": "nonsense"}));
    let allowed_decisions = Some(vec![DecisionKind::Approve, DecisionKind::Edit]);
    let asked = open(Ask { allowed_decisions, ..approval() });
    let edit = json!({"approved": true, "args": {"path": "/x"}});
    let valid = answer::check((&asked).into(), edit.clone(), &Anew).unwrap();
    let asked = Interrupt { args_schema, ..asked };
    assert!(matches!(asked.answer(edit.clone(), None, at(1)), Err(Error::InvalidAnswer(_))));
    assert_eq!(asked.answer_with(&edit, None, None, at(1)), Ok(None));
    let Ok(Some(Answered::Now(edited))) = asked.answer_with(&edit, Some(valid.clone()), None, at(1)) else {
        panic!("it was refused")
    };
    let decided = answer::decision((&*edited).into(), &edit).unwrap();
    assert_eq!(decided.kind(), DecisionKind::Edit);
    // Too late is too late, whatever was found.
    assert_eq!(edited.answer_with(&edit, Some(valid.clone()), None, at(2)), Ok(Some(Answered::Before)));
    let cancelled = asked.cancel(at(2)).unwrap();
    assert_eq!(cancelled.answer_with(&edit, Some(valid), None, at(3)), Err(Error::InterruptCancelled));
}

#[test]
fn what_was_found_holds_for_the_same_question_alone() {
    let asked = open(approval());
    assert!(asked.asks_the_same(&asked.claim("ada", 9.0, at(1)).unwrap()));
    assert!(asked.asks_the_same(&asked.cancel(at(1)).unwrap()));
    for other in [
        Interrupt { payload: object(json!({"tool_name": "delete_file", "tool_args": {"path": "/"}})), ..asked.clone() },
        Interrupt { kind: "x".to_owned(), ..asked.clone() },
        Interrupt { args_schema: Some(json!(false)), ..asked.clone() },
        Interrupt { response_schema: None, ..asked.clone() },
        Interrupt { approvers: vec!["bob".to_owned()], ..asked.clone() },
        Interrupt { tool_approvers: vec!["bob".to_owned()], ..asked.clone() },
        Interrupt { agent: Some("other".to_owned()), ..asked.clone() },
        Interrupt { tool_source: Some("mcp".to_owned()), ..asked.clone() },
        Interrupt { allowed_decisions: Some(vec![DecisionKind::Reject]), ..asked.clone() },
        Interrupt { turn_id: TurnId(Uuid::from_u128(9)), ..asked.clone() },
        Interrupt { created_at: at(1), ..asked.clone() },
    ] {
        assert!(!asked.asks_the_same(&other), "{other:?}");
    }
}

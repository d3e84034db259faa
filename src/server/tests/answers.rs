//! Answers: one, several, again, wrong.

use axum::http::Method;
use serde_json::{Value, json};

use super::support::Client;
use crate::engine::settings::Settings;
use crate::server::resume::MOST_ANSWERS;
use crate::server::settings::HttpSettings;

fn yes(id: &str) -> Value {
    json!({"interrupt_id": id, "value": {"approved": true}})
}

#[tokio::test]
async fn interrupts_are_shown_as_full_records_in_order_of_arrival() {
    let client = Client::new().await;
    let (session, _) = client.asking(&["first", "second"]).await;
    let view = client.get(&session).await.json();
    let interrupts = view["interrupts"].as_array().unwrap();
    assert_eq!(interrupts[0]["payload"]["tool_name"], "first");
    assert_eq!(interrupts[1]["payload"]["tool_name"], "second");
    for member in [
        "interrupt_id",
        "session_id",
        "turn_id",
        "type",
        "payload",
        "status",
        "message",
        "response_schema",
        "allowed_decisions",
        "tool_call_id",
        "agent",
        "rule",
        "args_digest",
        "created_at",
        "expires_at",
        "value",
        "resolved_by",
        "resolved_at",
        "metadata",
    ] {
        assert!(interrupts[0].get(member).is_some(), "{member} is missing");
    }
}

#[tokio::test]
async fn the_session_runs_after_the_last_answer() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first", "second"]).await;
    let id = session.trim_start_matches("/sessions/");
    let path = format!("{session}/resume");
    let one = client.post(&path, yes(&ids[0])).await;
    assert_eq!((one.status.as_u16(), one.json()), (200, json!({"session_id": id, "status": "interrupted"})));
    let two = client.post(&path, yes(&ids[1])).await;
    assert_eq!(two.json(), json!({"session_id": id, "status": "running"}));
    let idle = client.until(&session, "idle").await;
    assert_eq!(idle["interrupts"], Value::Null);
}

#[tokio::test]
async fn several_are_answered_all_or_none() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first", "second"]).await;
    let path = format!("{session}/resume");
    let wrong = json!({"resume": [yes(&ids[0]), {"interrupt_id": ids[1], "value": {"approved": "true"}}]});
    assert_eq!(client.post(&path, wrong).await.code(), "invalid_answer");
    assert_eq!(client.get(&session).await.json()["interrupts"].as_array().unwrap().len(), 2);
    let twice = client.post(&path, json!({"resume": [yes(&ids[0]), yes(&ids[0])]})).await;
    assert_eq!(twice.code(), "duplicate_answer");
    let both = client.post(&path, json!({"resume": [yes(&ids[0]), yes(&ids[1])]})).await;
    assert_eq!(both.json()["status"], "running");
}

#[tokio::test]
async fn one_request_holds_so_many_answers_and_no_more() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first"]).await;
    let path = format!("{session}/resume");
    let answers = |count| json!({"resume": vec![yes(&ids[0]); count]});
    assert_eq!(client.post(&path, answers(MOST_ANSWERS)).await.code(), "duplicate_answer");
    let refused = client.post(&path, answers(MOST_ANSWERS + 1)).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "invalid_request"));
    assert_eq!(refused.places(), [(json!(["body", "resume"]), "too_long".to_owned())]);
}

#[tokio::test]
async fn the_same_answer_again_is_replayed_and_another_is_a_conflict() {
    let client = Client::with_keys().await;
    let ada = [("authorization", "Bearer ada-key")];
    let created = client.send(Method::POST, "/sessions", &ada, None).await;
    let session = created.header("location").unwrap().to_owned();
    let message = json!({"content": "ask delete_file"});
    client.send(Method::POST, &format!("{session}/messages"), &ada, Some(&message)).await;
    let view = client.send(Method::GET, &format!("{session}?wait=1"), &ada, None).await.json();
    let id = view["interrupts"][0]["interrupt_id"].as_str().unwrap().to_owned();
    let path = format!("/interrupts/{id}/resume");
    let answer = json!({"value": {"approved": true}});
    assert!(client.send(Method::POST, &path, &ada, Some(&answer)).await.json().get("replayed").is_none());
    let again = client.send(Method::POST, &path, &ada, Some(&answer)).await;
    assert_eq!((again.status.as_u16(), &again.json()["replayed"]), (200, &json!(true)));
    let bob = [("authorization", "Bearer bob-key")];
    let other = client.send(Method::POST, &path, &bob, Some(&json!({"value": {"approved": false}}))).await;
    assert_eq!((other.status.as_u16(), other.code().as_str()), (409, "already_resolved"));
    assert_eq!(other.json()["resolved_by"], "ada");
    assert!(other.json()["resolved_at"].as_str().unwrap().ends_with('Z'));
    let record = client.send(Method::GET, &format!("/interrupts/{id}"), &bob, None).await.json();
    assert_eq!((&record["status"], &record["resolved_by"]), (&json!("resolved"), &json!("ada")));
}

#[tokio::test]
async fn a_malformed_answer_changes_nothing() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["delete_file"]).await;
    let path = format!("{session}/resume");
    for value in
        [json!({"approved": "false"}), json!({"approved": null}), json!({"aproved": true}), json!(true), json!(null)]
    {
        let refused = client.post(&path, json!({"interrupt_id": ids[0], "value": value})).await;
        assert_eq!(refused.code(), "invalid_answer", "{value}");
        assert_eq!(refused.places()[0].0[0], "body");
        assert_eq!(refused.places()[0].0[1], "value");
    }
    assert_eq!(client.get(&session).await.json()["status"], "interrupted");
    assert_eq!(client.post(&path, json!({"interrupt_id": ids[0], "value": {}})).await.status, 200);
}

#[tokio::test]
async fn an_answer_for_another_type_of_question_changes_nothing() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first", "second"]).await;
    let of = |kind: &str| json!({"value": {"approved": true}, "expected_type": kind});
    let path = format!("/interrupts/{}/resume", ids[0]);
    let refused = client.post(&path, of("confirm")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "invalid_answer"));
    let said = "is for an interrupt of type confirm, and this one is of type tool_approval";
    let problem = refused.json();
    let error = &problem["errors"][0];
    assert_eq!((&error["msg"], &error["type"]), (&json!(said), &json!("other_type")));
    assert_eq!(error["loc"], json!(["body", "value"]));
    let second = json!({"interrupt_id": ids[1], "value": {"approved": true}, "expected_type": "confirm"});
    let several = client.post(&format!("{session}/resume"), json!({"resume": [yes(&ids[0]), second]})).await;
    assert_eq!(several.json()["errors"][0]["loc"], json!(["body", "resume", 1, "value"]));
    assert_eq!(client.get(&session).await.json()["interrupts"].as_array().unwrap().len(), 2);
    assert_eq!(client.post(&path, of("tool_approval")).await.json()["status"], "interrupted");
}

#[tokio::test]
async fn unknown_and_late_answers_are_told_apart() {
    let client = Client::new().await;
    let (session, _) = client.asking(&["delete_file"]).await;
    let path = format!("{session}/resume");
    let unknown = client.post(&path, yes("nope")).await;
    assert_eq!((unknown.status.as_u16(), unknown.json()["detail"].as_str()), (404, Some("Unknown interrupt_id: nope")));
    let idle = client.session().await;
    let late = client.post(&format!("{idle}/resume"), yes("nope")).await;
    assert_eq!((late.status.as_u16(), late.json()["detail"].as_str()), (409, Some("Session is idle, not interrupted")));
    assert_eq!(client.post("/interrupts/nope/resume", json!({"value": 1})).await.code(), "unknown_interrupt");
    assert_eq!(client.get("/interrupts/nope").await.code(), "unknown_interrupt");
}

#[tokio::test]
async fn an_answer_that_max_value_allows_has_room_among_all_bodies() {
    let settings = Settings { max_value: 40 * 1024 * 1024, ..Settings::default() };
    let client = Client::with(settings, HttpSettings::default()).await;
    let (_, ids) = client.asking(&["delete_file"]).await;
    let answer = json!({"value": {"approved": false, "reason": "x".repeat(35 * 1024 * 1024)}});
    assert_eq!(client.post(&format!("/interrupts/{}/resume", ids[0]), answer).await.status, 200);
}

#[tokio::test]
async fn an_answer_may_be_as_large_as_max_value_whatever_max_body_says() {
    let settings = Settings { max_value: 4096, ..Settings::default() };
    let client = Client::with(settings, HttpSettings { max_body: 1024, ..HttpSettings::default() }).await;
    let (session, ids) = client.asking(&["delete_file"]).await;
    let path = format!("{session}/resume");
    let reason = |size: usize| {
        let value = json!({"approved": false, "reason": ""}).to_string().len();
        json!({"interrupt_id": ids[0], "value": {"approved": false, "reason": "x".repeat(size - value)}})
    };
    assert_eq!(client.post(&path, reason(4097)).await.code(), "value_too_large");
    assert_eq!(client.post(&path, reason(4096)).await.status, 200);
    assert_eq!(
        client.post("/sessions", json!({"state": [{"content": "x".repeat(1024)}]})).await.code(),
        "body_too_large"
    );
}

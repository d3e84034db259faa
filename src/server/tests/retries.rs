//! Failed turns that can be taken up again, and what sessions say about replays.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, within};
use crate::domain::access::{Actor, NewKey};
use crate::domain::audit::Action;
use crate::domain::scope::Scope;
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;
use crate::store::query::AuditQuery;

/// Every answer goes through a replay.
async fn parking() -> Client {
    Client::with(Settings { park_after: 0.0, ..Settings::default() }, HttpSettings::default()).await
}

async fn answer(client: &Client, session: &str, interrupt: &str) -> super::support::Reply {
    client.post(&format!("{session}/resume"), json!({"interrupt_id": interrupt, "value": {"approved": true}})).await
}

async fn retry(client: &Client, session: &str) -> super::support::Reply {
    client.send(Method::POST, &format!("{session}/retry"), &[], None).await
}

/// A session whose replay failed after its first answer, and the interrupt that is still open.
async fn mismatched(client: &Client) -> (String, String) {
    let session = client.told("mismatch one two").await;
    let view = client.until(&session, "interrupted").await;
    let id = |number: usize| view["interrupts"][number]["interrupt_id"].as_str().unwrap().to_owned();
    assert_eq!(answer(client, &session, &id(0)).await.status, StatusCode::OK);
    let failed = client.until(&session, "error").await;
    assert_eq!(failed["error_code"], "replay_mismatch");
    assert_eq!(failed["error"], "ReplayMismatch: recorded: a, attempted: b");
    (session, id(1))
}

#[tokio::test]
async fn the_audit_tells_who_retried_what_had_failed_how() {
    let client = parking().await;
    let (session, _) = mismatched(&client).await;
    let new = NewKey { name: "bob".to_owned(), scopes: [Scope::Send].into_iter().collect(), groups: Vec::new() };
    let (_, key) = client.engine.access().create_key(new, Actor::anyone()).await.unwrap();
    let key = format!("Bearer {key}");
    assert_eq!(
        client.send(Method::POST, &format!("{session}/retry"), &[("authorization", &key)], None).await.status,
        202
    );
    let query = AuditQuery { action: Some(Action::Retried), limit: 10, ..AuditQuery::default() };
    let [row] = client.engine.audit(query).await.unwrap().items.try_into().unwrap();
    assert_eq!(row.actor.as_deref(), Some("bob"));
    assert_eq!(row.session_id.unwrap().to_string(), session["/sessions/".len()..]);
    let details = json!({"agent": "agent", "error_code": "replay_mismatch", "code": "0123456789abcdef"});
    assert_eq!(Value::Object(row.details), details);
}

#[tokio::test]
async fn a_mismatch_keeps_the_answer_and_goes_on_when_it_is_retried() {
    let client = parking().await;
    let (session, open) = mismatched(&client).await;
    let refused = answer(&client, &session, &open).await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::CONFLICT, "not_interrupted"));
    let pending = client.get(&format!("/interrupts/{open}")).await.json();
    assert_eq!(pending["status"], "pending");

    let retried = retry(&client, &session).await;
    assert_eq!(retried.status, StatusCode::ACCEPTED);
    assert_eq!(retried.header("location"), Some(session.as_str()));
    assert_eq!(retried.json(), json!({"session_id": &session["/sessions/".len()..], "status": "interrupted"}));
    assert_eq!(answer(&client, &session, &open).await.status, StatusCode::OK);
    let done = client.until(&session, "idle").await;
    assert_eq!(done["response"]["content"], "{\"approved\":true},{\"approved\":true}");
    assert_eq!((&done["error"], &done["error_code"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_message_abandons_the_turn_that_could_be_retried() {
    let client = parking().await;
    let (session, open) = mismatched(&client).await;
    let sent = client.post(&format!("{session}/messages"), json!({"content": "echo"})).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED);
    client.until(&session, "idle").await;
    assert_eq!(client.get(&format!("/interrupts/{open}")).await.json()["status"], "cancelled");
    assert_eq!(retry(&client, &session).await.code(), "nothing_to_retry");
}

#[tokio::test]
async fn a_session_with_a_turn_that_could_be_retried_can_be_deleted() {
    let client = parking().await;
    let (session, open) = mismatched(&client).await;
    assert_eq!(client.send(Method::DELETE, &session, &[], None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&format!("/interrupts/{open}")).await.code(), "unknown_interrupt");
}

#[tokio::test]
async fn only_what_failed_with_its_journal_can_be_retried() {
    let client = Client::new().await;
    for (content, status) in [("echo", "idle"), ("fail", "error"), ("ask one", "interrupted"), ("hang", "running")] {
        let session = client.told(content).await;
        client.until(&session, status).await;
        let refused = retry(&client, &session).await;
        assert_eq!((refused.status, refused.code().as_str()), (StatusCode::CONFLICT, "nothing_to_retry"), "{content}");
    }
    let nowhere = "/sessions/00000000-0000-0000-0000-000000000000";
    assert_eq!(retry(&client, nowhere).await.code(), "session_not_found");
}

#[tokio::test]
async fn sessions_say_where_a_turn_was_not_purely_journaled() {
    let client = Client::new().await;
    let session = client.told("raw").await;
    let noted = async {
        loop {
            let view = client.get(&session).await.json();
            if !view["replay"].is_null() {
                return view["replay"].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(within(noted).await, json!({"pure": false, "impure_at": "agent.py:7", "warnings": []}));
    let quiet = client.told("hang").await;
    assert_eq!(client.get(&quiet).await.json().get("replay"), None);
}

#[tokio::test]
async fn a_server_that_stops_retries_nothing() {
    let client = parking().await;
    let (session, _) = mismatched(&client).await;
    Arc::clone(&client.engine).shut_down(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(retry(&client, &session).await.code(), "shutting_down");
}

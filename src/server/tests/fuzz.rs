//! Any body at every door that takes one.

use axum::body::Body;
use axum::http::{Method, Request};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::support::{Client, Reply};
use crate::domain::fuzzing::{config, texts, values};
use crate::domain::json;
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

/// The doors, each with a body that it takes. `S`, `I`, `F` and `N` stand for a session that asks, what it asks,
/// a new session, and a new id.
fn doors() -> Vec<(&'static str, &'static str, Value)> {
    let rules = json!([{"name": "a", "effect": "ask", "tool": "p*", "when": "args.n > 1", "approvers": ["ada"]}]);
    let always = json!({"type": "approve", "always": true});
    let several = json!({"resume": [{"interrupt_id": "I", "value": {"approved": false, "reason": "no"}}]});
    vec![
        ("POST", "/sessions", json!({"rules": rules, "metadata": {"a": 1}})),
        ("PUT", "/sessions/N", json!({"metadata": {"a": 1}})),
        ("POST", "/sessions/F/messages", json!({"content": "hello", "metadata": {"a": [1]}})),
        ("POST", "/sessions/S/resume", json!({"interrupt_id": "I", "value": always})),
        ("POST", "/sessions/S/resume", several),
        ("POST", "/interrupts/I/resume", json!({"value": {"approved": true}})),
        ("POST", "/interrupts/I/claim", json!({"seconds": 60, "as": "ada"})),
        ("POST", "/interrupts/I/snooze", json!({"seconds": 60})),
        ("POST", "/sign-in", json!({"key": "none"})),
    ]
}

/// A door, and a body for it: JSON of any shape, or any bytes.
fn requests() -> impl Strategy<Value = (&'static str, &'static str, Vec<u8>)> {
    select(doors()).prop_flat_map(|(method, path, body)| {
        let text = body.to_string();
        let bodies =
            prop_oneof![3 => values(vec![body]).prop_map(|body| body.to_string().into_bytes()), 2 => texts(vec![text])];
        (Just(method), Just(path), bodies)
    })
}

async fn server() -> Client {
    Client::with(Settings { allow_custom_ids: true, ..Settings::default() }, HttpSettings::default()).await
}

async fn send(client: &Client, method: &str, path: &str, body: Vec<u8>) -> Reply {
    let request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
    client.request(request.header("content-type", "application/json").body(Body::from(body)).unwrap()).await
}

/// Whatever comes is answered, with a complete problem where it is refused, and nothing is changed then.
async fn knock(client: &Client, method: &str, path: &str, body: Vec<u8>) -> Result<Reply, TestCaseError> {
    let (session, interrupts) = client.asking(&["pay"]).await;
    let id = &interrupts[0];
    let new = uuid::Uuid::new_v4().to_string();
    let free = client.session().await;
    let path = path.replace("/sessions/F", &free);
    let path =
        path.replace("/sessions/S", &session).replace("/I/", &format!("/{id}/")).replace("/N", &format!("/{new}"));
    // The id may stand in the body as well.
    let body = match String::from_utf8(body) {
        Ok(text) => text.replace("\"I\"", &format!("{id:?}")).into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let before = client.get(&format!("/interrupts/{id}")).await.json();
    let reply = send(client, method, &path, body.clone()).await;
    prop_assert!(reply.status.as_u16() < 500, "{:?}", reply);
    let is_read = body.is_empty() || json::read(&body).is_ok();
    prop_assert!(is_read || reply.status.is_client_error(), "{:?}", reply);
    let after = client.get(&format!("/interrupts/{id}")).await.json();
    if reply.status.is_client_error() {
        prop_assert!(!reply.code().is_empty());
        prop_assert_eq!(&after, &before, "what was refused changed something");
    }
    let sent = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    if after["status"] == "resolved" {
        let said = if sent["resume"].is_array() { &sent["resume"][0]["value"] } else { &sent["value"] };
        prop_assert_eq!(&after["value"], said);
    }
    Ok(reply)
}

#[test]
fn the_bodies_that_are_changed_are_taken() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(server());
    for (method, path, body) in doors().into_iter().filter(|(_, path, _)| *path != "/sign-in") {
        let reply = runtime.block_on(knock(&client, method, path, body.to_string().into_bytes())).unwrap();
        assert!(reply.status.is_success(), "{path}: {reply:?}");
    }
}

#[test]
fn fuzz_every_body_is_taken_whole_or_refused_and_changes_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(server());
    let mut runner = TestRunner::new(config(4));
    let outcome =
        runner.run(&requests(), |(method, path, body)| runtime.block_on(knock(&client, method, path, body)).map(drop));
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}

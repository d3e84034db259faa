//! Sessions and messages.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, within};
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

async fn with_custom_ids() -> Client {
    Client::with(Settings { allow_custom_ids: true, ..Settings::default() }, HttpSettings::default()).await
}

#[tokio::test]
async fn a_session_is_created_by_every_way_of_saying_nothing() {
    let client = Client::new().await;
    for body in [None, Some(json!(null)), Some(json!({})), Some(json!({"state": null})), Some(json!({"state": []}))] {
        let created = client.send(Method::POST, "/sessions", &[], body.as_ref()).await;
        assert_eq!(created.status, StatusCode::CREATED, "{body:?}");
        let session = created.json();
        assert_eq!(
            created.header("location"),
            Some(format!("/sessions/{}", session["session_id"].as_str().unwrap()).as_str())
        );
        for member in ["response", "error", "interrupts"] {
            assert_eq!(session.get(member), Some(&Value::Null), "{member}");
        }
        assert_eq!(session["status"], "idle");
    }
}

#[tokio::test]
async fn a_session_can_begin_with_messages() {
    let client = Client::new().await;
    let state = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}]);
    let created = client.post("/sessions", json!({"state": state})).await;
    let messages = client.get(&format!("{}/messages", created.header("location").unwrap())).await;
    assert_eq!(messages.json(), json!([{"role": "user", "content": "hi"}, {"role": "assistant"}]));
    let wrong = client.post("/sessions", json!({"state": [{"role": "boss"}]})).await;
    assert_eq!(wrong.places(), [(json!(["body", "state", 0, "role"]), "unknown_value".to_owned())]);
}

#[tokio::test]
async fn a_session_begins_with_so_many_messages_and_no_more() {
    let client = Client::new().await;
    let state = |count: usize| json!({"state": vec![json!({}); count]});
    assert_eq!(client.post("/sessions", state(10_000)).await.status, StatusCode::CREATED);
    let refused = client.post("/sessions", state(10_001)).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.places(), [(json!(["body", "state"]), "too_long".to_owned())]);
    let run = json!({"run_state": {"messages": vec![json!({}); 10_001]}});
    let refused = client.post("/sessions", run).await;
    assert_eq!(refused.places(), [(json!(["body", "run_state", "messages"]), "too_long".to_owned())]);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_up_to_a_bound() {
    let client = Client::new().await;
    let refused = client.post("/sessions", json!({"state": vec![1; 9_000]})).await;
    let places = refused.places();
    assert_eq!((refused.status.as_u16(), places.len()), (422, 51));
    assert_eq!(places[0], (json!(["body", "state", 0]), "wrong_type".to_owned()));
    assert_eq!(refused.json()["errors"][50]["msg"], "and 8950 more");
}

#[tokio::test]
async fn put_refuses_in_the_order_of_the_contract() {
    let path = "/sessions/550e8400-e29b-41d4-a716-446655440000";
    let refused = Client::new().await.send(Method::PUT, "/sessions/no-uuid", &[], Some(&json!([]))).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (405, "custom_ids_disabled"));
    assert_eq!(refused.header("allow"), Some("GET,HEAD,DELETE"));
    let client = with_custom_ids().await;
    let refused = client.send(Method::PUT, "/sessions/no-uuid", &[], None).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "invalid_session_id"));
    let created = client.send(Method::PUT, path, &[], None).await;
    assert_eq!((created.status.as_u16(), created.header("location")), (201, Some(path)));
    let again = client.send(Method::PUT, path, &[], None).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "session_exists"));
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let settings = Settings { max_sessions: Some(1), ..Settings::default() };
    let client = Client::with(settings, HttpSettings::default()).await;
    client.session().await;
    let refused = client.post("/sessions", json!({})).await;
    assert_eq!(refused.json()["detail"], "Maximum number of sessions reached");
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "too_many_sessions"));
    assert_eq!(refused.header("retry-after"), Some("30"));
}

#[tokio::test]
async fn a_turn_answers_with_all_nine_members() {
    let client = Client::new().await;
    let session = client.told("hello").await;
    let idle = client.until(&session, "idle").await;
    let members = [
        "role",
        "content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "tool_call_id",
        "name",
        "base64_image",
        "user_params",
    ];
    for member in members {
        assert!(idle["response"].get(member).is_some(), "{member} is missing in {idle}");
    }
    assert_eq!(idle["response"]["content"], "hello");
    assert_eq!(client.get(&format!("{session}/messages")).await.json().as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_message_is_taken_and_not_waited_for() {
    let client = Client::new().await;
    let session = client.session().await;
    let taken = client.post(&format!("{session}/messages"), json!({"content": "hang"})).await;
    let id = session.trim_start_matches("/sessions/");
    assert_eq!((taken.status.as_u16(), taken.header("location")), (202, Some(session.as_str())));
    assert_eq!(taken.json(), json!({"session_id": id, "status": "running"}));
    let busy = client.post(&format!("{session}/messages"), json!({})).await;
    assert_eq!((busy.status.as_u16(), busy.code().as_str()), (409, "session_busy"));
    assert_eq!(busy.json()["detail"], "Session is running");
}

#[tokio::test]
async fn a_failed_turn_says_why_and_the_session_takes_messages_again() {
    let client = Client::new().await;
    let session = client.told("fail").await;
    let failed = client.until(&session, "error").await;
    assert_eq!((&failed["error"], &failed["error_code"]), (&json!("ValueError: it went wrong"), &json!("agent_error")));
    assert_eq!(client.post(&format!("{session}/messages"), json!({})).await.status, StatusCode::ACCEPTED);
    client.until(&session, "idle").await;
}

#[tokio::test]
async fn an_idempotency_key_starts_one_turn() {
    let client = Client::new().await;
    let path = format!("{}/messages", client.session().await);
    let body = json!({"content": "hang"});
    let key = [("idempotency-key", "k1")];
    assert_eq!(client.send(Method::POST, &path, &key, Some(&body)).await.status, StatusCode::ACCEPTED);
    assert_eq!(client.send(Method::POST, &path, &key, Some(&body)).await.status, StatusCode::ACCEPTED);
    let other = client.send(Method::POST, &path, &key, Some(&json!({"content": "other"}))).await;
    assert_eq!(other.code(), "idempotency_key_reused");
}

#[tokio::test]
async fn an_idempotency_key_makes_one_session() {
    let client = Client::new().await;
    let body = json!({"state": [{"content": "hi"}]});
    let post = async |key: &str, body: &Value| {
        client.send(Method::POST, "/sessions", &[("idempotency-key", key)], Some(body)).await
    };
    let made = post("k1", &body).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let session = made.header("location").unwrap();
    client.post(&format!("{session}/messages"), json!({"content": "hang"})).await;
    let again = post("k1", &body).await;
    assert_eq!((again.status, again.header("location")), (StatusCode::CREATED, Some(session)));
    assert_eq!(again.json(), made.json(), "the first reply, whatever has become of the session");
    assert_eq!(client.get("/sessions").await.json().as_array().unwrap().len(), 1);
    let other = post("k1", &json!({})).await;
    assert_eq!((other.status.as_u16(), other.code().as_str()), (422, "idempotency_key_reused"));
    for made in [post("k2", &body).await, client.post("/sessions", body.clone()).await] {
        assert_ne!(made.header("location"), Some(session));
    }
    assert_eq!(client.send(Method::DELETE, session, &[], None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(post("k1", &body).await.json(), made.json(), "it is not made a second time");
    assert_eq!(client.get(session).await.code(), "session_not_found");
    let refused = post("two words", &body).await;
    assert_eq!(refused.places(), [(json!(["header", "Idempotency-Key"]), "invalid".to_owned())]);
}

#[tokio::test]
async fn a_message_of_unknown_members_alone_is_none() {
    let client = Client::new().await;
    let path = format!("{}/messages", client.session().await);
    let cases = [
        (json!({"message": "hi"}), vec!["message"]),
        (json!({"role": "user", "text": "hi", "input": []}), vec!["input", "text"]),
        (json!({"content": null, "message": {"content": "hi"}, "webhook": null}), vec!["message"]),
    ];
    for (body, unknown) in cases {
        let refused = client.post(&path, body.clone()).await;
        let mut named: Vec<String> = refused.places().into_iter().map(|(at, kind)| format!("{at} {kind}")).collect();
        named.sort_unstable();
        let unknown: Vec<String> =
            unknown.into_iter().map(|name| format!("{} unknown_member", json!(["body", name]))).collect();
        assert_eq!((refused.status.as_u16(), named), (422, unknown), "{body}");
    }
    let known = "role, content, reasoning, reasoning_details, tool_calls, tool_call_id, name, base64_image, attachments, \
        user_params, webhook";
    let told = client.post(&path, json!({"message": "hi"})).await.json();
    assert_eq!(told["errors"][0]["msg"], format!("unknown member; known here: {known}"));
    let taken = client.post(&path, json!({"content": "hi", "message": "hi"})).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "beside a message what nobody knows is not heeded");
    client.until(path.trim_end_matches("/messages"), "idle").await;
    assert_eq!(client.post(&path, json!({})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn what_was_said_to_a_session_is_not_said_to_the_next_one_of_its_id() {
    let client = with_custom_ids().await;
    let session = "/sessions/550e8400-e29b-41d4-a716-446655440000";
    let messages = format!("{session}/messages");
    let post = async || {
        client.send(Method::POST, &messages, &[("idempotency-key", "k1")], Some(&json!({"content": "hang"}))).await
    };
    assert_eq!(client.send(Method::PUT, session, &[], None).await.status, StatusCode::CREATED);
    assert_eq!(post().await.status, StatusCode::ACCEPTED);
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let first_was_made = now();
    assert_eq!(client.send(Method::DELETE, session, &[], None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(post().await.code(), "session_not_found");
    while now() == first_was_made {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.send(Method::PUT, session, &[], None).await.status, StatusCode::CREATED);
    assert_eq!(post().await.status, StatusCode::ACCEPTED);
    assert_eq!(client.get(session).await.json()["status"], "running");
}

#[tokio::test]
async fn a_webhook_to_a_private_address_is_refused() {
    let client = Client::new().await;
    let path = format!("{}/messages", client.session().await);
    let refused = client.post(&path, json!({"webhook": {"url": "http://127.0.0.1/hook"}})).await;
    assert_eq!(refused.code(), "webhook_refused");
    assert_eq!(refused.places()[0].0, json!(["body", "webhook", "url"]));
}

#[tokio::test]
async fn what_is_no_uuid_is_no_session() {
    let client = Client::new().await;
    for id in ["x", "550e8400-e29b-41d4-a716-446655440000", "%ff", "%00"] {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::GET, "/messages"),
            (Method::POST, "/messages"),
            (Method::POST, "/resume"),
            (Method::POST, "/cancel"),
            (Method::GET, "/events"),
        ] {
            let path = format!("/sessions/{id}{rest}");
            let body = json!({"interrupt_id": "x", "value": null, "content": "x"});
            let body = (rest == "/messages" || rest == "/resume").then_some(&body).filter(|_| method == Method::POST);
            let missing = client.send(method.clone(), &path, &[], body).await;
            assert_eq!(missing.code(), "session_not_found", "{method} {path}");
            assert_eq!(missing.json()["detail"], "Session not found");
        }
    }
}

#[tokio::test]
async fn a_deleted_session_wakes_who_waits_for_it() {
    let client = Client::new().await;
    let session = client.told("hang").await;
    let waiting = tokio::spawn({
        let (client, path) = (client.clone(), format!("{session}?wait=true"));
        async move { client.get(&path).await }
    });
    // The poll is inside the engine once it has asked for the session; the delete wakes it or finds it gone.
    let found = async { while !client.get(&format!("{session}?wait=1&timeout=0.01")).await.status.is_success() {} };
    within(found).await;
    let deleted = client.send(Method::DELETE, &session, &[], None).await;
    assert_eq!((deleted.status.as_u16(), deleted.text.as_str()), (204, ""));
    assert_eq!(waiting.await.unwrap().json()["detail"], "Session deleted");
    assert_eq!(client.send(Method::DELETE, &session, &[], None).await.code(), "session_not_found");
}

#[tokio::test]
async fn a_poll_ends_at_its_timeout_with_the_session_as_it_is() {
    let client = Client::new().await;
    let session = client.told("hang").await;
    for query in ["wait=true&timeout=0.01", "wait=1&timeout=0", "wait=on&timeout=-1", "wait=off", "unknown=1"] {
        let polled = client.get(&format!("{session}?{query}")).await;
        assert_eq!((polled.status.as_u16(), &polled.json()["status"]), (200, &json!("running")), "{query}");
    }
    for query in ["wait=maybe", "timeout=nan", "wait=1&timeout=inf", "timeout="] {
        assert_eq!(client.get(&format!("{session}?{query}")).await.code(), "invalid_request", "{query}");
    }
}

#[tokio::test]
async fn a_cancelled_turn_is_an_error_that_says_so() {
    let client = Client::new().await;
    let session = client.told("hang").await;
    let cancelled = client.send(Method::POST, &format!("{session}/cancel"), &[], None).await;
    assert_eq!((cancelled.status.as_u16(), &cancelled.json()["error"]), (200, &json!("Turn cancelled")));
    let again = client.send(Method::POST, &format!("{session}/cancel"), &[], None).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "nothing_to_cancel"));
}

//! A body that not everybody reads alike changes nothing, at every door that takes one.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::access::with_bodies;
use super::support::{Client, Reply};
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

async fn send(client: &Client, method: &Method, path: &str, body: &str) -> Reply {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    client.request(request.body(Body::from(body.to_owned())).unwrap()).await
}

/// The one place that is wrong, and the code of the whole.
fn refusal(reply: &Reply) -> (String, Value) {
    let places = reply.places();
    assert_eq!(places.len(), 1, "{}", reply.text);
    (reply.code(), places[0].0.clone())
}

#[tokio::test]
async fn every_door_refuses_a_body_that_says_two_things_before_it_looks_for_anything_else() {
    let settings = Settings { allow_custom_ids: true, ..Settings::default() };
    let client = Client::with(settings, HttpSettings::default()).await;
    for (method, path) in with_bodies() {
        for (body, code, place) in [
            (r#"{"x": 1, "x": 1}"#, "duplicate_member", json!(["body", "x"])),
            (r#"{"x": null, "\u0078": null}"#, "duplicate_member", json!(["body", "x"])),
            (r#"{"a": [{"x": 1}, {"x": {}, "x": []}]}"#, "duplicate_member", json!(["body", "a", 1, "x"])),
            (r#"[{"": 1, "": 2}]"#, "duplicate_member", json!(["body", 0, ""])),
            (r#"{"a": [0, 340282366920938463463374607431768211457]}"#, "number_out_of_range", json!(["body", "a", 1])),
            (r#"{"a": 0.1234567890123456789012345}"#, "number_out_of_range", json!(["body", "a"])),
            (r#"{"a": 18446744073709551616}"#, "number_out_of_range", json!(["body", "a"])),
            (r#"{"a": -9223372036854775809}"#, "number_out_of_range", json!(["body", "a"])),
            ("9007199254740993.0", "number_out_of_range", json!(["body"])),
        ] {
            let refused = send(&client, &method, &path, body).await;
            assert_eq!(refusal(&refused), (code.to_owned(), place), "{method} {path}: {body}");
        }
    }
    assert_eq!(client.get("/sessions").await.json(), json!([]));
}

#[tokio::test]
async fn an_answer_that_says_two_things_changes_nothing_whichever_way_it_comes() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["pay!", "wire"]).await;
    let (resume, one) = (format!("{session}/resume"), format!("/interrupts/{}/resume", ids[0]));
    let (first, second) = (format!(r#""interrupt_id": "{}""#, ids[0]), format!(r#""interrupt_id": "{}""#, ids[1]));
    let yes = format!(r#"{{{second}, "value": {{"approved": true}}}}"#);
    for (value, code, below) in [
        (r#"{"approved": false, "approved": true}"#, "duplicate_member", json!(["approved"])),
        (r#"{"type": "reject", "type": "approve"}"#, "duplicate_member", json!(["type"])),
        (r#"{"type": "edit", "args": {"n": 1, "n": 9}}"#, "duplicate_member", json!(["args", "n"])),
        (r#"{"type": "edit", "args": {"n": 1e400}}"#, "number_out_of_range", json!([])),
        (r#"{"type": "edit", "args": {"n": 18446744073709551616}}"#, "number_out_of_range", json!(["args", "n"])),
    ] {
        let ways = [
            (&resume, format!(r#"{{{first}, "value": {value}}}"#), json!(["body", "value"])),
            (
                &resume,
                format!(r#"{{"resume": [{{{first}, "value": {value}}}]}}"#),
                json!(["body", "resume", 0, "value"]),
            ),
            (
                &resume,
                format!(r#"{{"resume": [{yes}, {{{first}, "value": {value}}}]}}"#),
                json!(["body", "resume", 1, "value"]),
            ),
            (&one, format!(r#"{{"value": {value}}}"#), json!(["body", "value"])),
        ];
        for (path, body, place) in ways {
            let (told, at) = refusal(&send(&client, &Method::POST, path, &body).await);
            let below = below.as_array().unwrap();
            // Of a number beyond every double the parser does not say where it stands.
            let place = if below.is_empty() {
                json!(["body"])
            } else {
                json!([place.as_array().unwrap(), &below[..]].concat())
            };
            assert_eq!((told.as_str(), at), (code, place), "{path}: {body}");
        }
    }
    let doubled = format!(r#"{{"value": {{"approved": false}}, {first}, "value": {{"approved": true}}}}"#);
    assert_eq!(refusal(&send(&client, &Method::POST, &resume, &doubled).await).1, json!(["body", "value"]));
    assert_eq!(client.asked(&session, 2).await, ids);
    let both = format!(
        r#"{{"resume": [{yes}, {{{first}, "value": {{"type": "edit", "args": {{"n": 9007199254740993}}}}}}]}}"#
    );
    assert_eq!(send(&client, &Method::POST, &resume, &both).await.status, StatusCode::OK);
}

//! The OpenAPI document: complete, and true to what is answered.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};

use super::support::Client;

async fn document() -> Value {
    Client::new().await.get("/openapi.json").await.json()
}

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &'static str)| format!("{item} {path}");
    paths
        .iter()
        .flat_map(|(path, item)| {
            ["get", "put", "post", "delete"]
                .into_iter()
                .filter_map(move |method| item.get(method).map(|operation| (of_path((path, method)), operation)))
        })
        .collect()
}

#[tokio::test]
async fn every_route_is_documented() {
    let document = document().await;
    let documented: BTreeSet<String> = operations(&document).into_iter().map(|(name, _)| name).collect();
    let wanted = [
        "delete /interrupts/{interrupt_id}/claim",
        "delete /interrupts/{interrupt_id}/snooze",
        "delete /keys/{key_id}",
        "delete /sessions/{session_id}",
        "delete /sessions/{session_id}/grants/{grant_id}",
        "get /audit",
        "get /docs",
        "get /events",
        "get /health",
        "get /healthz",
        "get /interrupts",
        "get /interrupts/{interrupt_id}",
        "get /keys",
        "get /me",
        "get /metrics",
        "get /openapi.json",
        "get /readyz",
        "get /sessions",
        "get /sessions/{session_id}",
        "get /sessions/{session_id}/events",
        "get /sessions/{session_id}/grants",
        "get /sessions/{session_id}/journal",
        "get /sessions/{session_id}/messages",
        "get /sessions/{session_id}/run-state",
        "get /webhooks",
        "post /interrupts/{interrupt_id}/claim",
        "post /interrupts/{interrupt_id}/resume",
        "post /interrupts/{interrupt_id}/snooze",
        "post /keys",
        "post /sessions",
        "post /sessions/{session_id}/cancel",
        "post /sessions/{session_id}/messages",
        "post /sessions/{session_id}/resume",
        "post /sessions/{session_id}/retry",
        "post /sign-in",
        "post /sign-out",
        "post /webhooks/{notice_id}/retry",
        "put /sessions/{session_id}",
    ];
    assert_eq!(documented.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test]
async fn every_operation_says_what_can_go_wrong() {
    let document = document().await;
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(operation["summary"].is_string(), "{name}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}");
        let responses = operation["responses"].as_object().unwrap();
        let open = name.ends_with("/healthz") || name.ends_with("/readyz");
        assert_eq!(responses.contains_key("401"), !open, "{name}");
        for status in ["400", "403", "414", "500"] {
            assert!(responses.contains_key(status), "{name}: {status}");
        }
        let takes_body = operation.get("requestBody").is_some();
        for status in ["408", "413", "415", "422"] {
            assert!(!takes_body || responses.contains_key(status), "{name}: {status}");
        }
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let problem = &response["content"]["application/problem+json"];
            assert_eq!(problem["schema"]["$ref"], "#/components/schemas/Problem", "{name}: {status}");
            assert!(!problem["examples"].as_object().unwrap().is_empty(), "{name}: {status}");
        }
    }
}

#[tokio::test]
async fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = document().await;
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

/// What is wrong with `value` as the document's `schema`.
fn violations(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[tokio::test]
async fn answers_are_as_documented() {
    let client = Client::new().await;
    let document = document().await;
    let (session, ids) = client.asking(&["delete_file"]).await;
    client.told("fail").await;
    let told = client.told("hello").await;
    client.until(&told, "idle").await;
    let post = |path: String, body: Value| (Method::POST, path, Some(body));
    let get = |path: &str| (Method::GET, path.to_owned(), None);
    let calls = [
        (get("/health"), "/health", "200"),
        (get("/healthz"), "/healthz", "200"),
        (get("/readyz"), "/readyz", "200"),
        (get("/sessions"), "/sessions", "200"),
        (get("/sessions?limit=0"), "/sessions", "422"),
        (post("/sessions".into(), json!(null)), "/sessions", "201"),
        (get(&session), "/sessions/{session_id}", "200"),
        (get(&told), "/sessions/{session_id}", "200"),
        (get("/sessions/x"), "/sessions/{session_id}", "404"),
        (get(&format!("{told}/messages")), "/sessions/{session_id}/messages", "200"),
        (post(format!("{session}/messages"), json!({})), "/sessions/{session_id}/messages", "409"),
        (post(format!("{told}/messages"), json!({"content": "hang"})), "/sessions/{session_id}/messages", "202"),
        (get("/interrupts"), "/interrupts", "200"),
        (get(&format!("/interrupts/{}", ids[0])), "/interrupts/{interrupt_id}", "200"),
        (
            post(format!("/interrupts/{}/resume", ids[0]), json!({"value": 1})),
            "/interrupts/{interrupt_id}/resume",
            "422",
        ),
        (
            post(format!("{session}/resume"), json!({"interrupt_id": ids[0], "value": {}})),
            "/sessions/{session_id}/resume",
            "200",
        ),
        (
            post(format!("/interrupts/{}/resume", ids[0]), json!({"value": {"approved": true}})),
            "/interrupts/{interrupt_id}/resume",
            "409",
        ),
        (post(format!("{told}/cancel"), json!(null)), "/sessions/{session_id}/cancel", "200"),
    ];
    for ((method, path, body), template, status) in calls {
        let reply = client.send(method.clone(), &path, &[], body.as_ref()).await;
        assert_eq!(reply.status.as_str(), status, "{method} {path}: {}", reply.text);
        let response = &document["paths"][template][method.as_str().to_lowercase()]["responses"][status];
        let content_type = reply.header("content-type").unwrap();
        let schema = &response["content"][content_type]["schema"];
        assert!(schema.is_object(), "{method} {path}: no schema for {content_type}");
        assert_eq!(violations(&document, schema, &reply.json()), [""; 0], "{method} {path}: {}", reply.text);
    }
}

#[tokio::test]
async fn requests_are_as_documented() {
    let document = document().await;
    let body = |template: &str, method: &str| {
        document["paths"][template][method]["requestBody"]["content"]["application/json"]["schema"].clone()
    };
    let session = body("/sessions", "post");
    let message = body("/sessions/{session_id}/messages", "post");
    let resume = body("/sessions/{session_id}/resume", "post");
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    for (schema, value, valid) in [
        (&session, json!(null), true),
        (&session, json!({}), true),
        (&session, json!({"state": [{"role": "tool", "tool_calls": [call]}]}), true),
        (&session, json!({"state": [{"role": "boss"}]}), false),
        (&session, json!([]), false),
        (&message, json!({}), true),
        (&message, json!({"content": null, "webhook": {"url": "https://example.com", "events": ["idle"]}}), true),
        (&message, json!({"content": 1}), false),
        (&message, json!({"webhook": {"url": "https://my-hooks.example.com:8443/in?x=1", "token": "t"}}), true),
        (&message, json!({"webhook": {"url": "example.com"}}), false),
        (&message, json!({"webhook": {}}), false),
        (&message, json!({"role": null}), false),
        (&message, json!([]), false),
        (&resume, json!({"interrupt_id": "x", "value": null}), true),
        (&resume, json!({"resume": [{"interrupt_id": "x", "value": 1}]}), true),
        (&resume, json!({"interrupt_id": "x"}), false),
        (&resume, json!({"resume": []}), false),
        (&resume, json!({"resume": [{"interrupt_id": "x", "value": 1}], "interrupt_id": "x", "value": 1}), false),
        (&resume, json!({"resume": [{"interrupt_id": "x", "value": 1}], "value": 1}), false),
        (&resume, json!({"resume": null, "interrupt_id": "x", "value": 1}), false),
    ] {
        assert_eq!(violations(&document, schema, &value).is_empty(), valid, "{value}: {schema}");
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() {
    let client = Client::new().await;
    let page = client.get("/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let loaded: Vec<&str> = page.text.split(['"']).filter(|part| part.starts_with("/docs/")).collect();
    assert_eq!(loaded, ["/docs/docs.css", "/docs/docs.js"]);
    assert!(!page.text.contains("http"), "{}", page.text);
    for file in loaded {
        assert_eq!(client.get(file).await.status, 200, "{file}");
    }
}

//! Who may do what: each scope against each route, and keys.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::sign_ins::{OWN, sign_in};
use super::support::{Client, HOST, Reply};
use crate::domain::access::{Actor, NewKey};
use crate::domain::scope::{Scope, Scopes};
use crate::engine::settings::Settings;
use crate::server::access::{Need, ROUTES};
use crate::server::document;
use crate::server::settings::HttpSettings;

/// Adds a key to the client's server: its secret.
pub async fn key(client: &Client, name: &str, scopes: &[Scope]) -> String {
    let new = NewKey { name: name.to_owned(), scopes: scopes.iter().copied().collect(), groups: Vec::new() };
    client.engine.access().create_key(new, Actor::anyone()).await.unwrap().1
}

pub fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

pub async fn as_key(client: &Client, secret: &str, method: Method, path: &str, body: Option<&Value>) -> Reply {
    client.send(method, path, &[("authorization", &bearer(secret))], body).await
}

/// Method and path of each documented operation, with ids of nothing in the path.
pub fn operations() -> Vec<(Method, String, String)> {
    let document = document().unwrap();
    let paths = document["paths"].as_object().unwrap().clone();
    let mut operations = Vec::new();
    for (path, item) in paths {
        for method in item.as_object().unwrap().keys() {
            let nothing = "00000000-0000-4000-8000-000000000000";
            let called: String = path
                .split('/')
                .map(|part| if part.starts_with('{') { nothing } else { part })
                .collect::<Vec<_>>()
                .join("/");
            operations.push((method.to_uppercase().parse().unwrap(), path.clone(), called));
        }
    }
    assert!(operations.len() > 25, "the document has no operations any more");
    operations
}

/// What an operation has to ask for: said here once more, and by other means than in the table.
pub fn wanted(method: &Method, path: &str) -> Option<&'static [Scope]> {
    let part = |text: &str| path.split('/').any(|part| part == text);
    if ["/healthz", "/readyz", "/sign-in"].contains(&path) {
        None
    } else if ["/docs", "/openapi.json", "/health", "/me", "/sign-out"].contains(&path) {
        Some(&Scope::ALL)
    } else if part("keys") || part("audit") || part("webhooks") || part("run-state") {
        Some(&[Scope::Admin])
    } else if method == Method::GET {
        Some(&[Scope::Read, Scope::Admin])
    } else if part("interrupts") || part("resume") || part("grants") {
        Some(&[Scope::Answer, Scope::Admin])
    } else {
        Some(&[Scope::Send, Scope::Admin])
    }
}

/// The status, and the code where it is a refusal. A stream that never ends is not read.
async fn outcome(client: &Client, method: &Method, path: &str, secret: Option<&str>) -> (u16, Option<String>) {
    let mut request = Request::builder().method(method).uri(path).header("host", HOST);
    if let Some(secret) = secret {
        request = request.header("authorization", bearer(secret));
    }
    let response = client.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    if status.is_success() {
        return (status.as_u16(), None);
    }
    let problem: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    (status.as_u16(), Some(problem["code"].as_str().unwrap().to_owned()))
}

#[test]
fn every_route_has_a_rule_and_every_rule_a_route() {
    let documented: BTreeSet<_> =
        operations().into_iter().map(|(method, path, _)| (method.to_string(), path)).collect();
    let ruled: BTreeSet<_> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(ruled.len(), ROUTES.len(), "a route stands twice in the table");
    let without: Vec<_> = documented.difference(&ruled).collect();
    assert!(without.is_empty(), "no rule in src/server/access.rs for {without:?}");
    let (nowhere, assets): (Vec<_>, Vec<_>) =
        ruled.difference(&documented).partition(|(method, path)| method != "GET" || !path.starts_with("/docs/"));
    assert!(nowhere.is_empty(), "rules for routes that are not there: {nowhere:?}");
    assert_eq!(assets.len(), 2);
}

#[tokio::test]
async fn each_scope_against_each_route() {
    let client = Client::new().await;
    let mut keys = Vec::new();
    for scope in Scope::ALL {
        keys.push((scope, key(&client, scope.as_str(), &[scope]).await));
    }
    for (method, path, called) in operations() {
        let wanted = wanted(&method, &path);
        let anonymous = outcome(&client, &method, &called, None).await;
        assert_eq!(
            anonymous == (401, Some("unauthorized".to_owned())),
            wanted.is_some(),
            "{method} {path}: {anonymous:?}"
        );
        for (scope, secret) in &keys {
            let (status, code) = outcome(&client, &method, &called, Some(secret)).await;
            let is_refused = code.as_deref() == Some("missing_scope");
            let may = wanted.is_none_or(|scopes| scopes.contains(scope));
            assert_eq!(is_refused, !may, "{scope} at {method} {path}: {status} {code:?}");
            assert_eq!(status == 403, is_refused, "{scope} at {method} {path}: {status} {code:?}");
            assert!(status != 401 && status != 500, "{scope} at {method} {path}: {status} {code:?}");
        }
    }
    assert!(ROUTES.iter().any(|(_, _, need)| *need == Need::Nothing));
}

#[tokio::test]
async fn a_webhook_is_for_who_may_read_what_it_is_told() {
    let client = Client::new().await;
    let webhook = json!({"url": "https://example.com/hook"});
    for (scopes, name, may) in [(&[Scope::Send][..], "teller", false), (&[Scope::Send, Scope::Read], "both", true)] {
        let secret = key(&client, name, scopes).await;
        let body = json!({"webhook": webhook});
        let created = as_key(&client, &secret, Method::POST, "/sessions", Some(&body)).await;
        let session = as_key(&client, &secret, Method::POST, "/sessions", None).await.json();
        let path = format!("/sessions/{}/messages", session["session_id"].as_str().unwrap());
        let body = json!({"content": "hello", "webhook": webhook});
        let sent = as_key(&client, &secret, Method::POST, &path, Some(&body)).await;
        if may {
            assert_eq!((created.status.as_u16(), sent.status.as_u16()), (201, 202));
        } else {
            assert_eq!([created.code(), sent.code()], ["missing_scope", "missing_scope"]);
        }
    }
}

#[tokio::test]
async fn to_wait_for_what_comes_of_a_message_is_to_read() {
    let client = Client::new().await;
    let reader = key(&client, "reader", &[Scope::Read]).await;
    for (scopes, name, may) in [(&[Scope::Send][..], "teller", false), (&[Scope::Send, Scope::Read], "both", true)] {
        let secret = key(&client, name, scopes).await;
        let session = as_key(&client, &secret, Method::POST, "/sessions", None).await.json();
        let path = format!("/sessions/{}/messages", session["session_id"].as_str().unwrap());
        let body = json!({"content": "hello"});
        let sent = as_key(&client, &secret, Method::POST, &format!("{path}?wait=1"), Some(&body)).await;
        let kept = as_key(&client, &reader, Method::GET, &path, None).await.json();
        if may {
            assert_eq!((sent.status.as_u16(), &sent.json()["status"]), (200, &json!("idle")));
        } else {
            assert_eq!((sent.code().as_str(), kept), ("missing_scope", json!([])));
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_scope_that_is_missing() {
    let client = Client::new().await;
    let reader = key(&client, "reader", &[Scope::Read]).await;
    let refused = as_key(&client, &reader, Method::POST, "/sessions", None).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "missing_scope"));
    assert_eq!(refused.json()["detail"], "This needs a key with the scope send");
}

#[tokio::test]
async fn rules_and_runs_of_a_new_session_are_for_admins() {
    let client = Client::with(
        Settings { allow_import: true, allow_custom_ids: true, ..Settings::default() },
        HttpSettings::default(),
    )
    .await;
    let sender = key(&client, "sender", &[Scope::Read, Scope::Send, Scope::Answer]).await;
    let admin = key(&client, "admin", &[Scope::Admin]).await;
    let rules = json!({"rules": [{"name": "all", "effect": "allow", "tool": "*"}]});
    let put = "/sessions/00000000-0000-4000-8000-000000000001";
    for (method, path) in [(Method::POST, "/sessions"), (Method::PUT, put)] {
        let refused = as_key(&client, &sender, method.clone(), path, Some(&rules)).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "missing_scope"), "{method}");
        assert_eq!(as_key(&client, &admin, method, path, Some(&rules)).await.status, StatusCode::CREATED);
    }
    let run = as_key(&client, &sender, Method::POST, "/sessions", Some(&json!({"run_state": {}}))).await;
    assert_eq!(run.code(), "missing_scope");
    let plain = as_key(&client, &sender, Method::POST, "/sessions", Some(&json!({"rules": null}))).await;
    assert_eq!(plain.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_run_that_a_message_brings_is_for_admins() {
    let client = Client::new().await;
    let sender = key(&client, "sender", &[Scope::Read, Scope::Send, Scope::Answer]).await;
    let admin = key(&client, "admin", &[Scope::Admin]).await;
    let session = as_key(&client, &sender, Method::POST, "/sessions", None).await.json();
    let path = format!("/sessions/{}/messages", session["session_id"].as_str().unwrap());
    let send = async |secret: &str, params: Value| {
        let body = json!({"content": "hello", "user_params": params});
        as_key(&client, secret, Method::POST, &format!("{path}?wait=1"), Some(&body)).await
    };
    for run in [json!("{}"), json!({}), json!(0)] {
        let refused = send(&sender, json!({"openai_agents_state": run})).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "missing_scope"), "{run}");
        assert_eq!(send(&admin, json!({"openai_agents_state": run})).await.status, StatusCode::OK);
    }
    assert_eq!(send(&sender, json!({"openai_agents_state": null, "customer": "ada"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_key_is_made_shown_once_and_revoked() {
    let client = Client::new().await;
    let body = json!({"name": "ada", "scopes": ["admin"], "groups": ["finance"]});
    let made = client.post("/keys", body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    let (id, secret) = (made["key_id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(secret.starts_with("hitl_") && secret.len() == 48, "{secret}");
    assert_eq!(
        (&made["scopes"], &made["created_by"], &made["revoked_at"]),
        (&json!(["admin"]), &json!(null), &json!(null))
    );
    let listed = as_key(&client, secret, Method::GET, "/keys", None).await;
    assert!(!listed.text.contains(secret) && !listed.text.contains("digest"), "{}", listed.text);
    assert_eq!(listed.json()[0]["name"], "ada");
    let again = as_key(&client, secret, Method::POST, "/keys", Some(&json!({"name": "ada", "scopes": ["read"]}))).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "key_exists"));
    let path = format!("/keys/{id}");
    assert_eq!(as_key(&client, secret, Method::DELETE, &path, None).await.status, StatusCode::NO_CONTENT);
    // It was the last one, and it stays shut.
    for headers in [vec![], vec![("authorization", bearer(secret))]] {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let refused = client.send(Method::GET, "/sessions", &headers, None).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "unauthorized"));
    }
}

#[tokio::test]
async fn a_key_that_is_no_key_is_refused_with_every_place() {
    let client = Client::new().await;
    for (body, place, kind) in [
        (json!({"name": "Ada", "scopes": ["read"]}), json!(["body", "name"]), "invalid_name"),
        (json!({"name": "", "scopes": ["read"]}), json!(["body", "name"]), "invalid_name"),
        (json!({"name": "api-key", "scopes": ["read"]}), json!(["body", "name"]), "reserved"),
        (json!({"name": "ada", "scopes": []}), json!(["body", "scopes"]), "too_short"),
        (json!({"name": "ada", "scopes": ["write"]}), json!(["body", "scopes", 0]), "unknown_value"),
        (json!({"name": "ada", "scopes": "read"}), json!(["body", "scopes"]), "wrong_type"),
        (json!({"name": "ada", "scopes": ["read"], "groups": ["a", "a"]}), json!(["body", "groups", 1]), "duplicate"),
        (json!({"name": "ada", "scopes": ["read"], "groups": vec!["a"; 33]}), json!(["body", "groups"]), "too_long"),
        (json!({"name": "ada", "scopes": ["read"], "group": ["a"]}), json!(["body", "group"]), "unknown_member"),
        (json!({"scopes": ["read"]}), json!(["body", "name"]), "missing"),
    ] {
        let refused = client.post("/keys", body.clone()).await;
        assert_eq!(refused.places(), [(place, kind.to_owned())], "{body}");
    }
    for id in ["x", "00000000-0000-4000-8000-000000000000"] {
        let unknown = client.send(Method::DELETE, &format!("/keys/{id}"), &[], None).await;
        assert_eq!((unknown.status.as_u16(), unknown.code().as_str()), (404, "unknown_key"));
    }
    // Nothing was made, so nothing is shut.
    assert_eq!(client.get("/keys").await.json(), json!([]));
}

#[tokio::test]
async fn the_key_of_the_settings_stays_good_beside_those_of_the_store() {
    let client = Client::with_keys().await;
    let reader = key(&client, "reader", &[Scope::Read]).await;
    assert_eq!(as_key(&client, "ada-key", Method::POST, "/sessions", None).await.status, StatusCode::CREATED);
    assert_eq!(as_key(&client, &reader, Method::GET, "/sessions", None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_is_recorded_under_the_name_of_its_key() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["delete_file"]).await;
    let ada = key(&client, "ada", &[Scope::Answer, Scope::Read]).await;
    let body = json!({"interrupt_id": ids[0], "value": {"approved": true}, "resolved_by": "bob"});
    assert_eq!(as_key(&client, &ada, Method::POST, &format!("{session}/resume"), Some(&body)).await.status, 200);
    let record = as_key(&client, &ada, Method::GET, &format!("/interrupts/{}", ids[0]), None).await.json();
    assert_eq!(record["resolved_by"], "ada");
}

/// Operations that take a body.
pub fn with_bodies() -> Vec<(Method, String)> {
    let document = document().unwrap();
    let takes =
        |method: &Method, path: &str| !document["paths"][path][method.as_str().to_lowercase()]["requestBody"].is_null();
    let found: Vec<_> = operations()
        .into_iter()
        .filter(|(method, path, _)| takes(method, path))
        .map(|(method, _, called)| (method, called))
        .collect();
    assert!(found.len() > 6, "the document has no bodies any more");
    found
}

#[tokio::test]
async fn no_route_takes_a_body_that_is_too_large_or_never_ends() {
    let http = HttpSettings { max_body: 64, body_timeout: Duration::from_millis(20), ..HttpSettings::default() };
    let settings = Settings { max_value: 64, allow_custom_ids: true, ..Settings::default() };
    let client = Client::with(settings, http).await;
    let mut sent = Vec::new();
    for (method, called) in with_bodies() {
        // An answer's body has room for what is around its value.
        let large = Body::from("x".repeat(64 * 1024 + 65));
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        for (body, wanted) in [(large, (413, "body_too_large")), (endless, (408, "request_timeout"))] {
            let request = Request::builder().method(&method).uri(&called).header("content-type", "application/json");
            let (client, request) = (client.clone(), request.body(body).unwrap());
            let called = format!("{method} {called}");
            // At once: after each the rest of the body is waited for, for a while.
            sent.push(async move { (client.request(request).await, wanted, called) });
        }
    }
    for (refused, wanted, called) in join_all(sent).await {
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), wanted, "{called}");
    }
}

#[tokio::test]
async fn a_cursor_of_another_list_opens_nothing() {
    let client = Client::new().await;
    let (session, _) = client.asking(&["delete_file"]).await;
    client.asking(&["send_mail", "send_mail"]).await;
    let admin = key(&client, "admin", &[Scope::Admin]).await;
    let reader = key(&client, "reader", &[Scope::Read]).await;
    let id = session.trim_start_matches("/sessions/");
    let mut cursors = BTreeSet::from(["0".to_owned(), "999999999999999999".to_owned()]);
    for list in ["/audit?limit=1", "/interrupts?limit=1", "/sessions?limit=1"] {
        let page = as_key(&client, &admin, Method::GET, list, None).await;
        let (_, cursor) = page.header("link").unwrap().split_once("cursor=").unwrap();
        cursors.insert(cursor.split_once('>').unwrap().0.to_owned());
    }
    for cursor in cursors {
        let audit = as_key(&client, &reader, Method::GET, &format!("/audit?cursor={cursor}"), None).await;
        assert_eq!(audit.code(), "missing_scope");
        let path = format!("/interrupts?session_id={id}&cursor={cursor}");
        let listed = as_key(&client, &reader, Method::GET, &path, None).await;
        let foreign = listed.json().as_array().unwrap().iter().any(|record| record["session_id"] != id);
        assert!(listed.status == StatusCode::OK && !foreign, "{cursor}: {listed:?}");
        let path = format!("/sessions?status=error&cursor={cursor}");
        assert_eq!(as_key(&client, &reader, Method::GET, &path, None).await.json(), json!([]), "{cursor}");
    }
}

#[tokio::test]
async fn no_other_origin_is_let_in_by_cors() {
    for client in [Client::new().await, Client::with_keys().await] {
        for origin in ["http://evil.example", "null", OWN] {
            let preflight = [
                ("origin", origin),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "authorization,content-type"),
            ];
            let reply = client.send(Method::OPTIONS, "/sessions", &preflight, None).await;
            assert!(reply.status.is_client_error(), "{origin}: {reply:?}");
            let allows = reply.headers.keys().any(|name| name.as_str().starts_with("access-control-"));
            assert!(!allows, "{origin}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn keys_and_sign_ins_are_in_the_audit() {
    let client = Client::new().await;
    let admin = key(&client, "admin", &[Scope::Admin]).await;
    let body = json!({"name": "ada", "scopes": ["read"]});
    let made = as_key(&client, &admin, Method::POST, "/keys", Some(&body)).await.json();
    sign_in(&client, made["key"].as_str().unwrap(), OWN).await;
    let path = format!("/keys/{}", made["key_id"].as_str().unwrap());
    as_key(&client, &admin, Method::DELETE, &path, None).await;
    let audit = as_key(&client, &admin, Method::GET, "/audit", None).await;
    assert!(!audit.text.contains(made["key"].as_str().unwrap()));
    let told: Vec<Value> = audit
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["action"], row["actor"], row["details"]["name"]]))
        .collect();
    let wanted = json!([
        ["key_created", null, "admin"],
        ["key_created", "admin", "ada"],
        ["signed_in", "ada", null],
        ["key_revoked", "admin", "ada"],
    ]);
    assert_eq!(json!(told), wanted);
}

#[tokio::test]
async fn without_keys_everybody_is_nobody_and_may_do_everything() {
    let me = Client::new().await.get("/me").await.json();
    let all: Vec<&str> = Scopes::ALL.iter().map(Scope::as_str).collect();
    assert_eq!(
        me,
        json!({"name": null, "scopes": all, "groups": [], "authentication": false, "prevent_self_approval": false, "max_body": 1_048_576})
    );
}

//! Who did what, as `GET /audit` tells it.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, within};
use crate::adapters::policy_file::{self, WatchedFile};
use crate::domain::audit::{AuditRow, Head, Verifier};
use crate::engine::settings::Settings;
use crate::server::settings::{ApiKey, HttpSettings};

/// What `key` sends, and what came back.
async fn send(client: &Client, key: &str, method: Method, path: &str, body: Option<Value>) -> Value {
    let key = format!("Bearer {key}-key");
    let reply = client.send(method, path, &[("authorization", &key)], body.as_ref()).await;
    assert!(reply.status.is_success(), "{path}: {reply:?}");
    if reply.text.is_empty() { Value::Null } else { reply.json() }
}

async fn get(client: &Client, key: &str, path: &str) -> Value {
    send(client, key, Method::GET, path, None).await
}

/// A session that asks for `names`, and the ids of its interrupts.
async fn asking(client: &Client, names: &[&str]) -> (String, Vec<String>) {
    let made = send(client, "ada", Method::POST, "/sessions", None).await;
    let session = format!("/sessions/{}", made["session_id"].as_str().unwrap());
    let message = json!({"content": format!("ask {}", names.join(" "))});
    send(client, "ada", Method::POST, &format!("{session}/messages"), Some(message)).await;
    let ids = client.asked_with(&[("authorization", "Bearer ada-key")], &session, names.len()).await;
    (session, ids)
}

async fn rows(client: &Client, query: &str) -> Vec<Value> {
    get(client, "ada", &format!("/audit?limit=1000&{query}")).await.as_array().unwrap().clone()
}

/// Who did what.
fn deeds(rows: &[Value]) -> Vec<(&str, Option<&str>)> {
    rows.iter().map(|row| (row["action"].as_str().unwrap(), row["actor"].as_str())).collect()
}

#[tokio::test]
async fn a_question_is_followed_from_asked_to_decided() {
    let client = Client::with_keys().await;
    let (session, ids) = asking(&client, &["delete"]).await;
    let path = format!("/interrupts/{}", ids[0]);
    // Nobody is shown anything by a head.
    send(&client, "ada", Method::HEAD, &path, None).await;
    get(&client, "bob", &path).await;
    get(&client, "bob", &path).await;
    get(&client, "ada", &path).await;
    send(&client, "bob", Method::POST, &format!("{path}/claim"), None).await;
    send(&client, "ada", Method::DELETE, &format!("{path}/claim"), None).await;
    send(&client, "bob", Method::POST, &format!("{path}/snooze"), Some(json!({"seconds": 60}))).await;
    let value = json!({"approved": true});
    send(&client, "bob", Method::POST, &format!("{path}/resume"), Some(json!({"value": value}))).await;
    get(&client, "ada", &path).await;
    let told = rows(&client, &format!("interrupt_id={}", ids[0])).await;
    let (ada, bob) = (Some("ada"), Some("bob"));
    let wanted = [
        ("asked", None),
        ("seen", bob),
        ("seen", ada),
        ("claimed", bob),
        ("released", ada),
        ("snoozed", bob),
        ("decided", bob),
    ];
    assert_eq!(deeds(&told), wanted);
    assert!(told.iter().all(|row| row["session_id"] == session.trim_start_matches("/sessions/")));
    let details = &told[6]["details"];
    assert_eq!((&details["decision"], &details["value"]), (&json!("approve"), &value));
    assert_eq!((&details["tool"], &details["digest"]), (&json!("delete"), &json!("sha256:0")));
    assert_eq!((&details["args"], &details["final_args"]), (&json!({"path": "/tmp/x"}), &json!({"path": "/tmp/x"})));
    assert_eq!(details["asked_at"], told[0]["details"]["asked_at"]);
    assert_eq!(told[4]["details"]["claimed_by"], "bob");
}

#[tokio::test]
async fn what_is_refused_leaves_no_row() {
    let client = Client::with_keys().await;
    let (_, ids) = asking(&client, &["delete"]).await;
    let path = format!("/interrupts/{}/resume", ids[0]);
    let header = [("authorization", "Bearer bob-key")];
    for value in [json!({"approved": "yes"}), json!({"type": "edit", "args": {}})] {
        let refused = client.send(Method::POST, &path, &header, Some(&json!({"value": value}))).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{refused:?}");
    }
    assert_eq!(deeds(&rows(&client, "").await), [("asked", None)]);
}

#[tokio::test]
async fn it_outlives_its_session_and_tells_who_ended_it() {
    let client = Client::with_keys().await;
    let (session, _) = asking(&client, &["first", "second"]).await;
    send(&client, "bob", Method::DELETE, &session, None).await;
    let (other, _) = asking(&client, &["third"]).await;
    send(&client, "ada", Method::POST, &format!("{other}/cancel"), None).await;
    let (ada, bob) = (Some("ada"), Some("bob"));
    let id = session.trim_start_matches("/sessions/");
    let told = rows(&client, &format!("session_id={id}")).await;
    let wanted = [("asked", None), ("asked", None), ("cancelled", bob), ("cancelled", bob), ("session_deleted", bob)];
    assert_eq!(deeds(&told), wanted);
    assert_eq!(told[4]["details"], json!({"agent": "agent", "status": "interrupted"}));
    assert_eq!(deeds(&rows(&client, "action=cancelled&actor=ada").await), [("cancelled", ada)]);
}

#[tokio::test]
async fn whoever_deletes_a_session_that_waits_for_nobody_is_told_of() {
    let client = Client::with_keys().await;
    let session = send(&client, "ada", Method::POST, "/sessions", None).await;
    let id = session["session_id"].as_str().unwrap();
    send(&client, "bob", Method::DELETE, &format!("/sessions/{id}"), None).await;
    let told = rows(&client, "action=session_deleted").await;
    assert_eq!(deeds(&told), [("session_deleted", Some("bob"))]);
    assert_eq!(
        (&told[0]["session_id"], &told[0]["details"]),
        (&json!(id), &json!({"agent": "agent", "status": "idle"}))
    );
}

/// The rows of the audit, once there are `count` of them.
async fn until_told(client: &Client, count: usize) -> Vec<Value> {
    let told = async {
        loop {
            let told = client.get("/audit").await.json();
            if let Some(rows) = told.as_array().filter(|rows| rows.len() >= count) {
                return rows.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(told).await
}

#[tokio::test]
async fn a_session_whose_time_is_over_is_deleted_by_nobody() {
    let settings = crate::engine::settings::Settings { ttl: 0.001, ..Default::default() };
    let client = Client::with(settings, Default::default()).await;
    let session = client.session().await;
    let told = until_told(&client, 1).await;
    assert_eq!(deeds(&told), [("session_deleted", None)]);
    assert_eq!(told[0]["session_id"], session.trim_start_matches("/sessions/"));
    assert_eq!(told[0]["details"], json!({"ttl": 0.001}));
}

#[tokio::test]
async fn whoever_takes_a_run_out_is_told_of() {
    let client = Client::with_keys().await;
    let (session, _) = asking(&client, &["delete"]).await;
    let exported = get(&client, "bob", &format!("{session}/run-state")).await;
    let told = rows(&client, "action=run_exported").await;
    assert_eq!(deeds(&told), [("run_exported", Some("bob"))]);
    let entries = exported["journal"].as_array().unwrap().len();
    assert_eq!(
        told[0]["details"],
        json!({
            "agent": "agent", "turn_id": exported["turn_id"], "entries": entries, "signed": false,
            "digest": crate::domain::digest::of(&exported),
        })
    );
}

#[tokio::test]
async fn whoever_brings_a_run_in_is_told_of() {
    let client = Client::with_keys().await;
    let (session, _) = asking(&client, &["delete"]).await;
    let exported = get(&client, "ada", &format!("{session}/run-state")).await;
    let settings = Settings { allow_import: true, ..Settings::default() };
    let key = ApiKey { name: "ada".to_owned(), key: "ada-key".to_owned() };
    let elsewhere = Client::with(settings, HttpSettings { api_keys: vec![key], ..HttpSettings::default() }).await;
    send(&elsewhere, "ada", Method::POST, "/sessions", Some(json!({"run_state": exported}))).await;
    let told = rows(&elsewhere, "action=run_imported").await;
    assert_eq!(deeds(&told), [("run_imported", Some("ada"))]);
    assert_eq!(told[0]["session_id"], exported["session_id"]);
    assert_eq!(
        told[0]["details"],
        json!({
            "agent": "agent", "turn_id": exported["turn_id"], "believed": false,
            "entries": 1, "digest": crate::domain::digest::of(&exported),
        })
    );
}

#[tokio::test]
async fn the_rules_that_hold_are_told_of_with_the_digest_of_their_file() {
    let client = Client::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let digest = |text: &str| {
        use sha2::{Digest, Sha256};
        format!("sha256:{}", crate::domain::digest::hex(&Sha256::digest(text)))
    };
    let (ask, deny) =
        ("[[rule]]\nname = 'a'\neffect = 'ask'\ntool = '*'\n", "[[rule]]\nname = 'a'\neffect = 'deny'\ntool = '*'\n");
    write(ask);
    client
        .engine
        .access()
        .follow_policy(policy_file::load(&path).unwrap(), WatchedFile::new(path.clone()))
        .await
        .unwrap();
    let until = async |count: usize| until_told(&client, count).await[count - 1].clone();
    let row =
        |told: &Value| (told["action"].as_str().unwrap().to_owned(), told["actor"].clone(), told["details"].clone());
    let loaded = |details| ("policy_loaded".to_owned(), Value::Null, details);
    assert_eq!(row(&until(1).await), loaded(json!({"to": digest(ask), "source": "file", "rules": 1})));
    write(deny);
    assert_eq!(
        row(&until(2).await),
        loaded(json!({"from": digest(ask), "to": digest(deny), "source": "file", "rules": 1}))
    );
    write("");
    let (action, _, details) = row(&until(3).await);
    assert_eq!((action.as_str(), &details["keeps"]), ("policy_refused", &json!(digest(deny))));
    assert!(details["error"].as_str().unwrap().contains("rules = \"none\""), "{details}");
    write(deny);
    assert_eq!(
        row(&until(4).await),
        loaded(json!({"from": digest(deny), "to": digest(deny), "source": "file", "rules": 1}))
    );
}

#[test]
fn every_action_is_in_the_documents() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/audit.md");
    let table: String = std::fs::read_to_string(path).unwrap().lines().filter(|line| line.starts_with("| `")).collect();
    for action in crate::domain::audit::Action::ALL {
        assert!(table.contains(&format!("`{}`", action.as_str())), "{}", action.as_str());
    }
}

#[tokio::test]
async fn every_action_can_be_asked_for() {
    let client = Client::new().await;
    for action in crate::domain::audit::Action::ALL {
        assert_eq!(client.get(&format!("/audit?action={}", action.as_str())).await.status, StatusCode::OK);
    }
    let refused = client.get("/audit?action=done").await.json().to_string();
    assert!(crate::domain::audit::Action::ALL.iter().all(|action| refused.contains(action.as_str())), "{refused}");
}

#[tokio::test]
async fn a_decision_for_the_whole_session_is_told_with_whatever_it_decides() {
    let client = Client::with_keys().await;
    let (session, ids) = asking(&client, &["delete", "delete"]).await;
    let answer = json!({"value": {"approved": true, "always": true}});
    send(&client, "bob", Method::POST, &format!("/interrupts/{}/resume", ids[0]), Some(answer)).await;
    let grants = get(&client, "ada", &format!("{session}/grants")).await;
    let grant = grants[0]["grant_id"].as_str().unwrap();
    send(&client, "ada", Method::DELETE, &format!("{session}/grants/{grant}"), None).await;
    let told = rows(&client, "").await;
    let (ada, bob) = (Some("ada"), Some("bob"));
    let wanted = [("asked", None), ("asked", None), ("decided", bob), ("granted", bob), ("decided", bob)];
    assert_eq!(deeds(&told[..5]), wanted);
    assert_eq!(told[4]["details"]["rule"], format!("grant:{grant}"));
    assert_eq!(deeds(&told[5..]), [("grant_revoked", ada)]);
    assert_eq!(told[5]["details"]["grant_id"], grant);
}

#[tokio::test]
async fn without_keys_nobody_is_named_and_nobody_sees() {
    let client = Client::new().await;
    let (_, ids) = client.asking(&["delete"]).await;
    let path = format!("/interrupts/{}", ids[0]);
    client.get(&path).await;
    client.post(&format!("{path}/claim"), json!({"as": "ada"})).await;
    client.post(&format!("{path}/resume"), json!({"value": {"approved": true}, "as": "ada"})).await;
    let told = client.get("/audit").await.json();
    let told = told.as_array().unwrap();
    assert_eq!(deeds(told), [("asked", None), ("claimed", None), ("decided", None)]);
    assert_eq!(told[1]["details"]["as"], "ada", "what somebody calls himself stands apart from who it was");
}

#[tokio::test]
async fn what_nobody_answers_in_time_expires_by_nobody() {
    let settings = crate::engine::settings::Settings { interrupt_ttl: 0.001, ..Default::default() };
    let client = Client::with(settings, Default::default()).await;
    client.told("ask delete").await;
    let told = until_told(&client, 2).await;
    assert_eq!(deeds(&told), [("asked", None), ("expired", None)]);
    assert!(told[0]["details"]["expires_at"].is_string());
}

#[tokio::test]
async fn the_rows_are_a_chain_whose_end_health_shows() {
    let client = Client::with_keys().await;
    let before = get(&client, "ada", "/health").await["audit"].clone();
    assert_eq!(before, json!(Head::nothing()));
    asking(&client, &["first", "second"]).await;
    let head: Head = serde_json::from_value(get(&client, "ada", "/health").await["audit"].clone()).unwrap();
    let mut verifier = Verifier::new(Some(head.clone()));
    for row in rows(&client, "").await {
        let row: AuditRow = serde_json::from_value(row).unwrap();
        assert_eq!(verifier.take(&row), Ok(()));
    }
    assert_eq!(verifier.finish(), Ok(head));
}

#[tokio::test]
async fn it_comes_in_pages_and_refuses_what_it_does_not_know() {
    let client = Client::with_keys().await;
    asking(&client, &["first", "second", "third"]).await;
    let header = [("authorization", "Bearer ada-key")];
    let mut path = "/audit?limit=2&action=asked".to_owned();
    let mut numbers = Vec::new();
    loop {
        let page = client.send(Method::GET, &path, &header, None).await;
        numbers.extend(page.json().as_array().unwrap().iter().map(|row| row["seq"].clone()));
        let Some(link) = page.header("link") else { break };
        path = link.split(['<', '>']).nth(1).unwrap().to_owned();
    }
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(rows(&client, "after=2999-01-01T00:00:00Z").await, [Value::Null; 0]);
    for (query, name) in [
        ("who=ada", "who"),
        ("action=done", "action"),
        ("session_id=x", "session_id"),
        ("interrupt_id=x", "interrupt_id"),
        ("after=yesterday", "after"),
        ("actor=", "actor"),
        ("actor=a&actor=b", "actor"),
    ] {
        let refused = client.send(Method::GET, &format!("/audit?{query}"), &header, None).await;
        assert_eq!(refused.places()[0].0, json!(["query", name]), "{query}");
    }
}

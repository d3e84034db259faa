//! Claims and snoozes.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, Reply};

const NOBODY: [&str; 4] = ["claimed_by", "claimed_until", "snoozed_by", "snoozed_until"];

/// A question, and ways to do something with it.
struct Asked {
    client: Client,
    session: String,
    path: String,
}

impl Asked {
    async fn of(client: Client) -> Self {
        Self::with(client, &[]).await
    }

    async fn with(client: Client, headers: &[(&str, &str)]) -> Self {
        let made = client.send(Method::POST, "/sessions", headers, None).await;
        let session = made.header("location").unwrap_or_else(|| panic!("{made:?}")).to_owned();
        let message = json!({"content": "ask delete"});
        let sent = client.send(Method::POST, &format!("{session}/messages"), headers, Some(&message)).await;
        assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
        let ids = client.asked_with(headers, &session, 1).await;
        Self { path: format!("/interrupts/{}", ids[0]), session, client }
    }

    async fn post(&self, what: &str, body: Value) -> Reply {
        self.client.post(&format!("{}/{what}", self.path), body).await
    }

    async fn post_as(&self, key: &str, what: &str, body: Value) -> Reply {
        let key = format!("Bearer {key}");
        let path = format!("{}/{what}", self.path);
        self.client.send(Method::POST, &path, &[("authorization", &key)], Some(&body)).await
    }

    async fn delete(&self, what: &str) -> Reply {
        self.client.send(Method::DELETE, &format!("{}/{what}", self.path), &[], None).await
    }

    async fn record(&self) -> Value {
        self.client.get(&self.path).await.json()
    }
}

fn taken(reply: &Reply, by: &str) {
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::CONFLICT, "interrupt_claimed"), "{reply:?}");
    let problem = reply.json();
    assert_eq!(problem["claimed_by"], by);
    assert!(problem["claimed_until"].is_string(), "{problem}");
}

#[tokio::test]
async fn a_claim_is_shown_wherever_the_interrupt_is_and_listed() {
    let asked = Asked::of(Client::new().await).await;
    let untouched = asked.record().await;
    assert!(NOBODY.iter().all(|member| untouched.get(*member).is_none()), "{untouched}");
    let claimed = asked.post("claim", json!({"as": "ada", "seconds": 60})).await;
    assert_eq!(claimed.status, StatusCode::OK, "{claimed:?}");
    let record = claimed.json();
    assert_eq!(record["claimed_by"], "ada");
    assert!(record["claimed_until"].as_str() > record["created_at"].as_str());
    assert_eq!(asked.record().await, record);
    assert_eq!(asked.client.get(&asked.session).await.json()["interrupts"], json!([record]));
    assert_eq!(asked.client.get("/interrupts?claimed_by=ada").await.json(), json!([record]));
    assert_eq!(asked.client.get("/interrupts?claimed_by=bob").await.json(), json!([]));
}

#[tokio::test]
async fn nobody_else_can_answer_or_claim_it_meanwhile() {
    let asked = Asked::of(Client::new().await).await;
    asked.post("claim", json!({"as": "ada"})).await;
    taken(&asked.post("claim", json!({"as": "bob"})).await, "ada");
    taken(&asked.post("resume", json!({"value": {"approved": true}})).await, "ada");
    taken(&asked.post("resume", json!({"value": {"approved": true}, "as": "bob"})).await, "ada");
    let id = asked.record().await["interrupt_id"].clone();
    let several = json!({"resume": [{"interrupt_id": id, "value": {"approved": true}}], "as": "bob"});
    taken(&asked.client.post(&format!("{}/resume", asked.session), several.clone()).await, "ada");
    assert_eq!(asked.record().await["status"], "pending");
    let mine = json!({"resume": several["resume"], "as": "ada"});
    let answered = asked.client.post(&format!("{}/resume", asked.session), mine).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    let record = asked.record().await;
    assert!(NOBODY.iter().all(|member| record.get(*member).is_none()), "{record}");
    assert_eq!(record["resolved_by"], Value::Null, "what somebody calls himself is no proof");
}

#[tokio::test]
async fn a_claim_that_is_over_keeps_nobody_out() {
    let asked = Asked::of(Client::new().await).await;
    // Over by the time the reply is there: times are in milliseconds.
    asked.post("claim", json!({"as": "ada", "seconds": 0.0001})).await;
    assert!(asked.record().await.get("claimed_by").is_none());
    assert_eq!(asked.client.get("/interrupts?claimed_by=ada").await.json(), json!([]));
    assert_eq!(asked.post("resume", json!({"value": {"approved": true}})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn whoever_has_it_releases_it() {
    let asked = Asked::of(Client::new().await).await;
    asked.post("claim", json!({"as": "ada"})).await;
    taken(&asked.delete("claim").await, "ada");
    taken(&asked.delete("claim?as=bob").await, "ada");
    let released = asked.delete("claim?as=ada").await;
    assert_eq!(released.status, StatusCode::OK, "{released:?}");
    assert!(released.json().get("claimed_by").is_none());
    assert_eq!(asked.delete("claim").await.status, StatusCode::OK, "nobody has it");
    assert_eq!(asked.post("claim", json!({"as": "bob"})).await.json()["claimed_by"], "bob");
}

#[tokio::test]
async fn with_keys_it_is_the_key_that_claims_and_an_admin_may_release() {
    let asked = Asked::with(Client::with_keys().await, &[("authorization", "Bearer ada-key")]).await;
    let claimed = asked.post_as("ada-key", "claim", json!({"as": "bob"})).await;
    assert_eq!(claimed.json()["claimed_by"], "ada");
    taken(&asked.post_as("bob-key", "resume", json!({"value": {"approved": true}, "as": "ada"})).await, "ada");
    // Keys of the command line are admins.
    let header = [("authorization", "Bearer bob-key")];
    let path = format!("{}/claim", asked.path);
    let released = asked.client.send(Method::DELETE, &path, &header, None).await;
    assert_eq!(released.status, StatusCode::OK, "{released:?}");
    assert!(released.json().get("claimed_by").is_none());
    let answered = asked.post_as("bob-key", "resume", json!({"value": {"approved": true}})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
}

#[tokio::test]
async fn a_decision_for_the_whole_session_leaves_alone_what_somebody_else_works_on() {
    let client = Client::new().await;
    let session = client.told("ask delete delete").await;
    let ids = loop {
        let view = client.until(&session, "interrupted").await;
        let ids: Vec<_> = view["interrupts"].as_array().unwrap().iter().map(|it| it["interrupt_id"].clone()).collect();
        if let [first, second] = ids.as_slice() {
            break [first.as_str().unwrap().to_owned(), second.as_str().unwrap().to_owned()];
        }
    };
    client.post(&format!("/interrupts/{}/claim", ids[1]), json!({"as": "bob"})).await;
    let always = json!({"value": {"approved": true, "always": true}, "as": "ada"});
    assert_eq!(client.post(&format!("/interrupts/{}/resume", ids[0]), always).await.status, StatusCode::OK);
    assert_eq!(client.get(&format!("/interrupts/{}", ids[1])).await.json()["status"], "pending");
}

#[tokio::test]
async fn what_is_snoozed_waits_and_is_told_apart() {
    let asked = Asked::of(Client::new().await).await;
    let snoozed = asked.post("snooze", json!({"seconds": 3600, "as": "ada"})).await;
    assert_eq!(snoozed.status, StatusCode::OK, "{snoozed:?}");
    let record = snoozed.json();
    assert_eq!((&record["snoozed_by"], &record["status"]), (&json!("ada"), &json!("pending")));
    assert_eq!(asked.client.get("/interrupts?snoozed=true").await.json(), json!([record]));
    assert_eq!(asked.client.get("/interrupts?snoozed=false").await.json(), json!([]));
    assert!(asked.delete("snooze").await.json().get("snoozed_until").is_none());
    assert_eq!(asked.client.get("/interrupts?snoozed=true").await.json(), json!([]));
    asked.post("snooze", json!({"seconds": 3600})).await;
    assert_eq!(asked.post("resume", json!({"value": {"approved": true}})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_settled_is_neither_claimed_nor_snoozed() {
    let asked = Asked::of(Client::new().await).await;
    asked.post("resume", json!({"value": {"approved": true}})).await;
    let refused = [
        asked.post("claim", json!({"as": "ada"})).await,
        asked.delete("claim?as=ada").await,
        asked.post("snooze", json!({"seconds": 1})).await,
        asked.delete("snooze").await,
    ];
    for reply in refused {
        assert_eq!(reply.code(), "already_resolved");
        assert!(reply.json()["resolved_at"].is_string());
    }
    let unknown = asked.client.post("/interrupts/0/claim", json!({"as": "ada"})).await;
    assert_eq!(unknown.code(), "unknown_interrupt");
}

#[tokio::test]
async fn a_wrong_claim_or_snooze_is_refused_by_name() {
    let asked = Asked::of(Client::new().await).await;
    let long = "x".repeat(65);
    for (what, body, place, kind) in [
        ("claim", json!({}), "as", "missing"),
        ("claim", json!({"as": ""}), "as", "out_of_range"),
        ("claim", json!({"as": long}), "as", "out_of_range"),
        ("claim", json!({"as": 7}), "as", "wrong_type"),
        ("claim", json!({"as": "ada", "seconds": 0}), "seconds", "out_of_range"),
        ("claim", json!({"as": "ada", "seconds": 86401}), "seconds", "out_of_range"),
        ("claim", json!({"as": "ada", "seconds": "60"}), "seconds", "wrong_type"),
        ("snooze", json!({}), "seconds", "missing"),
        ("snooze", json!({"seconds": -1}), "seconds", "out_of_range"),
        ("resume", json!({"value": {"approved": true}, "as": ""}), "as", "out_of_range"),
    ] {
        let refused = asked.post(what, body.clone()).await;
        assert_eq!(refused.places(), [(json!(["body", place]), kind.to_owned())], "{what} {body}");
    }
    for query in ["as=".to_owned(), format!("as={long}"), "who=ada".to_owned()] {
        let refused = asked.delete(&format!("claim?{query}")).await;
        assert_eq!(refused.places()[0].0[0], "query", "{query}");
    }
    assert_eq!(asked.record().await["status"], "pending");
    assert_eq!(asked.post("claim", json!({"as": "ä".repeat(64)})).await.status, StatusCode::OK);
}

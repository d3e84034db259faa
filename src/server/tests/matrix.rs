//! Who may do what, over every route and every way to decide, and what the audit tells of it.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::access::{bearer, operations, wanted};
use super::sign_ins::{OWN, sign_in};
use super::support::{Client, Reply, within};
use crate::domain::access::{Actor, NewKey};
use crate::domain::scope::Scope;
use crate::engine::settings::Settings;
use crate::server::settings::{ApiKey, HttpSettings};

const ROOT: &str = "the-key-of-the-settings";

/// A server that has a key in its settings, and in its store one for each name, with these scopes and groups.
async fn office(keys: &[(&str, &[Scope], &[&str])], prevent_self_approval: bool) -> (Client, Vec<(String, String)>) {
    office_with(keys, Settings { prevent_self_approval, ..Settings::default() }).await
}

async fn office_with(keys: &[(&str, &[Scope], &[&str])], settings: Settings) -> (Client, Vec<(String, String)>) {
    let root = ApiKey { name: "api-key".to_owned(), key: ROOT.to_owned() };
    let client = Client::with(settings, HttpSettings { api_keys: vec![root], ..HttpSettings::default() }).await;
    let mut made = vec![("api-key".to_owned(), ROOT.to_owned())];
    for (name, scopes, groups) in keys {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let new = NewKey { name: (*name).to_owned(), scopes: scopes.iter().copied().collect(), groups };
        let (key, secret) = client.engine.access().create_key(new, Actor::anyone()).await.unwrap();
        if *name == "revoked" {
            client.engine.access().revoke_key(&key.key_id.to_string(), Actor::anyone()).await.unwrap();
        }
        made.push(((*name).to_owned(), secret));
    }
    made.push(("wrong".to_owned(), "hitl_wrong".to_owned()));
    (client, made)
}

fn code(reply: &Reply) -> String {
    if reply.status.is_success() { "ok".to_owned() } else { reply.code() }
}

/// Routes that answer with a stream, or that end what the others of this test come in by.
const APART: [&str; 4] = ["/events", "/sessions/{session_id}/events", "/sign-in", "/sign-out"];

#[tokio::test]
async fn each_way_in_against_each_route() {
    let operations = operations();
    // Few at a time: whoever shows many wrong keys is shut out of everything.
    for some in operations.chunks(8) {
        let scopes = Scope::ALL.map(|scope| [scope]);
        let mut keys: Vec<(&str, &[Scope], &[&str])> =
            Scope::ALL.iter().zip(&scopes).map(|(scope, scopes)| (scope.as_str(), &scopes[..], &[][..])).collect();
        keys.push(("revoked", &[Scope::Admin], &[]));
        let (client, keys) = office(&keys, false).await;
        let mut cookies = Vec::new();
        for scope in Scope::ALL {
            let (_, secret) = keys.iter().find(|(name, _)| name == scope.as_str()).unwrap();
            cookies.push((scope, sign_in(&client, secret, OWN).await.0));
        }
        for (method, path, called) in some.iter().filter(|(_, path, _)| !APART.contains(&path.as_str())) {
            let wanted = wanted(method, path);
            for (name, secret) in &keys {
                let reply = client.send(method.clone(), called, &[("authorization", &bearer(secret))], None).await;
                let refusal = (!reply.status.is_success()).then(|| reply.code());
                let refusal = refusal.as_deref().filter(|code| ["unauthorized", "missing_scope"].contains(code));
                let expected = match (wanted, name.as_str()) {
                    (None, _) | (Some(_), "api-key") => None,
                    (Some(_), "revoked" | "wrong") => Some("unauthorized"),
                    (Some(scopes), name) => {
                        (!scopes.iter().any(|scope| scope.as_str() == name)).then_some("missing_scope")
                    }
                };
                assert_eq!(refusal, expected, "{name} at {method} {path}");
            }
            for (scope, cookie) in &cookies {
                let own = [("cookie", cookie.as_str()), ("origin", OWN)];
                let reply = client.send(method.clone(), called, &own, None).await;
                let is_refused = !reply.status.is_success() && reply.code() == "missing_scope";
                let may = wanted.is_none_or(|scopes| scopes.contains(scope));
                assert_eq!(is_refused, !may, "signed in with {scope} at {method} {path}: {}", reply.status);
                // Another page has the browser send the same cookie.
                if wanted.is_some() {
                    let foreign = [("cookie", cookie.as_str()), ("sec-fetch-site", "cross-site")];
                    let refused = client.send(method.clone(), called, &foreign, None).await;
                    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{method} {path}");
                }
            }
        }
    }
}

/// A request: its method, path and body.
type Sent = (Method, String, Value);

/// A way to decide over what is asked, or over what was decided.
struct Way {
    name: &'static str,
    /// What the agent asks; the first of it is decided over.
    asks: &'static str,
    /// The requests that it takes, by the ids of what is asked and the path of the session.
    requests: fn(&[String], &str) -> Vec<Sent>,
    /// What the audit tells of it, beside what was there.
    told: &'static [&'static str],
}

impl Way {
    /// Why it is not for `who`; `ok` where it is.
    fn refusal(&self, who: &str, prevents: bool) -> &'static str {
        let (first, rest) = self.asks.split_once(' ').unwrap_or((self.asks, ""));
        let is_for_others = |asked: &str| asked.contains("~group:finance") && who != "bob";
        match who {
            "wrong" | "revoked" => "unauthorized",
            "reader" | "sender" => "missing_scope",
            _ if is_for_others(first) => "not_an_approver",
            "ada" if prevents && !first.contains("?color_picker") => "self_approval",
            _ if is_for_others(rest) => "not_an_approver",
            _ => "ok",
        }
    }
}

fn answer(ids: &[String], value: Value) -> Vec<Sent> {
    vec![(Method::POST, format!("/interrupts/{}/resume", ids[0]), json!({"value": value}))]
}

const WAYS: &[Way] = &[
    Way { name: "yes", asks: "pay", requests: |ids, _| answer(ids, json!({"approved": true})), told: &["decided"] },
    Way { name: "no", asks: "pay", requests: |ids, _| answer(ids, json!({"approved": false})), told: &["decided"] },
    Way {
        name: "yes of an approver",
        asks: "pay~group:finance",
        requests: |ids, _| answer(ids, json!({"approved": true})),
        told: &["decided"],
    },
    Way {
        name: "no of an approver",
        asks: "pay~group:finance",
        requests: |ids, _| answer(ids, json!({"type": "reject", "reason": "no"})),
        told: &["decided"],
    },
    Way {
        name: "edit",
        asks: "pay!",
        requests: |ids, _| answer(ids, json!({"type": "edit", "args": {"path": "/tmp/y"}})),
        told: &["decided"],
    },
    Way {
        name: "edit of an approver",
        asks: "pay~group:finance!",
        requests: |ids, _| answer(ids, json!({"approved": true, "args": {"path": "/tmp/y"}})),
        told: &["decided"],
    },
    Way {
        name: "answer in its place",
        asks: "pay!",
        requests: |ids, _| answer(ids, json!({"type": "respond", "message": "paid"})),
        told: &["decided"],
    },
    Way {
        name: "always",
        asks: "pay pay",
        requests: |ids, _| answer(ids, json!({"approved": true, "always": true})),
        told: &["decided", "granted", "decided"],
    },
    Way {
        name: "never",
        asks: "pay",
        requests: |ids, _| answer(ids, json!({"approved": false, "always": true})),
        told: &["decided", "granted"],
    },
    Way {
        name: "by the session",
        asks: "pay",
        requests: |ids, session| {
            let body = json!({"interrupt_id": ids[0], "value": {"approved": true}});
            vec![(Method::POST, format!("{session}/resume"), body)]
        },
        told: &["decided"],
    },
    Way {
        name: "two at once",
        asks: "pay wire",
        requests: |ids, session| {
            let each = |id: &String| json!({"interrupt_id": id, "value": {"approved": true}});
            vec![(Method::POST, format!("{session}/resume"), json!({"resume": [each(&ids[0]), each(&ids[1])]}))]
        },
        told: &["decided", "decided"],
    },
    Way {
        name: "two at once, one of which is for others",
        asks: "pay wire~group:finance",
        requests: |ids, session| {
            let each = |id: &String| json!({"interrupt_id": id, "value": {"approved": true}});
            vec![(Method::POST, format!("{session}/resume"), json!({"resume": [each(&ids[0]), each(&ids[1])]}))]
        },
        told: &["decided", "decided"],
    },
    Way {
        name: "claim, then answer",
        asks: "pay",
        requests: |ids, _| {
            let claim = (Method::POST, format!("/interrupts/{}/claim", ids[0]), json!({}));
            [vec![claim], answer(ids, json!({"approved": true}))].concat()
        },
        told: &["seen", "claimed", "decided"],
    },
    Way {
        name: "snooze, then wake",
        asks: "pay~group:finance",
        requests: |ids, _| {
            let path = format!("/interrupts/{}/snooze", ids[0]);
            vec![(Method::POST, path.clone(), json!({"seconds": 60})), (Method::DELETE, path, Value::Null)]
        },
        told: &["seen", "snoozed", "snoozed"],
    },
    Way {
        name: "what came of a step",
        asks: "pay?unknown_outcome",
        requests: |ids, _| answer(ids, json!({"outcome": "not_done"})),
        told: &["decided"],
    },
    Way {
        name: "a question",
        asks: "color?color_picker",
        requests: |ids, _| answer(ids, json!("red")),
        told: &["decided"],
    },
];

/// Those who try each way: by name, with these scopes and groups. Ada sends the message.
const WHO: [(&str, &[Scope], &[&str]); 7] = [
    ("ada", &[Scope::Read, Scope::Send, Scope::Answer], &[]),
    ("reader", &[Scope::Read], &[]),
    ("sender", &[Scope::Send, Scope::Read], &[]),
    ("answerer", &[Scope::Answer], &[]),
    ("bob", &[Scope::Read, Scope::Answer], &["finance"]),
    ("admin", &[Scope::Admin], &[]),
    ("revoked", &[Scope::Admin], &["finance"]),
];

async fn call(client: &Client, secret: &str, method: Method, path: &str, body: &Value) -> Reply {
    client.send(method, path, &[("authorization", &bearer(secret))], Some(body).filter(|body| !body.is_null())).await
}

/// What the audit tells of a session: the action, and who.
async fn told(client: &Client, session: &str) -> Vec<(String, Option<String>)> {
    let path = format!("/audit?limit=1000&session_id={}", session.trim_start_matches("/sessions/"));
    let rows = call(client, ROOT, Method::GET, &path, &Value::Null).await.json();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    rows.as_array().unwrap().iter().map(|row| (text(&row["action"]).unwrap(), text(&row["actor"]))).collect()
}

/// A session in which Ada's message has the agent ask: its path, and the ids.
async fn asking(client: &Client, ada: &str, asks: &str) -> (String, Vec<String>) {
    sent(client, ada, &format!("ask {asks}"), asks.split(' ').count()).await
}

/// A session that Ada sent something at which the agent asks so many things: its path, and the ids.
async fn sent(client: &Client, ada: &str, content: &str, asks: usize) -> (String, Vec<String>) {
    let created = call(client, ROOT, Method::POST, "/sessions", &json!({})).await;
    let session = created.header("location").unwrap().to_owned();
    let message = json!({"content": content});
    let sent = call(client, ada, Method::POST, &format!("{session}/messages"), &message).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
    let ids = client.asked_with(&[("authorization", &bearer(ROOT))], &session, asks).await;
    (session, ids)
}

#[tokio::test]
async fn each_way_to_decide_by_each_key_and_what_the_audit_tells() {
    for (prevents, way) in [false, true].into_iter().flat_map(|prevents| WAYS.iter().map(move |way| (prevents, way))) {
        let (client, keys) = office(&WHO, prevents).await;
        let (_, ada) = keys.iter().find(|(name, _)| name == "ada").unwrap();
        for (who, secret) in &keys {
            let (session, ids) = asking(&client, ada, way.asks).await;
            let before = told(&client, &session).await;
            let mut refusal = "ok".to_owned();
            for (method, path, body) in (way.requests)(&ids, &session) {
                refusal = code(&call(&client, secret, method, &path, &body).await);
                if refusal != "ok" {
                    break;
                }
            }
            let at = format!("{}, by {who}, prevents self approval: {prevents}", way.name);
            assert_eq!(refusal, way.refusal(who, prevents), "{at}");
            let wanted = if refusal == "ok" { way.told } else { &[] };
            let wanted: Vec<_> = wanted.iter().map(|action| ((*action).to_owned(), Some(who.clone()))).collect();
            assert_eq!(told(&client, &session).await[before.len()..], wanted, "{at}");
        }
    }
}

#[tokio::test]
async fn a_decision_for_the_rest_is_taken_back_by_who_may_answer() {
    let (client, keys) = office(&WHO, false).await;
    let secret = |name: &str| keys.iter().find(|(other, _)| other == name).unwrap().1.clone();
    for (who, key) in &keys {
        let (session, ids) = asking(&client, &secret("ada"), "pay").await;
        let always = json!({"value": {"approved": true, "always": true}});
        call(&client, &secret("bob"), Method::POST, &format!("/interrupts/{}/resume", ids[0]), &always).await;
        let grants = call(&client, ROOT, Method::GET, &format!("{session}/grants"), &Value::Null).await.json();
        let path = format!("{session}/grants/{}", grants[0]["grant_id"].as_str().unwrap());
        let before = told(&client, &session).await;
        let refusal = code(&call(&client, key, Method::DELETE, &path, &Value::Null).await);
        let wanted = match who.as_str() {
            "wrong" | "revoked" => "unauthorized",
            "reader" | "sender" => "missing_scope",
            _ => "ok",
        };
        assert_eq!(refusal, wanted, "{who}");
        let row = ("grant_revoked".to_owned(), Some(who.clone()));
        let wanted: &[_] = if refusal == "ok" { &[row] } else { &[] };
        assert_eq!(&told(&client, &session).await[before.len()..], wanted, "{who}");
    }
}

#[tokio::test]
async fn a_rule_with_approvers_takes_the_place_of_scopes_whichever_way() {
    let (client, keys) = office(&WHO, false).await;
    let secret = |name: &str| keys.iter().find(|(other, _)| other == name).unwrap().1.clone();
    let rule = json!({"name": "large", "effect": "ask", "tool": "pay", "approvers": ["group:finance"]});
    for way in WAYS.iter().filter(|way| way.asks.starts_with("pay") && !way.asks.contains(['~', '?'])) {
        for (who, key) in
            keys.iter().filter(|(who, _)| ["ada", "answerer", "admin", "api-key", "bob"].contains(&who.as_str()))
        {
            let created = call(&client, ROOT, Method::POST, "/sessions", &json!({"rules": [rule]})).await;
            let session = created.header("location").unwrap().to_owned();
            let message = json!({"content": format!("ask {}", way.asks)});
            call(&client, &secret("ada"), Method::POST, &format!("{session}/messages"), &message).await;
            let asks = way.asks.split(' ').count();
            let ids = client.asked_with(&[("authorization", &bearer(ROOT))], &session, asks).await;
            let before = told(&client, &session).await;
            let (method, path, body) = (way.requests)(&ids, &session).swap_remove(0);
            let refusal = code(&call(&client, key, method, &path, &body).await);
            assert_eq!(refusal, if who == "bob" { "ok" } else { "not_an_approver" }, "{}, by {who}", way.name);
            let is_told = told(&client, &session).await.len() > before.len();
            assert_eq!(is_told, who == "bob", "{}, by {who}", way.name);
        }
    }
}

/// A session of Ada's whose turn failed at its first answer, and can be taken up again.
async fn failed(client: &Client, ada: &str) -> String {
    let (session, ids) = sent(client, ada, "mismatch one two", 2).await;
    let (_, path, body) = answer(&ids, json!({"approved": true})).swap_remove(0);
    call(client, ROOT, Method::POST, &path, &body).await;
    within(async {
        loop {
            let view = call(client, ROOT, Method::GET, &format!("{session}?wait=1"), &Value::Null).await.json();
            if view["status"] == "error" {
                return;
            }
        }
    })
    .await;
    session
}

#[tokio::test]
async fn a_session_is_deleted_or_taken_up_again_by_who_may_send_and_the_audit_tells_who() {
    // Every answer goes through a replay, which is what fails.
    let (client, keys) = office_with(&WHO, Settings { park_after: 0.0, ..Settings::default() }).await;
    let (_, ada) = keys.iter().find(|(name, _)| name == "ada").unwrap();
    for (who, secret) in &keys {
        let (idle, _) = sent(&client, ada, "echo", 0).await;
        let (waiting, _) = asking(&client, ada, "pay wire~group:finance").await;
        let (retried, deleted) = (failed(&client, ada).await, failed(&client, ada).await);
        let cases: [(Method, String, &str, &[&str]); 4] = [
            (Method::DELETE, idle.clone(), &idle, &["session_deleted"]),
            (Method::DELETE, waiting.clone(), &waiting, &["cancelled", "cancelled", "session_deleted"]),
            (Method::POST, format!("{retried}/retry"), &retried, &["retried"]),
            // What the failed turn asked goes with it.
            (Method::DELETE, deleted.clone(), &deleted, &["cancelled", "session_deleted"]),
        ];
        for (method, path, session, rows) in cases {
            let before = told(&client, session).await;
            let refusal = code(&call(&client, secret, method.clone(), &path, &Value::Null).await);
            let wanted = match who.as_str() {
                "wrong" | "revoked" => "unauthorized",
                "reader" | "answerer" | "bob" => "missing_scope",
                _ => "ok",
            };
            assert_eq!(refusal, wanted, "{method} {path} by {who}");
            let rows = if refusal == "ok" { rows } else { &[] };
            let rows: Vec<_> = rows.iter().map(|action| ((*action).to_owned(), Some(who.clone()))).collect();
            assert_eq!(told(&client, session).await[before.len()..], rows, "{method} {path} by {who}");
        }
    }
}

//! Who may answer what: not whoever sent the message, and only approvers.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, Reply};
use crate::domain::access::{Actor, NewKey};
use crate::domain::scope::Scope;
use crate::domain::session::Failure;
use crate::engine::settings::Settings;
use crate::server::settings::HttpSettings;

/// A server, and who has a key to it: Ada and Bob may send and answer, Bob is in finance, Root is an admin.
struct Office {
    client: Client,
    keys: Vec<(&'static str, String)>,
}

impl Office {
    async fn new(prevent_self_approval: bool) -> Self {
        let settings = Settings { prevent_self_approval, workers: 100, ..Settings::default() };
        let client = Client::with(settings, HttpSettings::default()).await;
        let worker = [Scope::Read, Scope::Send, Scope::Answer];
        let mut keys = Vec::new();
        for (name, scopes, group) in
            [("ada", &worker[..], None), ("bob", &worker, Some("finance")), ("root", &[Scope::Admin], None)]
        {
            let groups = group.map(str::to_owned).into_iter().collect();
            let new = NewKey { name: name.to_owned(), scopes: scopes.iter().copied().collect(), groups };
            keys.push((name, client.engine.access().create_key(new, Actor::anyone()).await.unwrap().1));
        }
        Self { client, keys }
    }

    async fn call(&self, who: &str, method: Method, path: &str, body: Option<&Value>) -> Reply {
        self.client.send(method, path, &[("authorization", &self.bearer(who))], body).await
    }

    fn bearer(&self, who: &str) -> String {
        format!("Bearer {}", self.keys.iter().find(|(name, _)| *name == who).unwrap().1)
    }

    /// The ids of so many interrupts of a session, once it asks them.
    async fn asked(&self, who: &str, session: &str, count: usize) -> Vec<String> {
        self.client.asked_with(&[("authorization", &self.bearer(who))], session, count).await
    }

    /// A session in which `who` has asked for tools: its path, and what they ask.
    async fn asking(&self, who: &str, tools: &str) -> (String, Vec<Value>) {
        let created = self.call(who, Method::POST, "/sessions", None).await;
        let session = created.header("location").unwrap().to_owned();
        let asked = self.ask(who, &session, tools).await;
        (session, asked)
    }

    /// What the session asks after a message of `who`.
    async fn ask(&self, who: &str, session: &str, tools: &str) -> Vec<Value> {
        let message = json!({"content": format!("ask {tools}")});
        let sent = self.call(who, Method::POST, &format!("{session}/messages"), Some(&message)).await;
        assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
        let view = self.call(who, Method::GET, &format!("{session}?wait=1"), None).await.json();
        view["interrupts"].as_array().cloned().unwrap_or_default()
    }

    /// The code of a refusal; `ok` where it is none.
    async fn answer(&self, who: &str, asked: &Value, value: Value) -> String {
        let path = format!("/interrupts/{}/resume", asked["interrupt_id"].as_str().unwrap());
        let reply = self.call(who, Method::POST, &path, Some(&json!({"value": value}))).await;
        if reply.status == StatusCode::OK {
            return "ok".to_owned();
        }
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
        reply.code()
    }
}

fn yes() -> Value {
    json!({"approved": true})
}

#[tokio::test]
async fn whoever_sent_the_message_cannot_approve_its_tools() {
    let office = Office::new(true).await;
    let (session, asked) = office.asking("ada", "delete_file").await;
    assert_eq!(asked[0]["sent_by"], "ada");
    // What a page needs to know to say so beforehand.
    assert_eq!(office.call("ada", Method::GET, "/me", None).await.json()["prevent_self_approval"], true);
    for decision in [yes(), json!({"approved": false}), json!({"approved": true, "always": true})] {
        assert_eq!(office.answer("ada", &asked[0], decision).await, "self_approval");
    }
    let both = json!({"resume": [{"interrupt_id": asked[0]["interrupt_id"], "value": yes()}]});
    assert_eq!(
        office.call("ada", Method::POST, &format!("{session}/resume"), Some(&both)).await.code(),
        "self_approval"
    );
    assert_eq!(office.answer("bob", &asked[0], yes()).await, "ok");
}

#[tokio::test]
async fn whatever_may_let_something_run_is_for_others_whichever_way_it_is_answered() {
    let office = Office::new(true).await;
    let tool = |kind: &str| json!({"type": kind, "payload": {"type": kind, "tool_name": "pay", "tool_args": {}}});
    let own = |lets_run: bool| json!({"type": "deploy", "payload": {"type": "deploy"}, "lets_run": lets_run});
    let cases = [
        (tool("tool_approval"), yes(), "self_approval"),
        (tool("unknown_outcome"), json!({"outcome": "not_done"}), "self_approval"),
        // What hooks ask before a tool, whatever its type is called.
        (own(true), json!("go"), "self_approval"),
        (own(true), json!(null), "self_approval"),
        (own(false), json!("go"), "ok"),
        (json!({"type": "deploy", "payload": {"type": "deploy"}}), json!("go"), "ok"),
    ];
    for (ask, value, wanted) in cases {
        for way in 0..4 {
            let created = office.call("ada", Method::POST, "/sessions", None).await;
            let session = created.header("location").unwrap().to_owned();
            // With a plain question, which is for whoever may answer.
            let message = json!({"content": format!("put {}", json!([ask, own(false)]))});
            office.call("ada", Method::POST, &format!("{session}/messages"), Some(&message)).await;
            let ids = office.asked("ada", &session, 2).await;
            let one = json!({"interrupt_id": ids[0], "value": value});
            let (path, body) = match way {
                0 => (format!("{session}/resume"), one),
                1 => (format!("{session}/resume"), json!({"resume": [one]})),
                2 => {
                    let other = json!({"interrupt_id": ids[1], "value": 1});
                    (format!("{session}/resume"), json!({"resume": [other, one]}))
                }
                _ => (format!("/interrupts/{}/resume", ids[0]), json!({"value": value})),
            };
            let sent = office.call("ada", Method::POST, &path, Some(&body)).await;
            let outcome = if sent.status == StatusCode::OK { "ok".to_owned() } else { sent.code() };
            assert_eq!(outcome, wanted, "{ask}, {path}");
            if wanted != "ok" {
                assert_eq!(office.asked("ada", &session, 2).await, ids, "nothing is answered");
                assert_eq!(office.call("bob", Method::POST, &path, Some(&body)).await.status, StatusCode::OK);
            }
        }
    }
}

#[tokio::test]
async fn not_even_an_admin_approves_their_own() {
    let office = Office::new(true).await;
    let (_, asked) = office.asking("root", "delete_file").await;
    assert_eq!(office.answer("root", &asked[0], yes()).await, "self_approval");
    assert_eq!(office.answer("ada", &asked[0], yes()).await, "ok");
}

#[tokio::test]
async fn a_message_of_an_unknown_sender_is_for_an_admin() {
    let office = Office::new(true).await;
    // Sent before there were keys.
    let session =
        office.client.engine.create_session(Default::default(), None, &Actor::anyone()).await.unwrap().session.id;
    let message = crate::domain::message::ChatMessage {
        content: Some("ask delete_file".to_owned()),
        ..crate::domain::message::ChatMessage::default()
    };
    office.client.engine.send_message(session, message, None, None, None, &Actor::anyone()).await.unwrap();
    let view = office.call("ada", Method::GET, &format!("/sessions/{session}?wait=1"), None).await.json();
    assert!(view["interrupts"][0].get("sent_by").is_none());
    assert_eq!(office.answer("ada", &view["interrupts"][0], yes()).await, "missing_scope");
    assert_eq!(office.answer("root", &view["interrupts"][0], yes()).await, "ok");
}

#[tokio::test]
async fn what_somebody_granted_does_not_hold_for_their_own_messages() {
    let office = Office::new(true).await;
    let (session, asked) = office.asking("bob", "delete_file").await;
    assert_eq!(office.answer("ada", &asked[0], json!({"approved": true, "always": true})).await, "ok");
    office.call("bob", Method::GET, &format!("{session}?wait=1"), None).await;
    let asked = office.ask("ada", &session, "delete_file").await;
    assert_eq!(asked.len(), 1, "Ada's grant would have approved what Ada asks for");
    assert_eq!(office.answer("bob", &asked[0], yes()).await, "ok");
    office.call("bob", Method::GET, &format!("{session}?wait=1"), None).await;
    assert!(office.ask("bob", &session, "delete_file").await.is_empty());
}

#[tokio::test]
async fn without_the_option_whoever_may_answer_may() {
    let office = Office::new(false).await;
    let (_, asked) = office.asking("ada", "delete_file").await;
    assert_eq!(office.answer("ada", &asked[0], yes()).await, "ok");
}

#[tokio::test]
async fn only_approvers_answer() {
    let office = Office::new(false).await;
    let (_, asked) = office.asking("ada", "pay~group:finance wire~ada").await;
    assert_eq!(asked[0]["approvers"], json!(["group:finance"]));
    for who in ["ada", "root"] {
        assert_eq!(office.answer(who, &asked[0], yes()).await, "not_an_approver", "{who}");
    }
    assert_eq!(office.answer("bob", &asked[1], yes()).await, "not_an_approver");
    assert_eq!(office.answer("bob", &asked[0], yes()).await, "ok");
    assert_eq!(office.answer("ada", &asked[1], yes()).await, "ok");
}

#[tokio::test]
async fn a_server_without_keys_has_no_approvers() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["pay~ada"]).await;
    let body = json!({"interrupt_id": ids[0], "value": yes()});
    let refused = client.post(&format!("{session}/resume"), body).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "not_an_approver"));
    assert_eq!(refused.json()["detail"], "Only these may answer, with a key of theirs: ada");
}

#[tokio::test]
async fn approvers_of_a_rule_take_the_place_of_the_tools_and_of_grants() {
    let office = Office::new(false).await;
    let rule = json!({"name": "large", "effect": "ask", "tool": "pay", "approvers": ["bob"]});
    let created = office.call("root", Method::POST, "/sessions", Some(&json!({"rules": [rule]}))).await;
    let session = created.header("location").unwrap().to_owned();
    let asked = office.ask("ada", &session, "pay~ada pay~ada").await;
    assert_eq!(asked[0]["approvers"], json!(["bob"]));
    assert_eq!(office.answer("ada", &asked[0], yes()).await, "not_an_approver");
    assert_eq!(office.answer("bob", &asked[0], json!({"approved": true, "always": true})).await, "ok");
    office.call("bob", Method::GET, &format!("{session}?wait=1"), None).await;
    // However much Bob has granted: the rule wants him to look at each.
    let again = office.ask("ada", &session, "pay").await;
    assert_eq!((again.len(), &again[0]["approvers"]), (1, &json!(["bob"])));
}

#[tokio::test]
async fn a_grant_leaves_alone_what_only_others_may_answer() {
    let office = Office::new(false).await;
    let (session, asked) = office.asking("root", "pay~ada pay~bob pay").await;
    assert_eq!(office.answer("ada", &asked[0], json!({"approved": true, "always": true})).await, "ok");
    let left = office.call("root", Method::GET, &session, None).await.json();
    assert_eq!(left["interrupts"].as_array().unwrap().len(), 1);
    assert_eq!(left["interrupts"][0]["approvers"], json!(["bob"]));
}

#[tokio::test]
async fn a_rule_whose_approvers_mean_nobody_is_refused() {
    let client = Client::new().await;
    for (rule, kind) in [
        (json!({"name": "x", "effect": "ask", "tool": "*", "approvers": ["Ada"]}), "invalid_name"),
        (json!({"name": "x", "effect": "allow", "tool": "*", "approvers": ["ada"]}), "contradiction"),
        (json!({"name": "x", "effect": "deny", "tool": "*", "approvers": ["ada"]}), "contradiction"),
    ] {
        let refused = client.post("/sessions", json!({"rules": [rule]})).await;
        assert_eq!(refused.places(), [(json!(["body", "rules", 0, "approvers"]), kind.to_owned())]);
    }
    let refused =
        client.post("/sessions", json!({"rules": [{"name": "x", "effect": "ask", "tool": "*", "approvers": "ada"}]}));
    assert_eq!(refused.await.places(), [(json!(["body", "rules", 0, "approvers"]), "wrong_type".to_owned())]);
}

#[tokio::test]
async fn who_may_not_answer_is_shown_nothing_and_takes_nothing_back() {
    let office = Office::new(true).await;
    let (_, asked) = office.asking("ada", "pay~group:finance").await;
    let path = format!("/interrupts/{}", asked[0]["interrupt_id"].as_str().unwrap());
    let put_off = json!({"seconds": 60});
    for what in ["claim", "snooze"] {
        office.call("bob", Method::POST, &format!("{path}/{what}"), Some(&put_off)).await;
        let refused = office.call("ada", Method::DELETE, &format!("{path}/{what}"), None).await;
        assert_eq!((refused.status, refused.code().as_str()), (StatusCode::FORBIDDEN, "not_an_approver"), "{what}");
        assert!(!refused.text.contains("tool_args"), "{}", refused.text);
    }
    let (_, own) = office.asking("ada", "delete_file").await;
    let own = format!("/interrupts/{}", own[0]["interrupt_id"].as_str().unwrap());
    for what in ["claim", "snooze"] {
        let refused = office.call("ada", Method::DELETE, &format!("{own}/{what}"), None).await;
        assert_eq!(refused.code(), "self_approval", "{what}");
    }
    let triaged = office.call("bob", Method::GET, &path, None).await.json();
    assert_eq!((&triaged["claimed_by"], &triaged["snoozed_by"]), (&json!("bob"), &json!("bob")));
    // An admin makes it free again for those who may.
    let freed = office.call("root", Method::DELETE, &format!("{path}/claim"), None).await;
    assert_eq!((freed.status, freed.json().get("claimed_by")), (StatusCode::OK, None));
}

#[tokio::test]
async fn who_is_shown_a_request_has_seen_it_whichever_way() {
    let office = Office::new(false).await;
    let seen = json!(["seen"]);
    for (method, what) in
        [(Method::DELETE, "claim"), (Method::DELETE, "snooze"), (Method::POST, "claim"), (Method::POST, "snooze")]
    {
        let (_, asked) = office.asking("ada", "delete_file").await;
        let id = asked[0]["interrupt_id"].as_str().unwrap();
        let body = (method == Method::POST).then(|| json!({"seconds": 60}));
        let shown = office.call("bob", method.clone(), &format!("/interrupts/{id}/{what}"), body.as_ref()).await;
        assert_eq!(shown.json()["payload"]["tool_args"], json!({"path": "/tmp/x"}));
        let told = office.call("root", Method::GET, &format!("/audit?interrupt_id={id}&actor=bob"), None).await.json();
        let actions: Vec<&Value> = told.as_array().unwrap().iter().map(|row| &row["action"]).collect();
        let wanted = match (method.as_str(), what) {
            ("POST", "claim") => json!(["seen", "claimed"]),
            ("POST", _) => json!(["seen", "snoozed"]),
            _ => seen.clone(),
        };
        assert_eq!(json!(actions), wanted, "{method} {what}");
    }
}

#[tokio::test]
async fn nobody_holds_off_those_who_may_answer() {
    let office = Office::new(true).await;
    let (_, asked) = office.asking("ada", "delete_file pay~group:finance").await;
    let path = |asked: &Value, what: &str| format!("/interrupts/{}/{what}", asked["interrupt_id"].as_str().unwrap());
    let seconds = json!({"seconds": 60});
    for what in ["claim", "snooze"] {
        for (who, asked, why) in [
            ("ada", &asked[0], "self_approval"),
            ("ada", &asked[1], "not_an_approver"),
            ("root", &asked[1], "not_an_approver"),
        ] {
            let refused = office.call(who, Method::POST, &path(asked, what), Some(&seconds)).await;
            assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, why), "{what} by {who}");
        }
        for asked in &asked {
            let triaged = office.call("bob", Method::POST, &path(asked, what), Some(&seconds)).await;
            assert_eq!(triaged.status, StatusCode::OK, "{triaged:?}");
        }
    }
    // Nor is it shown again by who could not have put it off.
    let refused = office.call("ada", Method::DELETE, &path(&asked[0], "snooze"), None).await;
    assert_eq!(refused.code(), "self_approval");
    let shown = office.call("bob", Method::DELETE, &path(&asked[0], "snooze"), None).await;
    assert!(shown.status == StatusCode::OK && shown.json().get("snoozed_until").is_none(), "{shown:?}");
}

#[tokio::test]
async fn a_question_to_the_sender_is_theirs_to_claim() {
    let office = Office::new(true).await;
    let (_, asked) = office.asking("ada", "color?color_picker").await;
    let path = format!("/interrupts/{}/claim", asked[0]["interrupt_id"].as_str().unwrap());
    assert_eq!(office.call("ada", Method::POST, &path, None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_one_has_granted_does_not_approve_what_others_have_to() {
    let office = Office::new(false).await;
    let (session, asked) = office.asking("root", "pay").await;
    assert_eq!(office.answer("ada", &asked[0], json!({"approved": true, "always": true})).await, "ok");
    office.call("root", Method::GET, &format!("{session}?wait=1"), None).await;
    assert!(office.ask("root", &session, "pay").await.is_empty(), "Ada has granted that");
    // Nobody but Bob could have granted this one.
    let asked = office.ask("root", &session, "pay~bob").await;
    assert_eq!((asked.len(), &asked[0]["approvers"]), (1, &json!(["bob"])));
    assert_eq!(office.answer("bob", &asked[0], json!({"approved": true, "always": true})).await, "ok");
    office.call("root", Method::GET, &format!("{session}?wait=1"), None).await;
    assert!(office.ask("root", &session, "pay~bob").await.is_empty(), "Bob has granted that");
    let grants = office.call("root", Method::GET, &format!("{session}/grants"), None).await.json();
    assert_eq!((&grants[0]["created_by"], &grants[0]["approvers"]), (&json!("bob"), &json!(["bob"])));
}

#[tokio::test]
async fn what_came_of_a_step_is_asked_of_whoever_could_let_it_run() {
    let office = Office::new(false).await;
    let (_, asked) = office.asking("root", "pay~ada pay?unknown_outcome wire?unknown_outcome").await;
    assert_eq!((&asked[1]["type"], &asked[1]["approvers"]), (&json!("unknown_outcome"), &json!(["ada"])));
    let again = json!({"outcome": "not_done"});
    assert_eq!(office.answer("bob", &asked[1], again.clone()).await, "not_an_approver");
    assert_eq!(office.answer("ada", &asked[1], again.clone()).await, "ok");
    // Nothing else was said about the other tool.
    assert_eq!(asked[2].get("approvers"), None);
    assert_eq!(office.answer("bob", &asked[2], again).await, "ok");
}

#[tokio::test]
async fn a_message_that_withdraws_what_was_asked_stands_in_the_audit_with_its_sender() {
    let office = Office::new(false).await;
    let (session, asked) = office.asking("ada", "delete_file").await;
    // Other code is deployed, which cannot go on with the turn: it is suspended, and what it asks waits.
    let turn = asked[0]["turn_id"].as_str().unwrap().parse().unwrap();
    let mismatch = Failure::new("replay_mismatch", "ReplayMismatch: recorded: a, attempted: b");
    office.client.engine.turn_failed(turn, 1, mismatch).await.unwrap();
    let message = json!({"content": "echo"});
    let sent = office.call("bob", Method::POST, &format!("{session}/messages"), Some(&message)).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
    let query = format!("/audit?interrupt_id={}", asked[0]["interrupt_id"].as_str().unwrap());
    let rows = office.call("root", Method::GET, &query, None).await.json();
    assert_eq!(rows[0]["details"]["sent_by"], "ada");
    let rows: Vec<_> = rows.as_array().unwrap().iter().map(|row| (&row["action"], &row["actor"])).collect();
    assert_eq!(rows, [(&json!("asked"), &json!(null)), (&json!("cancelled"), &json!("bob"))]);
}

//! What one request may cost, whichever door it comes through: how much is told of what is wrong with it, how many rows it
//! makes, how large an answer is, and that nothing of it is worked out where everybody waits.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Client, Reply};
use crate::engine::settings::Settings;
use crate::server::resume::MOST_ANSWERS;
use crate::server::settings::HttpSettings;

/// More wrong places than anybody is told of.
const MANY: usize = 9_000;
/// The most that is told of one of them, in bytes.
const LONGEST: usize = 4 * 2_001 + 500;

/// A server with room for all that a test asks: a turn with one of two answers is at work.
async fn server(settings: Settings, http: HttpSettings) -> Client {
    Client::with(Settings { workers: 100, ..settings }, http).await
}

/// Ways to send one answer: the path, the body, and where in it the value stands. The last way sends another answer too.
fn ways(session: &str, ids: &[String], value: &Value) -> [(String, Value, Vec<Value>); 4] {
    let (path, one) = (format!("{session}/resume"), json!({"interrupt_id": ids[0], "value": value}));
    let other = json!({"interrupt_id": ids[1], "value": {"approved": true}});
    [
        (path.clone(), one.clone(), vec![json!("value")]),
        (path.clone(), json!({"resume": [one]}), vec![json!("resume"), json!(0), json!("value")]),
        (format!("/interrupts/{}/resume", ids[0]), json!({"value": value}), vec![json!("value")]),
        (path, json!({"resume": [other, one]}), vec![json!("resume"), json!(1), json!("value")]),
    ]
}

/// A session that asks this, and whether to pay; with the ids of both.
async fn asking(client: &Client, ask: &Value) -> (String, [String; 2]) {
    let pay =
        json!({"type": "tool_approval", "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {}}});
    let session = client.told(&format!("put {}", json!([ask, pay]))).await;
    let ids = client.asked(&session, 2).await;
    (session, ids.try_into().unwrap())
}

fn which(question: &str) -> Value {
    let option = |label: &str| json!({"label": label, "description": "d"});
    let question = json!({
        "question": question, "header": "h", "multiSelect": true, "options": [option("a"), option("b")],
    });
    json!({"type": "user_input", "payload": {"type": "user_input", "questions": [question]}})
}

fn of_schema(schema: Value) -> Value {
    json!({"type": "form", "payload": {"type": "form"}, "response_schema": schema})
}

/// A call whose edits have to fit this schema.
fn editable(schema: Value) -> Value {
    json!({
        "type": "tool_approval", "allowed_decisions": ["approve", "edit", "reject"], "args_schema": schema,
        "payload": {"type": "tool_approval", "tool_name": "wire", "tool_args": {}},
    })
}

/// What is told of so many wrong places, below this one.
fn is_bounded(refused: &Reply, place: &[Value], at_least: usize) {
    let told = refused.places();
    assert_eq!(told.len(), 51, "{}", refused.text);
    let place = [&[json!("body")], place].concat();
    assert!(told.iter().all(|(loc, _)| loc.as_array().unwrap().starts_with(&place)), "{}", refused.text);
    assert_eq!(told[50].1, "too_many_errors");
    let last = refused.json()["errors"][50]["msg"].as_str().unwrap().to_owned();
    let more: usize = last.strip_prefix("and ").and_then(|last| last.strip_suffix(" more")).unwrap().parse().unwrap();
    assert!(more + 50 >= at_least, "{last}");
    assert!(refused.text.len() <= 51 * LONGEST, "{} bytes", refused.text.len());
}

/// So many members, none of which anybody asked for.
fn members(count: usize, value: &Value) -> Value {
    (0..count).map(|number| (format!("m{number}"), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn of_what_is_wrong_with_an_answer_the_first_few_places_are_told_whichever_way_it_comes() {
    let client = server(Settings::default(), HttpSettings::default()).await;
    let text = "q".repeat(3_000);
    let (answers, texts) = (members(MANY, &json!("x")), json!({"type": "array", "items": {"type": "string"}}));
    let args = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let edit = |args: Value| json!({"type": "edit", "args": args});
    let cases = [
        (which(&text), json!({"answers": answers}), json!({"answers": {(text.as_str()): ["a"]}})),
        (which("q"), members(MANY, &json!(null)), json!({"answers": {"q": "a"}})),
        (of_schema(texts), json!(vec![1; MANY]), json!(["x"])),
        (editable(args), edit(members(MANY, &json!(1))), edit(json!({"a": "x"}))),
        (editable(json!({"type": "object"})), members(MANY, &json!(1)), json!({"approved": true})),
    ];
    for (ask, wrong, right) in cases {
        let (session, ids) = asking(&client, &ask).await;
        for (path, body, place) in ways(&session, &ids, &wrong) {
            is_bounded(&client.post(&path, body).await, &place, MANY);
        }
        // Nothing has changed, also of what was right.
        assert_eq!(client.asked(&session, 2).await, ids);
        let (path, body, _) = ways(&session, &ids, &right)[3].clone();
        assert_eq!(client.post(&path, body).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn what_is_said_of_one_place_has_a_longest_length_whichever_way_the_answer_comes() {
    let client = server(Settings::default(), HttpSettings::default()).await;
    // It names the questions that there are.
    let text = "q".repeat(3_000);
    let (session, ids) = asking(&client, &which(&text)).await;
    let wrong = json!({"answers": {(text.as_str()): "a", "other": "a"}});
    for (path, body, _) in ways(&session, &ids, &wrong) {
        let refused = client.post(&path, body).await;
        assert_eq!(refused.places().len(), 1);
        let said = refused.json()["errors"][0]["msg"].as_str().unwrap().chars().count();
        assert_eq!(said, 2_001);
    }
}

#[tokio::test]
async fn no_more_labels_are_chosen_than_are_looked_at_whichever_way_they_come() {
    let client = server(Settings::default(), HttpSettings::default()).await;
    let chosen = |labels: Vec<String>| json!({"answers": {"q": labels}});
    let labels = |count: usize| (0..count).map(|number| format!("{number:x}")).collect::<Vec<_>>();
    for way in 0..4 {
        let (session, ids) = asking(&client, &which("q")).await;
        let send = async |value: Value| {
            let (path, body, place) = ways(&session, &ids, &value)[way].clone();
            (client.post(&path, body).await, [vec![json!("body")], place, vec![json!("answers"), json!("q")]].concat())
        };
        for (labels, kind) in [
            (labels(101), "too_long"),
            // About as many as fit.
            (labels(100_000), "too_long"),
            (vec!["a".to_owned(); 100_000], "too_long"),
            ([labels(50), labels(1)].concat(), "duplicate"),
            (Vec::new(), "empty"),
        ] {
            let (refused, place) = send(chosen(labels)).await;
            assert_eq!(refused.places(), [(json!(place), kind.to_owned())]);
        }
        for value in [json!({"answers": {"q": null}}), json!({"answers": {"q": [null]}}), json!({"answers": {"q": {}}})]
        {
            let (refused, place) = send(value).await;
            assert_eq!(refused.places(), [(json!(place), "wrong_type".to_owned())]);
        }
        let (refused, place) = send(json!({"answers": {}})).await;
        assert_eq!(refused.places(), [(json!(place), "missing".to_owned())]);
        assert_eq!(send(chosen(labels(100))).await.0.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn of_what_is_wrong_with_a_request_the_first_few_places_are_told_at_every_door() {
    let settings = Settings { allow_custom_ids: true, allow_import: true, ..Settings::default() };
    let client = server(settings, HttpSettings::default()).await;
    let session = client.session().await;
    let new = "/sessions/550e8400-e29b-41d4-a716-446655440000";
    let messages = format!("{session}/messages");
    let wrong = json!(vec![1; MANY]);
    let rule = |more: Value| {
        let mut rule = json!({"name": "a", "effect": "ask", "tool": "*"});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([rule])
    };
    let cases = [
        (Method::POST, "/sessions", json!({"state": wrong}), json!(["state"])),
        (Method::POST, "/sessions", json!({"rules": wrong}), json!(["rules"])),
        (Method::POST, "/sessions", json!({"rules": rule(members(MANY, &json!(1)))}), json!(["rules", 0])),
        (
            Method::POST,
            "/sessions",
            json!({"rules": rule(json!({"approvers": wrong}))}),
            json!(["rules", 0, "approvers"]),
        ),
        (Method::PUT, new, json!({"state": wrong}), json!(["state"])),
        (Method::PUT, new, json!({"rules": wrong}), json!(["rules"])),
        (Method::POST, &messages, json!({"tool_calls": wrong}), json!(["tool_calls"])),
        (Method::POST, &format!("{session}/resume"), json!({"resume": vec![1; MOST_ANSWERS]}), json!(["resume"])),
        (Method::POST, "/keys", json!({"name": "a", "scopes": wrong}), json!(["scopes"])),
        (Method::POST, "/keys", json!({"name": "a", "scopes": [], "groups": wrong}), json!(["groups"])),
    ];
    for (method, path, body, place) in cases {
        let refused = client.send(method, path, &[], Some(&body)).await;
        // What else there is to say of all of it stands at the end.
        let told = refused.places();
        assert_eq!((told.len(), told[50].1.as_str()), (51, "too_many_errors"), "{path}: {}", refused.text);
        let place = [vec![json!("body")], place.as_array().unwrap().clone()].concat();
        assert!(told[..50].iter().all(|(loc, _)| loc.as_array().unwrap().starts_with(&place)), "{}", refused.text);
        assert!(refused.text.len() <= 51 * LONGEST, "{path}: {} bytes", refused.text.len());
    }
    assert_eq!(client.get(new).await.code(), "session_not_found");
}

#[tokio::test]
async fn a_session_begins_with_so_many_rows_and_no_more_at_every_door() {
    let settings = Settings { allow_custom_ids: true, allow_import: true, ..Settings::default() };
    let client = server(settings, HttpSettings::default()).await;
    let new = "/sessions/550e8400-e29b-41d4-a716-446655440000";
    let state = |count: usize| json!({"state": vec![json!({}); count]});
    let run = |count: usize| json!({"run_state": {"messages": vec![json!({}); count]}});
    for (method, path, body, place) in [
        (Method::POST, "/sessions", state(10_001), json!(["body", "state"])),
        (Method::POST, "/sessions", state(300_000), json!(["body", "state"])),
        (Method::PUT, new, state(10_001), json!(["body", "state"])),
        (Method::POST, "/sessions", run(10_001), json!(["body", "run_state", "messages"])),
    ] {
        let refused = client.send(method, path, &[], Some(&body)).await;
        assert_eq!(refused.places(), [(place, "too_long".to_owned())]);
    }
    assert_eq!(client.get("/sessions").await.json(), json!([]));
    for (method, path) in [(Method::POST, "/sessions"), (Method::PUT, new)] {
        assert_eq!(client.send(method, path, &[], Some(&state(10_000))).await.status, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn an_answer_is_as_large_as_it_may_be_and_no_larger_whichever_way_it_comes() {
    let settings = Settings { max_value: 4096, ..Settings::default() };
    let client = server(settings, HttpSettings { max_body: 1024, ..HttpSettings::default() }).await;
    let text = |size: usize| json!("x".repeat(size - 2));
    for way in 0..4 {
        let (session, ids) = asking(&client, &of_schema(json!({"type": "string"}))).await;
        let send = async |value: Value| {
            let (path, body, _) = ways(&session, &ids, &value)[way].clone();
            client.post(&path, body).await
        };
        assert_eq!(send(text(4097)).await.code(), "value_too_large");
        assert_eq!(client.asked(&session, 2).await, ids);
        assert_eq!(send(text(4096)).await.status, StatusCode::OK);
    }
}

/// Builds with failpoints refuse to work such a thing out in a transaction: it would be a 500.
#[tokio::test]
async fn nothing_of_an_answer_is_worked_out_where_everybody_waits_whichever_way_it_comes() {
    let client = server(Settings::default(), HttpSettings::default()).await;
    let object = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let edit = json!({"type": "edit", "args": {"amount": 2}});
    let rules = json!([{"name": "large", "effect": "ask", "tool": "*", "when": "size(args) > 100"}]);
    let cases = [
        (which("q"), json!({"answers": {"q": ["a", "mine"]}})),
        (of_schema(object.clone()), json!({"amount": 1})),
        (of_schema(object.clone()), json!({"text": "x".repeat(500_000)})),
        (editable(object.clone()), edit),
        (editable(object), json!({"approved": true, "always": true})),
        (json!({"type": "any", "payload": {"type": "any"}}), json!(null)),
    ];
    for way in 0..4 {
        for ((ask, value), rules) in cases.iter().flat_map(|case| [json!([]), rules.clone()].map(|rules| (case, rules)))
        {
            let created = client.post("/sessions", json!({"rules": rules})).await;
            let session = created.header("location").unwrap().to_owned();
            let pay = json!({"type": "tool_approval", "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {}}});
            let content = format!("put {}", json!([ask, pay]));
            client.post(&format!("{session}/messages"), json!({"content": content})).await;
            let ids = client.asked(&session, 2).await;
            let (path, body, _) = ways(&session, &ids, value)[way].clone();
            let taken = client.post(&path, body).await;
            assert_eq!(taken.status, StatusCode::OK, "{path}, {value}: {}", taken.text);
            assert_eq!(client.get(&format!("/interrupts/{}", ids[0])).await.json()["value"], *value);
        }
    }
}

//! The journal of a session.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::support::Client;

fn column<'a>(entries: &'a Value, member: &str) -> Vec<&'a Value> {
    entries.as_array().unwrap().iter().map(|entry| &entry[member]).collect()
}

#[tokio::test]
async fn the_journal_of_the_newest_turn_is_a_timeline() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["delete"]).await;
    let open = client.get(&format!("{session}/journal")).await.json();
    assert_eq!(column(&open, "entry"), ["start", "ask", "pause"]);
    assert_eq!(column(&open, "index"), [0, 1, 2]);
    assert_eq!(open[0]["message"], json!({"role": "user", "content": "ask delete"}));
    let ask = &open[1];
    let expected = json!({
        "index": 1, "at": ask["at"], "entry": "ask", "kind": "interrupt", "name": "delete", "location": null,
        "path": "0#0", "interrupt_id": ids[0],
    });
    assert_eq!(*ask, expected);
    client.post(&format!("/interrupts/{}/resume", ids[0]), json!({"value": {"approved": true}})).await;
    client.until(&session, "idle").await;
    let over = client.get(&format!("{session}/journal")).await.json();
    assert_eq!(over[3]["result"], json!({"approved": true}));
    assert_eq!(column(&over, "entry").last(), Some(&&json!("end")));
    client.post(&format!("{session}/messages"), json!({"content": "fail"})).await;
    client.until(&session, "error").await;
    let newest = client.get(&format!("{session}/journal")).await.json();
    assert_eq!(column(&newest, "entry"), ["start", "end"]);
    assert_eq!(newest[1]["error"], "ValueError: it went wrong");
}

#[tokio::test]
async fn it_comes_in_pages() {
    let client = Client::new().await;
    let (session, _) = client.asking(&["first", "second", "third"]).await;
    let whole = client.get(&format!("{session}/journal")).await;
    assert_eq!(whole.header("link"), None);
    let mut pages = Vec::new();
    let mut path = format!("{session}/journal?limit=2");
    loop {
        let page = client.get(&path).await;
        pages.extend(page.json().as_array().unwrap().clone());
        let Some(link) = page.header("link") else { break };
        path = link.split(['<', '>']).nth(1).unwrap().to_owned();
    }
    assert_eq!(Value::from(pages), whole.json());
}

#[tokio::test]
async fn a_cursor_is_of_one_turn() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first"]).await;
    let page = client.get(&format!("{session}/journal?limit=1")).await;
    let (_, cursor) = page.header("link").unwrap().split_once("cursor=").unwrap();
    let cursor = cursor.split_once('>').unwrap().0;
    assert_eq!(client.get(&format!("{session}/journal?cursor={cursor}")).await.json()[0]["index"], 1);
    let (other, _) = client.asking(&["second"]).await;
    let empty = client.session().await;
    let refused = async |session: &str, cursor: &str| {
        let reply = client.get(&format!("{session}/journal?cursor={cursor}")).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{session} {cursor}: {reply:?}");
        assert_eq!(reply.places(), [(json!(["query", "cursor"]), "invalid".to_owned())]);
    };
    refused(&other, cursor).await;
    refused(&empty, cursor).await;
    let (turn, _) = cursor.split_once('.').unwrap();
    for text in ["1", turn, &format!("{turn}."), &format!("{turn}.-1"), &format!("{turn}.9223372036854775808"), "x.1"] {
        refused(&session, text).await;
    }
    // The next turn begins a journal of its own.
    client.post(&format!("/interrupts/{}/resume", ids[0]), json!({"value": {"approved": true}})).await;
    client.until(&session, "idle").await;
    client.post(&format!("{session}/messages"), json!({"content": "fail"})).await;
    client.until(&session, "error").await;
    refused(&session, cursor).await;
}

#[tokio::test]
async fn a_session_without_a_turn_has_none() {
    let client = Client::new().await;
    let session = client.session().await;
    assert_eq!(client.get(&format!("{session}/journal")).await.json(), json!([]));
    assert_eq!(client.get(&format!("{session}/journal?after=1")).await.places()[0].1, "unknown_parameter");
    let unknown = client.get("/sessions/550e8400-e29b-41d4-a716-446655440000/journal").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (StatusCode::NOT_FOUND, "session_not_found"));
}

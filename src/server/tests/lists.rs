//! Lists: pages, filters, and filters with typing errors.

use serde_json::{Value, json};

use super::support::Client;

/// The pages from `path` on, by following `Link`.
async fn pages(client: &Client, path: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut next = Some(path.to_owned());
    while let Some(path) = next {
        let reply = client.get(&path).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        next = reply
            .header("link")
            .map(|link| link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_owned());
        pages.push(reply.json().as_array().unwrap().clone());
    }
    pages
}

#[tokio::test]
async fn sessions_come_oldest_first_in_pages() {
    let client = Client::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(client.session().await.trim_start_matches("/sessions/").to_owned());
    }
    let pages = pages(&client, "/sessions?limit=2&status=idle&harmless=1").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    let listed: Vec<Value> = pages.concat();
    assert_eq!(listed.iter().map(|session| session["session_id"].as_str().unwrap()).collect::<Vec<_>>(), made);
    assert_eq!((&listed[0]["status"], &listed[0]["total_messages"]), (&json!("idle"), &json!(0)));
    assert_eq!(client.get("/sessions?status=running").await.json(), json!([]));
}

#[tokio::test]
async fn sessions_are_searched_by_title_and_by_id() {
    let client = Client::new().await;
    let mut made = Vec::new();
    for text in ["Refund order 1042", "Où est ma commande?", "Refund order 7"] {
        let state = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]);
        let session = client.post("/sessions", json!({"state": state})).await.json();
        made.push(session["session_id"].as_str().unwrap().to_owned());
    }
    let found = |path: String| {
        let client = &client;
        async move {
            let pages = pages(client, &path).await;
            let titles = pages.concat();
            titles.iter().map(|session| session["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    let refunds = ["Refund order 7", "Refund order 1042"];
    assert_eq!(found("/sessions?q=REFUND&order=newest&limit=1".to_owned()).await, refunds);
    assert_eq!(found("/sessions?q=o%C3%99%20est".to_owned()).await, ["Où est ma commande?"]);
    assert_eq!(found(format!("/sessions?q={}", made[1].to_uppercase())).await, ["Où est ma commande?"]);
    assert_eq!(found(format!("/sessions?q={}", &made[2][24..])).await, ["Refund order 7"]);
    assert_eq!(found("/sessions?q=refund&status=running".to_owned()).await, [""; 0]);
    for wrong in ["q=".to_owned(), format!("q={}", "a".repeat(201))] {
        let refused = client.get(&format!("/sessions?{wrong}")).await;
        assert_eq!(refused.places(), [(json!(["query", "q"]), "out_of_range".to_owned())]);
    }
}

#[tokio::test]
async fn a_session_nobody_has_said_anything_in_has_no_title() {
    let client = Client::new().await;
    client.session().await;
    let listed = client.get("/sessions").await.json();
    assert_eq!(listed[0].get("title"), Some(&Value::Null));
    assert!(listed[0]["agent_name"].as_str().is_some_and(|name| !name.is_empty()), "{listed}");
}

#[tokio::test]
async fn the_newest_session_comes_first_where_that_is_asked_for() {
    let client = Client::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(client.session().await.trim_start_matches("/sessions/").to_owned());
    }
    made.reverse();
    let pages = pages(&client, "/sessions?order=newest&limit=2&status=idle").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    let listed: Vec<Value> = pages.concat();
    assert_eq!(listed.iter().map(|session| session["session_id"].as_str().unwrap()).collect::<Vec<_>>(), made);
    let oldest = client.get("/sessions?order=oldest&limit=1").await;
    assert_eq!(oldest.json()[0]["session_id"], made[4]);
    // The same number means the other half in the other order.
    let newest = client.get("/sessions?order=newest&limit=1").await;
    for (page, other) in [(oldest, "newest"), (newest, "oldest")] {
        let (_, cursor) = page.header("link").unwrap().split_once("cursor=").unwrap();
        let cursor = cursor.split_once('>').unwrap().0;
        let refused = client.get(&format!("/sessions?order={other}&cursor={cursor}")).await;
        assert_eq!(refused.places(), [(json!(["query", "cursor"]), "invalid".to_owned())], "{other} {cursor}");
    }
}

#[tokio::test]
async fn interrupts_come_newest_first_with_filters() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["first", "second"]).await;
    let id = session.trim_start_matches("/sessions/");
    let pages = pages(&client, "/interrupts?limit=1&status=pending").await;
    let listed: Vec<_> = pages.concat().iter().map(|interrupt| interrupt["interrupt_id"].clone()).collect();
    assert_eq!(listed, [json!(ids[1]), json!(ids[0])]);
    for (query, count) in [
        ("tool=first".to_owned(), 1),
        ("type=tool_approval".to_owned(), 2),
        ("type=user_input".to_owned(), 0),
        (format!("session_id={id}"), 2),
        ("agent=assistant".to_owned(), 2),
        ("agent=other".to_owned(), 0),
        ("created_after=2000-01-01T00:00:00Z".to_owned(), 2),
        ("created_after=2999-01-01T00:00:00Z".to_owned(), 0),
        ("q=SECOND".to_owned(), 1),
        ("q=%2Ftmp%2Fx&tool=first".to_owned(), 1),
        ("q=nothing+of+the+kind".to_owned(), 0),
        ("snoozed=no".to_owned(), 2),
        ("snoozed=yes".to_owned(), 0),
        ("claimed_by=ada".to_owned(), 0),
    ] {
        let listed = client.get(&format!("/interrupts?{query}")).await.json();
        assert_eq!(listed.as_array().map(Vec::len), Some(count), "{query}");
    }
}

#[tokio::test]
async fn a_bad_value_is_refused_by_name() {
    let client = Client::new().await;
    for (path, name) in [
        ("/sessions?limit=0", "limit"),
        ("/sessions?limit=1001", "limit"),
        ("/sessions?cursor=x", "cursor"),
        ("/sessions?order=latest", "order"),
        ("/sessions?status=gone", "status"),
        ("/interrupts?status=gone", "status"),
        ("/interrupts?stauts=pending", "stauts"),
        ("/interrupts?session_id=x", "session_id"),
        ("/interrupts?created_after=yesterday", "created_after"),
        ("/interrupts?type=", "type"),
        ("/interrupts?q=", "q"),
        ("/interrupts?snoozed=perhaps", "snoozed"),
        ("/interrupts?claimed_by=", "claimed_by"),
        ("/interrupts?limit=1&limit=2", "limit"),
        ("/events?session=x", "session"),
    ] {
        assert_eq!(client.get(path).await.places()[0].0, json!(["query", name]), "{path}");
    }
}

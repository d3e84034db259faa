//! Server-sent events.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::support::{Client, HOST, engine};
use crate::engine::settings::Settings;
use crate::server::routes;
use crate::server::settings::HttpSettings;

/// An open stream.
pub struct Listener {
    body: Body,
    text: String,
}

/// An event of it.
#[derive(Debug, PartialEq)]
pub struct Told {
    pub id: Option<u64>,
    pub name: String,
    pub data: Value,
}

impl Listener {
    pub async fn open(client: &Client, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = Request::builder().method(Method::GET).uri(path).header("host", HOST);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next block of lines; `None` at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let frame =
                tokio::time::timeout(Duration::from_secs(100), self.body.frame()).await.expect("nothing came")?;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    /// The id that its first block has.
    async fn began(&mut self) -> String {
        let block = self.block().await.unwrap();
        block.lines().find_map(|line| line.strip_prefix("id: ")).expect("no id").to_owned()
    }

    /// The next event, comments left out.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| {
                let prefix = format!("{name}: ");
                block.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
            };
            let Some(name) = field("event") else { continue };
            let data = serde_json::from_str(&field("data").unwrap()).unwrap();
            return Some(Told { id: field("id").map(|id| id.parse().unwrap()), name, data });
        }
    }

    pub async fn until(&mut self, name: &str) -> Vec<Told> {
        let mut told = Vec::new();
        while told.last().is_none_or(|last: &Told| last.name != name) {
            told.push(self.next().await.expect("the stream ended"));
        }
        told
    }
}

#[tokio::test]
async fn a_listener_hears_a_whole_turn() {
    let client = Client::new().await;
    let session = client.session().await;
    let id = session.trim_start_matches("/sessions/").to_owned();
    let mut all = Listener::open(&client, "/events", &[]).await;
    let mut one = Listener::open(&client, &format!("{session}/events"), &[]).await;
    client.told("somewhere else").await;
    client.post(&format!("{session}/messages"), json!({"content": "delta"})).await;
    let heard = one.until("session.idle").await;
    assert_eq!(
        heard.iter().map(|told| told.name.as_str()).collect::<Vec<_>>(),
        ["session.running", "message.delta", "session.idle"]
    );
    assert!(heard.iter().all(|told| told.data["session_id"] == json!(id)));
    assert_eq!((heard[1].id, &heard[1].data["delta"]), (None, &json!({"content": "hel"})));
    assert!(heard[0].id < heard[2].id);
    assert!(all.until("session.idle").await.len() >= 2);
}

#[tokio::test]
async fn interrupts_are_told_as_they_come_and_go() {
    let client = Client::new().await;
    let session = client.session().await;
    let mut listener = Listener::open(&client, &format!("{session}/events"), &[]).await;
    client.post(&format!("{session}/messages"), json!({"content": "ask delete_file"})).await;
    let heard = listener.until("session.interrupted").await;
    let created = heard.iter().find(|told| told.name == "interrupt.created").unwrap();
    let answer = json!({"interrupt_id": created.data["interrupt_id"], "value": {"approved": true}});
    assert_eq!(client.post(&format!("{session}/resume"), answer).await.status, 200);
    let heard = listener.until("session.idle").await;
    assert!(heard.iter().any(|told| told.name == "interrupt.resolved" && told.data["status"] == "resolved"));
}

#[tokio::test]
async fn a_listener_goes_on_after_the_last_event_it_saw() {
    let client = Client::new().await;
    let session = client.told("hello").await;
    client.until(&session, "idle").await;
    let mut first = Listener::open(&client, "/events", &[("last-event-id", "0")]).await;
    let heard = first.until("session.idle").await;
    let seen = heard[0].id.unwrap().to_string();
    let mut second = Listener::open(&client, "/events", &[("last-event-id", &seen)]).await;
    assert_eq!(second.until("session.idle").await, heard[1..]);
    let wrong = client.send(Method::GET, "/events", &[("last-event-id", "x")], None).await;
    assert_eq!(wrong.places()[0].0, json!(["header", "Last-Event-ID"]));
}

#[tokio::test]
async fn a_silent_stream_shows_that_it_lives() {
    let settings = HttpSettings { event_keep_alive: Duration::from_millis(10), ..HttpSettings::default() };
    let client = Client::with(Settings::default(), settings).await;
    let mut listener = Listener::open(&client, "/events", &[]).await;
    assert_eq!(listener.block().await.unwrap(), ": listening\nretry: 1000\nid: 0");
    assert_eq!(listener.block().await.unwrap(), ": still here");
}

#[tokio::test]
async fn a_listener_who_has_heard_nothing_goes_on_from_where_the_stream_began() {
    let client = Client::new().await;
    let session = client.told("hello").await;
    client.until(&session, "idle").await;
    for path in ["/events".to_owned(), format!("{session}/events")] {
        let mut quiet = Listener::open(&client, &path, &[]).await;
        let began = quiet.began().await;
        drop(quiet);
        client.post(&format!("{session}/messages"), json!({"content": "hello again"})).await;
        client.until(&session, "idle").await;
        let mut back = Listener::open(&client, &path, &[("last-event-id", &began)]).await;
        assert_eq!(back.began().await, began);
        let heard = back.until("session.idle").await;
        assert_eq!(heard[0].name, "session.running");
        assert!(heard[0].id.unwrap() > began.parse().unwrap());
    }
}

#[tokio::test]
async fn streams_end_and_polls_answer_when_the_server_stops() {
    let app = routes::app(engine(Settings::default()).await, HttpSettings::default(), HOST.parse().unwrap());
    let client = Client::of(&app);
    let session = client.told("hang").await;
    let mut listener = Listener::open(&client, "/events", &[]).await;
    let poll = tokio::spawn({
        let (client, path) = (client.clone(), format!("{session}?wait=1"));
        async move { client.get(&path).await }
    });
    app.stopping.cancel();
    while listener.next().await.is_some() {}
    assert_eq!(poll.await.unwrap().json()["status"], "running");
    assert_eq!(client.get("/readyz").await.code(), "shutting_down");
}

//! What goes on for longer ends with the key that began it: streams, polls, and bodies on their way.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use serde_json::json;
use tokio::sync::mpsc;

use super::events::Listener;
use super::support::{Client, HOST, nobody};
use crate::domain::access::{Actor, NewKey, SignIn, digest};
use crate::domain::scope::Scope;
use crate::engine::Engine;
use crate::engine::settings::Settings;
use crate::server::routes;
use crate::server::settings::HttpSettings;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::memory::MemoryStore;

/// A key of the client's server.
struct Holder {
    id: String,
    header: String,
    secret: String,
}

impl Holder {
    async fn new(client: &Client, name: &str) -> Self {
        let scopes = [Scope::Read, Scope::Send, Scope::Answer].into_iter().collect();
        let new = NewKey { name: name.to_owned(), scopes, groups: Vec::new() };
        let (key, secret) = client.engine.access().create_key(new, Actor::anyone()).await.unwrap();
        Self { id: key.key_id.to_string(), header: format!("Bearer {secret}"), secret }
    }

    fn shown(&self) -> [(&str, &str); 1] {
        [("authorization", &self.header)]
    }

    async fn revoke(&self, client: &Client) {
        client.engine.access().revoke_key(&self.id, Actor::anyone()).await.unwrap();
    }

    /// The cookie of somebody who has signed in with it.
    async fn sign_in(&self, client: &Client) -> String {
        let reply = client.post("/sign-in", json!({"key": self.secret})).await;
        reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

/// Nothing more comes, and the stream is closed.
async fn is_over(mut listener: Listener) -> bool {
    listener.next().await.is_none()
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked_and_no_other_does() {
    let client = Client::new().await;
    let (ada, bob) = (Holder::new(&client, "ada").await, Holder::new(&client, "bob").await);
    let session = client.send(Method::POST, "/sessions", &bob.shown(), None).await;
    let session = session.header("location").unwrap().to_owned();
    let all = Listener::open(&client, "/events", &ada.shown()).await;
    let one = Listener::open(&client, &format!("{session}/events"), &ada.shown()).await;
    let mut of_bob = Listener::open(&client, "/events", &bob.shown()).await;
    ada.revoke(&client).await;
    assert!(is_over(all).await && is_over(one).await);
    let message = json!({"content": "echo"});
    client.send(Method::POST, &format!("{session}/messages"), &bob.shown(), Some(&message)).await;
    of_bob.until("session.idle").await;
}

#[tokio::test]
async fn a_stream_ends_when_whoever_listens_signs_out() {
    let client = Client::new().await;
    let ada = Holder::new(&client, "ada").await;
    let (left, stays) = (ada.sign_in(&client).await, ada.sign_in(&client).await);
    let stream = Listener::open(&client, "/events", &[("cookie", &left)]).await;
    let mut other = Listener::open(&client, "/events", &[("cookie", &stays)]).await;
    let own = [("cookie", left.as_str()), ("origin", "http://127.0.0.1:8000")];
    assert_eq!(client.send(Method::POST, "/sign-out", &own, None).await.status, StatusCode::NO_CONTENT);
    assert!(is_over(stream).await);
    // Another browser of the same person is not asked.
    let session = client.send(Method::POST, "/sessions", &ada.shown(), None).await;
    let path = format!("{}/messages", session.header("location").unwrap());
    client.send(Method::POST, &path, &ada.shown(), Some(&json!({"content": "echo"}))).await;
    other.until("session.idle").await;
}

#[tokio::test]
async fn a_stream_of_a_browser_ends_when_the_key_behind_it_is_revoked() {
    let client = Client::new().await;
    let ada = Holder::new(&client, "ada").await;
    let cookie = ada.sign_in(&client).await;
    let stream = Listener::open(&client, "/events", &[("cookie", &cookie)]).await;
    ada.revoke(&client).await;
    assert!(is_over(stream).await);
}

#[tokio::test]
async fn of_cookies_that_are_unknown_here_a_few_are_signed_out_in_the_store_and_no_more() {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::start(Settings::default(), store.clone(), nobody()).await.unwrap();
    let client = Client::of(&routes::app(engine, HttpSettings::default(), HOST.parse().unwrap()));
    let ada = Holder::new(&client, "ada").await;
    let own = ada.sign_in(&client).await;
    let name = own.split('=').next().unwrap();
    // Another server has just kept these.
    let kept: Vec<String> = (0..9).map(|number| format!("kept-elsewhere-{number}")).collect();
    let rows: Vec<_> = kept.iter().map(|token| digest(token.as_bytes())).collect();
    let known = store.query(|reader| reader.sign_ins()).await.unwrap()[0];
    let elsewhere = store.transact(About::Access, move |tx| {
        rows.iter().try_for_each(|token| tx.insert_sign_in(&SignIn { token: *token, ..known }))
    });
    elsewhere.await.unwrap();
    let sent = async |own: &str, tokens: &[String]| {
        let cookies: Vec<String> = tokens.iter().map(|token| format!("{name}={token}")).collect();
        // Behind all others: those that are known here are signed out, wherever they stand.
        let cookie = [cookies.join("; "), own.to_owned()].join("; ");
        let headers = [("cookie", cookie.as_str()), ("origin", "http://127.0.0.1:8000")];
        assert_eq!(client.send(Method::POST, "/sign-out", &headers, None).await.status, StatusCode::NO_CONTENT);
        store.query(|reader| reader.sign_ins()).await.unwrap()
    };
    let left = sent(&own, &kept).await;
    assert!(!left.contains(&known));
    assert_eq!(left.len(), 5, "four of nine");
    // Who says one over and over is asked for it once, and for others besides.
    let others: Vec<String> =
        kept.iter().filter(|token| left.iter().any(|it| it.token == digest(token.as_bytes()))).cloned().collect();
    let repeated = [vec![others[0].clone(); 8], others[1..4].to_vec()].concat();
    assert_eq!(sent(&ada.sign_in(&client).await, &repeated).await.len(), 1);
}

/// A server whose store has a sign-in that ends `seconds` from now.
async fn signed_in_for(seconds: f64) -> Client {
    let store = Arc::new(MemoryStore::default());
    let new = NewKey { name: "ada".to_owned(), scopes: [Scope::Read].into_iter().collect(), groups: Vec::new() };
    let before = Engine::start(Settings::default(), store.clone(), nobody()).await.unwrap();
    let key = before.access().create_key(new, Actor::anyone()).await.unwrap().0;
    let ends_at = key.created_at.plus_seconds(seconds);
    let sign_in = SignIn { token: digest(b"token"), key: key.digest, ends_at };
    store.transact(About::Access, move |tx| tx.insert_sign_in(&sign_in)).await.unwrap();
    let engine = Engine::start(Settings::default(), store, nobody()).await.unwrap();
    Client::of(&routes::app(engine, HttpSettings::default(), HOST.parse().unwrap()))
}

#[tokio::test]
async fn a_stream_ends_with_the_time_of_its_sign_in() {
    let cookie = [("cookie", "hitl_sign_in_8000=token")];
    for seconds in [0.2, 2.0, 20.0] {
        let client = signed_in_for(seconds).await;
        // On a machine at work it may be over before it is looked at.
        if client.send(Method::GET, "/me", &cookie, None).await.status == StatusCode::OK {
            let reply = client.send(Method::GET, "/events", &cookie, None).await;
            if reply.status == StatusCode::OK {
                assert!(reply.text.contains("listening"), "{reply:?}");
                return;
            }
        }
    }
    panic!("a sign-in of 20 seconds was over before anybody looked");
}

#[tokio::test]
async fn a_stream_that_needed_no_key_ends_with_the_first_one() {
    let client = Client::new().await;
    let stream = Listener::open(&client, "/events", &[]).await;
    Holder::new(&client, "ada").await;
    assert!(is_over(stream).await);
}

#[tokio::test]
async fn a_long_poll_is_told_nothing_after_its_key_was_revoked() {
    let client = Client::new().await;
    let (ada, bob) = (Holder::new(&client, "ada").await, Holder::new(&client, "bob").await);
    let session = client.send(Method::POST, "/sessions", &bob.shown(), None).await;
    let session = session.header("location").unwrap().to_owned();
    let message = json!({"content": "hang"});
    client.send(Method::POST, &format!("{session}/messages"), &bob.shown(), Some(&message)).await;
    // In this order: the poll is let in before the key is revoked.
    let path = format!("{session}?wait=1");
    let shown = ada.shown();
    let (polled, ()) = tokio::join!(client.send(Method::GET, &path, &shown, None), ada.revoke(&client));
    assert_eq!((polled.status.as_u16(), polled.code().as_str()), (401, "unauthorized"));
}

#[tokio::test]
async fn an_answer_that_comes_slowly_is_not_taken_from_a_key_that_was_revoked() {
    let client = Client::new().await;
    let (session, ids) = client.asking(&["delete_file"]).await;
    let (ada, bob) = (Holder::new(&client, "ada").await, Holder::new(&client, "bob").await);
    let (sender, parts) = mpsc::channel::<Bytes>(2);
    let body = stream::unfold(parts, |mut parts| async {
        let part = parts.recv().await?;
        Some((Ok::<_, Infallible>(part), parts))
    });
    // Asked once more after its end, as that of a connection may be.
    let body = body.fuse();
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("/interrupts/{}/resume", ids[0]))
        .header("authorization", &ada.header)
        .header("content-type", "application/json")
        .body(Body::from_stream(body))
        .unwrap();
    let rest = async {
        ada.revoke(&client).await;
        for part in ["{\"value\":", "{\"approved\":true}}"] {
            sender.send(Bytes::from_static(part.as_bytes())).await.unwrap();
        }
        drop(sender);
    };
    let (answered, ()) = tokio::join!(client.request(request), rest);
    assert_eq!((answered.status.as_u16(), answered.code().as_str()), (401, "unauthorized"));
    let view = client.send(Method::GET, &session, &bob.shown(), None).await.json();
    assert_eq!(view["interrupts"][0]["status"], "pending");
}

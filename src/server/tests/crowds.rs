//! More clients than there is room for, and those that take what they are sent too slowly, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::FutureExt;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tower::ServiceExt;

use super::connections::{Server, admitted, hanging, rest};
use super::support::within;
use super::support::{Client, HOST, engine, engine_over};
use crate::domain::Error;
use crate::engine::settings::Settings;
use crate::server::app::{Asking, MAKING, READY_REST};
use crate::server::settings::HttpSettings;
use crate::server::{door, routes};
use crate::store::about::About;
use crate::store::memory::MemoryStore;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// A connection that has its place: a request on it has been answered, and it stays open.
async fn idle(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"status\":\"ok\"}") {
        let mut bytes = [0; 1024];
        let count = within(stream.read(&mut bytes)).await.unwrap();
        assert_ne!(count, 0, "it was closed");
        answer.extend_from_slice(&bytes[..count]);
    }
    stream
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn beyond_the_last_place_probes_are_answered_and_everybody_else_is_told_to_come_again() {
    let server = Server::start(HttpSettings { max_connections: 2, ..HttpSettings::default() }).await;
    let taken = [idle(&server).await, idle(&server).await];
    for probe in ["/healthz", "/readyz"] {
        let answer = server.exchange(&get(probe)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        let head = server.exchange(format!("HEAD {probe} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await;
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    }
    let refused = server.exchange(&get("/me")).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for wanted in ["retry-after: 5", "connection: close", "nosniff", "\"code\":\"too_many_connections\""] {
        assert!(refused.contains(wanted), "{wanted} is not in {refused}");
    }
    let body = "x".repeat(100_000);
    let head = format!("POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let refused = server.exchange((head + &body).as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "who still sends a body is told as well: {refused}");
    drop(taken);
    server.has_room().await;
    server.stop().await;
}

/// Counts what is written.
struct WriteCounter {
    store: MemoryStore,
    writes: AtomicUsize,
}

impl Store for WriteCounter {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.store.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

#[tokio::test]
async fn however_many_ask_whether_the_server_is_ready_few_writes_tell_them() {
    let store = Arc::new(WriteCounter { store: MemoryStore::default(), writes: AtomicUsize::new(0) });
    let engine = engine_over(Arc::clone(&store) as _, Settings::default()).await;
    let client = Client::of(&routes::app(Arc::clone(&engine), HttpSettings::default(), HOST.parse().unwrap()));
    let before = store.writes.load(Ordering::Relaxed);
    let begun = Instant::now();
    let replies = join_all((0..100).map(|_| client.get("/readyz"))).await;
    assert!(replies.iter().all(|reply| reply.status == StatusCode::OK));
    let written = store.writes.load(Ordering::Relaxed) - before;
    // What was found stands for a while, and a machine may be slow.
    let may = 2 + begun.elapsed().as_millis() / READY_REST.as_millis();
    assert!((1..=may).contains(&(written as u128)), "{written}, where {may} may be");
    engine.shut_down(Duration::ZERO).await.unwrap();
    assert_eq!(client.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE, "it stops, whatever was found");
}

#[tokio::test]
async fn whoever_says_nothing_at_the_door_makes_room_for_who_does() {
    let server = Server::start(HttpSettings { max_connections: 1, ..HttpSettings::default() }).await;
    let taken = idle(&server).await;
    let mut silent = Vec::new();
    for _ in 0..door::PLACES * 2 {
        silent.push(server.connect().await);
    }
    let answer = server.exchange(&get("/healthz")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // The first are gone already, and the last are not kept for ever.
    for stream in &mut silent {
        assert_eq!(rest(stream).await, "");
    }
    drop(taken);
    server.stop().await;
}

#[tokio::test]
async fn one_address_cannot_have_all_connections() {
    let settings = HttpSettings { max_connections_per_address: 2, ..HttpSettings::default() };
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let mut server = Server::over(listener, settings).await;
    server.address.set_ip([127, 0, 0, 1].into());
    let taken = [idle(&server).await, idle(&server).await];
    let refused = server.exchange(&get("/me")).await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("\"code\":\"address_limited\"") && refused.contains("retry-after: 5"), "{refused}");
    assert!(server.exchange(&get("/readyz")).await.starts_with("HTTP/1.1 200 OK"));
    // The next address has its own.
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(server.address).await.unwrap();
    other.write_all(b"GET /me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut other).await.starts_with("HTTP/1.1 200 OK"));
    drop(taken);
    server.has_room().await;
    server.stop().await;
}

/// What a router answers, with the body left unread.
async fn opened(client: &Client, path: &str) -> axum::response::Response {
    let request = Request::builder().uri(path).header("host", HOST).body(Body::empty()).unwrap();
    within(client.router().oneshot(request)).await.unwrap()
}

#[tokio::test]
async fn one_client_cannot_wait_for_everything_at_once() {
    let http = HttpSettings { max_requests_per_key: 4, ..HttpSettings::default() };
    let client = Client::with(Settings::default(), http).await;
    let session = client.told("hang").await;
    let streams = [opened(&client, "/events").await, opened(&client, "/events").await];
    let path = format!("{session}?wait=1");
    let mut poll = Box::pin(client.get(&path));
    assert!((&mut poll).now_or_never().is_none(), "it waits");
    let refused = within(client.get(&path)).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (429, "too_many_waiting"));
    assert_eq!(refused.header("retry-after"), Some("5"));
    // Nor by way of a message, which is then not sent.
    let other = client.session().await;
    let messages = format!("{other}/messages");
    let refused = within(client.post(&format!("{messages}?wait=1"), json!({"content": "hang"}))).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (429, "too_many_waiting"));
    assert_eq!(client.get(&messages).await.json(), json!([]));
    let stream = opened(&client, "/events").await;
    assert_eq!(stream.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(stream);
    // It can still answer, and look.
    assert_eq!(client.get(&session).await.status, StatusCode::OK);
    assert_eq!(client.post(&format!("{session}/cancel"), json!(null)).await.status, StatusCode::OK);
    assert_eq!(within(poll).await.status, StatusCode::OK);
    drop(streams);
    assert_eq!(opened(&client, "/events").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn who_does_not_take_an_answer_is_still_at_it() {
    let http = HttpSettings { max_requests_per_key: 2, ..HttpSettings::default() };
    let client = Client::with(Settings::default(), http).await;
    let untaken = [opened(&client, "/openapi.json").await, opened(&client, "/openapi.json").await];
    let refused = client.get("/me").await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (429, "too_many_at_once"));
    assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
    for answer in untaken {
        assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    assert_eq!(client.get("/me").await.status, StatusCode::OK);
}

#[tokio::test]
async fn long_answers_are_made_a_few_at_a_time() {
    let engine = engine(Settings::default()).await;
    let app = routes::app(engine, HttpSettings::default(), HOST.parse().unwrap());
    let router = routes::router(&app);
    let ask = |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", HOST).body(Body::empty()).unwrap();
        router.clone().oneshot(request)
    };
    let made = within(ask("POST", "/sessions")).await.unwrap();
    let session = made.headers()["location"].to_str().unwrap().to_owned();
    for path in [format!("{session}/messages"), format!("{session}/journal"), "/interrupts".to_owned()] {
        let others = (0..MAKING).map(|number| app.making.take(Asking::Key(format!("{}", number % 2).into())));
        let all = futures_util::future::try_join_all(others).await.unwrap();
        let mut waits = Box::pin(ask("GET", &path));
        assert!((&mut waits).now_or_never().is_none());
        for _ in 0..10 {
            for other in [&session, "/interrupts?q=it"] {
                assert_eq!(within(ask("GET", other)).await.unwrap().status(), StatusCode::OK, "{other} does not wait");
            }
            assert!((&mut waits).now_or_never().is_none(), "{path}");
        }
        drop(all);
        assert_eq!(within(waits).await.unwrap().status(), StatusCode::OK);
        assert_eq!(app.making.free(), MAKING, "{path}");
    }
}

/// A server with room for one, who is let go of quickly; and little room between the two, so that it is full soon.
async fn impatient() -> Server {
    let settings = HttpSettings {
        max_connections: 1,
        socket_buffer: 2048,
        write_timeout: Duration::from_millis(50),
        head_timeout: Duration::from_secs(3600),
        event_keep_alive: Duration::from_millis(1),
        ..HttpSettings::default()
    };
    let server = Server::start(settings).await;
    server.has_room().await;
    server
}

async fn narrow(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn who_takes_nothing_of_what_it_asked_for_loses_its_place() {
    let server = impatient().await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let session = hanging(&server, &client).await;
    let large = large(&server, &client).await;
    let pipelined = get("/openapi.json").repeat(100);
    let mut poll_behind = get("/openapi.json");
    poll_behind.extend(get(&format!("{session}?wait=1")));
    for asked in [get("/events"), get(&large), pipelined, poll_behind] {
        let _taken = loop {
            let mut stream = narrow(&server).await;
            drop(stream.write_all(&asked).await);
            let mut first = [0; 12];
            let read = within(stream.read_exact(&mut first)).await;
            if read.is_ok() && &first == b"HTTP/1.1 200" {
                break stream;
            }
        };
        server.has_room().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn who_has_said_all_it_is_going_to_say_holds_no_place_for_a_poll() {
    let server = Server::start(HttpSettings { max_connections: 1, ..HttpSettings::default() }).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let session = hanging(&server, &client).await;
    server.has_room().await;
    let mut poll = server.connect().await;
    poll.write_all(&get(&format!("{session}?wait=1"))).await.unwrap();
    poll.shutdown().await.unwrap();
    rest(&mut poll).await;
    server.has_room().await;
    server.stop().await;
}

/// What the kernel keeps of what is on its way from one port of this machine to another; `None` where there is no
/// connection.
#[cfg(target_os = "linux")]
fn kept(from: u16, to: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (from, to) = (format!(":{from:04X}"), format!(":{to:04X}"));
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|words| {
        let is_it = words[1].ends_with(&from) && words[2].ends_with(&to);
        is_it.then(|| u64::from_str_radix(words[4].split(':').next().unwrap(), 16).unwrap())
    })
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn little_is_kept_for_who_never_reads_and_nothing_when_it_is_let_go_of() {
    let settings = HttpSettings { write_timeout: Duration::from_millis(500), ..HttpSettings::default() };
    let server = Server::start(settings).await;
    // By then it has said how its connections are to be.
    server.has_room().await;
    let mut stream = narrow(&server).await;
    stream.write_all(&get("/openapi.json").repeat(200)).await.unwrap();
    let (from, to) = (server.address.port(), stream.local_addr().unwrap().port());
    let mut most = 0;
    let let_go = async {
        while let Some(now) = kept(from, to) {
            most = most.max(now);
            tokio::task::yield_now().await;
        }
    };
    within(let_go).await;
    assert!(most > 4096 && most <= 512 * 1024, "{most}");
    server.stop().await;
}

/// A session that remembers half a megabyte: the path of its messages.
async fn large(server: &Server, client: &reqwest::Client) -> String {
    let state = json!({"state": [{"role": "user", "content": "x".repeat(500_000)}]}).to_string();
    let post = client.post(server.url("/sessions")).header("content-type", "application/json").body(state);
    let session = admitted(post).await.headers()["location"].to_str().unwrap().to_owned();
    format!("{session}/messages")
}

/// A client that asks for `asked` and takes nothing of it, once some of it is on its way.
#[cfg(target_os = "linux")]
async fn taking_nothing(server: &Server, asked: &[u8]) -> TcpStream {
    loop {
        let mut stream = narrow(server).await;
        stream.write_all(asked).await.unwrap();
        let (from, to) = (server.address.port(), stream.local_addr().unwrap().port());
        let full = async {
            while kept(from, to).is_none_or(|bytes| bytes == 0) {
                tokio::task::yield_now().await;
            }
        };
        within(full).await;
        let mut head = [0; 12];
        within(stream.peek(&mut head)).await.unwrap();
        if head == *b"HTTP/1.1 200" {
            return stream;
        }
        // The one before has its place yet.
    }
}

/// What was on its way to a client that has been let go of was given up: it would come yet, and end well.
#[cfg(target_os = "linux")]
async fn nothing_is_kept(mut client: TcpStream) {
    let mut rest = Vec::new();
    let ended = within(client.read_to_end(&mut rest)).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{} bytes", rest.len());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_does_not_take_an_answer_from_its_connection_is_still_at_it() {
    let (write_timeout, max_requests_per_key) = (Duration::from_secs(3600), 2);
    let settings = HttpSettings { socket_buffer: 2048, write_timeout, max_requests_per_key, ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let large = large(&server, &client).await;
    let untaken = [taking_nothing(&server, &get(&large)).await, taking_nothing(&server, &get(&large)).await];
    let refused = client.get(server.url("/me")).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.text().await.unwrap().contains("too_many_at_once"));
    drop(untaken);
    while client.get(server.url("/me")).send().await.unwrap().status() != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_kept_for_who_never_reads_once_the_server_has_stopped() {
    let (write_timeout, shutdown_timeout) = (Duration::from_secs(3600), Duration::from_millis(50));
    let settings = HttpSettings { socket_buffer: 2048, write_timeout, shutdown_timeout, ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let stream = taking_nothing(&server, &get(&large(&server, &client).await)).await;
    server.stop().await;
    nothing_is_kept(stream).await;
}

// Of a client that was not heard to the end, the kernel gives all up by itself. These have said all they had to say.

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_kept_for_who_never_reads_the_one_answer_or_stream_it_asked_for() {
    let server = impatient().await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let large = large(&server, &client).await;
    for path in [large.as_str(), "/events"] {
        server.has_room().await;
        let stream = taking_nothing(&server, &get(path)).await;
        server.has_room().await;
        nothing_is_kept(stream).await;
    }
    server.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_kept_for_who_hangs_up_without_reading() {
    let write_timeout = Duration::from_secs(3600);
    let settings = HttpSettings { max_connections: 1, socket_buffer: 2048, write_timeout, ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let large = large(&server, &client).await;
    server.has_room().await;
    let mut stream = taking_nothing(&server, &get(&large)).await;
    // It says that it says no more, and is still there.
    stream.shutdown().await.unwrap();
    server.has_room().await;
    nothing_is_kept(stream).await;
    server.stop().await;
}

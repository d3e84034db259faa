//! Over real connections: time-outs, limits, hanging up, stopping.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::support::{engine, within};
use crate::engine::settings::Settings;
use crate::server::auth::Peer;
use crate::server::connections::serve;
use crate::server::routes;
use crate::server::settings::HttpSettings;
use crate::server::{ServeError, run};

pub struct Server {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub async fn start(settings: HttpSettings) -> Self {
        Self::over(TcpListener::bind("127.0.0.1:0").await.unwrap(), settings).await
    }

    pub async fn over(listener: TcpListener, settings: HttpSettings) -> Self {
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let engine = engine(Settings::default()).await;
        let running = tokio::spawn(run(listener, engine, settings, async move { drop(stopped.await) }));
        Self { address, stop, running }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Everything that comes back on a connection of its own until the server closes it.
    pub async fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        rest(&mut stream).await
    }

    /// Waits until a connection is served.
    pub async fn has_room(&self) {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        assert_eq!(admitted(client.get(self.url("/me"))).await.status(), 200);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn stop(self) {
        assert!(self.stop.send(()).is_ok(), "the server stopped by itself");
        within(self.running).await.unwrap().unwrap();
    }
}

pub async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is an end, too.
    drop(within(stream.read_to_end(&mut bytes)).await);
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn post(client: &reqwest::Client, url: String, body: &serde_json::Value) -> reqwest::Response {
    let request = client.post(url).header("content-type", "application/json").body(body.to_string());
    within(request.send()).await.unwrap()
}

#[tokio::test]
async fn a_request_knows_the_address_of_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = routes::app(engine(Settings::default()).await, HttpSettings::default(), address);
    let says = async |request: Request| request.extensions().get::<Peer>().map(|Peer(from)| from.to_string());
    let router = Router::new().route("/", get(async move |request| says(request).await.unwrap_or_default()));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move { serve(listener, &app, router, async { drop(stopped.await) }).await });
    // Whatever a client says about itself.
    let request = reqwest::Client::new().get(format!("http://{address}/")).header("x-forwarded-for", "192.0.2.7");
    assert_eq!(within(request.send()).await.unwrap().text().await.unwrap(), "127.0.0.1");
    stop.send(()).unwrap();
    within(serving).await.unwrap();
}

/// What is answered once there is a place: that of a connection which was closed may not be free at once.
pub async fn admitted(request: reqwest::RequestBuilder) -> reqwest::Response {
    let answered = async {
        loop {
            // Who is turned away while it still sends may find the connection closed.
            match request.try_clone().unwrap().send().await {
                Ok(answer) if ![429, 503].contains(&answer.status().as_u16()) => return answer,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    within(answered).await
}

/// A session with a turn that never ends.
pub async fn hanging(server: &Server, client: &reqwest::Client) -> String {
    let created = admitted(client.post(server.url("/sessions"))).await;
    let session = created.headers()["location"].to_str().unwrap().to_owned();
    let message = client.post(server.url(&format!("{session}/messages")));
    let message = message.header("content-type", "application/json").body("{\"content\": \"hang\"}");
    assert_eq!(admitted(message).await.status(), 202);
    session
}

#[tokio::test]
async fn a_head_that_never_ends_closes_the_connection() {
    let server =
        Server::start(HttpSettings { head_timeout: Duration::from_millis(50), ..HttpSettings::default() }).await;
    assert_eq!(server.exchange(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await, "");
    assert_eq!(server.exchange(b"").await, "", "an idle connection is closed as well");
    server.stop().await;
}

#[tokio::test]
async fn who_never_reads_what_it_is_sent_is_let_go_of() {
    let settings = HttpSettings { write_timeout: Duration::from_millis(50), ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let mut stream = server.connect().await;
    // Until neither side takes any more; only the end of the connection ends that.
    let asking =
        async { while stream.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await.is_ok() {} };
    within(asking).await;
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_never_ends_is_a_408() {
    let server =
        Server::start(HttpSettings { body_timeout: Duration::from_millis(50), ..HttpSettings::default() }).await;
    let head =
        b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    let answer = server.exchange(head).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_a_413_that_arrives() {
    let server = Server::start(HttpSettings { max_body: 1024 * 1024, ..HttpSettings::default() }).await;
    let body = serde_json::json!({"state": [{"content": "x".repeat(4 * 1024 * 1024)}]});
    let refused = post(&reqwest::Client::new(), server.url("/sessions"), &body).await;
    assert_eq!(refused.status(), 413);
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let server = Server::start(HttpSettings { max_head: 4096, ..HttpSettings::default() }).await;
    let answer = server
        .exchange(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(5000)).as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_http_is_a_400() {
    let server = Server::start(HttpSettings::default()).await;
    let answer = server.exchange(b"\x16\x03\x01 hello\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let answer = server.exchange(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(answer.contains("\"code\":\"invalid_host\""), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn what_others_may_read_otherwise_is_a_400() {
    let server = Server::start(HttpSettings::default()).await;
    let chunks = "Content-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let encodings = [
        "gzip, chunked",
        "identity, chunked",
        "chunked, chunked",
        ", chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "gzip\r\nTransfer-Encoding: chunked",
    ];
    // Whoever is asked, whether there is such a place or not.
    let doors =
        ["POST /sessions", "POST /sessions/x/messages", "POST /interrupts/x/resume", "GET /healthz", "PUT /nowhere"];
    for (encoding, door) in encodings.iter().flat_map(|encoding| doors.iter().map(move |door| (encoding, door))) {
        let request = format!("{door} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {encoding}\r\n{chunks}");
        let answer = server.exchange(request.as_bytes()).await;
        let is_refused = answer.starts_with("HTTP/1.1 400 ") && answer.contains("connection: close");
        assert!(is_refused, "{door}, {encoding}: {answer}");
        assert!(answer.contains("\"code\":\"invalid_transfer_encoding\""), "{door}, {encoding}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{door}, {encoding}: {answer}");
    }
    // The parser's own, which has no code.
    for framing in ["Transfer-Encoding: chunked, gzip", "Transfer-Encoding: ", "Content-Length: 2\r\nContent-Length: 3"]
    {
        let request = format!("POST /sessions HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n{chunks}");
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{framing}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{framing}: {answer}");
    }
    let chunked = format!(
        "POST /sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n{chunks}"
    );
    assert!(server.exchange(chunked.as_bytes()).await.starts_with("HTTP/1.1 201 "));
    // A page can make no browser send this; whatever sends it can as well name the host.
    for door in ["GET /me", "GET /healthz", "POST /sessions", "GET /nowhere"] {
        for version in ["HTTP/1.0", "HTTP/1.1\r\nConnection: close"] {
            let answer = server.exchange(format!("{door} {version}\r\n\r\n").as_bytes()).await;
            assert!(answer.contains(" 400 ") && answer.contains("\"code\":\"invalid_host\""), "{door}: {answer}");
        }
    }
    assert!(server.exchange(b"GET /me HTTP/1.0\r\nHost: localhost\r\n\r\n").await.contains(" 200 "));
    server.stop().await;
}

#[tokio::test]
async fn a_bare_line_feed_ends_a_line_and_nothing_else_does() {
    let server = Server::start(HttpSettings::default()).await;
    let answer = server.exchange(b"GET /me HTTP/1.1\nHost: localhost\nConnection: close\n\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
    // A line that goes on in the next one, one that ends in a bare CR, and a name with a space behind it.
    for head in ["X: a\r\n b", "X: a\rHost: evil.example", "X : a", "X: a\0b"] {
        let request = format!("GET /me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n\r\n");
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_poll_ends_when_its_client_hangs_up() {
    // With room for one connection the next client is served only once the first is gone.
    let server = Server::start(HttpSettings { max_connections: 1, ..HttpSettings::default() }).await;
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let session = hanging(&server, &client).await;
    let mut poll = server.connect().await;
    poll.write_all(format!("GET {session}?wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    drop(poll);
    server.has_room().await;
    server.stop().await;
}

#[tokio::test]
async fn stopping_answers_polls_ends_streams_and_closes_idle_connections() {
    let server = Server::start(HttpSettings::default()).await;
    let client = reqwest::Client::new();
    let session = hanging(&server, &client).await;
    let idle = server.connect().await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut head = [0; 15];
    within(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let mut poll = server.connect().await;
    poll.write_all(format!("GET {session}?wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /").as_bytes()).await.unwrap();
    // Another connection after it has been answered: the poll has been read by then.
    within(client.get(server.url("/healthz")).send()).await.unwrap();
    let address = server.address;
    let (poll, stream, ()) = tokio::join!(rest(&mut poll), rest(&mut stream), server.stop());
    assert!(poll.is_empty() || poll.contains("\"status\":\"running\""), "{poll}");
    assert!(stream.contains("listening"), "{stream}");
    assert!(TcpStream::connect(address).await.is_err(), "nothing is accepted any more");
    drop(idle);
}

#[tokio::test]
async fn connections_that_do_not_finish_are_cut() {
    let settings = HttpSettings { shutdown_timeout: Duration::from_millis(50), ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let mut stream = server.connect().await;
    let head =
        b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    stream.write_all(head).await.unwrap();
    within(reqwest::get(server.url("/healthz"))).await.unwrap();
    server.stop().await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_request_that_is_refused_before_its_body_came_leaves_the_connection_usable() {
    let server = Server::start(HttpSettings::default()).await;
    let mut stream = server.connect().await;
    let host = server.address;
    let head = format!(
        "POST /sessions/nobody/cancel HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Time for the server to know the refusal, while the body is not there.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    stream.write_all(b"{}").await.unwrap();
    stream
        .write_all(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let answers = rest(&mut stream).await;
    assert!(answers.starts_with("HTTP/1.1 404"), "{answers}");
    assert!(answers.contains("HTTP/1.1 200"), "{answers}");
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_end_closes_the_connection_and_the_answer_says_so() {
    let server = Server::start(HttpSettings::default()).await;
    let host = server.address;
    let request = format!(
        "POST /sessions/nobody/cancel HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{}}"
    );
    let answer = server.exchange(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    server.stop().await;
}

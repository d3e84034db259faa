//! What HTTP costs: a session over a real connection, beside a route of axum that does nothing.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::future::pending;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hitl::adapters::webhooks::Webhooks;
use hitl::domain::session::Session;
use hitl::domain::{SessionId, Timestamp};
use hitl::engine::Engine;
use hitl::engine::settings::Settings;
use hitl::server::{self, HttpSettings};
use hitl::store::about::About;
use hitl::store::memory::MemoryStore;
use hitl::store::{Store, StoreExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// A connection, kept open, that asks for one path.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    read: Vec<u8>,
}

impl Client {
    fn new(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
        Self { stream, request, read: vec![0; 16 * 1024] }
    }

    /// Sends the request and reads the answer, which comes in one piece: it is small.
    fn ask(&mut self) {
        self.stream.write_all(&self.request).unwrap();
        let length = self.stream.read(&mut self.read).unwrap();
        assert!(self.read[..length].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.read[..length]));
    }
}

async fn empty_route() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(async || "{}"));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn our_server(session: SessionId) -> SocketAddr {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let row = Session::new(session, "agents:main", 0, Timestamp::from_millis(1_700_000_000_000));
    store.transact(About::Session(row.id), move |transaction| transaction.insert_session(&row, &[])).await.unwrap();
    let engine = Engine::start(Settings::default(), store, Arc::new(Webhooks::new(&Settings::default()).unwrap()))
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server::run(listener, engine, HttpSettings::default(), pending()).await.unwrap() });
    address
}

fn requests(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let session = SessionId(Uuid::from_u128(1));
    let (empty, ours) = runtime.block_on(async { (empty_route().await, our_server(session).await) });
    let mut group = criterion.benchmark_group("http");
    group.throughput(Throughput::Elements(1));
    for (name, address, path) in
        [("empty route", empty, "/".to_owned()), ("GET session", ours, format!("/sessions/{}", session.0))]
    {
        let mut client = Client::new(address, &path);
        group.bench_function(name, |bencher| bencher.iter(|| client.ask()));
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);

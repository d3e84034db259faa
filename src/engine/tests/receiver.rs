//! Where webhooks arrive in a test: it answers as the test says, and keeps what it was sent.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::support::PATIENCE;

/// One POST as it came, and what it was answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub body: Value,
    pub status: u16,
}

impl Call {
    /// `interrupt.created`, or `session.idle`.
    pub fn event(&self) -> String {
        match self.body["type"].as_str() {
            Some(name) => name.to_owned(),
            None => format!("session.{}", self.body["status"].as_str().unwrap()),
        }
    }

    pub fn session(&self) -> &str {
        self.body["session_id"].as_str().or(self.body["data"]["session_id"].as_str()).unwrap()
    }
}

/// What a call is answered with: a status, or none for ever.
type Answers = dyn Fn(&Call, usize) -> Option<u16> + Send + Sync;

struct Heard {
    calls: Mutex<Vec<Call>>,
    changed: watch::Sender<()>,
    answers: Box<Answers>,
}

pub struct Receiver {
    pub url: String,
    heard: Arc<Heard>,
}

impl Receiver {
    /// One that takes everything.
    pub async fn new() -> Self {
        Self::answering(|_, _| Some(200)).await
    }

    /// One that answers each call, given how many came before it.
    pub async fn answering(answers: impl Fn(&Call, usize) -> Option<u16> + Send + Sync + 'static) -> Self {
        let heard =
            Arc::new(Heard { calls: Mutex::default(), changed: watch::channel(()).0, answers: Box::new(answers) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?key=secret", listener.local_addr().unwrap());
        tokio::spawn(listen(listener, Arc::clone(&heard)));
        Self { url, heard }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.heard.calls.lock().unwrap().clone()
    }

    /// What was taken, in order; what came again, as it may, only once.
    pub fn taken(&self) -> Vec<Call> {
        let mut seen = HashSet::new();
        let is_new = |call: &Call| call.status == 200 && seen.insert(call.id.clone());
        self.calls().into_iter().filter(is_new).collect()
    }

    /// The calls, once `enough` says so.
    pub async fn until(&self, enough: impl Fn(&[Call]) -> bool) -> Vec<Call> {
        let mut changed = self.heard.changed.subscribe();
        let reached = async {
            loop {
                let calls = self.calls();
                if enough(&calls) {
                    return calls;
                }
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("only {:?} came", self.calls()))
    }

    /// The events taken, once there are so many.
    pub async fn events(&self, count: usize) -> Vec<String> {
        self.until(|_| self.taken().len() >= count).await;
        self.taken().iter().map(Call::event).collect()
    }
}

async fn listen(listener: TcpListener, heard: Arc<Heard>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let heard = Arc::clone(&heard);
        let service = service_fn(move |request| take(Arc::clone(&heard), request));
        // A sender that hangs up is what some tests are about.
        tokio::spawn(async move { drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await) });
    }
}

async fn take(heard: Arc<Heard>, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let id = request.headers()["webhook-id"].to_str().unwrap().to_owned();
    let Ok(body) = request.into_body().collect().await else { return Ok(Response::default()) };
    let mut call = Call { id, body: serde_json::from_slice(&body.to_bytes()).unwrap(), status: 0 };
    let status = {
        let mut calls = heard.calls.lock().unwrap();
        let status = (heard.answers)(&call, calls.len());
        call.status = status.unwrap_or_default();
        calls.push(call);
        status
    };
    heard.changed.send_replace(());
    match status {
        Some(status) => Ok(Response::builder().status(status).body(Empty::new()).unwrap()),
        None => std::future::pending().await,
    }
}

//! A server in process over the memory store, with workers that act as the message says.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::adapters::webhooks::Webhooks;
use crate::domain::journal::{Entry, StepIdentity, Wake};
use crate::domain::message::{ChatMessage, Role};
use crate::domain::session::Failure;
use crate::domain::{InterruptId, TurnId};
use crate::engine::Engine;
use crate::engine::ports::dispatch::{Delivery, Dispatch, Record, Runtime, TurnOrder};
use crate::engine::settings::Settings;
use crate::server::app::App;
use crate::server::routes;
use crate::server::settings::{ApiKey, HttpSettings};
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// Where the server in process believes to listen.
pub const HOST: &str = "127.0.0.1:8000";

/// Workers that act as the message says: `echo`, `fail`, `panic`, `hang`, `ask NAME...` (one interrupt each, then the
/// answers as response; `NAME~APPROVER,...` for some to answer alone, `NAME?TYPE` for another type than `tool_approval`,
/// `NAME!` for a call that may also be edited or answered in its place), `put [...]` (the same with the members of each),
/// `mismatch NAME...` (the same, but the replay fails once), `raw`, `delta`.
pub struct Actors {
    engine: Weak<Engine>,
    turns: std::sync::Mutex<std::collections::HashMap<TurnId, mpsc::UnboundedSender<Delivery>>>,
}

impl Dispatch for Actors {
    fn start(&self, order: TurnOrder) {
        let Some(engine) = self.engine.upgrade() else { return };
        let (sender, deliveries) = mpsc::unbounded_channel();
        self.turns.lock().unwrap().insert(order.turn, sender);
        tokio::spawn(act(engine, order, deliveries));
    }

    fn deliver(&self, turn: TurnId, delivery: Delivery) {
        if let Some(sender) = self.turns.lock().unwrap().get(&turn) {
            drop(sender.send(delivery));
        }
    }

    fn stop(&self, turn: TurnId, _message: &str) {
        self.turns.lock().unwrap().remove(&turn);
    }

    fn park(&self, turn: TurnId) {
        self.turns.lock().unwrap().remove(&turn);
    }

    fn runtime(&self) -> Runtime {
        Runtime {
            agent: None,
            code: "0123456789abcdef".to_owned(),
            python: "3.11".to_owned(),
            replay: true,
            pin: false,
        }
    }
}

async fn act(engine: Arc<Engine>, order: TurnOrder, deliveries: mpsc::UnboundedReceiver<Delivery>) {
    let content = order.message.content.clone().unwrap_or_default();
    let (what, rest) = content.split_once(' ').unwrap_or((&content, ""));
    let said = match what {
        "hang" => return,
        "fail" => return fail(&engine, &order, "agent_error", "ValueError: it went wrong").await,
        // The first worker cannot go on with it, the next one can.
        "mismatch" if order.journal.len() > 1 && order.epoch <= 3 => {
            return fail(&engine, &order, "replay_mismatch", "ReplayMismatch: recorded: a, attempted: b").await;
        }
        "put" => {
            let asks: Vec<Value> = serde_json::from_str(rest).unwrap();
            match ask(&engine, &order, asks.into_iter().enumerate().map(putting), deliveries).await {
                Some(said) => said,
                None => return,
            }
        }
        "ask" | "mismatch" => match ask(&engine, &order, rest.split(' ').enumerate().map(asking), deliveries).await {
            Some(said) => said,
            // Parked, or settled.
            None => return,
        },
        "raw" => {
            let wake = Wake { after: 0, task: "0".to_owned(), location: Some("agent.py:7".to_owned()) };
            engine.turn_append(order.turn, order.epoch, vec![Record::Wakes(vec![wake])]).await.unwrap();
            return;
        }
        "delta" => {
            engine.turn_delta(order.turn, "0#1", 1, json!({"content": "hel"}));
            content.clone()
        }
        _ => content.clone(),
    };
    let response = ChatMessage { role: Role::Assistant, content: Some(said), ..ChatMessage::default() };
    let state = [order.state, vec![(*order.message).clone(), response.clone()]].concat();
    // The turn may have been cancelled meanwhile.
    drop(engine.turn_ended(order.turn, order.epoch, response, state).await);
}

async fn fail(engine: &Arc<Engine>, order: &TurnOrder, code: &str, message: &str) {
    engine.turn_failed(order.turn, order.epoch, Failure::new(code, message)).await.unwrap();
}

/// Asks for each of them, unless the journal has that, and waits for the answers.
async fn ask(
    engine: &Arc<Engine>,
    order: &TurnOrder,
    asks: impl Iterator<Item = Record>,
    mut deliveries: mpsc::UnboundedReceiver<Delivery>,
) -> Option<String> {
    let mut open: Vec<InterruptId> = Vec::new();
    let mut values = Vec::new();
    for recorded in &order.journal {
        match &recorded.entry {
            Entry::Ask { interrupt_id, .. } => open.push(*interrupt_id),
            Entry::Answer { interrupt_id, value } => {
                open.retain(|id| id != interrupt_id);
                values.push(value.to_string());
            }
            _ => {}
        }
    }
    let is_new = order.journal.len() == 1;
    let mut words: Vec<Record> = if is_new { asks.collect() } else { Vec::new() };
    if is_new || !open.is_empty() {
        words.push(Record::Waiting { seen: None, timers: Vec::new(), context: None });
        let batch = engine.turn_append(order.turn, order.epoch, words).await.unwrap();
        let mut seen = None;
        for appended in batch.into_iter().filter_map(Result::unwrap) {
            match appended.answer {
                // A rule or a grant answered at once.
                Some((index, value)) => {
                    seen = Some(index);
                    values.push(value.to_string());
                }
                None => open.extend(appended.interrupt),
            }
        }
        if seen.is_some() && !open.is_empty() {
            let waiting = Record::Waiting { seen, timers: Vec::new(), context: None };
            engine.turn_append(order.turn, order.epoch, vec![waiting]).await.unwrap();
        }
    }
    while !open.is_empty() {
        let Delivery::Answer { interrupt, value, .. } = deliveries.recv().await? else { continue };
        open.retain(|id| *id != interrupt);
        values.push(value.to_string());
    }
    Some(values.join(","))
}

/// `NAME`, `NAME~APPROVER,...`, `NAME?TYPE` or `NAME!`.
fn asking((number, word): (usize, &str)) -> Record {
    let (word, takes_all) = word.strip_suffix('!').map_or((word, false), |word| (word, true));
    let (word, kind) = word.split_once('?').unwrap_or((word, "tool_approval"));
    let (name, approvers) = word.split_once('~').unwrap_or((word, ""));
    let approvers: Vec<&str> = approvers.split(',').filter(|approver| !approver.is_empty()).collect();
    let mut ask = json!({
        "type": kind, "tool_call_id": format!("call-{number}"), "agent": "assistant", "args_digest": "sha256:0",
        "approvers": approvers, "payload": {"type": kind, "tool_name": name, "tool_args": {"path": "/tmp/x"}},
    });
    if takes_all {
        ask["allowed_decisions"] = json!(["approve", "edit", "reject", "respond"]);
        ask["args_schema"] = json!({"type": "object"});
    }
    putting((number, ask))
}

/// What a worker asks, with the members that it sends.
fn putting((number, ask): (usize, Value)) -> Record {
    let step = StepIdentity {
        path: format!("0#{number}"),
        kind: "interrupt".to_owned(),
        name: ask["payload"]["tool_name"].as_str().unwrap_or("ask").to_owned(),
        location: None,
        arguments: crate::domain::JsonObject::new(),
        tool_call_id: None,
    };
    Record::Ask { step, ask: Box::new(serde_json::from_value(ask).unwrap()) }
}

/// An engine over a new memory store.
pub async fn engine(settings: Settings) -> Arc<Engine> {
    engine_over(Arc::new(MemoryStore::default()), settings).await
}

/// An engine over a store of the test's.
pub async fn engine_over(store: Arc<dyn Store>, settings: Settings) -> Arc<Engine> {
    let engine = Engine::start(settings, store, nobody()).await.unwrap();
    let actors = Actors { engine: Arc::downgrade(&engine), turns: std::sync::Mutex::default() };
    engine.attach(Arc::new(actors)).await.unwrap();
    engine
}

/// A client of a server in process.
#[derive(Clone)]
pub struct Client {
    pub engine: Arc<Engine>,
    router: Router,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of a problem, after checking that it is a complete one.
    pub fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(problem["status"], self.status.as_u16());
        assert_eq!(problem["type"], format!("urn:hitl:error:{}", problem["code"].as_str().unwrap()));
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        problem["code"].as_str().unwrap().to_owned()
    }

    /// Places and kinds of a 422.
    pub fn places(&self) -> Vec<(Value, String)> {
        assert_eq!(self.status, StatusCode::UNPROCESSABLE_ENTITY, "{self:?}");
        let problem = self.json();
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|error| (error["loc"].clone(), error["type"].as_str().unwrap().to_owned())).collect()
    }
}

impl Client {
    pub async fn new() -> Self {
        Self::with(Settings::default(), HttpSettings::default()).await
    }

    pub async fn with(settings: Settings, http: HttpSettings) -> Self {
        Self::of(&routes::app(engine(settings).await, http, HOST.parse().unwrap()))
    }

    pub fn of(app: &Arc<App>) -> Self {
        Self { engine: app.engine.clone(), router: routes::router(app) }
    }

    pub fn router(&self) -> Router {
        self.router.clone()
    }

    pub async fn with_keys() -> Self {
        let key = |name: &str| ApiKey { name: name.to_owned(), key: format!("{name}-key") };
        let http = HttpSettings { api_keys: vec![key("ada"), key("bob")], ..HttpSettings::default() };
        Self::with(Settings::default(), http).await
    }

    pub async fn request(&self, mut request: Request<Body>) -> Reply {
        request.headers_mut().entry("host").or_insert(HOST.parse().unwrap());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.request(request.body(body).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, &[], Some(&body)).await
    }

    /// A new session's path.
    pub async fn session(&self) -> String {
        let created = self.send(Method::POST, "/sessions", &[], None).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        created.header("location").unwrap().to_owned()
    }

    /// A new session that was sent `content`.
    pub async fn told(&self, content: &str) -> String {
        let session = self.session().await;
        let sent = self.post(&format!("{session}/messages"), json!({"content": content})).await;
        assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
        session
    }

    /// The session as soon as its status is `status`.
    pub async fn until(&self, session: &str, status: &str) -> Value {
        let waited = tokio::time::timeout(Duration::from_secs(100), async {
            loop {
                let view = self.get(&format!("{session}?wait=1&timeout=5")).await.json();
                if view["status"] == status {
                    return view;
                }
                tokio::task::yield_now().await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{session} did not become {status}"))
    }

    /// A new session that asks for `names`, and the ids of its interrupts.
    pub async fn asking(&self, names: &[&str]) -> (String, Vec<String>) {
        let session = self.told(&format!("ask {}", names.join(" "))).await;
        let ids = self.asked(&session, names.len()).await;
        (session, ids)
    }

    /// The ids of so many interrupts of a session, once it asks them.
    pub async fn asked(&self, session: &str, count: usize) -> Vec<String> {
        self.asked_with(&[], session, count).await
    }

    /// The same, as who sends these headers sees it.
    pub async fn asked_with(&self, headers: &[(&str, &str)], session: &str, count: usize) -> Vec<String> {
        let asked = async {
            loop {
                let path = format!("{session}?wait=1&timeout=5");
                let view = self.send(Method::GET, &path, headers, None).await.json();
                let interrupts = view["interrupts"].as_array().cloned().unwrap_or_default();
                if interrupts.len() == count {
                    let id = |interrupt: &Value| interrupt["interrupt_id"].as_str().unwrap().to_owned();
                    return interrupts.iter().map(id).collect();
                }
                tokio::task::yield_now().await;
            }
        };
        let asked = tokio::time::timeout(Duration::from_secs(100), asked).await;
        asked.unwrap_or_else(|_| panic!("{session} does not ask {count} things"))
    }
}

/// What must come, however busy the machine is.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(100), future).await.expect("it took too long")
}

/// Calls webhooks, of which there are none.
pub fn nobody() -> Arc<Webhooks> {
    Arc::new(Webhooks::new(&Settings::default()).unwrap())
}

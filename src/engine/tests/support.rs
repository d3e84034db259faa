//! An engine whose workers are the test's own hands.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;
use uuid::Uuid;

use crate::adapters::webhooks::Webhooks;
use crate::domain::access::Actor;
use crate::domain::cluster::Timings;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, PendingTimer, StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::session::Session;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, InterruptId, JsonObject, SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::ports::dispatch::{AppendResults, Appended, Delivery, Dispatch, Lost, Record, Runtime, TurnOrder};
use crate::engine::settings::Settings;
use crate::engine::telling::view::{Answer, NewSession, Resumed};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::Fixture;
use crate::store::query::InterruptQuery;
use crate::store::record::Turn;
use crate::store::shared::membership::{Admission, Membership};
use crate::store::shared::servers::{ServerId, ServerKind, ServerRole, ServerRow};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::members::{SimulatedBell, SimulatedServers};
use crate::store::simulated::network::{Link, SimulatedConnection};
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

/// How long a condition may take; long, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// What the engine told its workers.
#[derive(Debug, Default)]
pub struct Told {
    pub orders: Vec<TurnOrder>,
    pub deliveries: Vec<(TurnId, Delivery)>,
    pub parked: Vec<TurnId>,
    pub stopped: Vec<(TurnId, String)>,
}

/// Workers that only listen.
pub struct Hands {
    told: Mutex<Told>,
    changed: watch::Sender<()>,
    runtime: Runtime,
}

impl Hands {
    fn hear(&self, hear: impl FnOnce(&mut Told)) {
        hear(&mut self.told.lock().unwrap());
        self.changed.send_replace(());
    }

    /// What `look` finds, as soon as it finds something.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&mut Told) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = look(&mut self.told.lock().unwrap()) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not happen: {:?}", self.told.lock().unwrap()),
        }
    }

    pub fn look<T>(&self, look: impl FnOnce(&Told) -> T) -> T {
        look(&self.told.lock().unwrap())
    }
}

impl Dispatch for Hands {
    fn start(&self, order: TurnOrder) {
        self.hear(|told| told.orders.push(order));
    }

    fn deliver(&self, turn: TurnId, delivery: Delivery) {
        self.hear(|told| told.deliveries.push((turn, delivery)));
    }

    fn stop(&self, turn: TurnId, message: &str) {
        self.hear(|told| told.stopped.push((turn, message.to_owned())));
    }

    fn park(&self, turn: TurnId) {
        self.hear(|told| told.parked.push(turn));
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }
}

pub struct World {
    pub engine: Arc<Engine>,
    pub hands: Arc<Hands>,
    pub store: Arc<dyn Store>,
    pub settings: Settings,
    fixture: Fixture,
}

/// What most tests run with: nothing is parked by itself.
pub fn settings() -> Settings {
    Settings { park_after: 1e6, workers: 2, ..Settings::default() }
}

pub fn runtime() -> Runtime {
    Runtime { agent: None, code: "0123456789abcdef".to_owned(), python: "3.11".to_owned(), replay: true, pin: false }
}

impl World {
    pub async fn new(fixture: Fixture, settings: Settings) -> Self {
        Self::on(fixture, settings, runtime()).await
    }

    pub async fn on(fixture: Fixture, settings: Settings, runtime: Runtime) -> Self {
        let store = Arc::clone(&fixture.store);
        Self::over(fixture, store, settings, runtime).await
    }

    /// An engine on a store that is perhaps not the fixture's own.
    pub async fn over(fixture: Fixture, store: Arc<dyn Store>, settings: Settings, runtime: Runtime) -> Self {
        let hands = Arc::new(Hands { told: Mutex::default(), changed: watch::channel(()).0, runtime });
        let engine = Engine::start(settings.clone(), Arc::clone(&store), Arc::new(Webhooks::new(&settings).unwrap()))
            .await
            .unwrap();
        let workers: Arc<dyn Dispatch> = Arc::clone(&hands) as _;
        engine.attach(workers).await.unwrap();
        Self { engine, hands, store, settings, fixture }
    }

    /// Loses everything but the store, and starts anew.
    pub async fn crash(self) -> Self {
        let settings = self.settings.clone();
        self.crash_into(settings, runtime()).await
    }

    pub async fn crash_into(self, settings: Settings, runtime: Runtime) -> Self {
        self.engine.stopped.cancel();
        // Its tasks end before anything else tells them to.
        tokio::task::yield_now().await;
        self.engine.stopping.cancel();
        self.engine.placement.clear();
        Self::over(self.fixture, self.store, settings, runtime).await
    }

    pub async fn session(&self) -> SessionId {
        self.engine.create_session(NewSession::default(), None, &Actor::anyone()).await.unwrap().session.id
    }

    /// A session that was made while the store took it.
    pub async fn idle(&self) -> SessionId {
        let order = self.begin().await;
        self.end(&order).await.unwrap();
        order.session
    }

    pub async fn send(&self, session: SessionId) -> Result<(), Error> {
        self.engine.send_message(session, message("go"), None, None, None, &Actor::anyone()).await.map(drop)
    }

    /// A new session with a turn at a worker.
    pub async fn begin(&self) -> TurnOrder {
        let session = self.session().await;
        self.send(session).await.unwrap();
        self.order_of(session).await
    }

    /// A new session whose turn asks `count` questions, and is paused.
    pub async fn asking(&self, count: usize) -> (TurnOrder, Vec<InterruptId>) {
        let order = self.begin().await;
        let asked = self.ask(&order, count).await;
        (order, asked)
    }

    /// The next order that no test has taken.
    pub async fn order(&self) -> TurnOrder {
        self.hands.until("an order", |told| (!told.orders.is_empty()).then(|| told.orders.remove(0))).await
    }

    pub async fn order_of(&self, session: SessionId) -> TurnOrder {
        let take = |told: &mut Told| {
            let place = told.orders.iter().position(|order| order.session == session)?;
            Some(told.orders.remove(place))
        };
        self.hands.until("an order", take).await
    }

    pub async fn append(&self, order: &TurnOrder, records: Vec<Record>) -> Result<AppendResults, Error> {
        self.engine.turn_append(order.turn, order.epoch, records).await
    }

    /// Asks `count` questions and waits for the answers, in one batch.
    pub async fn ask(&self, order: &TurnOrder, count: usize) -> Vec<InterruptId> {
        let mut records: Vec<Record> = (0..count).map(|number| question(number, None)).collect();
        records.push(waiting(None, &[]));
        asked(self.append(order, records).await.unwrap())
    }

    pub async fn step(&self, order: &TurnOrder, name: &str) -> Result<Appended, Error> {
        let batch = self.append(order, vec![step(name)]).await?;
        Ok(batch.into_iter().next().unwrap().unwrap().unwrap())
    }

    pub async fn end(&self, order: &TurnOrder) -> Result<(), Error> {
        self.engine.turn_ended(order.turn, order.epoch, message("done"), vec![message("done")]).await
    }

    pub async fn lose(&self, order: &TurnOrder) {
        let lost = Lost::Exited { message: "Worker process exited unexpectedly".to_owned() };
        self.engine.turn_lost(order.turn, order.epoch, lost).await.unwrap();
    }

    pub async fn answer(&self, session: SessionId, interrupt: InterruptId, value: Value) -> Result<Resumed, Error> {
        let answer =
            Answer { interrupt_id: interrupt.to_string(), value, place: Vec::new(), said: None, expected_type: None };
        self.engine.resume(session, vec![answer], Actor::anyone(), None).await
    }

    pub async fn parked(&self, turn: TurnId) {
        self.hands.until("parking", |told| told.parked.contains(&turn).then_some(())).await;
        assert!(self.turn(turn).await.life.is_parked());
    }

    /// The next delivery to a turn that no test has taken.
    pub async fn delivery(&self, turn: TurnId) -> Delivery {
        let take = |told: &mut Told| {
            let place = told.deliveries.iter().position(|(to, _)| *to == turn)?;
            Some(told.deliveries.remove(place).1)
        };
        self.hands.until("a delivery", take).await
    }

    pub async fn turn(&self, turn: TurnId) -> Turn {
        self.store.query(move |reader| reader.turn(turn)).await.unwrap().unwrap()
    }

    pub async fn state(&self, session: SessionId) -> Session {
        self.store.query(move |reader| reader.session(session)).await.unwrap().unwrap()
    }

    pub async fn status(&self, session: SessionId) -> Status {
        self.state(session).await.status()
    }

    pub async fn until_status(&self, session: SessionId, status: Status) -> Session {
        let mut bell = self.engine.telling.listen(session);
        let reached = async {
            loop {
                let state = self.state(session).await;
                if state.status() == status {
                    return state;
                }
                bell.heard().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("it never was {status}"))
    }

    pub async fn interrupt(&self, id: InterruptId) -> Interrupt {
        self.engine.interrupt(&id.to_string()).await.unwrap()
    }

    pub async fn store_next_due(&self) -> Option<Timestamp> {
        self.store.upkeep().next_due().await.unwrap()
    }

    /// The interrupt of a session that was answered first.
    pub async fn first_answered(&self, session: SessionId) -> InterruptId {
        let query = InterruptQuery {
            session_id: Some(session),
            status: Some(InterruptStatus::Resolved),
            limit: 10,
            ..InterruptQuery::default()
        };
        self.engine.interrupts(query).await.unwrap().items.last().unwrap().interrupt_id
    }

    pub async fn journal(&self, turn: TurnId) -> Vec<Entry> {
        let journal = self.store.query(move |reader| reader.journal(turn)).await.unwrap();
        journal.into_iter().map(|recorded| recorded.entry).collect()
    }

    /// The kinds of a turn's entries, such as `start ask pause`.
    pub async fn kinds(&self, turn: TurnId) -> String {
        kinds(&self.journal(turn).await)
    }
}

pub fn kinds(entries: &[Entry]) -> String {
    let kinds = entries.iter().map(|entry| json!(entry)["entry"].as_str().unwrap().to_owned());
    kinds.collect::<Vec<_>>().join(" ")
}

/// The same of an order's journal.
pub fn journal_of(order: &TurnOrder) -> String {
    kinds(&order.journal.iter().map(|recorded| recorded.entry.clone()).collect::<Vec<_>>())
}

/// A server of a database, by the clock that it goes by; one that `is_deaf` hears and tells nobody what is committed.
pub async fn server(database: &SimulatedDatabase, link: &Arc<Link>, clock: Arc<dyn Clock>, is_deaf: bool) -> World {
    let connection = SimulatedConnection::over(database.clone(), Arc::clone(link), 0);
    let agent = settings().agent;
    let role = ServerRole { agent: Some(agent), serves_http: true, workers: 2, ..ServerRole::default() };
    let (id, host) = (ServerId(Uuid::new_v4()), "server".to_owned());
    let row = ServerRow { id, kind: ServerKind::Server, host, pid: 1, machine: None, process: None, role };
    let rows = Arc::new(SimulatedServers(connection.clone()));
    let membership = Membership::join(rows, row, Admission::AtOnce, Timings::USUAL).await.unwrap();
    connection.commits_for(membership.id());
    let bell = (!is_deaf).then(|| Arc::new(SimulatedBell::new(&membership, connection.clone())) as _);
    let store = SharedStore::ringing(connection, StoreAccess::Member(membership), bell, clock, Handle::current());
    World::over(Fixture::memory(), Arc::new(store), settings(), runtime()).await
}

/// The store as engines have it that are stopped in the midst of a test: closing it does nothing.
pub fn unclosed(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Unclosed(Arc::clone(store)))
}

struct Unclosed(Arc<dyn Store>);

impl Store for Unclosed {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.0.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.0.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.0.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The store as one that refuses every commit once: each write job runs, is rolled back, and runs again.
pub fn refused_once(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(RefusedOnce(Arc::clone(store)))
}

struct RefusedOnce(Arc<dyn Store>);

impl Store for RefusedOnce {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let job = Arc::new(Mutex::new(job));
        let first = Arc::clone(&job);
        let refused = self.0.write(
            about,
            Box::new(move |tx| {
                (first.lock().unwrap())(tx)?;
                Err(Error::Internal("refused".to_owned()))
            }),
        );
        let written = self.0.write(about, Box::new(move |tx| (job.lock().unwrap())(tx)));
        Box::pin(async move {
            assert!(refused.await.is_err());
            written.await
        })
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.0.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.0.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.0.close()
    }
}

pub fn message(text: &str) -> ChatMessage {
    ChatMessage { content: Some(text.to_owned()), ..ChatMessage::default() }
}

pub fn identity(path: &str, kind: &str) -> StepIdentity {
    StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: path.to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: None,
    }
}

pub fn step(name: &str) -> Record {
    Record::Step { step: identity(name, "step"), result: StepResult::Value(json!(name)) }
}

/// A question that takes any answer.
pub fn question(number: usize, expires_in: Option<f64>) -> Record {
    let ask = json!({"type": "free", "payload": {"type": "free", "number": number}, "expires_in": expires_in});
    let step = identity(&format!("0#{number}"), "interrupt");
    Record::Ask { step, ask: Box::new(serde_json::from_value(ask).unwrap()) }
}

/// A question of the members that a worker sends.
pub fn call(ask: Value) -> Record {
    let step = identity("0#call", "interrupt");
    Record::Ask { step, ask: Box::new(serde_json::from_value(ask).unwrap()) }
}

pub fn waiting(seen: Option<u64>, timers: &[(&str, Timestamp)]) -> Record {
    let timers = timers.iter().map(|(path, due)| PendingTimer { path: (*path).to_owned(), due: *due }).collect();
    Record::Waiting { seen, timers, context: None }
}

/// The interrupts that a batch opened.
pub fn asked(batch: AppendResults) -> Vec<InterruptId> {
    batch.into_iter().filter_map(|outcome| outcome.unwrap()?.interrupt).collect()
}

/// So many milliseconds from now; negative for the past.
pub fn ahead(millis: i64) -> Timestamp {
    Timestamp::from_millis(WallClock.now().millis() + millis)
}

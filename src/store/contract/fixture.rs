//! A store to test, and things to put into it.

use std::any::Any;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};
use uuid::Uuid;

use crate::domain::access::{Key, SignIn};
use crate::domain::decision::{self, DecisionKind, Forms, Terms};
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Abandoned, Entry, RecordedEntry, StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::schema::Anew;
use crate::domain::scope::Scope;
use crate::domain::session::{Phase, Session};
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, InterruptId, JsonObject, KeyId, SessionId, Timestamp, TurnId};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::memory::MemoryStore;
use crate::store::open;
use crate::store::open_error::OpenError;
use crate::store::owner::TurnOwner;
use crate::store::postgres::tests::support::Database;
use crate::store::record::Turn;
use crate::store::shared::backend::Backend;
use crate::store::shared::membership::Admission;
use crate::store::shared::servers::{ServerKind, ServerRole};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::signals::TurnTaker;
use crate::store::simulated::SimulatedDatabase;
use crate::store::sqlite::SqliteStore;
use crate::store::upkeep::{LocalStore, Upkeep};
use crate::store::{Reader, Store, StoreExt, Transaction};

/// What a turn did that came to no answer.
pub fn abandoned() -> Abandoned {
    let call = json!({"id": "call_1", "name": "pay", "arguments": "{}", "outcome": {"value": "paid"}});
    let turns = json!([{"message": {"role": "user", "content": "pay"}, "replies": [{"calls": [call]}]}]);
    serde_json::from_value(json!({"turns": turns, "left_out": 2})).unwrap()
}

/// A store, and what goes when the test is over.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    /// The same, with what only a local one has.
    local: Option<Arc<dyn LocalStore>>,
    /// What the store works on.
    lasts: Vec<Box<dyn Any + Send + Sync>>,
}

/// The store at `address` as a server has it that stands by for nobody.
pub(crate) async fn open_at_once(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    open::open_as(address, ServerKind::Server, ServerRole::default(), Admission::AtOnce).await
}

/// A runtime beside the test's, as a store has threads of its own; over with the fixture.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn start() -> (Self, Handle) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        (Self(Some(runtime)), handle)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A test is no place to wait for it.
            runtime.shutdown_background();
        }
    }
}

impl Fixture {
    pub(crate) fn memory() -> Self {
        Self::of(MemoryStore::default(), Vec::new())
    }

    /// In which it is as late as `clock` says.
    pub(crate) fn at_the_time_of(clock: Arc<dyn Clock>) -> Self {
        Self::of(MemoryStore::with_clock(clock), Vec::new())
    }

    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("hitl.db")).unwrap();
        Self::of(store, vec![Box::new(directory)])
    }

    fn of(store: impl LocalStore, lasts: Vec<Box<dyn Any + Send + Sync>>) -> Self {
        let local = Arc::new(store);
        Self { store: Arc::clone(&local) as _, local: Some(local), lasts }
    }

    fn over(backend: impl Backend, handle: Handle, lasts: Vec<Box<dyn Any + Send + Sync>>) -> Self {
        let store = SharedStore::new(backend, StoreAccess::Alone, Arc::new(WallClock), handle);
        Self { store: Arc::new(store), local: None, lasts }
    }

    /// A shared store, with its database to itself.
    pub(crate) fn shared() -> Self {
        let (runtime, handle) = OwnRuntime::start();
        Self::over(SimulatedDatabase::new(Arc::new(WallClock)), handle, vec![Box::new(runtime)])
    }

    /// A shared store in a Postgres database of its own.
    pub(crate) fn postgres() -> Self {
        let (runtime, handle) = OwnRuntime::start();
        let on = handle.clone();
        // A test runs on a runtime already, and must not wait on another.
        let connected = std::thread::spawn(move || {
            on.block_on(async {
                let database = Database::new().await;
                let backend = database.store().await;
                (database, backend)
            })
        });
        let (database, backend) = connected.join().unwrap();
        Self::over(backend, handle, vec![Box::new(database), Box::new(runtime)])
    }

    /// A server's store in a Postgres database of its own, in which others may be, too.
    pub(crate) fn server() -> Self {
        let (runtime, handle) = OwnRuntime::start();
        let on = handle.clone();
        let connected = std::thread::spawn(move || {
            on.block_on(async {
                let database = Database::new().await;
                let store = open_at_once(&database.text()).await.unwrap();
                (database, store)
            })
        });
        let (database, store) = connected.join().unwrap();
        Self { store, local: None, lasts: vec![Box::new(database), Box::new(runtime)] }
    }

    /// Drops the store alone; what it works on lasts as long as what this returns.
    pub(crate) fn drop_store(self) -> Vec<Box<dyn Any + Send + Sync>> {
        self.lasts
    }

    /// The store, with what only a local one has.
    pub(crate) fn local(&self) -> Arc<dyn LocalStore> {
        Arc::clone(self.local.as_ref().expect("a local store"))
    }

    pub(crate) fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    /// Changes rows of a table behind the store's back: whether that has any, which are read anew.
    pub(crate) async fn change_rows(&self, table: &str, change: &str) -> bool {
        for last in &self.lasts {
            let changed = if let Some(directory) = last.downcast_ref::<tempfile::TempDir>() {
                change_rows(&directory.path().join("hitl.db"), &format!("UPDATE {table} SET {change}")) as u64
            } else if let Some(database) = last.downcast_ref::<Database>() {
                let sql = format!("UPDATE hitl.{table} SET {change}");
                database.client().await.execute(&sql, &[]).await.unwrap()
            } else {
                continue;
            };
            assert!(changed > 0, "{change}");
            return true;
        }
        false
    }

    /// The turns that nobody has.
    pub(crate) async fn orphans(&self) -> Vec<TurnId> {
        self.upkeep()
            .orphaned_turns(TurnTaker::default())
            .await
            .unwrap()
            .into_iter()
            .map(|orphan| orphan.turn)
            .collect()
    }

    /// Runs a job that must succeed.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl Fn(&mut dyn Transaction) -> Result<T, Error> + Send + 'static,
    ) -> T {
        change(self.store.as_ref(), job).await.unwrap()
    }

    /// Runs a job that must fail.
    pub(crate) async fn refuse(
        &self,
        job: impl Fn(&mut dyn Transaction) -> Result<(), Error> + Send + 'static,
    ) -> Error {
        change(self.store.as_ref(), job).await.unwrap_err()
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl Fn(&dyn Reader) -> Result<T, Error> + Send + 'static,
    ) -> T {
        self.store.query(job).await.unwrap()
    }

    /// A stored session with a stored turn.
    pub(crate) async fn open_turn(&self) -> Turn {
        let turn = turn(session_id(1), 1);
        let stored = turn.clone();
        self.write(move |transaction| {
            transaction.insert_session(&session(1), &[])?;
            transaction.insert_turn(&stored)
        })
        .await;
        turn
    }
}

/// Runs a job that may be about anything.
pub(crate) async fn change<T: Send + 'static>(
    store: &dyn Store,
    job: impl Fn(&mut dyn Transaction) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let came_to = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&came_to);
    let job = move |tx: &mut dyn Transaction| {
        *slot.lock().unwrap() = Some(job(tx)?);
        Ok(())
    };
    store.write(About::Nothing, Box::new(job)).await?;
    Ok(came_to.lock().unwrap().take().unwrap())
}

/// What a job of these tests is about: the session of that number.
pub(crate) fn about(number: u128) -> About {
    About::Session(session_id(number))
}

/// Who claims turns in these tests.
pub(crate) fn me() -> TurnOwner {
    TurnOwner::this_process()
}

/// A clock that goes on only as it is told to.
pub(crate) struct StoppedClock(AtomicI64);

impl StoppedClock {
    pub(crate) fn new(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now.millis())))
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.0.store(now.millis(), Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn key_id(number: u128) -> KeyId {
    KeyId(Uuid::from_u128(number))
}

/// A key that may read and answer, in one group.
pub(crate) fn key(number: u8, name: &str) -> Key {
    Key {
        key_id: key_id(number.into()),
        name: name.to_owned(),
        scopes: [Scope::Read, Scope::Answer].into_iter().collect(),
        groups: vec!["finance".to_owned()],
        digest: [number; 32].into(),
        created_at: at(number.into()),
        created_by: Some("ada".to_owned()),
        revoked_at: None,
    }
}

/// A sign-in with the key of the same number, until `at(millis)`.
pub(crate) fn sign_in(number: u8, millis: i64) -> SignIn {
    SignIn { token: [number; 32].into(), key: [number; 32].into(), ends_at: at(millis) }
}

pub(crate) fn session_id(number: u128) -> SessionId {
    // Reversed, so that ids are not in the order of their numbers.
    SessionId(Uuid::from_u128(number.reverse_bits() | number))
}

pub(crate) fn turn_id(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(0x1000 + number))
}

pub(crate) fn interrupt_id(number: u128) -> InterruptId {
    InterruptId(Uuid::from_u128(0x2000 + number))
}

/// An idle session.
pub(crate) fn session(number: u128) -> Session {
    Session::new(session_id(number), "agents:main", 0, at(0))
}

/// A session of that status, in its fullest form.
pub(crate) fn session_in(number: u128, status: Status) -> Session {
    let turn = turn_id(number);
    let phase = match status {
        Status::Idle => Phase::Idle { response: Some(message("done")) },
        Status::Running => Phase::Running { turn },
        Status::Interrupted => Phase::Interrupted { turn, pending: vec![interrupt_id(9), interrupt_id(3)] },
        Status::Error => Phase::Error { failure: crate::domain::session::Failure::timed_out(), retry: None },
    };
    Session { phase, ..session(number) }
}

pub(crate) fn message(text: &str) -> ChatMessage {
    ChatMessage { content: Some(text.to_owned()), ..ChatMessage::default() }
}

pub(crate) fn turn(session_id: SessionId, number: u128) -> Turn {
    let turn = Turn::new(turn_id(number), session_id, message("go"), None, at(number as i64));
    Turn { sent_by: Some(format!("key {number}")), ..turn }
}

/// An entry that was appended at time 0.
pub(crate) fn recorded(entry: Entry) -> RecordedEntry {
    RecordedEntry { at: at(0), entry }
}

/// A step of that kind at a path.
pub(crate) fn identity(path: &str, kind: &str) -> StepIdentity {
    StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: kind.to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: None,
    }
}

pub(crate) fn step(name: &str, value: Value) -> Entry {
    let step = StepIdentity {
        path: "0#1".to_owned(),
        kind: "tool".to_owned(),
        name: name.to_owned(),
        location: Some("agent.py:12".to_owned()),
        arguments: JsonObject::new(),
        tool_call_id: None,
    };
    Entry::Step { step, result: StepResult::Value(value) }
}

/// A pending approval of `tool`.
pub(crate) fn approval(session: u128, number: u128, tool: &str) -> Interrupt {
    Interrupt {
        interrupt_id: interrupt_id(number),
        session_id: session_id(session),
        turn_id: turn_id(session),
        kind: decision::TOOL_APPROVAL.to_owned(),
        payload: object(json!({"type": "tool_approval", "tool_name": tool, "tool_args": {"path": "/tmp/x"}})),
        status: InterruptStatus::Pending,
        message: None,
        response_schema: Some(Anew.form(Terms {
            allowed: &DecisionKind::UNSAID,
            tool_name: Some(tool),
            args_schema: None,
        })),
        allowed_decisions: None,
        tool_call_id: None,
        agent: Some("files".to_owned()),
        rule: None,
        args_digest: None,
        created_at: at(number as i64),
        expires_at: None,
        value: None,
        resolved_by: None,
        resolved_at: None,
        metadata: None,
        tool_source: None,
        args_schema: None,
        claimed_by: None,
        claimed_until: None,
        snoozed_by: None,
        snoozed_until: None,
        sent_by: None,
        approvers: Vec::new(),
        rule_failed: None,
        lets_run: false,
        is_hidden: false,
        tool_approvers: Vec::new(),
    }
}

/// An interrupt of the author's own type, with every member set.
pub(crate) fn custom(session: u128, number: u128) -> Interrupt {
    Interrupt {
        kind: "color_picker".to_owned(),
        payload: object(json!({"prompt": "Pick", "tool_name": "paint", "presets": ["#fff", 0.1, null]})),
        message: Some("Pick a colour".to_owned()),
        response_schema: Some(json!({"type": ["object", "null"]}).into()),
        allowed_decisions: Some(vec![DecisionKind::Reject]),
        tool_call_id: Some("call_1".to_owned()),
        agent: Some("painter".to_owned()),
        rule: Some("colours".to_owned()),
        args_digest: Some("sha256:00".to_owned()),
        expires_at: Some(at(5000)),
        resolved_by: Some("alice".to_owned()),
        metadata: Some(object(json!({"ticket": 7}))),
        tool_source: Some("mcp:tickets".to_owned()),
        args_schema: Some(json!({"type": "object", "required": ["colour"]})),
        claimed_by: Some("ada".to_owned()),
        claimed_until: Some(at(900)),
        snoozed_by: Some("bob".to_owned()),
        snoozed_until: Some(at(800)),
        sent_by: Some("ada".to_owned()),
        approvers: vec!["bob".to_owned(), "group:finance".to_owned()],
        rule_failed: Some("rule \"colours\" could not tell: No such key: hue".to_owned()),
        lets_run: true,
        is_hidden: true,
        tool_approvers: vec!["cleo".to_owned()],
        ..approval(session, number, "paint")
    }
}

/// An event of a session that fails in some way.
pub(crate) fn event(session: u128, error: &str) -> StoredEvent {
    StoredEvent::session(session_id(session), Status::Error, Some(error))
}

pub(crate) fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap()
}

/// Changes rows of a store's file behind its back: how many.
pub fn change_rows(file: &std::path::Path, sql: &str) -> usize {
    rusqlite::Connection::open(file).unwrap().execute(sql, []).unwrap()
}

/// Makes what steps came to unreadable in a store's file. How many there are.
pub fn spoil_steps(file: &std::path::Path) -> usize {
    change_rows(file, "UPDATE journal SET body = '{' WHERE entry = 'step'")
}

//! Databases to test, and what goes into them.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::domain::Error;
use crate::domain::interrupt::Interrupt;
use crate::domain::session::Session;
use crate::store::contract::fixture::*;
use crate::store::postgres::opening;
use crate::store::postgres::{PgAddress, PostgresBackend};
use crate::store::record::Turn;
use crate::store::shared::backend::{Backend, Committed};
use crate::store::shared::changes::{Changes, RowChange, SessionChange, TurnChange};
use crate::store::shared::question::{Answer, SessionSlice, StoreQuestion, Version};

/// The address of the server that all tests of one user share.
fn server() -> String {
    let python = std::env::var_os("HITL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let directory = std::env::temp_dir().join(format!("hitl-test-postgres-{}", rustix::process::getuid().as_raw()));
    if let Ok(address) = running(&directory) {
        return address;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/postgres.py");
    let started = Command::new(python).arg(script).arg(directory).output().unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    String::from_utf8(started.stdout).unwrap().trim().to_owned()
}

/// What the tool prints of one that listens, without the start of two programs for each test.
fn running(directory: &Path) -> std::io::Result<String> {
    let existing = |name: &str| File::options().write(true).open(directory.join(name));
    // Whoever looks after it ends it under this lock, and not while it is in use.
    let lock = existing("lock")?;
    flock(&lock, FlockOperation::LockExclusive)?;
    existing("used")?.set_modified(SystemTime::now())?;
    let home = std::fs::read_to_string(directory.join("address"))?;
    UnixStream::connect(format!("{home}/.s.PGSQL.5432"))?;
    Ok(format!("postgresql://postgres@/postgres?host={home}"))
}

/// A database that goes when the test is over.
pub(in crate::store) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// An empty one.
    pub(in crate::store) async fn new() -> Self {
        let database = Self { server: server(), name: format!("t_{}", Uuid::new_v4().simple()) };
        let client = connected(&database.server).await;
        client.batch_execute(&format!("CREATE DATABASE {}", database.name)).await.unwrap();
        database
    }

    /// Its address, as text.
    pub(in crate::store) fn text(&self) -> String {
        self.server.replace("/postgres?", &format!("/{}?", self.name))
    }

    pub(super) fn address(&self) -> PgAddress {
        self.text().parse().unwrap()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A store in it, which waits long for what other tests have open at this moment.
    pub(in crate::store) async fn store(&self) -> PostgresBackend {
        self.patient(Duration::from_secs(20)).await
    }

    pub(super) async fn patient(&self, patience: Duration) -> PostgresBackend {
        let first = opening::open(&self.address()).await.unwrap();
        PostgresBackend::over(&self.address(), first, patience)
    }

    /// Somebody else who is connected to it.
    pub(in crate::store) async fn client(&self) -> Client {
        connected(&self.text()).await
    }

    pub(in crate::store) async fn execute(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap();
    }

    pub(super) async fn count(&self, table: &str) -> i64 {
        self.client().await.query_one(&format!("SELECT count(*) FROM hitl.{table}"), &[]).await.unwrap().get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let gone = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = connected(&server).await;
                // A database that stays goes with the server.
                drop(client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await);
            });
        });
        drop(gone.join());
    }
}

pub(super) async fn server_as(address: &str) -> Client {
    connected(address).await
}

async fn connected(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

pub(super) fn version(count: u64) -> Version {
    // Half of all tokens are negative numbers there.
    Version { count, token: u64::MAX - count }
}

/// A session as it is to be, `None` as what was seen of it.
pub(super) fn new_session(session: Session) -> SessionChange {
    let row = RowChange::Written(Box::new(session.clone()));
    SessionChange { id: session.id, seen: None, next: version(1), row }
}

/// The session of that number is touched, as it was seen at its `seen`th version.
pub(super) fn touched(number: u128, seen: u64, row: RowChange) -> SessionChange {
    SessionChange { id: session_id(number), seen: Some(version(seen)), next: version(seen + 1), row }
}

pub(super) fn turn_change(turn: Turn, is_new: bool) -> TurnChange {
    TurnChange { turn, is_new, entries: 0, owner: None, moves_due: false }
}

/// Commits what must be committed: the numbers of its events.
pub(super) async fn commit(store: &PostgresBackend, changes: Changes) -> Vec<u64> {
    match store.commit(changes).await.unwrap() {
        Committed::Yes { events } => events,
        Committed::Moved => panic!("somebody was first"),
    }
}

pub(super) async fn is_moved(store: &PostgresBackend, changes: Changes) -> bool {
    store.commit(changes).await.unwrap() == Committed::Moved
}

/// How many transactions wait for a lock.
pub(super) const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Waits until `sql` counts something.
pub(super) async fn until_some(watcher: &Client, sql: &str) {
    while watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

/// An interrupt of the first session that is never due.
pub(super) fn undue(number: u128) -> Interrupt {
    Interrupt { expires_at: None, ..custom(1, number) }
}

/// The session of that number, new.
pub(super) async fn store_session(store: &PostgresBackend, number: u128) {
    commit(store, Changes { sessions: vec![new_session(session(number))], ..Changes::default() }).await;
}

/// A session with a turn, an entry of it and an interrupt.
pub(super) async fn store_all(store: &PostgresBackend) {
    let changes = Changes {
        sessions: vec![new_session(session_in(1, crate::domain::status::Status::Interrupted))],
        messages: vec![(session_id(1), 0, vec![message("one"), message("two")])],
        turns: vec![turn_change(turn(session_id(1), 1), true)],
        entries: vec![entry(0, "first")],
        interrupts: vec![(custom(1, 1), true)],
        ..Changes::default()
    };
    commit(store, changes).await;
}

pub(super) fn entry(index: u64, name: &str) -> crate::store::shared::changes::NewEntry {
    crate::store::shared::changes::NewEntry {
        session: session_id(1),
        turn: turn_id(1),
        index,
        entry: recorded(step(name, serde_json::json!(name))),
        told: None,
    }
}

pub(super) async fn ask(store: &PostgresBackend, question: StoreQuestion) -> Result<Answer, Error> {
    store.answer(vec![question]).await.unwrap().remove(0)
}

pub(super) async fn number(store: &PostgresBackend, question: StoreQuestion) -> u64 {
    match ask(store, question).await.unwrap() {
        Answer::Number(number) => number,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn slice(store: &PostgresBackend, id: u128) -> Option<SessionSlice> {
    match ask(store, StoreQuestion::Session(session_id(id))).await.unwrap() {
        Answer::Session { slice, .. } => slice.map(|slice| *slice),
        other => panic!("{other:?}"),
    }
}

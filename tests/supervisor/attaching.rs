//! A server that is stopped while it starts: before its worker has said hello, and while what the last server left open is
//! settled for that worker.

use std::path::Path;

use hitl::domain::message::ChatMessage;
use hitl::domain::session::{Phase, Session};
use hitl::domain::{SessionId, Timestamp, TurnId};
use hitl::serve::{Config, Running, ServerStartError};
use hitl::store::about::About;
use hitl::store::owner::TurnOwner;
use hitl::store::record::Turn;
use hitl::store::sqlite::SqliteStore;
use hitl::store::{Store, StoreExt};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::fake::Fake;
use super::support::{until, within};

/// What a server of a live agent is told; times in seconds.
const CONFIG: &str = r#"{
    "agent": "agents:agent", "python": "python3", "working_dir": "", "environment": {}, "isolation": "task",
    "host": "127.0.0.1", "port": 0, "store": "", "policy": null, "workers": 1, "no_workers": false, "takes_requests": true, "queue": 10,
    "max_sessions": 0,
    "allow_custom_ids": false, "ttl": 0, "timeout": 0, "interrupt_ttl": 0, "suspended_ttl": 0, "park_after": 60,
    "hold": 60, "max_warm": 10, "start_timeout": 0, "worker_timeout": 30, "max_recoveries": 3, "keep_journal": 0,
    "max_payload": 16384, "max_value": 1048576, "max_body": 1048576, "max_connections": 16,
    "max_connections_per_address": 0, "max_requests_per_key": 0, "shutdown_timeout": 10, "allowed_hosts": [],
    "insecure": false, "prevent_self_approval": false, "rate_limit": 0, "ui": false, "api_key": null,
    "webhook_secret": null, "allow_import": false, "state_key": null, "webhook_allow_private": false, "webhooks": [],
    "webhook_retries": 0, "remind_after": 0
}"#;

/// The same on a store in this directory.
fn config(directory: &Path) -> Config {
    let config: Config = serde_json::from_str(CONFIG).unwrap();
    let store = store(directory).to_str().unwrap().to_owned();
    Config { working_dir: directory.to_owned(), store, ..config }
}

fn store(directory: &Path) -> std::path::PathBuf {
    directory.join("hitl.db")
}

/// A server that begins to start.
fn starting(config: Config, channel: std::os::unix::net::UnixStream, stop: &CancellationToken) -> Starting {
    let stop = stop.clone();
    tokio::spawn(async move { Running::start(config, Some(channel), &stop).await.map(drop) })
}

type Starting = tokio::task::JoinHandle<Result<(), ServerStartError>>;

/// It had not started, and another one can at once.
async fn was_given_up(starting: Starting, directory: &Path) {
    let ended = within(starting).await.unwrap();
    assert_eq!(ended.unwrap_err().code(), "start_stopped");
    let (mut worker, channel) = Fake::silent();
    worker.greet(true).await;
    let next = within(Running::start(config(directory), Some(channel), &CancellationToken::new())).await.unwrap();
    within(next.stop(std::time::Duration::ZERO)).await.unwrap();
}

/// What has happened so far is seen by every task.
async fn everybody_had_a_turn() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_start_ends_when_it_is_stopped_before_its_worker_has_said_hello() {
    let directory = tempfile::tempdir().unwrap();
    let (_worker, channel) = Fake::silent();
    let stop = CancellationToken::new();
    let starting = starting(config(directory.path()), channel, &stop);
    everybody_had_a_turn().await;
    assert!(!starting.is_finished());
    stop.cancel();
    was_given_up(starting, directory.path()).await;
}

/// A turn that is at work, which who cannot replay it has to end before anything else.
async fn leave_a_turn(directory: &Path) {
    let (session, turn) = (SessionId(Uuid::now_v7()), TurnId(Uuid::now_v7()));
    let now = Timestamp::from_millis(1_700_000_000_000);
    let store = SqliteStore::open(&store(directory)).unwrap();
    let left = store.transact(About::Session(session), move |tx| {
        let phase = Phase::Running { turn };
        tx.insert_session(&Session { phase, ..Session::new(session, "agents:agent", 0, now) }, &[])?;
        tx.insert_turn(&Turn::new(turn, session, ChatMessage::default(), None, now))?;
        tx.claim_turn(turn, TurnOwner::this_process(), 0)
    });
    left.await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_start_ends_when_it_is_stopped_while_it_attaches_its_worker() {
    let directory = tempfile::tempdir().unwrap();
    leave_a_turn(directory.path()).await;
    // Nothing is written before somebody lets go of this.
    let held = rusqlite::Connection::open(store(directory.path())).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (mut worker, channel) = Fake::silent();
    worker.greet(false).await;
    let stop = CancellationToken::new();
    let starting = starting(config(directory.path()), channel, &stop);
    // It has its worker by then, and the store.
    until("a lock on the store", || directory.path().join("hitl.db.lock").exists()).await;
    everybody_had_a_turn().await;
    stop.cancel();
    everybody_had_a_turn().await;
    drop(held);
    was_given_up(starting, directory.path()).await;
}

#[tokio::test]
async fn a_start_ends_when_it_is_stopped_while_its_rules_are_written_down() {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(&store(directory.path())).unwrap().close().await.unwrap();
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "[[rule]]\nname = 'a'\neffect = 'ask'\ntool = '*'\n").unwrap();
    let held = rusqlite::Connection::open(store(directory.path())).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (mut worker, channel) = Fake::silent();
    worker.greet(true).await;
    let stop = CancellationToken::new();
    let starting = starting(Config { policy: Some(policy), ..config(directory.path()) }, channel, &stop);
    until("a lock on the store", || directory.path().join("hitl.db.lock").exists()).await;
    everybody_had_a_turn().await;
    stop.cancel();
    everybody_had_a_turn().await;
    drop(held);
    was_given_up(starting, directory.path()).await;
}

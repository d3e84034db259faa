//! Disks that fail, and commits that fail.

use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;
use crate::domain::Error;
use crate::domain::journal::Entry;
use crate::store::contract::fixture::*;
use crate::store::sqlite::lock::Access;
use crate::store::sqlite::writer::Limits;
use crate::store::{Store, StoreExt, Transaction};

const STORE: &str = "HITL_TEST_STORE_ON_A_FULL_DISK";

fn append(transaction: &mut dyn Transaction) -> Result<u64, Error> {
    transaction.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))
}

async fn store_turn(store: &SqliteStore) {
    let stored = store.transact(|transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_turn(&turn(session_id(1), 1))
    });
    stored.await.unwrap();
}

/// From now on a commit that holds an event fails, although every statement in it succeeds.
fn make_commits_of_events_fail(path: &Path) {
    let sql = "CREATE TABLE nowhere (id INTEGER PRIMARY KEY);
               CREATE TABLE broken (id INTEGER REFERENCES nowhere (id) DEFERRABLE INITIALLY DEFERRED);
               CREATE TRIGGER breaks AFTER INSERT ON events BEGIN INSERT INTO broken (id) VALUES (7); END;";
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn jobs_that_queue_up_share_a_commit_and_its_failure() {
    let (_directory, path) = place();
    // However slow the machine: whatever has queued up while the first job runs joins its commit.
    let limits = Limits { time: Duration::from_secs(3600), ..Limits::default() };
    let store = SqliteStore::open_with(&path, Access::Server, limits).unwrap();
    store_turn(&store).await;
    make_commits_of_events_fail(&path);

    let (release, released) = mpsc::channel::<()>();
    let first = store.transact(move |transaction| {
        // Until the other end is let go of, whichever run waits.
        let _ = released.recv();
        append(transaction)
    });
    let second = store.transact(append);
    let third = store.transact(|transaction| transaction.append_event(&event(1, "x"), at(0)));
    let fourth = store.transact(|_| Err::<u64, _>(Error::QueueFull));
    drop(release);

    for outcome in join_all([first, second, third, fourth]).await {
        assert!(matches!(outcome, Err(Error::StoreUnavailable(_))), "{outcome:?}");
    }
    assert_eq!(store.query(|reader| reader.journal(turn_id(1))).await, Ok(vec![]));
    assert_eq!(store.query(|reader| reader.last_event()).await, Ok(0));
    assert_eq!(store.transact(append).await, Ok(0));
}

/// The part of the next test that runs in a process of its own; without its variable it has nothing to do.
#[tokio::test]
async fn on_a_full_disk() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    // To the output, which whoever started this reads.
    tracing_subscriber::fmt().with_ansi(false).init();
    let limit = |bytes| setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    let store = open(Path::new(&path));
    store_turn(&store).await;
    for round in 0..3 {
        let stored = store.transact(append).await;
        assert!(stored.is_ok(), "round {round}: {stored:?}");
        limit(Some(0));
        for _ in 0..3 {
            let outcome = store.transact(append).await;
            assert!(matches!(outcome, Err(Error::StoreUnavailable(_))), "{outcome:?}");
        }
        let seen = store.query(|reader| reader.journal(turn_id(1))).await;
        limit(None);
        assert_eq!(seen.unwrap().len(), round + 1);
    }
    store.close().await.unwrap();
    let store = open(Path::new(&path));
    assert_eq!(store.query(|reader| reader.journal(turn_id(1))).await.unwrap().len(), 3);
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_heals() {
    let (_directory, path) = place();
    let output = child("store::sqlite::tests::faults::on_a_full_disk", STORE, &path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(path.exists(), "{said}");
    // Once for each of the three times, however many writes are refused; after the last one nothing is written.
    for (line, times) in [("the store cannot be written;", 3), ("the store can be written again", 2)] {
        assert_eq!(said.matches(line).count(), times, "{said}");
    }
}

#[tokio::test]
async fn the_log_of_a_busy_store_does_not_grow_for_ever() {
    let (_directory, path) = place();
    let store = open(&path);
    store_turn(&store).await;
    let log = || std::fs::metadata(path.with_extension("db-wal")).map_or(0, |metadata| metadata.len());
    let (mut largest, mut written) = (0, 0);
    // Each write is about 64 KiB of log, 48 MiB in all: far more than the log may hold before it is begun anew.
    while written < 48 * 1024 * 1024 {
        let text = serde_json::json!("x".repeat(64 * 1024));
        store
            .transact(move |transaction| transaction.append_foreign(turn_id(1), &step("s", text.clone()), at(0)))
            .await
            .unwrap();
        written += 64 * 1024;
        largest = largest.max(log());
    }
    assert!((3 * 1024 * 1024..written / 2).contains(&largest), "{largest} bytes");
}

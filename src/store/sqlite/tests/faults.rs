//! Disks that fail, and commits that fail.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    let stored = store.transact(about(1), |transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_turn(&turn(session_id(1), 1))
    });
    stored.await.unwrap();
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
    let first = store.transact(about(1), move |transaction| {
        // Until the other end is let go of, whichever run waits.
        let _ = released.recv();
        append(transaction)
    });
    let second = store.transact(about(1), append);
    let third =
        store.transact(about(1), |transaction| transaction.append_event(&event(1, "x"), at(0)).map(|it| it.get()));
    let fourth = store.transact(about(1), |_| Err::<u64, _>(Error::QueueFull));
    drop(release);

    for outcome in join_all([first, second, third, fourth]).await {
        assert!(matches!(outcome, Err(Error::StoreUnavailable(_))), "{outcome:?}");
    }
    assert_eq!(store.query(|reader| reader.journal(turn_id(1))).await, Ok(vec![]));
    assert_eq!(store.query(|reader| reader.last_event()).await, Ok(0));
    assert_eq!(store.transact(about(1), append).await, Ok(0));
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
        let stored = store.transact(about(1), append).await;
        assert!(stored.is_ok(), "round {round}: {stored:?}");
        limit(Some(0));
        for _ in 0..3 {
            let outcome = store.transact(about(1), append).await;
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

/// What this process has said in its log.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn listen() -> Self {
        let said = Self::default();
        let writer = said.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        said
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Whether each of these was said so often.
    fn is(&self, wanted: &[(&str, usize)]) {
        let text = self.text();
        for (words, times) in wanted {
            assert_eq!(text.matches(words).count(), *times, "{words}: {text}");
        }
    }
}

impl std::io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a test in a process of its own, which has the log to itself.
fn alone(name: &str) {
    let (_directory, path) = place();
    let output = child(&format!("store::sqlite::tests::faults::{name}"), STORE, &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && path.exists(), "{said}");
}

/// The part of the next test that runs in a process of its own.
#[tokio::test]
async fn while_the_log_cannot_be_copied() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else {
        return;
    };
    let said = Said::listen();
    let store = SqliteStore::open_with(&path, Access::Server, Limits { log_pages: 1, ..Limits::default() }).unwrap();
    // Whoever has it open goes on; the thread that copies opens it when it is asked first.
    let allowed = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1), ..allowed }).unwrap();
    store_turn(&store).await;
    while !said.text().contains("could not be copied") {
        store.transact(about(1), append).await.unwrap();
    }
    for _ in 0..20 {
        store.transact(about(1), append).await.unwrap();
    }
    setrlimit(Resource::Nofile, allowed).unwrap();
    while !said.text().contains("is copied into its file again") {
        store.transact(about(1), append).await.unwrap();
    }
    store.close().await.unwrap();
    said.is(&[
        ("the store's log could not be copied into its file, and grows", 1),
        ("unable to open database file", 1),
        ("the store's log is copied into its file again", 1),
        ("ERROR", 1),
    ]);
}

#[test]
fn a_log_that_cannot_be_copied_is_told_of_once_and_when_it_can_again() {
    alone("while_the_log_cannot_be_copied");
}

/// The part of the next test that runs in a process of its own.
#[tokio::test]
async fn while_the_file_cannot_be_read() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else {
        return;
    };
    let store = open(&path);
    store_turn(&store).await;
    let large = step("s", serde_json::json!("x".repeat(200_000)));
    store.transact(about(1), move |transaction| transaction.append_foreign(turn_id(1), &large, at(0))).await.unwrap();
    store.close().await.unwrap();
    // What stands last in the file are pages of the step's result, each of which names the next one.
    let whole = std::fs::read(&path).unwrap();
    let spoiled: Vec<u8> = [&whole[..whole.len() - 100_000], &[0xff; 100_000][..]].concat();
    let said = Said::listen();
    std::fs::write(&path, &spoiled).unwrap();
    let store = open(&path);
    let read = async || store.query(|reader| reader.journal(turn_id(1))).await;
    for _ in 0..6 {
        assert!(matches!(read().await, Err(Error::StoreUnavailable(_))));
    }
    said.is(&[("the store cannot be read;", 1), ("malformed", 1), ("the store can be read again", 0)]);
    // Now it cannot even be opened, which is no other trouble.
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    for _ in 0..6 {
        assert!(matches!(read().await, Err(Error::StoreUnavailable(_))));
    }
    std::fs::rename(&away, &path).unwrap();
    std::fs::write(&path, &whole).unwrap();
    for _ in 0..6 {
        assert_eq!(read().await.unwrap().len(), 1);
    }
    store.close().await.unwrap();
    said.is(&[("the store cannot be read;", 1), ("the store can be read again", 1), ("ERROR", 1)]);
}

#[test]
fn a_file_that_cannot_be_read_is_told_of_once_and_when_it_can_again() {
    alone("while_the_file_cannot_be_read");
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
            .transact(about(1), move |transaction| {
                transaction.append_foreign(turn_id(1), &step("s", text.clone()), at(0))
            })
            .await
            .unwrap();
        written += 64 * 1024;
        largest = largest.max(log());
    }
    assert!((3 * 1024 * 1024..written / 2).contains(&largest), "{largest} bytes");
}

#[tokio::test]
async fn another_process_that_writes_for_too_long_is_no_fault_of_the_file() {
    let (_directory, path) = place();
    let store = open(&path);
    store_turn(&store).await;
    // Whoever reads would be waited for, were the file opened anew.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM turns").unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.transact(about(1), append).await;
    assert!(matches!(refused, Err(Error::StoreUnavailable(_))), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(store.transact(about(1), append).await, Ok(0));
    drop(reader);
}

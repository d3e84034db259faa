//! Power cuts after every write of generated workloads: everything acknowledged is there, and the file opens.

use serde_json::json;

use super::super::*;
use super::image::{Chance, Image};
use super::shim::{Change, Disk};
use crate::domain::Error;
use crate::domain::journal::{Entry, StepResult};
use crate::store::contract::fixture::*;
use crate::store::kept::KeptForms;
use crate::store::sqlite::connection::Handle;
use crate::store::sqlite::file::StoreFile;
use crate::store::sqlite::lock::Access;
use crate::store::sqlite::writer::Limits;
use crate::store::{Reader, Store, StoreExt, Transaction};

/// How many workloads; all of them with `HITL_TEST_FULL=1`.
fn workloads() -> u64 {
    if is_full() { 100 } else { 4 }
}

/// Whether the long form of these tests is wanted.
pub(super) fn is_full() -> bool {
    std::env::var_os("HITL_TEST_FULL").is_some()
}

/// Writes number `number`: an entry, an event, and sometimes more.
pub(super) fn write(tx: &mut dyn Transaction, number: u64, size: usize) -> Result<(), Error> {
    if tx.session(session_id(1))?.is_none() {
        tx.insert_session(&session(1), &[])?;
        tx.insert_turn(&turn(session_id(1), 1))?;
    }
    tx.append_foreign(turn_id(1), &step("s", json!([number, "x".repeat(size)])), at(0))?;
    if number.is_multiple_of(3) {
        tx.set_messages(session_id(1), &[message(&number.to_string())])?;
    }
    tx.append_event(&event(1, &number.to_string()), at(0)).map(drop)
}

/// The numbers in the store, in order; each with all that belongs to it.
pub(super) fn numbers(reader: &dyn Reader) -> Result<Vec<u64>, Error> {
    let of_entry = |entry: &Entry| match entry {
        Entry::Step { result: StepResult::Value(value), .. } => value[0].as_u64().unwrap(),
        other => panic!("{other:?}"),
    };
    let numbers: Vec<u64> = reader.journal(turn_id(1))?.iter().map(|recorded| of_entry(&recorded.entry)).collect();
    let events = reader.events_after(0, None, usize::MAX)?;
    let told: Vec<u64> =
        events.iter().map(|event| event.event.data["error"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, told, "a half of a transaction");
    let third = numbers.iter().rev().find(|number| number.is_multiple_of(3));
    let remembered = reader.messages(session_id(1))?;
    assert_eq!(remembered, third.map(|number| message(&number.to_string())).into_iter().collect::<Vec<_>>());
    Ok(numbers)
}

/// Runs a workload on a new store: every change of its files.
async fn changes(seed: u64) -> Vec<(String, Change)> {
    let (directory, path) = place();
    let disk = Disk::watch(directory.path());
    let mut chance = Chance::new(seed);
    // Copies of the log into the file, which otherwise take megabytes, belong to every workload.
    let limits = Limits { log_pages: 20, ..Limits::default() };
    let store = SqliteStore::open_with(&path, Access::Server, limits).unwrap();
    let mut next = 0;
    for _ in 0..4 + chance.below(8) {
        let first = next;
        next += 1 + chance.below(4);
        let writes: Vec<_> = (first..next)
            .map(|number| {
                let size = chance.below(6000) as usize;
                store.transact(about(1), move |tx| write(tx, number, size))
            })
            .collect();
        for (number, write) in (first..).zip(writes) {
            write.await.unwrap();
            disk.acknowledged(number);
        }
    }
    store.close().await.unwrap();
    disk.finish()
}

/// Opens what a power cut has left as a server would, and looks.
fn check(directory: &Path, acknowledged: &[u64]) {
    let file = StoreFile::open(&directory.join("hitl.db"), Access::Server).unwrap();
    let (connection, _lock) = file.into_parts();
    let checked: String = connection.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
    assert_eq!(checked, "ok");
    connection.execute_batch("BEGIN").unwrap();
    let numbers = numbers(&Handle::new(&connection, &KeptForms::default())).unwrap();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert!(acknowledged.iter().all(|number| numbers.contains(number)), "{numbers:?} of {acknowledged:?}");
}

/// Cuts after every change of `changes`: how many cuts.
pub(super) fn cut_everywhere(changes: &[(String, Change)], seed: u64) -> u64 {
    let (directory, _) = place();
    let spared = Disk::spare(directory.path());
    let mut chance = Chance::new(seed);
    let mut image = Image::default();
    image.add_empty("hitl.db");
    let (mut acknowledged, mut cuts) = (Vec::new(), 0);
    for (name, change) in changes {
        if let Change::Acknowledged(number) = change {
            acknowledged.push(*number);
            continue;
        }
        // With nothing of the rest, only a sync makes a difference to what is there.
        if image.apply(name, change) {
            image.cut(directory.path(), None);
            check(directory.path(), &acknowledged);
        }
        image.cut(directory.path(), Some(&mut chance));
        check(directory.path(), &acknowledged);
        cuts += 1;
    }
    drop(spared.finish());
    assert!(cuts > 50, "{cuts} cuts");
    cuts
}

#[tokio::test]
async fn a_power_cut_takes_nothing_that_was_acknowledged() {
    let mut cuts = 0;
    for seed in 1..=workloads() {
        let changes = changes(seed).await;
        assert!(changes.iter().any(|(name, _)| name == "hitl.db-wal"), "the shim has not seen the log");
        cuts += cut_everywhere(&changes, seed);
    }
    println!("{cuts} power cuts in {} workloads", workloads());
}

/// The test above notices a store that acknowledges before its log is synced.
#[tokio::test]
async fn without_syncs_a_power_cut_is_noticed() {
    let changes = changes(1).await;
    let is_sync = |(name, change): &(String, Change)| name == "hitl.db-wal" && matches!(change, Change::Sync);
    let unsynced: Vec<_> = changes.into_iter().filter(|change| !is_sync(change)).collect();
    let seen = std::panic::catch_unwind(|| cut_everywhere(&unsynced, 1));
    assert!(seen.is_err());
}

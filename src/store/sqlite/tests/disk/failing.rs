//! Disks that are full, or fail to write or to sync: nothing is acknowledged that is not kept, and the store recovers
//! by itself, even if the power fails right after.

use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};

use super::super::*;
use super::image::Chance;
use super::powercut::{cut_everywhere, is_full, numbers, write};
use super::shim::{Call, Change, Disk, Fault};
use crate::domain::Error;
use crate::store::contract::fixture::about;
use crate::store::sqlite::lock::Access;
use crate::store::sqlite::writer::Limits;
use crate::store::{Store, StoreExt};

const FAULTS: [(Call, i32); 4] = [
    (Call::Write, SQLITE_FULL),
    (Call::Write, SQLITE_IOERR_WRITE),
    (Call::Sync, SQLITE_IOERR_FSYNC),
    (Call::Truncate, SQLITE_IOERR_TRUNCATE),
];

fn small(path: &Path) -> SqliteStore {
    SqliteStore::open_with(path, Access::Server, Limits { log_pages: 20, ..Limits::default() }).unwrap()
}

/// Writes `count` numbers at once, the first of which is `first`: those that were acknowledged. Every refusal says that
/// the store is unavailable.
async fn write_some(store: &SqliteStore, disk: &Disk, first: u64, count: u64, size: u64) -> Vec<u64> {
    let writes: Vec<_> = (first..first + count)
        .map(|number| store.transact(about(1), move |tx| write(tx, number, size as usize)))
        .collect();
    let mut kept = Vec::new();
    for (number, write) in (first..).zip(writes) {
        match write.await {
            Ok(()) => {
                disk.acknowledged(number);
                kept.push(number);
            }
            Err(error) => assert!(matches!(error, Error::StoreUnavailable(_)), "{error:?}"),
        }
    }
    kept
}

/// Fails in one way after `skip` calls, heals, and goes on: every change of the files.
async fn fail_and_heal(call: Call, code: i32, skip: u32, times: u32, chance: &mut Chance) -> Vec<(String, Change)> {
    let (directory, path) = place();
    let disk = Disk::watch(directory.path());
    let store = small(&path);
    let mut kept = write_some(&store, &disk, 0, 2, 500).await;
    assert_eq!(kept, [0, 1]);
    disk.fail(Fault { call, skip, times, code });
    let mut next = 2;
    for _ in 0..6 {
        let count = 1 + chance.below(3);
        kept.extend(write_some(&store, &disk, next, count, chance.below(5000)).await);
        next += count;
        // Whoever reads meanwhile sees what was acknowledged, and no half.
        if let Ok(seen) = store.query(|reader| numbers(reader)).await {
            assert!(kept.iter().all(|number| seen.contains(number)), "{kept:?} {seen:?}");
        }
    }
    disk.heal();
    let healed = write_some(&store, &disk, next, 1, 10).await;
    assert_eq!(healed, [next], "{call:?} {code} {skip} {times}");
    kept.extend(healed);
    let seen = store.query(|reader| numbers(reader)).await.unwrap();
    assert!(kept.iter().all(|number| seen.contains(number)), "{call:?} {code} {skip} {times}: {kept:?} {seen:?}");
    store.close().await.unwrap();
    disk.finish()
}

#[tokio::test]
async fn whatever_fails_nothing_acknowledged_is_lost_and_the_store_recovers() {
    let mut chance = Chance::new(7);
    for (call, code) in FAULTS {
        for skip in (0..30).step_by(3) {
            for times in [1, 5, u32::MAX] {
                fail_and_heal(call, code, skip, times, &mut chance).await;
            }
        }
    }
}

#[tokio::test]
async fn a_power_cut_after_a_fault_takes_nothing_that_was_acknowledged() {
    let mut chance = Chance::new(11);
    let mut cuts = 0;
    for (call, code) in FAULTS {
        for times in if is_full() { 1..=8 } else { 2..=2 } {
            let skip = chance.below(12) as u32;
            let changes = fail_and_heal(call, code, skip, times, &mut chance).await;
            cuts += cut_everywhere(&changes, u64::from(skip));
        }
    }
    println!("{cuts} power cuts");
}

/// The system forgets what it could not write, but still shows it to whoever reads: also to the next server, where this
/// one is killed right then. That one must not build upon it.
#[tokio::test]
async fn a_server_that_starts_after_a_failed_sync_builds_on_nothing_that_is_not_on_the_disk() {
    let (directory, path) = place();
    let disk = Disk::watch(directory.path());
    let store = open(&path);
    assert_eq!(write_some(&store, &disk, 0, 2, 500).await, [0, 1]);
    // So that the log holds nothing but what fails: its header reaches the disk, what follows does not.
    store.close().await.unwrap();
    let store = open(&path);
    disk.fail(Fault { call: Call::Sync, skip: 1, times: u32::MAX, code: SQLITE_IOERR_FSYNC });
    assert_eq!(write_some(&store, &disk, 2, 1, 500).await, [0_u64; 0]);
    let mut changes = disk.finish();
    // What a killed process leaves behind is what it shows to others.
    let (directory, next) = place();
    for name in ["hitl.db", "hitl.db-wal"] {
        std::fs::copy(path.with_file_name(name), next.with_file_name(name)).unwrap();
    }
    drop(store.close().await);
    let disk = Disk::watch(directory.path());
    let store = open(&next);
    for number in 5..9 {
        assert_eq!(write_some(&store, &disk, number, 1, 500).await, [number]);
    }
    store.close().await.unwrap();
    changes.extend(disk.finish());
    for seed in 1..=if is_full() { 50 } else { 3 } {
        cut_everywhere(&changes, seed);
    }
}

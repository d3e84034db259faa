//! Files that lose their names under whoever has them open, and those that only seem to.

use std::fs;

use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::*;
use crate::domain::Error;
use crate::store::contract::fixture::*;
use crate::store::open_error::OpenError;
use crate::store::sqlite::path::with_suffix;
use crate::store::{Store, StoreExt};

const STORE: &str = "HITL_TEST_STORE_THAT_IS_LOOKED_AT";

async fn insert(store: &SqliteStore, number: u128) -> Result<(), Error> {
    store.transact(about(number), move |tx| tx.insert_session(&session(number), &[])).await
}

async fn count(store: &SqliteStore) -> usize {
    store.query(|reader| reader.count_sessions()).await.unwrap()
}

fn lost(what: &str) -> Result<(), Error> {
    Err(Error::StoreUnavailable(format!("the store's {what} was moved, removed or replaced")))
}

const NAMES: [(&str, &str); 3] = [("", "file"), ("-wal", "log (-wal)"), (".lock", "lock")];

#[tokio::test]
async fn where_a_file_has_lost_its_name_nothing_is_acknowledged_until_it_has_it_again() {
    for (suffix, what) in NAMES {
        let (_directory, path) = place();
        let store = open(&path);
        insert(&store, 1).await.unwrap();
        let (named, away) = (with_suffix(&path, suffix), path.with_extension("away"));
        fs::rename(&named, &away).unwrap();
        assert_eq!(insert(&store, 2).await, lost(what));
        // A copy of it is another one.
        fs::copy(&away, &named).unwrap();
        assert_eq!(insert(&store, 3).await, lost(what));
        fs::rename(&away, &named).unwrap();
        assert_eq!(insert(&store, 4).await, Ok(()));
        store.close().await.unwrap();
        assert_eq!(count(&open(&path)).await, 2, "{what}");
    }
}

#[tokio::test]
async fn nor_where_the_directory_that_they_are_in_was_moved_or_a_link_leads_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let [above, link] = ["above", "link"].map(|name| directory.path().join(name));
    fs::create_dir_all(above.join("store")).unwrap();
    let store = open(&above.join("store").join("hitl.db"));
    insert(&store, 1).await.unwrap();
    fs::rename(&above, directory.path().join("away")).unwrap();
    assert_eq!(insert(&store, 2).await, lost("file"));
    fs::rename(directory.path().join("away"), &above).unwrap();
    assert_eq!(insert(&store, 3).await, Ok(()));
    store.close().await.unwrap();

    std::os::unix::fs::symlink(&above, &link).unwrap();
    let store = open(&link.join("store").join("hitl.db"));
    insert(&store, 4).await.unwrap();
    fs::remove_file(&link).unwrap();
    // Nobody tells that, and it is looked at now and then.
    let (mut number, begun) = (4, std::time::Instant::now());
    while insert(&store, number + 1).await.is_ok() {
        number += 1;
        assert!(begun.elapsed() < std::time::Duration::from_secs(100), "it is never looked at");
    }
    assert_eq!(insert(&store, number + 1).await, lost("file"));
    assert_eq!(count(&store).await, usize::try_from(number).unwrap() - 1);
}

#[tokio::test]
async fn nor_where_a_file_is_replaced_again_and_again() {
    for (suffix, what) in NAMES {
        let (_directory, path) = place();
        let store = open(&path);
        let (named, away) = (with_suffix(&path, suffix), path.with_extension("away"));
        for round in 0..50 {
            insert(&store, 2 * round + 1).await.unwrap();
            fs::rename(&named, &away).unwrap();
            fs::write(&named, "another").unwrap();
            assert_eq!(insert(&store, 2 * round + 2).await, lost(what));
            fs::rename(&away, &named).unwrap();
        }
        insert(&store, 101).await.unwrap();
        assert_eq!(count(&store).await, 51, "{what}");
    }
}

#[tokio::test]
async fn nor_where_one_was_removed() {
    for (suffix, what) in NAMES {
        let (_directory, path) = place();
        let store = open(&path);
        insert(&store, 1).await.unwrap();
        fs::remove_file(with_suffix(&path, suffix)).unwrap();
        for number in 2..5 {
            assert_eq!(insert(&store, number).await, lost(what));
        }
        assert_eq!(count(&store).await, 1);
        store.close().await.unwrap();
        if !suffix.is_empty() {
            // What was in a log that nobody has is in the file now.
            assert_eq!(count(&open(&path)).await, 1, "{what}");
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_disk_is_no_reason_to_open_what_has_come_in_the_place_of_the_file() {
    let (_directory, path) = place();
    let store = open(&path);
    insert(&store, 1).await.unwrap();
    make_commits_of_events_fail(&path);
    let failed = store.transact(about(1), |tx| tx.append_event(&event(1, "x"), at(0)).map(|_| ())).await;
    assert!(matches!(failed, Err(Error::StoreUnavailable(_))), "{failed:?}");
    let away = path.with_extension("away");
    fs::rename(&path, &away).unwrap();
    fs::copy(&away, &path).unwrap();
    assert_eq!(insert(&store, 2).await, lost("file"));
    fs::rename(&away, &path).unwrap();
    assert_eq!(insert(&store, 3).await, Ok(()));
}

#[tokio::test]
async fn whoever_has_lost_the_lock_leaves_that_of_another_where_it_is() {
    let (_directory, path) = place();
    let store = open(&path);
    fs::remove_file(with_suffix(&path, ".lock")).unwrap();
    let other = open(&path);
    assert_eq!(insert(&store, 1).await, lost("lock"));
    assert_eq!(insert(&other, 1).await, Ok(()));
    store.close().await.unwrap();
    assert!(matches!(SqliteStore::open(&path).err(), Some(OpenError::Locked { .. })));
    other.close().await.unwrap();
    open(&path);
}

#[tokio::test]
async fn whoever_ends_after_all_was_moved_leaves_the_log_of_a_new_store_where_it_is() {
    let (directory, path) = place();
    let store = open(&path);
    insert(&store, 1).await.unwrap();
    let away = directory.path().join("away");
    fs::create_dir(&away).unwrap();
    for name in ["hitl.db", "hitl.db-wal", "hitl.db-shm", "hitl.db.lock"] {
        fs::rename(directory.path().join(name), away.join(name)).unwrap();
    }
    let new = open(&path);
    insert(&new, 1).await.unwrap();
    assert_eq!(insert(&store, 2).await, lost("file"));
    store.close().await.unwrap();
    assert_eq!(insert(&new, 2).await, Ok(()));
    new.close().await.unwrap();
    assert_eq!((count(&open(&path)).await, count(&open(&away.join("hitl.db"))).await), (2, 1));
}

#[tokio::test]
async fn whoever_ends_leaves_what_has_come_in_the_place_of_its_log() {
    let (_directory, path) = place();
    let (log, store) = (with_suffix(&path, "-wal"), open(&path));
    insert(&store, 1).await.unwrap();
    fs::rename(&log, path.with_extension("away")).unwrap();
    fs::write(&log, "somebody's").unwrap();
    store.close().await.unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "somebody's");
}

#[tokio::test]
async fn a_log_that_another_store_of_the_process_leaves_or_removes_is_none_that_was_moved() {
    let (_directory, path) = place();
    let mut last = SqliteStore::open_shared(&path).unwrap();
    for round in 1..=40 {
        // While the other one closes, before it, and after it: then the log is removed, and made anew.
        let opening = path.clone();
        let next = match round % 3 {
            0 => {
                let opened = std::thread::spawn(move || SqliteStore::open_shared(&opening).unwrap());
                last.close().await.unwrap();
                opened.join().unwrap()
            }
            1 => {
                let opened = SqliteStore::open_shared(&opening).unwrap();
                last.close().await.unwrap();
                opened
            }
            _ => {
                last.close().await.unwrap();
                SqliteStore::open_shared(&opening).unwrap()
            }
        };
        let reader = SqliteStore::open_read_only(&path).unwrap();
        assert_eq!(insert(&next, round).await, Ok(()), "round {round}");
        reader.close().await.unwrap();
        last = next;
    }
    assert_eq!(count(&last).await, 40);
}

#[tokio::test]
async fn nor_is_one_that_was_copied_into_the_file_or_a_file_that_was_written_anew() {
    let (_directory, path) = place();
    let store = open(&path);
    insert(&store, 1).await.unwrap();
    let beside = rusqlite::Connection::open(&path).unwrap();
    for (number, work) in
        ["PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(RESTART)"].iter().enumerate()
    {
        beside.execute_batch(work).unwrap();
        assert_eq!(insert(&store, number as u128 + 2).await, Ok(()), "{work}");
    }
}

#[tokio::test]
async fn nor_is_the_log_of_a_copy_that_had_none() {
    let (directory, path) = place();
    open(&path).close().await.unwrap();
    let copy = directory.path().join("copy.db");
    // As SQLite makes one: a file without a write-ahead log, of the newest schema.
    let sql = format!("VACUUM INTO '{}'", copy.display());
    rusqlite::Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let store = open(&copy);
    assert_eq!(insert(&store, 1).await, Ok(()));
    store.close().await.unwrap();
    assert_eq!(count(&open(&copy)).await, 1);
}

/// The part of the next test that runs in a process of its own, which the lock of another one would keep from removing the log.
#[test]
fn looking_for_the_lock_of_another_process() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    // Where SQLite has the lock of whoever has a file open: https://sqlite.org/src/doc/trunk/src/os.h
    let whole = Flock { start: 0x4000_0002, length: 510, ..FlockType::WriteLock.into() };
    assert!(
        fcntl_getlk(&file, &whole).unwrap().is_some(),
        "no process has the file open, as far as the next one can see"
    );
}

#[tokio::test]
async fn whoever_opens_the_file_a_second_time_in_a_process_leaves_it_the_locks_of_the_first() {
    let (_directory, path) = place();
    let store = SqliteStore::open_shared(&path).unwrap();
    let look = |when: &str| {
        let looked =
            child("store::sqlite::tests::names::looking_for_the_lock_of_another_process", STORE, &path).output();
        assert!(looked.as_ref().unwrap().status.success(), "{when}: {looked:?}");
    };
    look("first");
    // The system takes all locks of a process on a file when that closes any descriptor of it.
    assert!(SqliteStore::open(&path).is_err());
    look("refused");
    let second = SqliteStore::open_shared(&path).unwrap();
    look("second");
    second.close().await.unwrap();
    look("closed");
    insert(&store, 1).await.unwrap();
}

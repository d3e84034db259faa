//! One file and several processes: a server alone, others beside each other, and those that only read.

use std::process::Stdio;

use futures_util::future::join_all;

use super::*;
use crate::domain::Error;
use crate::domain::journal::Entry;
use crate::store::contract::fixture::*;
use crate::store::open;
use crate::store::open_error::{FileHolder, OpenError};
use crate::store::sqlite::migrations::{NEWEST, OLDEST};
use crate::store::{Store, StoreExt};

const STORE: &str = "HITL_TEST_STORE_TO_BE_SHARED";
const WRITES: u64 = 40;

fn shared(path: &Path) -> SqliteStore {
    SqliteStore::open_shared(path).unwrap()
}

fn read_only(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open_read_only(path)
}

fn locked(path: &Path, pid: u32, is_server: bool) -> OpenError {
    OpenError::Locked { path: path.to_owned(), holder: Some(FileHolder { pid, is_server }) }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn insert(store: &dyn Store, number: u128) -> Result<(), Error> {
    store.transact(about(number), move |tx| tx.insert_session(&session(number), &[])).await
}

async fn count(store: &dyn Store) -> usize {
    store.query(|reader| reader.count_sessions()).await.unwrap()
}

#[tokio::test]
async fn a_server_and_others_keep_each_other_out_and_say_who_they_are() {
    let (directory, path) = place();
    let me = std::process::id();
    let server = open(&path);
    assert_eq!(SqliteStore::open_shared(&path).err(), Some(locked(&path, me, true)));
    server.close().await.unwrap();
    let (one, two) = (shared(&path), shared(&path));
    let refusal = SqliteStore::open(&path).err().unwrap();
    assert_eq!(refusal, locked(&path, me, false));
    assert_eq!(refusal.code(), "store_locked");
    one.close().await.unwrap();
    assert_eq!(SqliteStore::open(&path).err(), Some(locked(&path, me, false)));
    two.close().await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db"]);
    open(&path).close().await.unwrap();
}

#[tokio::test]
async fn those_that_share_a_file_see_each_other() {
    let (_directory, path) = place();
    let (one, two) = (shared(&path), shared(&path));
    insert(&one, 1).await.unwrap();
    assert_eq!(count(&two).await, 1);
    assert_eq!(insert(&two, 1).await, Err(Error::SessionExists));
    let writes = (2..42).map(|number| insert(if number % 2 == 0 { &one } else { &two }, number));
    assert!(join_all(writes).await.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(count(&one).await, 41);
    one.close().await.unwrap();
    insert(&two, 50).await.unwrap();
    two.close().await.unwrap();
    let store = open(&path);
    assert_eq!(count(&store).await, 42);
}

/// The part of the next tests that runs in processes of its own; without its variable it has nothing to do.
#[tokio::test]
async fn sharing_until_done() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let store = shared(Path::new(&path));
    for _ in 0..WRITES {
        let written = store.transact(about(1), |tx| {
            if tx.session(session_id(1))?.is_none() {
                tx.insert_session(&session(1), &[])?;
                tx.insert_turn(&turn(session_id(1), 1))?;
            }
            tx.append_event(&event(1, "x"), at(0))?;
            tx.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))
        });
        written.await.unwrap();
    }
    if path.to_string_lossy().contains("killed") {
        println!("\nwritten");
        std::future::pending::<()>().await;
    }
    store.close().await.unwrap();
}

fn sharing(path: &Path) -> std::process::Command {
    child("store::sqlite::tests::modes::sharing_until_done", STORE, path)
}

#[tokio::test]
async fn processes_make_a_file_at_once_and_write_to_it_and_lose_nothing() {
    let (directory, _) = place();
    // In a directory that has to be made, too.
    let path = directory.path().join(".hitl").join("hitl.db");
    let processes: Vec<_> =
        (0..4).map(|_| sharing(&path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Of two that leave at the same moment each may find the other still there: then the log stays for whoever is next.
    open(&path).close().await.unwrap();
    assert_eq!(names(path.parent().unwrap()), [".gitignore", "hitl.db"]);
    let store = open(&path);
    let journal = store.query(|reader| reader.journal(turn_id(1))).await.unwrap();
    assert_eq!(journal.len() as u64, 4 * WRITES);
    assert_eq!(store.query(|reader| reader.last_event()).await, Ok(4 * WRITES));
}

#[tokio::test]
async fn a_killed_process_keeps_nobody_out() {
    use std::io::{BufRead, BufReader};
    let (directory, _) = place();
    let path = directory.path().join("killed.db");
    let mut process = sharing(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line == "written").unwrap();
    assert_eq!(SqliteStore::open(&path).err(), Some(locked(&path, process.id(), false)));
    let beside = shared(&path);
    process.kill().unwrap();
    process.wait().unwrap();
    // The one that is left is the one to name.
    assert_eq!(SqliteStore::open(&path).err(), Some(locked(&path, std::process::id(), false)));
    beside.close().await.unwrap();
    let store = open(&path);
    assert_eq!(store.query(|reader| reader.journal(turn_id(1))).await.unwrap().len() as u64, WRITES);
}

#[tokio::test]
async fn whoever_only_reads_needs_no_right_and_changes_nothing() {
    let (directory, path) = place();
    let server = open(&path);
    insert(&server, 1).await.unwrap();
    let reader = read_only(&path).unwrap();
    assert_eq!(count(&reader).await, 1);
    insert(&server, 2).await.unwrap();
    assert_eq!(count(&reader).await, 2);
    let refused = insert(&reader, 3).await;
    assert_eq!(refused, Err(Error::StoreUnavailable("the store is open for reading only".to_owned())));
    reader.close().await.unwrap();
    assert_eq!(reader.query(|reader| reader.last_event()).await.unwrap_err().code(), "store_unavailable");
    server.close().await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db"]);
    // Nobody else has it: a server may start while it is being read.
    let reader = read_only(&path).unwrap();
    assert_eq!(count(&reader).await, 2);
    let server = open(&path);
    insert(&server, 4).await.unwrap();
    assert_eq!(count(&reader).await, 3);
    server.close().await.unwrap();
    assert_eq!(count(&reader).await, 3);
    reader.close().await.unwrap();
    // What is left in the log is found by whoever reads next, and tidied up by the next server.
    let before = std::fs::read(&path).unwrap();
    let reader = read_only(&path).unwrap();
    assert_eq!(count(&reader).await, 3);
    reader.close().await.unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(!names(directory.path()).contains(&"hitl.db.lock".to_owned()));
    open(&path).close().await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[tokio::test]
async fn what_cannot_be_read_as_it_is_is_refused() {
    let (directory, path) = place();
    assert_eq!(read_only(&path).err(), Some(OpenError::Missing(path.clone())));
    assert_eq!(read_only(directory.path()).err(), Some(OpenError::IsDirectory(directory.path().to_owned())));
    assert!(names(directory.path()).is_empty());
    open(&path).close().await.unwrap();
    let with_version = |version: i64| {
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        read_only(&path).err().unwrap()
    };
    let (newer, too_old) = (with_version(NEWEST + 1), with_version(OLDEST - 1));
    assert_eq!(newer, OpenError::Newer { path: path.clone(), found: NEWEST + 1, known: NEWEST });
    assert_eq!(too_old, OpenError::TooOld { path: path.clone(), found: OLDEST - 1, known: OLDEST });
    std::fs::write(&path, "").unwrap();
    assert_eq!(read_only(&path).err().unwrap().code(), "store_older");
    std::fs::write(&path, "a diary\n".repeat(100)).unwrap();
    assert_eq!(read_only(&path).err(), Some(OpenError::NotADatabase(path.clone())));
}

#[tokio::test]
async fn an_address_opens_its_store_in_each_way() {
    let (_directory, path) = place();
    let address = format!("sqlite:{}", path.display());
    for address in ["memory", &address] {
        let store = open::shared(address).await.unwrap();
        insert(&*store, 1).await.unwrap();
        store.close().await.unwrap();
    }
    let store = open::read_only(&address).await.unwrap();
    assert_eq!(count(&*store).await, 1);
    assert_eq!(open::read_only("memory").await.err().unwrap().code(), "store_address_invalid");
}

#[tokio::test]
async fn a_symbolic_link_leads_to_the_same_store() {
    let (directory, path) = place();
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let server = open(&path);
    let path = path.canonicalize().unwrap();
    let me = std::process::id();
    assert_eq!(SqliteStore::open(&link).err(), Some(locked(&path, me, true)));
    assert_eq!(SqliteStore::open_shared(&link).err(), Some(locked(&path, me, true)));
    insert(&server, 1).await.unwrap();
    let reader = read_only(&link).unwrap();
    assert_eq!(count(&reader).await, 1);
    reader.close().await.unwrap(); // one that is only dropped lets go of the file at some time after that
    server.close().await.unwrap();
    let server = open(&link);
    assert_eq!(SqliteStore::open(&path).err(), Some(locked(&path, me, true)));
    assert_eq!(count(&server).await, 1);
    server.close().await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db", "link.db"]);
}

#[tokio::test]
async fn a_file_with_two_names_is_refused_by_either() {
    let (directory, path) = place();
    let other = directory.path().join("other.db");
    let server = open(&path);
    std::fs::hard_link(&path, &other).unwrap();
    for opened in [SqliteStore::open(&other), SqliteStore::open_shared(&other), SqliteStore::open_read_only(&other)] {
        let refusal = opened.err().unwrap();
        assert!(matches!(refusal, OpenError::Failed { .. }), "{refusal}");
        assert!(refusal.to_string().contains("2 names"), "{refusal}");
    }
    server.close().await.unwrap();
    assert!(SqliteStore::open(&path).is_err());
    std::fs::remove_file(&other).unwrap();
    open(&path).close().await.unwrap();
}

//! Opening: what is made, what is refused, and that a refusal leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::store::contract::fixture::{about, message, open_at_once, session, session_id};
use crate::store::open::Address;
use crate::store::open_error::{FileHolder, OpenError};
use crate::store::schema_state::SchemaState;
use crate::store::sqlite::migrations::{APPLICATION_ID, NEWEST};
use crate::store::sqlite::path::with_suffix;
use crate::store::{Store, StoreExt};

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const OLDEST_SCHEMA: &str = include_str!("../migrations/0002_sessions.sql");

fn refusal(path: &Path) -> OpenError {
    SqliteStore::open(path).err().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn everything_is_there_after_closing_and_reopening() {
    let (_directory, path) = place();
    let store = open(&path);
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[message("kept")])).await.unwrap();
    store.close().await.unwrap();
    let store = open(&path);
    let seen = store.query(|reader| reader.messages(session_id(1))).await.unwrap();
    assert_eq!(seen, vec![message("kept")]);
}

#[tokio::test]
async fn a_file_is_the_same_store_whoever_opens_it() {
    let (_directory, path) = place();
    let id = |store: SqliteStore| async move {
        let id = store.query(|reader| reader.store_id()).await.unwrap();
        store.close().await.unwrap();
        id
    };
    let first = id(open(&path)).await;
    assert_eq!(id(SqliteStore::open_shared(&path).unwrap()).await, first);
    assert_eq!(id(SqliteStore::open_read_only(&path).unwrap()).await, first);
}

#[test]
fn the_whole_address_of_a_store_holds_in_every_directory() {
    let whole = |text: &str| Address::parse(text).unwrap().whole();
    let here = std::env::current_dir().unwrap();
    for text in ["sqlite:runs.db", "runs.db", "./runs.db"] {
        assert_eq!(whole(text), Some(format!("sqlite:{}/runs.db", here.display())), "{text}");
    }
    for text in ["sqlite:/var/a:b.db", "/var/a:b.db"] {
        assert_eq!(whole(text), Some("sqlite:/var/a:b.db".to_owned()), "{text}");
    }
    assert_eq!(whole("memory"), None);
}

#[tokio::test]
async fn closing_leaves_one_file() {
    let (directory, path) = place();
    let store = open(&path);
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])).await.unwrap();
    store.query(|reader| reader.count_sessions()).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[tokio::test]
async fn closing_does_not_wait_for_whoever_reads_the_file() {
    let (_directory, path) = place();
    let store = open(&path);
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])).await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let count = || connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0));
    assert_eq!(count(), Ok(1));
    store.transact(about(2), |transaction| transaction.insert_session(&session(2), &[])).await.unwrap();
    assert_eq!(store.close().await, Ok(()));
    assert_eq!(count(), Ok(1));
    drop(connection);
    assert_eq!(open(&path).query(|reader| reader.count_sessions()).await, Ok(2));
}

#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    let (directory, path) = place();
    let store = open(&path);
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])).await.unwrap();
    assert_eq!(names(directory.path()), ["hitl.db", "hitl.db-shm", "hitl.db-wal", "hitl.db.lock"]);
    for name in names(directory.path()) {
        assert_eq!(mode(&directory.path().join(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_directory_of_our_own_making_is_private_and_kept_out_of_git() {
    let (directory, _) = place();
    let made = directory.path().join(".hitl");
    let _store = open(&made.join("hitl.db"));
    assert_eq!(fs::read_to_string(made.join(".gitignore")).unwrap(), "*\n");
    assert_eq!(mode(&made), 0o700);
}

#[test]
fn a_directory_that_was_there_is_left_as_it_was() {
    let (directory, path) = place();
    let _store = open(&path);
    assert!(!directory.path().join(".gitignore").exists());
}

#[test]
fn a_directory_above_the_missing_one_has_to_be_there() {
    let (directory, _) = place();
    let error = refusal(&directory.path().join("a/b/hitl.db"));
    assert!(matches!(error, OpenError::ParentMissing { .. }), "{error}");
    assert_eq!(error.code(), "store_parent_missing");
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_directory_is_no_store() {
    let (directory, _) = place();
    let error = refusal(directory.path());
    assert_eq!(error, OpenError::IsDirectory(directory.path().to_owned()));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let (directory, path) = place();
    let text = "a diary, and certainly longer than the header of a database file, which is a hundred bytes long\n";
    fs::write(&path, text.repeat(3)).unwrap();
    assert_eq!(refusal(&path), OpenError::NotADatabase(path.clone()));
    assert_eq!(fs::read_to_string(&path).unwrap(), text.repeat(3));
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let (directory, path) = place();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(refusal(&path), OpenError::NotAStore(path.clone()));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[test]
fn what_another_program_writes_at_the_moment_is_not_touched() {
    let (_directory, path) = place();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE recipes (name TEXT)").unwrap();
    let log = path.with_file_name("hitl.db-wal");
    let written = || fs::metadata(&log).unwrap().modified().unwrap();
    let before = written();
    assert_eq!(refusal(&path), OpenError::NotAStore(path.clone()));
    assert_eq!(written(), before);
}

#[tokio::test]
async fn a_file_of_an_older_release_is_brought_up_to_date_without_a_server() {
    let (_directory, path) = place();
    let missing = SqliteStore::migrate(&path).await.unwrap_err();
    assert_eq!((missing.code(), path.exists()), ("store_missing", false));
    let older = format!("{}; PRAGMA user_version = 2; PRAGMA application_id = {APPLICATION_ID}", OLDEST_SCHEMA);
    rusqlite::Connection::open(&path).unwrap().execute_batch(&older).unwrap();
    let found = SchemaState { found: Some(2), newest: i32::try_from(NEWEST).unwrap() };
    assert_eq!(SqliteStore::schema(&path), Ok(found));
    assert_eq!(SqliteStore::migrate(&path).await, Ok(found));
    assert_eq!(SqliteStore::schema(&path), Ok(SchemaState { found: Some(found.newest), ..found }));
}

#[tokio::test]
async fn a_newer_database_is_refused_with_both_versions() {
    let (directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", NEWEST + 3).unwrap();
    drop(connection);
    let error = refusal(&path);
    assert_eq!(error, OpenError::Newer { path: path.clone(), found: NEWEST + 3, known: NEWEST });
    let text = error.to_string();
    assert!(text.contains(&(NEWEST + 3).to_string()) && text.contains(&format!("up to {NEWEST}")), "{text}");
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[tokio::test]
async fn a_file_of_the_first_release_is_refused_and_left_alone() {
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 1).unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(refusal(&path).code(), "store_too_old");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    let _store = open(&path);
}

#[tokio::test]
async fn one_server_owns_a_file() {
    let (_directory, path) = place();
    let store = open(&path);
    let error = refusal(&path);
    assert_eq!(
        error,
        OpenError::Locked { path: path.clone(), holder: Some(FileHolder { pid: std::process::id(), is_server: true }) }
    );
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])).await.unwrap();
    store.close().await.unwrap();
    open(&path).close().await.unwrap();
}

#[test]
fn the_lock_of_a_dead_server_does_not_count() {
    let (_directory, path) = place();
    fs::write(path.with_extension("db.lock"), "1\n").unwrap();
    let _store = open(&path);
}

#[test]
fn a_path_through_a_file_is_refused() {
    let (directory, path) = place();
    fs::write(&path, "").unwrap();
    let error = refusal(&path.join("hitl.db"));
    assert!(matches!(error, OpenError::Failed { .. } | OpenError::ParentMissing { .. }), "{error}");
    assert_eq!(names(directory.path()), ["hitl.db"]);
}

#[test]
fn addresses_are_read() {
    let sqlite = |path: &str| Ok(Address::Sqlite(PathBuf::from(path)));
    assert_eq!(Address::parse("memory"), Ok(Address::Memory));
    assert_eq!(Address::parse("sqlite:.hitl/hitl.db"), sqlite(".hitl/hitl.db"));
    assert_eq!(Address::parse("SQLite:/var/lib/hitl.db"), sqlite("/var/lib/hitl.db"));
    assert_eq!(Address::parse("hitl.db"), sqlite("hitl.db"));
    assert_eq!(Address::parse("./memory"), sqlite("./memory"));
    assert_eq!(Address::parse("./a:b.db"), sqlite("./a:b.db"));
    assert_eq!(Address::parse("sqlite:memory"), sqlite("memory"));
}

#[test]
fn addresses_that_mean_nothing_are_refused_without_repeating_them() {
    for text in [
        "",
        " ",
        "sqlite:",
        "sqlite://x.db",
        ":memory:",
        "sqlite::memory:",
        "memory:x",
        "Memory",
        "MEMORY",
        "mysql://u:secret@h/d",
    ] {
        let error = Address::parse(text).unwrap_err();
        assert_eq!(error.code(), "store_address_invalid", "{text}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn the_address_of_a_postgres_is_one() {
    for text in ["postgres://user:secret@host/db", "postgresql://host"] {
        let address = Address::parse(text).unwrap();
        assert!(matches!(address, Address::Postgres(_)), "{address:?}");
        assert!(!format!("{address:?} {:?}", address.whole()).contains("secret"));
    }
}

#[tokio::test]
async fn an_address_opens_its_store() {
    let (_directory, path) = place();
    for address in ["memory".to_owned(), format!("sqlite:{}", path.display())] {
        let store = open_at_once(&address).await.unwrap();
        assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(0));
        store.close().await.unwrap();
    }
    assert!(path.exists());
}

#[test]
fn what_is_no_file_is_refused_before_anybody_waits_for_it() {
    let (_directory, path) = place();
    std::os::unix::net::UnixListener::bind(&path).unwrap();
    let pipe = path.with_extension("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for place in [&path, &pipe, &PathBuf::from("/dev/null")] {
        for refused in [refusal(place), SqliteStore::open_read_only(place).err().unwrap()] {
            assert!(matches!(&refused, OpenError::Failed { reason, .. } if reason.contains("no file")), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn the_log_of_a_file_that_was_taken_away_is_not_thrown_away() {
    let (directory, path) = place();
    let store = open(&path);
    store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])).await.unwrap();
    // As after a crash.
    let left = directory.path().join("left.db");
    for suffix in ["", "-wal"] {
        fs::copy(with_suffix(&path, suffix), with_suffix(&left, suffix)).unwrap();
    }
    store.close().await.unwrap();
    fs::rename(&left, directory.path().join("away.db")).unwrap();
    let refused = refusal(&left);
    assert!(
        matches!(&refused, OpenError::Failed { reason, .. } if reason.contains("its log (-wal) is")),
        "{refused:?}"
    );
    fs::rename(directory.path().join("away.db"), &left).unwrap();
    assert_eq!(open(&left).query(|reader| reader.count_sessions()).await, Ok(1));
}

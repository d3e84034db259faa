//! What this store does beyond the contract of every store.

mod copying;
pub(super) mod disk;
mod faults;
mod groups;
mod kills;
mod line;
mod modes;
mod names;
mod opening;
mod rows;
mod size;

use std::path::{Path, PathBuf};

use super::SqliteStore;

/// A directory that goes when the test is over, and a place for a store in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hitl.db");
    (directory, path)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).unwrap()
}

/// From now on a commit that holds an event fails, although every statement in it succeeds.
fn make_commits_of_events_fail(path: &Path) {
    let sql = "CREATE TABLE nowhere (id INTEGER PRIMARY KEY);
               CREATE TABLE broken (id INTEGER REFERENCES nowhere (id) DEFERRABLE INITIALLY DEFERRED);
               CREATE TRIGGER breaks AFTER INSERT ON events BEGIN INSERT INTO broken (id) VALUES (7); END;";
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Runs the test `name` of this binary in a process of its own, with `variable` naming the store.
fn child(name: &str, variable: &str, path: &Path) -> std::process::Command {
    // A shell in between, because a signal that is ignored stays ignored in what it starts: with SIGXFSZ ignored, a
    // write beyond a limit is an error like that of a full disk.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(variable, path);
    command
}

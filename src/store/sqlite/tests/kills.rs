//! Acknowledged means on the disk, whatever kills the process.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use super::*;
use crate::domain::journal::Entry;
use crate::store::contract::fixture::*;
use crate::store::{Store, StoreExt};

const STORE: &str = "HITL_TEST_STORE_TO_BE_KILLED";
const WORD: &str = "acknowledged ";

/// The part of the next test that is killed; without its variable it has nothing to do. It writes for ever and says
/// each number once it is acknowledged.
#[tokio::test]
async fn writing_until_killed() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let store = open(Path::new(&path));
    store
        .transact(about(1), |transaction| {
            if transaction.session(session_id(1))?.is_none() {
                transaction.insert_session(&session(1), &[])?;
                transaction.insert_turn(&turn(session_id(1), 1))?;
            }
            Ok(())
        })
        .await
        .unwrap();
    loop {
        // Several at once, so that commits are shared too, and large enough that the log is copied now and then.
        let text = "x".repeat(8 * 1024);
        let writes: Vec<_> = (0..3)
            .map(|_| {
                let value = serde_json::json!(text);
                store.transact(about(1), move |transaction| {
                    transaction.append_foreign(turn_id(1), &step("s", value.clone()), at(0))
                })
            })
            .collect();
        for write in writes {
            let index = write.await.unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "\n{WORD}{index}").and_then(|()| out.flush()).unwrap();
        }
    }
}

/// Starts the writer, kills it once it has acknowledged `count` writes: the highest index that it acknowledged.
fn kill_after(path: &Path, count: usize) -> u64 {
    let mut writer =
        child("store::sqlite::tests::kills::writing_until_killed", STORE, path).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix(WORD)?.parse::<u64>().ok());
    let mut last = lines.nth(count - 1).unwrap();
    writer.kill().unwrap();
    // What it still said before it died counts as well.
    last = lines.last().unwrap_or(last).max(last);
    writer.wait().unwrap();
    last
}

#[tokio::test]
async fn everything_acknowledged_survives_a_kill() {
    let (_directory, path) = place();
    for count in [1, 2, 30, 5, 700, 1, 90, 13] {
        let acknowledged = kill_after(&path, count);
        let store = open(&path);
        let journal = store.query(|reader| reader.journal(turn_id(1))).await.unwrap();
        assert!(journal.len() as u64 > acknowledged, "{} of {}", journal.len(), acknowledged + 1);
        assert!(journal.iter().all(|entry| matches!(entry.entry, Entry::Step { .. })));
        store.close().await.unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        let checked: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(checked, "ok");
    }
}

//! `hitl store copy`, both ways: what is in one store is in the other.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::*;
use crate::domain::seeds::Random;
use crate::store::contract::fixture::open_at_once;
use crate::store::copy::copy;
use crate::store::copying::batches::{RowBatch, StoreHead};
use crate::store::copying::lines;
use crate::store::copying::tables::{Here, Kind, TABLES, Table};
use crate::store::open_error::OpenError;
use crate::store::postgres::tests::support::Database;
use crate::store::sqlite::copying::{SqliteSource, SqliteTarget};

/// Texts that a format of lines or a database could take for something else.
const TEXTS: [&str; 10] = ["", "{\"a\":\"\\u0000\"}", "a\tb", "a\nb\r", "\\N", "\\", "\0", "\u{1a}0", "ü😀", "null"];

/// The cells of a row, as they are on their way.
type Cells = Vec<Option<String>>;

/// What a store holds, without what each draws for itself.
fn rows_of(path: &Path) -> BTreeMap<&'static str, Vec<Cells>> {
    let source = SqliteSource::open(path).unwrap();
    let (sender, mut batches) = mpsc::channel(1);
    let reading = source.read(sender);
    let mut rows: BTreeMap<&'static str, Vec<Cells>> = BTreeMap::new();
    while let Some(batch) = batches.blocking_recv() {
        let RowBatch { table, lines, .. } = batch.unwrap();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            rows.entry(table.name).or_default().push(kept(table, lines::cells(line).unwrap()));
        }
    }
    reading.join().unwrap();
    rows.values_mut().for_each(|rows| rows.sort());
    rows
}

fn kept(table: &Table, cells: Cells) -> Cells {
    let is_drawn = |name: &str| table.name == "sessions" && ["version", "token"].contains(&name);
    table.columns.iter().zip(cells).filter(|(column, _)| !is_drawn(column.name)).map(|(_, cell)| cell).collect()
}

/// Rows of everything, as somebody could have written them.
struct World {
    random: Random,
    sessions: Vec<String>,
    /// With their sessions.
    turns: Vec<(String, String)>,
    told: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { random: Random(seed), sessions: Vec::new(), turns: Vec::new(), told: 1000 }
    }

    fn id(&mut self) -> String {
        uuid::Uuid::from_u64_pair(self.random.draw(), self.random.draw()).to_string()
    }

    fn text(&mut self) -> String {
        let texts = (0..self.random.within(1..4)).map(|_| TEXTS[self.random.within(0..10) as usize]);
        crate::store::rows::readable::without_nulls(&texts.collect::<String>()).into_owned()
    }

    fn list(&mut self, count: u64) -> String {
        // The names of channels differ.
        let names: Vec<String> =
            (0..count).map(|place| format!("{place}\"\\,é {}", self.random.within(0..9))).collect();
        lines::array(&names)
    }

    fn cell(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Int => self.random.within(0..1 << 40).to_string(),
            Kind::Bool => if self.random.chance(50) { "t" } else { "f" }.to_owned(),
            Kind::Text | Kind::Json => self.text(),
            Kind::Uuid => self.id(),
            Kind::Bytes => format!("\\x{:032x}{:016x}", self.random.draw(), self.random.draw()),
            Kind::Names => self.list(2),
        }
    }

    /// The row of that place among those of its table; `may_lack` says which columns may be empty.
    fn row(&mut self, table: &Table, place: u64, may_lack: &[String]) -> BTreeMap<&'static str, Option<String>> {
        let mut row: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
        for column in table.columns {
            let is_empty = may_lack.iter().any(|name| name == column.name) && self.random.chance(40);
            row.insert(column.name, (!is_empty).then(|| self.cell(column.kind)));
        }
        // What a row is known by is another one's.
        let first = table.columns.iter().find(|column| column.kind == Kind::Text).map(|column| column.name);
        if let Some(known_by) = first.and_then(|name| row.get_mut(name)) {
            *known_by = known_by.take().map(|text| format!("{place}{text}"));
        }
        let text = |text: &str| Some(text.to_owned());
        if let Some(seq) = row.get_mut("seq") {
            *seq = Some((place + 1).to_string());
        }
        if let Some(idx) = row.get_mut("idx") {
            *idx = Some(place.to_string());
        }
        match table.name {
            "sessions" => {
                let status = ["idle", "interrupted", "error"][place as usize % 3];
                row.insert("status", text(status));
                let settled = if status == "interrupted" { None } else { row["updated_at"].clone() };
                row.insert("settled_at", settled);
                self.sessions.extend(row["id"].clone());
            }
            "turns" => {
                let session = self.sessions[self.random.within(0..self.sessions.len() as u64) as usize].clone();
                self.turns.extend(row["id"].clone().map(|turn| (session.clone(), turn)));
                row.insert("session", Some(session));
                if row["ended_at"].is_none() || row["suspended_code"].is_some() {
                    row.insert("compacted", text("f"));
                }
            }
            "journal" => {
                let (session, turn) = self.turns[self.random.within(0..self.turns.len() as u64) as usize].clone();
                row.extend([("session", Some(session)), ("turn", Some(turn))]);
                self.told += 1;
                let told = self.told.to_string();
                row.entry("event").and_modify(|event| *event = event.take().map(|_| told));
            }
            "messages" | "interrupts" => {
                let session = self.sessions[self.random.within(0..self.sessions.len() as u64) as usize].clone();
                row.insert("session", Some(session));
            }
            "policy" => drop(row.insert("place", text("1"))),
            // The order of a list of channels is that of their names.
            "graph_checkpoints" => {
                let count = self.random.within(0..4);
                let (channels, versions) = (self.list(count), self.list(count));
                row.extend([("channels", Some(channels)), ("versions", Some(versions))]);
            }
            _ => {}
        }
        row
    }
}

/// A file with rows of everything, and these rows.
fn written(path: &Path, seed: u64, head: StoreHead) -> BTreeMap<&'static str, Vec<Cells>> {
    let mut world = World::new(seed);
    let mut all: BTreeMap<&'static str, Vec<Cells>> = BTreeMap::new();
    let mut target = SqliteTarget::open(path, &head).unwrap();
    let may_lack: Vec<Vec<String>> = TABLES.iter().map(|table| may_lack(path, table)).collect();
    for (table, may_lack) in TABLES.iter().zip(&may_lack) {
        let count = if table.name == "policy" { 1 } else { world.random.within(3..9) };
        for place in 0..count {
            let row = world.row(table, place, may_lack);
            let cells: Cells = table.columns.iter().map(|column| row[column.name].clone()).collect();
            let mut lines = Vec::new();
            for (index, cell) in cells.iter().enumerate() {
                lines::push(&mut lines, index == 0, cell.as_deref());
            }
            target.write(&RowBatch { table, lines, rows: 1 }).unwrap();
            all.entry(table.name).or_default().push(kept(table, cells));
        }
    }
    target.finish(head).unwrap();
    all.values_mut().for_each(|rows| rows.sort());
    all
}

/// Columns of a table that may be NULL.
fn may_lack(path: &Path, table: &Table) -> Vec<String> {
    columns(path, table.name).into_iter().filter(|(_, is_needed)| !is_needed).map(|(name, _)| name).collect()
}

fn columns(path: &Path, table: &str) -> Vec<(String, bool)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT name, \"notnull\" OR pk FROM pragma_table_info(?1)";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

fn head(number: u8) -> StoreHead {
    StoreHead { id: [number; 16], last_event: 1 << 41, swept: 7, last_session: 90 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_copied_there_and_back_is_the_same_row_by_row() {
    for seed in 0..8 {
        let (directory, path) = place();
        let back = directory.path().join("back.db");
        let database = Database::new().await;
        let all = tokio::task::block_in_place(|| written(&path, seed, head(1)));
        assert_eq!(all.len(), TABLES.len());
        let there = copy(path.to_str().unwrap(), &database.text()).await.unwrap();
        let again = copy(&database.text(), back.to_str().unwrap()).await.unwrap();
        assert_eq!(there, again, "seed {seed}");
        for (table, count) in &there.rows {
            assert_eq!(*count as usize, all[table].len(), "{table}, seed {seed}");
        }
        assert!(there.waiting > 0);
        for path in [&path, &back] {
            let read = tokio::task::block_in_place(|| rows_of(path));
            for (table, rows) in &all {
                assert_eq!(&read[table], rows, "{table}, seed {seed}");
            }
        }
        let kept = tokio::task::block_in_place(|| SqliteSource::open(&back).unwrap().head().unwrap());
        assert_eq!((kept.id, kept.swept, kept.last_session), ([1; 16], 7, 90));
        assert!(kept.last_event >= 1 << 41, "{kept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_after_a_copy_has_numbers_of_its_own() {
    let (_directory, path) = place();
    let database = Database::new().await;
    tokio::task::block_in_place(|| written(&path, 1, head(1)));
    copy(path.to_str().unwrap(), &database.text()).await.unwrap();
    let client = database.client().await;
    let next = "SELECT event_base > 1::bigint << 41, nextval('hitl.sessions_seq_seq') > 90,
                       nextval('hitl.outbox_seq_seq') > (SELECT max(seq) FROM hitl.outbox) FROM hitl.meta";
    let row = client.query_one(next, &[]).await.unwrap();
    assert_eq!([0, 1, 2].map(|index| row.get::<_, bool>(index)), [true; 3]);
    // Nothing is left that a store would take for a server.
    open_at_once(&database.text()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn every_column_of_either_store_is_copied() {
    let (_directory, path) = place();
    drop(super::open(&path));
    let database = Database::new().await;
    database.store().await;
    let client = database.client().await;
    // What belongs to a store and not to what it holds, is drawn anew, or is of the servers that have it.
    let own = ["store", "session_counters", "last_told", "meta", "servers", "deeds", "audit_chain"];
    let drawn = ["owner", "code", "refused_by"];
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let mut names: Vec<String> = Vec::new();
    let mut statement = sqlite.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    names.extend(statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<Vec<String>, _>>().unwrap());
    let tables = "SELECT table_name::text FROM information_schema.tables \
                  WHERE table_schema = 'hitl' AND table_type = 'BASE TABLE'";
    names.extend(client.query(tables, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
    for name in names.iter().filter(|name| !own.contains(&name.as_str())) {
        assert!(TABLES.iter().any(|table| table.name == name), "{name} is not copied");
    }
    for table in TABLES {
        for (column, _) in columns(&path, table.name) {
            let is_copied = table.columns.iter().any(|copied| match copied.here {
                Here::Same => copied.name == column,
                Here::Kept { column: kept, .. } => kept == column,
                Here::Derived(_) => false,
            });
            assert!(is_copied, "{}.{column} is not copied", table.name);
        }
        let sql =
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'hitl' AND table_name = $1";
        for row in client.query(sql, &[&table.name]).await.unwrap() {
            let column: String = row.get(0);
            let is_copied = table.columns.iter().any(|copied| copied.name == column);
            assert!(is_copied || drawn.contains(&column.as_str()), "hitl.{}.{column} is not copied", table.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_copied_into_an_empty_one_alone() {
    let (directory, path) = place();
    let (database, other) = (Database::new().await, directory.path().join("other.db"));
    let (from, file) = (path.to_str().unwrap(), other.to_str().unwrap());
    let code = async |from: &str, to: &str| copy(from, to).await.unwrap_err().code();
    assert_eq!(code(from, file).await, "store_missing");
    assert!(!path.exists() && !other.exists());
    tokio::task::block_in_place(|| written(&path, 1, head(1)));
    tokio::task::block_in_place(|| written(&other, 2, head(2)));
    assert_eq!(code(&database.text(), from).await, "store_missing");
    assert_eq!(code(from, from).await, "store_same");
    assert_eq!(code(from, "memory").await, "store_address_invalid");
    assert_eq!(code(from, file).await, "store_not_empty");
    copy(from, &database.text()).await.unwrap();
    // It was copied already, and one is a copy of the other.
    assert_eq!(code(from, &database.text()).await, "store_same");
    assert_eq!(code(&database.text(), from).await, "store_same");
    assert_eq!(code(file, &database.text()).await, "store_not_empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_either_store_meanwhile() {
    let (directory, path) = place();
    let (database, third) = (Database::new().await, directory.path().join("third.db"));
    let (from, file) = (path.to_str().unwrap(), third.to_str().unwrap());
    tokio::task::block_in_place(|| written(&path, 1, head(1)));
    let code = async |from: &str, to: &str| copy(from, to).await.unwrap_err().code();
    let server = open_at_once(from).await.unwrap();
    assert_eq!(code(from, file).await, "store_locked");
    server.close().await.unwrap();
    drop(server);
    // As target, and then as source.
    let server = open_at_once(&database.text()).await.unwrap();
    assert_eq!(code(from, &database.text()).await, "store_locked");
    assert_eq!(code(&database.text(), file).await, "store_locked");
    server.close().await.unwrap();
    // One that died does not keep anybody out, and changes nothing any more.
    let dead = "INSERT INTO hitl.servers (id, kind, host, pid, beat, beat_at, started_at)
                VALUES (gen_random_uuid(), 'server', 'away', 1, 5, 1, 1)";
    database.execute(dead).await;
    copy(from, &database.text()).await.unwrap();
    let left: i64 = database.client().await.query_one("SELECT count(*) FROM hitl.servers", &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_in_the_middle_leaves_its_target_empty() {
    let (directory, path) = place();
    let (database, other) = (Database::new().await, directory.path().join("other.db"));
    tokio::task::block_in_place(|| written(&path, 1, head(1)));
    // The last table is refused.
    let spoil = "PRAGMA ignore_check_constraints = ON; UPDATE graph_checkpoints SET versions = 'no JSON'";
    rusqlite::Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
    let from = path.to_str().unwrap();
    for to in [database.text(), other.to_str().unwrap().to_owned()] {
        let failed = copy(from, &to).await.unwrap_err();
        assert!(matches!(&failed, OpenError::Failed { .. }), "{failed:?}");
    }
    let mend = "UPDATE graph_checkpoints SET versions = '{}'";
    rusqlite::Connection::open(&path).unwrap().execute_batch(mend).unwrap();
    for to in [database.text(), other.to_str().unwrap().to_owned()] {
        copy(from, &to).await.unwrap();
    }
}

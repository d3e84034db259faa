//! What is durable, and how fast: rows of a turn by 1, 16 and 64 producers, beside SQLite by itself and an fsync by itself
//! on the same disk in the same run.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hitl::domain::interrupt::{Ask, Interrupt, Opening};
use hitl::domain::journal::{Entry, StepIdentity, StepResult};
use hitl::domain::message::ChatMessage;
use hitl::domain::schema::Anew;
use hitl::domain::session::Session;
use hitl::domain::status::InterruptStatus;
use hitl::domain::{InterruptId, JsonObject, SessionId, Timestamp, TurnId};
use hitl::store::about::About;
use hitl::store::owner::TurnOwner;
use hitl::store::record::Turn;
use hitl::store::sqlite::SqliteStore;
use hitl::store::{Store, StoreExt, Transaction};
use rusqlite::Connection;
use serde_json::json;
use tokio::runtime::Runtime;
use uuid::Uuid;

const PRODUCERS: [u32; 3] = [1, 16, 64];
const NOW: i64 = 1_700_000_000_000;

/// Ids that no other bench has taken.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn id() -> Uuid {
    Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

/// On the disk of the build, since what is in `/tmp` is often memory.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn step(number: u64) -> Entry {
    let step = StepIdentity {
        path: format!("0#{number}"),
        kind: "tool".to_owned(),
        name: "write_file".to_owned(),
        location: Some("agent.py:42".to_owned()),
        arguments: JsonObject::new(),
        tool_call_id: None,
    };
    Entry::Step { step, result: StepResult::Value(json!({"text": "x".repeat(100)})) }
}

/// A session with an open turn that nobody owns.
async fn open_turn(store: &dyn Store) -> (SessionId, TurnId) {
    let (session, turn) = (SessionId(id()), TurnId(id()));
    let message = ChatMessage { content: Some("go".to_owned()), ..ChatMessage::default() };
    let row = Turn::new(turn, session, message, None, now());
    store
        .transact(About::Session(session), move |transaction| {
            transaction.insert_session(&Session::new(session, "agents:main", 0, now()), &[])?;
            transaction.insert_turn(&row)
        })
        .await
        .unwrap();
    (session, turn)
}

/// A question of that turn.
async fn question(store: &dyn Store) -> Interrupt {
    let (session_id, turn_id) = open_turn(store).await;
    let ask: Ask = serde_json::from_value(json!({"type": "question", "payload": {"prompt": "Go on?"}})).unwrap();
    let opening = Opening {
        id: InterruptId(id()),
        session: session_id,
        turn: turn_id,
        now: now(),
        default_ttl: 0.0,
        max_payload: 16 * 1024,
    };
    let schema = ask.schema(opening.max_payload, &Anew, &Anew);
    let interrupt = Interrupt::open(ask, schema, opening).unwrap();
    let row = interrupt.clone();
    store.transact(About::Session(session_id), move |transaction| transaction.insert_interrupt(&row)).await.unwrap();
    interrupt
}

/// How long it takes until a task for each of `subjects` has done its work.
async fn all_at_once<T: Clone, F>(subjects: &[T], work: impl Fn(T) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = subjects.iter().map(|subject| tokio::spawn(work(subject.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    started.elapsed()
}

/// One bench for each number of producers: each has a subject that `make` made, and does `work` with it so many times.
/// What is told is the time for one of them.
fn bench<T: Clone, M, F>(
    criterion: &mut Criterion,
    runtime: &Runtime,
    name: &str,
    make: impl Fn() -> M,
    work: impl Fn(T, u64) -> F + Copy,
) where
    M: Future<Output = T>,
    F: Future<Output = ()> + Send + 'static,
{
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    for producers in PRODUCERS {
        let mut subjects = Vec::new();
        for _ in 0..producers {
            subjects.push(runtime.block_on(make()));
        }
        group.bench_function(BenchmarkId::from_parameter(producers), |bencher| {
            bencher.iter_custom(|times| {
                runtime.block_on(all_at_once(&subjects, |subject| work(subject, times))) / producers
            });
        });
    }
    group.finish();
}

async fn append(store: Arc<dyn Store>, turn: TurnId, epoch: u64, times: u64) {
    for number in 0..times {
        let entry = step(number);
        store
            .transact(About::Turn(turn), move |transaction| transaction.append(turn, epoch, &entry, now()))
            .await
            .unwrap();
    }
}

/// The same for a step that listeners are told of: it has a number among the events besides.
async fn append_told(store: Arc<dyn Store>, turn: TurnId, epoch: u64, times: u64) {
    for number in 0..times {
        let entry = step(number);
        store
            .transact(About::Turn(turn), move |transaction| transaction.append_told(turn, epoch, &entry, now()))
            .await
            .unwrap();
    }
}

async fn claim(store: Arc<dyn Store>, turn: TurnId, times: u64) {
    for _ in 0..times {
        store
            .transact(About::Turn(turn), move |transaction| transaction.claim_turn(turn, TurnOwner::this_process(), 0))
            .await
            .unwrap();
    }
}

/// The rows of an answer: the interrupt's, and the entry in the journal.
async fn answer(store: Arc<dyn Store>, pending: Interrupt, times: u64) {
    for _ in 0..times {
        let answered = Interrupt {
            status: InterruptStatus::Resolved,
            value: Some(json!(true)),
            resolved_by: Some("ada".to_owned()),
            resolved_at: Some(now()),
            ..pending.clone()
        };
        let write = move |transaction: &mut dyn Transaction| {
            transaction.update_interrupt(&answered)?;
            let entry = Entry::Answer { interrupt_id: answered.interrupt_id, value: json!(true) };
            transaction.append_foreign(answered.turn_id, &entry, now())
        };
        store.transact(About::Session(pending.session_id), write).await.unwrap();
    }
}

fn of_our_store(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let directory = directory();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&directory.path().join("hitl.db")).unwrap());
    let claimed = async || {
        let (_, turn) = open_turn(store.as_ref()).await;
        (
            turn,
            store
                .transact(About::Turn(turn), move |transaction| {
                    transaction.claim_turn(turn, TurnOwner::this_process(), 0)
                })
                .await
                .unwrap(),
        )
    };
    bench(criterion, &runtime, "store/append", claimed, |(turn, epoch), times| {
        append(store.clone(), turn, epoch, times)
    });
    bench(criterion, &runtime, "store/append told", claimed, |(turn, epoch), times| {
        append_told(store.clone(), turn, epoch, times)
    });
    bench(criterion, &runtime, "store/claim", claimed, |(turn, _), times| claim(store.clone(), turn, times));
    bench(
        criterion,
        &runtime,
        "store/answer",
        async || question(store.as_ref()).await,
        |pending, times| answer(store.clone(), pending, times),
    );
    runtime.block_on(store.close()).unwrap();
}

/// What nothing above can be faster than, where it commits one by one.
fn limits(criterion: &mut Criterion) {
    let directory = directory();
    let mut group = criterion.benchmark_group("store/limit");
    let connection = plain(&directory.path().join("plain.db"));
    let mut insert = connection.prepare("INSERT INTO entries (body) VALUES (?1)").unwrap();
    let body = "x".repeat(200);
    group.bench_function("SQLite, one row a commit", |bencher| bencher.iter(|| insert.execute([&body]).unwrap()));
    let mut file = File::create(directory.path().join("appended")).unwrap();
    group.bench_function("append and fsync", |bencher| {
        bencher.iter(|| {
            file.write_all(&[b'x'; 512]).unwrap();
            file.sync_all().unwrap();
        });
    });
    group.finish();
}

fn plain(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.execute_batch("CREATE TABLE entries (idx INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT").unwrap();
    connection
}

criterion_group!(benches, limits, of_our_store);
criterion_main!(benches);

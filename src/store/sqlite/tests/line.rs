//! Who writes, and in which order: the writing thread, or whoever asks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use rusqlite::Connection;

use super::*;
use crate::domain::Error;
use crate::store::about::About;
use crate::store::contract::fixture::*;
use crate::store::record::StoredReply;
use crate::store::sqlite::lock::Access;
use crate::store::sqlite::writer::{Limits, WrittenBy};
use crate::store::upkeep::LocalStore;
use crate::store::{BoxFuture, Store, StoreExt};

/// How long what hangs has not come to its end.
const PATIENCE: Duration = Duration::from_secs(60);
const STORE: &str = "HITL_TEST_STORE_OF_WHO_WRITES";

/// No commit is slow, however slow the machine.
fn limits() -> Limits {
    Limits { quick: Duration::from_secs(3600), ..Limits::default() }
}

fn open_with(path: &Path, limits: Limits) -> SqliteStore {
    SqliteStore::open_with(path, Access::Server, limits).unwrap()
}

/// Whose thread this is.
fn here() -> WrittenBy {
    match thread::current().name() {
        Some("hitl-store-write") => WrittenBy::Thread,
        _ => WrittenBy::Caller,
    }
}

/// A job that says whose thread has run it.
fn ask(store: &SqliteStore) -> BoxFuture<'static, Result<WrittenBy, Error>> {
    store.transact(About::Nothing, |_| Ok(here()))
}

fn is_idle(store: &SqliteStore) -> bool {
    let queues = store.queues.lock().unwrap_or_else(PoisonError::into_inner);
    queues.as_ref().and_then(|queues| queues.writes.as_ref()).unwrap().is_idle()
}

/// Who writes the next job that comes by itself. The thread tells what came of a job before it gives the writer back.
async fn next(store: &SqliteStore) -> WrittenBy {
    while !is_idle(store) {
        tokio::task::yield_now().await;
    }
    ask(store).await.unwrap()
}

/// The numbers of jobs in the order in which they have run, and who ran them.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<(usize, WrittenBy)>>>);

impl Order {
    fn note(&self, number: usize) {
        self.0.lock().unwrap().push((number, here()));
    }

    /// A job that notes its number.
    fn ask(&self, store: &SqliteStore, number: usize) -> BoxFuture<'static, Result<(), Error>> {
        let order = self.clone();
        store.transact(About::Nothing, move |_| {
            order.note(number);
            Ok(())
        })
    }

    fn seen(&self) -> Vec<(usize, WrittenBy)> {
        let mut seen = self.0.lock().unwrap().clone();
        // Where every commit is refused once.
        seen.dedup();
        seen
    }
}

fn reply() -> StoredReply {
    StoredReply { request_digest: String::new(), body: serde_json::json!(1), created_at: at(0) }
}

/// Panics where no job has anything to do with it.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(thread::panicking(), "a bug of the store");
    }
}

#[tokio::test]
async fn a_job_that_finds_nobody_is_committed_by_whoever_asks() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    for _ in 0..10 {
        assert_eq!(next(&store).await, WrittenBy::Caller);
    }
}

#[tokio::test]
async fn jobs_that_are_asked_for_together_are_the_threads_in_their_order() {
    let (_directory, path) = place();
    let (store, order) = (open_with(&path, limits()), Order::default());
    let asked: Vec<_> = (0..5).map(|number| order.ask(&store, number)).collect();
    // The last one is waited for first.
    for outcome in asked.into_iter().rev() {
        outcome.await.unwrap();
    }
    assert_eq!(order.seen(), (0..5).map(|number| (number, WrittenBy::Thread)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_job_whose_future_is_dropped_is_the_threads() {
    let (_directory, path) = place();
    let (store, order) = (open_with(&path, limits()), Order::default());
    drop(order.ask(&store, 0));
    while !is_idle(&store) {
        tokio::task::yield_now().await;
    }
    assert_eq!(order.seen(), [(0, WrittenBy::Thread)]);
}

#[tokio::test]
async fn behind_upkeep_everybody_waits_in_line() {
    let (_directory, path) = place();
    let (store, order) = (open_with(&path, limits()), Order::default());
    let (release, released) = mpsc::channel::<()>();
    let noted = order.clone();
    let upkeep = store.write_upkeep(Box::new(move |_| {
        let _ = released.recv();
        noted.note(0);
        Ok(())
    }));
    let behind = order.ask(&store, 1);
    drop(release);
    behind.await.unwrap();
    upkeep.await.unwrap();
    assert_eq!(order.seen(), [(0, WrittenBy::Thread), (1, WrittenBy::Thread)]);
}

#[tokio::test]
async fn whoever_commits_takes_in_what_comes_meanwhile_and_they_share_its_fate() {
    let (_directory, path) = place();
    let limits = Limits { time: Duration::from_secs(3600), ..limits() };
    let store = Arc::new(open_with(&path, limits));
    store.transact(about(1), |tx| tx.insert_session(&session(1), &[])).await.unwrap();
    make_commits_of_events_fail(&path);
    for fails in [false, true] {
        let meanwhile = Arc::new(Mutex::new(None));
        let (asked, put) = (Arc::clone(&store), Arc::clone(&meanwhile));
        let first = store.transact(About::Nothing, move |_| {
            let second = asked.transact(about(1), move |tx| {
                if fails {
                    tx.append_event(&event(1, "x"), at(0))?;
                }
                Ok(here())
            });
            *put.lock().unwrap() = Some(second);
            Ok(here())
        });
        let first = first.await;
        let second = meanwhile.lock().unwrap().take().unwrap();
        let second = second.await;
        if fails {
            assert!(matches!(first, Err(Error::StoreUnavailable(_))), "{first:?}");
            assert!(matches!(second, Err(Error::StoreUnavailable(_))), "{second:?}");
        } else {
            assert_eq!((first, second), (Ok(WrittenBy::Caller), Ok(WrittenBy::Caller)));
            // They have met, and that wears off.
            while next(&store).await == WrittenBy::Thread {}
        }
    }
}

#[tokio::test]
async fn what_does_not_fit_into_a_commit_comes_before_what_is_asked_for_later() {
    let (_directory, path) = place();
    let (store, order) = (Arc::new(open_with(&path, Limits { jobs: 1, ..limits() })), Order::default());
    let (asked, noted) = (Arc::clone(&store), order.clone());
    let first = store.transact(About::Nothing, move |_| {
        noted.note(0);
        // Not waited for.
        drop(noted.ask(&asked, 1));
        Ok(())
    });
    first.await.unwrap();
    order.ask(&store, 2).await.unwrap();
    assert_eq!(order.seen().first(), Some(&(0, WrittenBy::Caller)));
    assert!(order.seen().ends_with(&[(1, WrittenBy::Thread), (2, WrittenBy::Thread)]), "{:?}", order.seen());
}

#[tokio::test]
async fn where_jobs_meet_the_thread_writes_until_as_many_have_met_nobody_as_weighs_it_up() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    // One that meets another one weighs as much as four by themselves, and eight of them as much as any number.
    for (meetings, alone) in [(1, 4), (2, 8), (8, 32), (100, 32)] {
        let (release, released) = mpsc::channel::<()>();
        let first = store.transact(About::Nothing, move |_| {
            let _ = released.recv();
            Ok(here())
        });
        let asked: Vec<_> = std::iter::once(first).chain((0..meetings).map(|_| ask(&store))).collect();
        drop(release);
        for one in asked {
            assert_eq!(one.await, Ok(WrittenBy::Thread));
        }
        for number in 1..alone {
            assert_eq!(next(&store).await, WrittenBy::Thread, "{number} of {alone}");
        }
        assert_eq!(next(&store).await, WrittenBy::Caller);
    }
}

#[tokio::test]
async fn where_the_disk_is_slow_whoever_asks_waits_for_it_on_their_own_thread_once() {
    let (_directory, path) = place();
    let store = open_with(&path, Limits { quick: Duration::ZERO, ..limits() });
    assert_eq!(next(&store).await, WrittenBy::Caller);
    for _ in 0..100 {
        assert_eq!(next(&store).await, WrittenBy::Thread);
    }
}

#[tokio::test]
async fn a_runtime_with_one_thread_has_none_to_spare() {
    let (_directory, path) = place();
    let store = open_with(&path, Limits { runtime_threads: 2, ..limits() });
    assert_eq!(next(&store).await, WrittenBy::Thread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_with_two_threads_has() {
    let (_directory, path) = place();
    let store = open_with(&path, Limits { runtime_threads: 2, ..limits() });
    assert_eq!(next(&store).await, WrittenBy::Caller);
}

/// The thread of a runtime that hears of its timers may be the one that commits.
#[test]
fn while_a_commit_hangs_on_one_thread_of_a_runtime_the_others_go_on() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let write = store.transact(About::Nothing, move |_| {
        begin.send(()).unwrap();
        let _ = released.recv();
        Ok(here())
    });
    let (tick, ticks) = mpsc::channel();
    let ticking = runtime.spawn(async move {
        while tick.send(()).is_ok() {
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    });
    // Woken by a timer, as by a socket: whoever hears of it has the commit to make.
    let writing = runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(25)).await;
        write.await
    });
    begun.recv_timeout(PATIENCE).unwrap();
    while ticks.try_recv().is_ok() {}
    for _ in 0..10 {
        assert_eq!(ticks.recv_timeout(PATIENCE), Ok(()));
    }
    ticking.abort();
    drop(release);
    assert_eq!(runtime.block_on(writing).unwrap(), Ok(WrittenBy::Caller));
}

#[test]
fn without_a_runtime_the_thread_writes() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let mut asked = ask(&store);
    let outcome = (&mut asked).now_or_never();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(outcome.unwrap_or_else(|| runtime.block_on(asked)), Ok(WrittenBy::Thread));
}

#[tokio::test]
async fn while_another_process_writes_the_thread_waits_for_it() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut asked = ask(&store);
    assert_eq!((&mut asked).now_or_never(), None);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(asked.await, Ok(WrittenBy::Thread));
}

#[tokio::test]
async fn after_a_fault_the_thread_opens_the_file_anew() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    store.transact(about(1), |tx| tx.insert_session(&session(1), &[])).await.unwrap();
    make_commits_of_events_fail(&path);
    let failed = store.transact(about(1), |tx| tx.append_event(&event(1, "x"), at(0)).map(drop)).await;
    assert!(matches!(failed, Err(Error::StoreUnavailable(_))), "{failed:?}");
    assert_eq!(next(&store).await, WrittenBy::Thread);
    assert_eq!(next(&store).await, WrittenBy::Caller);
}

#[tokio::test]
async fn the_rest_of_the_log_is_copied_on_the_thread() {
    let (_directory, path) = place();
    let store = open_with(&path, Limits { log_pages: 1, ..limits() });
    // Until the other thread has copied what it has found: what has come since is the rest.
    while next(&store).await == WrittenBy::Caller {
        store.write(About::Nothing, Box::new(|tx| tx.insert_reply("s", "k", &reply()))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_closes_waits_for_a_commit_on_another_thread() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let writing = tokio::spawn(store.transact(about(1), move |tx| {
        begin.send(()).unwrap();
        let _ = released.recv();
        tx.insert_session(&session(1), &[]).map(|()| here())
    }));
    tokio::task::block_in_place(|| begun.recv()).unwrap();
    let mut closing = store.close();
    assert_eq!((&mut closing).now_or_never(), None);
    drop(release);
    assert_eq!(closing.await, Ok(()));
    assert_eq!(writing.await.unwrap(), Ok(WrittenBy::Caller));
    let store = open(&path);
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(1));
}

#[tokio::test]
async fn what_nobody_waits_for_is_written_before_the_store_closes() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let asked = ask(&store);
    store.close().await.unwrap();
    assert_eq!(asked.await, Ok(WrittenBy::Thread));
}

/// The store is over, as when its thread dies: everybody hears it, nobody hangs, and the file is free.
async fn is_over(store: SqliteStore, path: &Path) {
    let closed = Error::StoreUnavailable("the store is closed".to_owned());
    assert_eq!(ask(&store).await, Err(closed));
    assert!(matches!(store.close().await, Err(Error::StoreUnavailable(_))));
    drop(store);
    let store = open_with(path, limits());
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(0));
    assert_eq!(next(&store).await, WrittenBy::Caller);
}

#[tokio::test]
async fn a_panic_of_the_store_on_the_thread_of_whoever_asks_is_its_end_and_not_theirs() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let bomb = Bomb;
    let outcome = store.transact(about(1), move |tx| {
        let _ = &bomb;
        tx.insert_session(&session(1), &[])
    });
    assert!(matches!(outcome.await, Err(Error::StoreUnavailable(_))));
    is_over(store, &path).await;
}

#[tokio::test]
async fn a_panic_of_the_store_on_its_own_thread_is_its_end() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let bomb = Bomb;
    let outcome = store.write_upkeep(Box::new(move |_| {
        let _ = &bomb;
        Ok(())
    }));
    let behind = ask(&store);
    assert!(matches!(outcome.await, Err(Error::StoreUnavailable(_))));
    assert!(matches!(behind.await, Err(Error::StoreUnavailable(_))));
    is_over(store, &path).await;
}

#[tokio::test]
async fn a_panic_of_a_job_is_the_jobs_own() {
    let (_directory, path) = place();
    let store = open_with(&path, limits());
    let panicked = store.transact(about(1), |tx| -> Result<(), Error> {
        tx.insert_session(&session(1), &[])?;
        panic!("a bug of the job");
    });
    assert_eq!(panicked.await, Err(Error::Internal("a store job panicked: a bug of the job".to_owned())));
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(0));
    assert_eq!(next(&store).await, WrittenBy::Caller);
}

/// The part of the next test that runs in a process of its own.
#[tokio::test]
async fn while_every_commit_is_refused_once() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else {
        return;
    };
    let (store, runs) = (open_with(&path, limits()), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&runs);
    let written = store.transact(about(1), move |tx| {
        counted.fetch_add(1, Ordering::SeqCst);
        tx.insert_session(&session(1), &[]).map(|()| here())
    });
    assert_eq!(written.await, Ok(WrittenBy::Caller));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(1));
    assert_eq!(next(&store).await, WrittenBy::Caller);
}

#[test]
#[cfg(feature = "failpoints")]
fn a_commit_that_is_refused_is_made_again_where_it_was_asked_for() {
    let (_directory, path) = place();
    let name = "store::sqlite::tests::line::while_every_commit_is_refused_once";
    let output = child(name, STORE, &path).env("HITL_REFUSE_ONCE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(path.exists());
}

/// Threads that write all the time, each one job after the other, and one that has nothing but upkeep.
#[test]
fn whoever_writes_all_the_time_keeps_nobody_waiting_for_ever() {
    const WRITERS: usize = 6;
    const JOBS: usize = 100;
    let (_directory, path) = place();
    let (store, order) = (Arc::new(open_with(&path, limits())), Order::default());
    let work = |asks: Box<dyn Fn(usize) -> BoxFuture<'static, Result<(), Error>> + Send>| {
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for number in 0..JOBS {
                    asks(number).await.unwrap();
                }
            });
        })
    };
    let mut threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, order) = (Arc::clone(&store), order.clone());
            work(Box::new(move |number| order.ask(&store, writer * JOBS + number)))
        })
        .collect();
    let (asked, noted) = (Arc::clone(&store), order.clone());
    threads.push(work(Box::new(move |number| {
        let noted = noted.clone();
        asked.write_upkeep(Box::new(move |_| {
            noted.note(WRITERS * JOBS + number);
            Ok(())
        }))
    })));
    for thread in threads {
        thread.join().unwrap();
    }
    for writer in 0..=WRITERS {
        let mut ran: Vec<_> = order.seen().into_iter().map(|(number, _)| number).collect();
        ran.retain(|number| number / JOBS == writer);
        assert_eq!(ran, (writer * JOBS..(writer + 1) * JOBS).collect::<Vec<_>>());
    }
}

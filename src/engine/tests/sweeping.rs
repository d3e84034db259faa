//! What is old goes, a few rows at a time, and no kind of rows keeps another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{World, runtime, settings};
use crate::domain::access::SignIn;
use crate::domain::journal::Entry;
use crate::domain::notice::Notice;
use crate::domain::status::NoticeStatus;
use crate::domain::{Error, Timestamp};
use crate::engine::journal::sweeper::{JOURNALS_AT_ONCE, ROWS_AT_ONCE, SESSIONS_AT_ONCE, Unswept};
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{Fixture, about, at, change, event, session, session_id, turn, turn_id};
use crate::store::contract::outbox::notice;
use crate::store::query::NoticeQuery;
use crate::store::record::StoredReply;
use crate::store::upkeep::{LocalStore, Upkeep, UpkeepReadJob, UpkeepWriteJob};
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

crate::store::contract::for_each_local_store!(
    however_much_is_old_all_of_it_goes,
    however_many_sessions_are_old_all_of_them_go,
    however_many_journals_are_old_all_of_them_go,
    what_is_not_old_stays,
    a_stopping_server_begins_no_other_sweep,
    one_transaction_removes_a_few_replies,
    one_transaction_removes_a_few_events,
    one_transaction_removes_a_few_notices,
    one_transaction_removes_a_few_sign_ins,
    one_transaction_removes_a_few_sessions,
    one_transaction_removes_a_few_journals,
    replies_that_cannot_be_swept_keep_nothing_else,
    events_that_cannot_be_swept_keep_nothing_else,
    notices_that_cannot_be_swept_keep_nothing_else,
    sign_ins_that_cannot_be_swept_keep_nothing_else,
);

/// Counts what is written, refuses one of it, and tells the engine to stop after one of it.
struct Counting {
    store: Arc<dyn LocalStore>,
    writes: AtomicUsize,
    refuses: AtomicUsize,
    stops_after: AtomicUsize,
    stopping: OnceLock<CancellationToken>,
}

impl Store for Counting {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.count(|store| store.write(about, job))
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

impl LocalStore for Counting {
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.count(|store| store.write_upkeep(job))
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read_upkeep(job)
    }
}

impl Counting {
    fn count(
        &self,
        write: impl FnOnce(&dyn LocalStore) -> BoxFuture<'static, Result<(), Error>>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.stops_after.load(Ordering::Relaxed) {
            self.stopping.get().unwrap().cancel();
        }
        if number == self.refuses.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Error::Internal(format!("write {number} is refused")))));
        }
        write(self.store.as_ref())
    }

    /// Counts from here on.
    fn begin(&self) {
        self.writes.store(0, Ordering::Relaxed);
    }
}

async fn world(fixture: Fixture) -> (World, Arc<Counting>) {
    world_with(fixture, settings()).await
}

async fn world_with(fixture: Fixture, settings: Settings) -> (World, Arc<Counting>) {
    let store = Arc::new(Counting {
        store: fixture.local(),
        writes: AtomicUsize::new(0),
        refuses: AtomicUsize::new(0),
        stops_after: AtomicUsize::new(0),
        stopping: OnceLock::new(),
    });
    let world = World::over(fixture, Arc::clone(&store) as _, settings, runtime()).await;
    store.stopping.set(world.engine.stopping.clone()).unwrap();
    (world, store)
}

/// Stores as many replies, events, notices and sign-ins of that time.
async fn fill(world: &World, count: usize, time: Timestamp) {
    let filled = change(world.store.as_ref(), move |tx| {
        for number in 0..count {
            let reply = StoredReply { request_digest: "d".to_owned(), body: json!(1), created_at: time };
            tx.insert_reply("s", &format!("{time}/{number}"), &reply)?;
            tx.append_event(&event(1, "x"), time)?;
            let id = number as u128 + time.millis() as u128 * 10_000;
            let status = NoticeStatus::Delivered;
            tx.insert_notice(&Notice { status, settled_at: Some(time), ..notice(id, 1) })?;
            let mut token = [0; 32];
            token[..8].copy_from_slice(&number.to_be_bytes());
            let ends_at = time.plus_seconds(3600.0);
            tx.insert_sign_in(&SignIn { token: token.into(), key: [0; 32].into(), ends_at })?;
        }
        // The newest is never swept.
        tx.append_event(&event(2, "x"), WallClock.now()).map(drop)
    });
    filled.await.unwrap();
}

/// How many replies, events, notices and sign-ins there are of that time, which were `count`.
async fn left(world: &World, count: usize, time: Timestamp) -> [usize; 4] {
    let left = world.store.query(move |reader| {
        let mut replies = 0;
        for number in 0..count {
            replies += usize::from(reader.reply("s", &format!("{time}/{number}"))?.is_some());
        }
        let events = reader.events_after(0, Some(session_id(1)), 10_000)?.len();
        let query = NoticeQuery { limit: 10_000, ..NoticeQuery::default() };
        Ok([replies, events, reader.notices(&query)?.items.len(), reader.sign_ins()?.len()])
    });
    left.await.unwrap()
}

async fn however_much_is_old_all_of_it_goes(fixture: Fixture) {
    let (world, store) = world(fixture).await;
    let count = 2 * ROWS_AT_ONCE + 1;
    fill(&world, count, at(0)).await;
    assert_eq!(left(&world, count, at(0)).await, [count; 4]);
    store.begin();
    world.engine.sweep().await.unwrap();
    assert_eq!(left(&world, count, at(0)).await, [0; 4]);
    assert!(store.writes.load(Ordering::Relaxed) >= 12, "three of each");
}

async fn what_is_not_old_stays(fixture: Fixture) {
    let (world, _) = world(fixture).await;
    let now = WallClock.now();
    fill(&world, 3, now).await;
    world.engine.sweep().await.unwrap();
    assert_eq!(left(&world, 3, now).await, [3; 4]);
}

async fn a_stopping_server_begins_no_other_sweep(fixture: Fixture) {
    let (world, store) = world_with(fixture, Settings { ttl: 1e6, keep_journal: 1e6, ..settings() }).await;
    let count = 2 * ROWS_AT_ONCE;
    fill(&world, count, at(0)).await;
    sweep_until(&world, &store, 1).await;
    assert_eq!(left(&world, count, at(0)).await, [ROWS_AT_ONCE, count, count, count]);
    world.engine.sweep().await.unwrap();
    assert_eq!(store.writes.load(Ordering::Relaxed), 1);
}

/// A sweep during which the server stops, in the transaction of that number.
async fn sweep_until(world: &World, store: &Counting, last: usize) {
    store.begin();
    store.stops_after.store(last, Ordering::Relaxed);
    world.engine.sweep().await.unwrap();
}

async fn one_transaction_removes_a_few_replies(fixture: Fixture) {
    assert_eq!(left_after_one_of(fixture, 0).await, ROWS_AT_ONCE);
}

async fn one_transaction_removes_a_few_events(fixture: Fixture) {
    assert_eq!(left_after_one_of(fixture, 1).await, ROWS_AT_ONCE);
}

async fn one_transaction_removes_a_few_notices(fixture: Fixture) {
    assert_eq!(left_after_one_of(fixture, 2).await, ROWS_AT_ONCE);
}

async fn one_transaction_removes_a_few_sign_ins(fixture: Fixture) {
    assert_eq!(left_after_one_of(fixture, 3).await, ROWS_AT_ONCE);
}

/// How many rows of the kind in that place are left of two transactions' worth, after the first of them.
async fn left_after_one_of(fixture: Fixture, kind: usize) -> usize {
    let (world, store) = world(fixture).await;
    let count = 2 * ROWS_AT_ONCE;
    fill(&world, count, at(0)).await;
    // Those before it are gone: two transactions that remove some, and one that finds none.
    sweep_until(&world, &store, 3 * kind + 1).await;
    let left = left(&world, count, at(0)).await;
    assert!(left[..kind].iter().all(|left| *left == 0) && left[kind + 1..].iter().all(|left| *left == count));
    left[kind]
}

async fn one_transaction_removes_a_few_sessions(fixture: Fixture) {
    let (world, store) = world_with(fixture, Settings { ttl: 1e6, ..settings() }).await;
    fill_with_sessions(&world, 2 * SESSIONS_AT_ONCE).await;
    sweep_until(&world, &store, 5).await;
    assert_eq!(world.store.query(|reader| reader.count_sessions()).await.unwrap(), SESSIONS_AT_ONCE);
}

async fn however_many_sessions_are_old_all_of_them_go(fixture: Fixture) {
    let (world, _) = world_with(fixture, Settings { ttl: 1e6, ..settings() }).await;
    fill_with_sessions(&world, 2 * SESSIONS_AT_ONCE + 1).await;
    world.engine.sweep().await.unwrap();
    assert_eq!(world.store.query(|reader| reader.count_sessions()).await.unwrap(), 0);
}

/// Stores as many old sessions.
async fn fill_with_sessions(world: &World, count: usize) {
    let filled = change(world.store.as_ref(), move |tx| {
        (0..count).try_for_each(|number| tx.insert_session(&session(number as u128), &[]))
    });
    filled.await.unwrap();
}

async fn one_transaction_removes_a_few_journals(fixture: Fixture) {
    let (world, store) = world_with(fixture, Settings { keep_journal: 1e6, ..settings() }).await;
    let count = 2 * JOURNALS_AT_ONCE;
    fill_with_journals(&world, count).await;
    sweep_until(&world, &store, 5).await;
    assert_eq!(journals_left(&world, count).await, JOURNALS_AT_ONCE);
}

async fn however_many_journals_are_old_all_of_them_go(fixture: Fixture) {
    let (world, _) = world_with(fixture, Settings { keep_journal: 1e6, ..settings() }).await;
    let count = 2 * JOURNALS_AT_ONCE + 1;
    fill_with_journals(&world, count).await;
    assert_eq!(journals_left(&world, count).await, count);
    world.engine.sweep().await.unwrap();
    assert_eq!(journals_left(&world, count).await, 0);
}

/// Stores as many journals of turns that ended long ago.
async fn fill_with_journals(world: &World, count: usize) {
    let filled = world.store.transact(about(1), move |tx| {
        tx.insert_session(&session(1), &[])?;
        (0..count).try_for_each(|number| {
            let turn = turn(session_id(1), number as u128);
            tx.insert_turn(&turn)?;
            tx.append_foreign(turn.id, &Entry::Cancel {}, at(0))?;
            tx.end_turn(turn.id, at(0))
        })
    });
    filled.await.unwrap();
}

async fn journals_left(world: &World, count: usize) -> usize {
    let left = world.store.query(move |reader| {
        let journals = (0..count).map(|number| reader.journal(turn_id(number as u128)));
        journals.map(|journal| Ok(usize::from(!journal?.is_empty()))).sum::<Result<usize, Error>>()
    });
    left.await.unwrap()
}

async fn replies_that_cannot_be_swept_keep_nothing_else(fixture: Fixture) {
    assert_eq!(left_where_a_write_is_refused(fixture, 1).await, ("replies", [1, 0, 0, 0]));
}

async fn events_that_cannot_be_swept_keep_nothing_else(fixture: Fixture) {
    assert_eq!(left_where_a_write_is_refused(fixture, 2).await, ("events", [0, 1, 0, 0]));
}

async fn notices_that_cannot_be_swept_keep_nothing_else(fixture: Fixture) {
    assert_eq!(left_where_a_write_is_refused(fixture, 3).await, ("notices", [0, 0, 1, 0]));
}

async fn sign_ins_that_cannot_be_swept_keep_nothing_else(fixture: Fixture) {
    assert_eq!(left_where_a_write_is_refused(fixture, 4).await, ("sign-ins", [0, 0, 0, 1]));
}

/// What a sweep says that it could not remove, and what is left of one of each.
async fn left_where_a_write_is_refused(fixture: Fixture, refused: usize) -> (&'static str, [usize; 4]) {
    let (world, store) = world(fixture).await;
    fill(&world, 1, at(0)).await;
    store.begin();
    store.refuses.store(refused, Ordering::Relaxed);
    let Unswept { kinds, error } = world.engine.sweep().await.unwrap_err();
    assert_eq!(error, Error::Internal(format!("write {refused} is refused")));
    let [kind] = kinds[..] else { panic!("{kinds:?}") };
    let before = left(&world, 1, at(0)).await;
    // The next sweep takes it.
    world.engine.sweep().await.unwrap();
    assert_eq!(left(&world, 1, at(0)).await, [0; 4]);
    (kind, before)
}

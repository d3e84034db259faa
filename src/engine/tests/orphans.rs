//! Turns that nobody has, however many: they are read and settled in chunks, beside all else, and none is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::support::{PATIENCE, World, journal_of, runtime, server, settings};
use crate::domain::Error;
use crate::domain::session::Failure;
use crate::engine::journal::recovery::AT_ONCE;
use crate::engine::ports::dispatch::{Delivery, Runtime};
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::clock::WallClock;
use crate::store::contract::fixture::Fixture;
use crate::store::simulated::network::{Link, Weather};
use crate::store::simulated::{LeftOut, SimulatedDatabase};
use crate::store::upkeep::{LocalStore, Upkeep, UpkeepReadJob, UpkeepWriteJob};
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

crate::store::contract::for_each_store!(however_many_were_left_they_go_on_at_the_next_start);

/// More than are read at once.
const MANY: usize = 2 * AT_ONCE + 1;

fn busy() -> Settings {
    Settings { queue: MANY, ..settings() }
}

/// As many as a store takes at once, however busy the machine is.
const SENT_AT_ONCE: usize = 128;

/// So many messages, of which two are at workers.
async fn send(world: &World, count: usize) {
    let sent = stream::iter(0..count).map(|_| async move {
        let session = world.session().await;
        world.send(session).await
    });
    sent.buffer_unordered(SENT_AT_ONCE).for_each(async |sent| assert!(sent.is_ok())).await;
}

async fn however_many_were_left_they_go_on_at_the_next_start(fixture: Fixture) {
    let world = World::new(fixture, busy()).await;
    send(&world, MANY).await;
    let world = world.crash().await;
    let first = world.order().await;
    assert_eq!(world.engine.placement.count_places(), (2, MANY - 2));
    world.end(&first).await.unwrap();
    world.order().await;
    world.order().await;
    assert_eq!(world.engine.placement.count_places(), (2, MANY - 3));
}

#[tokio::test(start_paused = true)]
async fn a_start_asks_the_database_as_often_as_there_are_chunks_of_them() {
    let asked_at_a_start = async |left: usize| {
        let database = SimulatedDatabase::new(Arc::new(WallClock));
        let first = server(&database, &Link::new(Weather::default()), Arc::new(WallClock), false).await;
        // What its two workers have is no orphan.
        send(&first, left + 2).await;
        first.engine.stopped.cancel();
        tokio::task::yield_now().await;
        let _ = database.calls();
        let second = server(&database, &Link::new(Weather::default()), Arc::new(WallClock), false).await;
        assert_eq!(second.engine.placement.count_places(), (2, left - 2));
        database.calls().0
    };
    let few = asked_at_a_start(2).await;
    let many = asked_at_a_start(MANY).await;
    assert!(many <= few + 2, "{few}, {many}");
}

#[tokio::test(start_paused = true)]
async fn what_others_do_is_heard_of_while_they_are_taken_up() {
    let database = SimulatedDatabase::new(Arc::new(WallClock)).without(Some(LeftOut::Left));
    let here = server(&database, &Link::new(Weather::default()), Arc::new(WallClock), false).await;
    let there = server(&database, &Link::new(Weather::default()), Arc::new(WallClock), false).await;
    let (order, interrupts) = here.asking(1).await;
    send(&there, 9).await;
    // A look has found them, and nobody is told how they stand.
    tokio::time::sleep(PATIENCE / 10).await;
    there.answer(order.session, interrupts[0], json!("yes")).await.unwrap();
    assert!(matches!(here.delivery(order.turn).await, Delivery::Answer { value, .. } if value == json!("yes")));
}

/// Refuses one of the looks at all that it holds: that many come before it.
struct Refusing {
    store: Arc<dyn LocalStore>,
    before: AtomicUsize,
}

impl Refusing {
    fn after(before: usize, fixture: &Fixture) -> Arc<Self> {
        Arc::new(Self { store: fixture.local(), before: AtomicUsize::new(before) })
    }
}

impl Store for Refusing {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write(about, job)
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

impl LocalStore for Refusing {
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write_upkeep(job)
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.before.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Box::pin(std::future::ready(Err(Error::StoreUnavailable("nobody reads".to_owned()))));
        }
        self.store.read_upkeep(job)
    }
}

/// What a start reads before the chunks of what was left: which turns that is.
const LISTS: usize = 1;

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_keeps_no_other_from_going_on_and_is_tried_again() {
    let fixture = Fixture::memory();
    let refusing = Refusing::after(LISTS, &fixture);
    let world = World::new(fixture, busy()).await;
    send(&world, MANY).await;
    world.engine.stopped.cancel();
    let world = World::over(Fixture::memory(), refusing, busy(), runtime()).await;
    assert_eq!(world.engine.placement.count_places(), (2, MANY - AT_ONCE - 2));
    let all = async {
        while world.engine.placement.count_places() != (2, MANY - 2) {
            tokio::time::sleep(PATIENCE / 1000).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_does_not_depend_on_what_other_code_takes_up_again() {
    let fixture = Fixture::memory();
    let refusing = Refusing::after(LISTS, &fixture);
    let world = World::new(fixture, settings()).await;
    let failed = world.begin().await;
    let mismatch = Failure::new("replay_mismatch", "another step");
    world.engine.turn_failed(failed.turn, failed.epoch, mismatch).await.unwrap();
    world.engine.stopped.cancel();
    let mended = Runtime { code: "mended".to_owned(), ..runtime() };
    let world = World::over(Fixture::memory(), refusing, settings(), mended).await;
    assert_eq!(journal_of(&world.order().await), "start taken");
}

//! At most one commit per acknowledged request on an idle server, and each job is about one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::support::{World, question, runtime, settings, step, waiting};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::engine::ports::dispatch::Runtime;
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// Counts transactions that write.
struct Counting {
    store: Arc<dyn Store>,
    writes: AtomicUsize,
}

impl Store for Counting {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.store.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

#[tokio::test]
async fn each_request_and_each_batch_is_one_commit() {
    let fixture = Fixture::memory();
    let store = Arc::new(Counting { store: fixture.store.clone(), writes: AtomicUsize::new(0) });
    let parking = Settings { park_after: 0.0, ..settings() };
    let world = World::over(fixture, store.clone(), parking, runtime()).await;
    let spent = || store.writes.swap(0, Ordering::Relaxed);
    let session = world.session().await;
    assert_eq!(spent(), 1, "a new session");
    world.send(session).await.unwrap();
    let order = world.order().await;
    assert_eq!(spent(), 1, "a message, its turn started");
    world.append(&order, vec![super::steps::started("0#9")]).await.unwrap();
    assert_eq!(spent(), 0, "a tool that begins and may run again");
    let records = vec![step("a"), question(0, None), question(1, None), waiting(None, &[])];
    let interrupts = super::support::asked(world.append(&order, records).await.unwrap());
    assert_eq!(spent(), 1, "a step, two questions, the pause and the parking");
    world.answer(session, interrupts[0], json!(1)).await.unwrap();
    let order = world.order().await;
    assert_eq!(spent(), 1, "an answer to a parked turn, which is claimed");
    world.answer(session, interrupts[1], json!(1)).await.unwrap();
    world.delivery(order.turn).await;
    assert_eq!(spent(), 1, "an answer to a turn in memory");
    world.engine.turn_replayed(order.turn, order.epoch, Vec::new()).await.unwrap();
    assert_eq!(spent(), 0, "a replay without warnings");
    let failure = crate::domain::session::Failure::new("replay_mismatch", "x");
    world.engine.turn_failed(order.turn, order.epoch, failure).await.unwrap();
    assert_eq!(spent(), 1, "a failure");
    world.engine.retry(session, Actor::anyone()).await.unwrap();
    let order = world.order().await;
    assert_eq!(spent(), 1, "a retry, its turn started");
    world.end(&order).await.unwrap();
    assert_eq!(spent(), 1, "an end");
}

/// A world with three turns, each of a session of its own, whose jobs are counted from here on.
async fn three(settings: Settings, begin: impl AsyncFn(&World)) -> (World, Arc<Counting>) {
    let fixture = Fixture::memory();
    let store = Arc::new(Counting { store: fixture.store.clone(), writes: AtomicUsize::new(0) });
    let world = World::over(fixture, store.clone(), settings, runtime()).await;
    for _ in 0..3 {
        begin(&world).await;
    }
    store.writes.store(0, Ordering::Relaxed);
    (world, store)
}

#[tokio::test]
async fn turns_that_are_parked_together_are_a_job_each() {
    let (world, store) = three(settings(), async |world| drop(world.asking(1).await)).await;
    let (candidates, _) = world.engine.placement.to_park(0, std::time::Duration::ZERO);
    world.engine.park(candidates).await.unwrap();
    assert_eq!(store.writes.load(Ordering::Relaxed), 3);
    assert_eq!(world.hands.look(|told| told.parked.len()), 3);
}

#[tokio::test]
async fn turns_that_a_server_left_paused_are_a_job_each() {
    let (world, store) = three(settings(), async |world| drop(world.asking(1).await)).await;
    let world = world.crash().await;
    assert_eq!(store.writes.load(Ordering::Relaxed), 3);
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

#[tokio::test]
async fn turns_that_a_server_left_and_nobody_can_replay_are_a_job_each() {
    let workers = Settings { workers: 3, ..settings() };
    let (world, store) = three(workers.clone(), async |world| drop(world.begin().await)).await;
    world.crash_into(workers, Runtime { replay: false, ..runtime() }).await;
    assert_eq!(store.writes.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn turns_that_are_retried_under_new_code_are_a_job_each() {
    let fail = async |world: &World| {
        let order = world.begin().await;
        let failure = crate::domain::session::Failure::new("replay_mismatch", "x");
        world.engine.turn_failed(order.turn, order.epoch, failure).await.unwrap();
    };
    let workers = Settings { workers: 3, ..settings() };
    let (world, store) = three(workers.clone(), fail).await;
    let world = world.crash_into(workers, Runtime { code: "fedcba9876543210".to_owned(), ..runtime() }).await;
    for _ in 0..3 {
        world.order().await;
    }
    assert_eq!(store.writes.load(Ordering::Relaxed), 3);
}

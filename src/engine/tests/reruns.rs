//! A store may run a job again that it has run: what the run before left in memory is void by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::support::{World, asked, question, refused_once, runtime, settings, step, waiting};
use crate::domain::status::Status;
use crate::domain::{Error, InterruptId};
use crate::engine::ports::dispatch::{Delivery, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

crate::store::contract::for_each_store!(
    a_job_gives_what_its_last_run_came_to,
    what_a_run_came_to_is_dropped_before_the_next_begins,
    the_last_free_place_is_promised_once,
    an_answer_is_delivered_once,
    an_answer_that_wakes_a_turn_takes_the_only_place,
    a_turn_that_waited_for_its_place_is_claimed,
    what_was_stored_without_anybody_knowing_is_not_stored_again,
);

/// An engine whose store refuses every commit once.
async fn world(fixture: Fixture, settings: Settings) -> World {
    let store = refused_once(&fixture.store);
    World::over(fixture, store, settings, runtime()).await
}

/// A turn that asks one question and is paused, or parked where that happens at once.
async fn asking(world: &World) -> (TurnOrder, InterruptId) {
    let order = world.begin().await;
    let batch = world.append(&order, vec![question(0, None), waiting(None, &[])]).await.unwrap();
    let id = asked(batch)[0];
    (order, id)
}

async fn a_job_gives_what_its_last_run_came_to(fixture: Fixture) {
    let runs = AtomicUsize::new(0);
    let came_to =
        refused_once(&fixture.store).transact(About::Nothing, move |_| Ok(runs.fetch_add(1, Ordering::Relaxed)));
    let runs_of_one = if crate::faults::refuses_once() { 2 } else { 1 };
    assert_eq!(came_to.await, Ok(2 * runs_of_one - 1));
}

async fn what_a_run_came_to_is_dropped_before_the_next_begins(fixture: Fixture) {
    /// Says when it is dropped.
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let is_held = Arc::new(AtomicBool::new(false));
    let holds = Arc::clone(&is_held);
    let held = refused_once(&fixture.store).transact(About::Nothing, move |_| {
        assert!(!holds.swap(true, Ordering::Relaxed), "another one is held");
        Ok(Held(Arc::clone(&holds)))
    });
    let held = held.await.unwrap();
    assert!(is_held.load(Ordering::Relaxed));
    drop(held);
    assert!(!is_held.load(Ordering::Relaxed));
}

async fn the_last_free_place_is_promised_once(fixture: Fixture) {
    let world = world(fixture, Settings { workers: 1, queue: 0, ..settings() }).await;
    let order = world.begin().await;
    let other = world.session().await;
    assert_eq!(world.send(other).await, Err(Error::QueueFull));
    world.end(&order).await.unwrap();
    world.send(other).await.unwrap();
    assert_eq!(world.order_of(other).await.session, other);
}

async fn an_answer_is_delivered_once(fixture: Fixture) {
    let world = world(fixture, settings()).await;
    let (order, id) = asking(&world).await;
    world.answer(order.session, id, json!("yes")).await.unwrap();
    let Delivery::Answer { index, value, .. } = world.delivery(order.turn).await else { panic!() };
    assert_eq!((index, value), (3, json!("yes")));
    world.end(&order).await.unwrap();
    assert!(world.hands.look(|told| told.deliveries.is_empty()));
    assert_eq!(world.kinds(order.turn).await, "start ask pause answer end");
}

async fn an_answer_that_wakes_a_turn_takes_the_only_place(fixture: Fixture) {
    let world = world(fixture, Settings { workers: 1, park_after: 0.0, ..settings() }).await;
    let (order, id) = asking(&world).await;
    world.parked(order.turn).await;
    world.answer(order.session, id, json!("yes")).await.unwrap();
    let order = world.order().await;
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
    world.end(&order).await.unwrap();
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn a_turn_that_waited_for_its_place_is_claimed(fixture: Fixture) {
    let world = world(fixture, Settings { workers: 1, park_after: 0.0, ..settings() }).await;
    let (parked, id) = asking(&world).await;
    world.parked(parked.turn).await;
    let working = world.begin().await;
    world.answer(parked.session, id, json!("yes")).await.unwrap();
    world.end(&working).await.unwrap();
    let order = world.order().await;
    assert_eq!(order.turn, parked.turn);
    world.end(&order).await.unwrap();
    assert_eq!(world.status(order.session).await, Status::Idle);
}

/// Says once that it has failed, although it has not.
struct Lying {
    store: Arc<dyn Store>,
    lies: AtomicBool,
}

impl Store for Lying {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let lies = self.lies.swap(false, Ordering::Relaxed);
        let written = self.store.write(about, job);
        Box::pin(async move {
            written.await?;
            if lies { Err(Error::StoreUnavailable("disk away".to_owned())) } else { Ok(()) }
        })
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

async fn what_was_stored_without_anybody_knowing_is_not_stored_again(fixture: Fixture) {
    let store = Arc::new(Lying { store: refused_once(&fixture.store), lies: AtomicBool::new(false) });
    let world = World::over(fixture, Arc::clone(&store) as _, settings(), runtime()).await;
    let order = world.begin().await;
    store.lies.store(true, Ordering::Relaxed);
    let appended = world.append(&order, vec![step("a")]).await;
    assert!(matches!(appended, Err(Error::StoreUnavailable(_))), "{appended:?}");
    assert_eq!(world.kinds(order.turn).await, "start step");
}

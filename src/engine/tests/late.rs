//! What was stored is known late: a turn that has begun anew meanwhile takes no harm, and others do not wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::support::{World, asked, question, runtime, settings, waiting};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::status::Status;
use crate::engine::placement::Placement;
use crate::engine::ports::dispatch::Delivery;
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;
use crate::store::record::DueKind;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

type IsHeld = Box<dyn Fn(About) -> bool + Send>;

/// A store that can be late to say that something is written.
struct LateStore {
    store: Arc<dyn Store>,
    /// What it will be late with, once.
    is_held: Mutex<Option<IsHeld>>,
    written: Arc<Notify>,
    said: Arc<Notify>,
}

impl LateStore {
    fn over(fixture: &Fixture) -> Arc<Self> {
        let store = Arc::clone(&fixture.store);
        Arc::new(Self { store, is_held: Mutex::default(), written: Arc::default(), said: Arc::default() })
    }

    /// Whoever writes next about that is told when the test says so.
    fn hold(&self, about: About) {
        self.hold_where(move |written| written == about);
    }

    fn hold_where(&self, is_held: impl Fn(About) -> bool + Send + 'static) {
        *self.is_held.lock().unwrap() = Some(Box::new(is_held));
    }

    /// Resolves once that is written.
    async fn written(&self) {
        self.written.notified().await;
    }

    fn say(&self) {
        self.said.notify_one();
    }
}

impl Store for LateStore {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let writing = self.store.write(about, job);
        let mut held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.take_if(|is_held| is_held(about)).is_none() {
            return writing;
        }
        let (written, said) = (Arc::clone(&self.written), Arc::clone(&self.said));
        Box::pin(async move {
            let outcome = writing.await;
            written.notify_one();
            said.notified().await;
            outcome
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

async fn world(settings: Settings) -> (World, Arc<LateStore>) {
    let fixture = Fixture::memory();
    let late = LateStore::over(&fixture);
    (World::over(fixture, Arc::clone(&late) as _, settings, runtime()).await, late)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_retried_before_its_server_knows_that_its_time_is_over_goes_on() {
    let (world, late) = world(Settings { timeout: 1000.0, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let (turn, epoch, session) = (asking.turn, asking.epoch, asking.session);
    world.store.transact(About::Turn(turn), move |tx| tx.park_turn(turn, epoch, None, 999_000)).await.unwrap();
    let world = world.crash().await;
    world.answer(session, interrupts[0], json!("yes")).await.unwrap();
    // Its replay takes the second that is left.
    world.order().await;
    late.hold(About::Session(session));
    late.written().await;
    assert_eq!(world.status(session).await, Status::Error);
    world.engine.retry(session, Actor::anyone()).await.unwrap();
    let again = world.order().await;
    let mut bell = world.engine.telling.listen(session);
    late.say();
    bell.heard().await;
    assert!(world.hands.look(|told| told.stopped.is_empty()));
    world.end(&again).await.unwrap();
}

#[tokio::test]
async fn a_turn_that_is_retried_before_its_server_knows_that_it_is_suspended_goes_on() {
    let (world, late) = world(settings()).await;
    let order = world.begin().await;
    let (turn, session, engine) = (order.turn, order.session, Arc::clone(&world.engine));
    late.hold(About::Turn(turn));
    let suspending = tokio::spawn(async move {
        engine.suspend_unreadable(DueKind::Timers(turn), &Error::Unreadable("a row".to_owned())).await
    });
    late.written().await;
    world.engine.retry(session, Actor::anyone()).await.unwrap();
    let again = world.order().await;
    late.say();
    suspending.await.unwrap().unwrap();
    assert!(world.hands.look(|told| told.stopped.is_empty()));
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
    world.step(&again, "a").await.unwrap();
    world.end(&again).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_time_was_over_when_it_was_taken_back_takes_none_of_the_run_after_it() {
    let time = Duration::from_secs(10);
    let world = World::new(Fixture::memory(), settings()).await;
    let order = world.begin().await;
    let placement = Placement::new(&Settings { timeout: time.as_secs_f64(), ..settings() });
    placement.attach(Arc::clone(&world.hands) as _);
    let begin = || {
        placement.claim(order.turn, order.epoch, 0, Arc::default());
        assert!(placement.begin(order.clone(), Duration::ZERO));
    };
    begin();
    sleep(time * 2).await;
    // Its claim is taken back, and with it that the epoch was given.
    placement.drop_run(order.turn, placement.run_at(order.turn, order.epoch).unwrap());
    begin();
    let begun = Instant::now();
    assert_eq!(placement.overdue().await, (order.turn, order.epoch));
    assert_eq!(begun.elapsed(), time);
}

#[tokio::test]
async fn a_word_that_is_refused_while_a_look_finds_that_its_run_stands_is_stored() {
    let world = World::new(Fixture::memory(), settings()).await;
    let order = world.begin().await;
    let run = world.engine.placement.run_at(order.turn, order.epoch).unwrap();
    let said = async |looks: u64| {
        let attempts = AtomicU64::new(0);
        let said = || async {
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            if attempt < looks {
                world.engine.placement.stands(order.turn, run, attempt + 1);
            }
            if attempt == 2 { Ok(()) } else { Err(Error::StaleEpoch) }
        };
        world.engine.until_stored(order.turn, (order.epoch, run), said).await
    };
    assert_eq!(said(2).await, Ok(()));
    // What it heard of has been looked at before.
    assert_eq!(said(2).await, Err(Error::StaleEpoch));
}

#[tokio::test]
async fn a_run_of_which_a_word_was_refused_before_a_look_finds_that_it_stands_is_given_up() {
    let world = World::new(Fixture::memory(), settings()).await;
    let order = world.begin().await;
    let placement = &world.engine.placement;
    let run = placement.run_at(order.turn, order.epoch).unwrap();
    let refused = || async { Err::<(), _>(Error::StaleEpoch) };
    assert_eq!(world.engine.until_stored(order.turn, (order.epoch, run), refused).await, Err(Error::StaleEpoch));
    placement.stands(order.turn, run, 1);
    assert_eq!(placement.run_at(order.turn, order.epoch), None, "its worker has left, and nobody would miss it");
}

#[tokio::test]
async fn what_waits_for_the_slot_of_a_run_that_is_given_up_gets_it() {
    let world = World::new(Fixture::memory(), Settings { workers: 1, ..settings() }).await;
    let order = world.begin().await;
    let waits = world.session().await;
    world.send(waits).await.unwrap();
    let run = world.engine.placement.run_at(order.turn, order.epoch).unwrap();
    world.engine.placement.drop_run(order.turn, run);
    world.order_of(waits).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_does_not_end_before_the_worker_of_a_turn_that_it_has_parked_knows() {
    let (world, late) = world(Settings { park_after: 1.0, ..settings() }).await;
    let (order, _) = world.asking(1).await;
    late.hold(About::Session(order.session));
    late.written().await;
    assert!(world.turn(order.turn).await.life.is_parked());
    let engine = Arc::clone(&world.engine);
    let ending = tokio::spawn(async move { engine.shut_down(Duration::from_secs(10)).await });
    sleep(Duration::from_secs(1)).await;
    assert!(!ending.is_finished());
    late.say();
    ending.await.unwrap().unwrap();
    assert!(world.hands.look(|told| told.parked.contains(&order.turn)));
}

#[tokio::test]
async fn what_is_due_does_not_wait_for_what_the_store_is_late_with() {
    let (world, late) = world(settings()).await;
    let expiring = async || {
        let order = world.begin().await;
        let batch = world.append(&order, vec![question(0, Some(0.02)), waiting(None, &[])]).await.unwrap();
        (order.turn, asked(batch)[0])
    };
    late.hold_where(|about| matches!(about, About::Interrupt(_)));
    let (first, interrupt) = expiring().await;
    late.written().await;
    let (second, _) = expiring().await;
    assert!(matches!(world.delivery(second).await, Delivery::Expired { .. }));
    late.say();
    assert!(matches!(world.delivery(first).await, Delivery::Expired { interrupt: id, .. } if id == interrupt));
}

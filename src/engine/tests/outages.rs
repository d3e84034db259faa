//! The store is away for a while: nothing acknowledged is lost, nothing is stuck when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::support::{PATIENCE, World, asked, journal_of, message, question, runtime, settings, step, waiting};
use crate::domain::access::Actor;
use crate::domain::session::Failure;
use crate::domain::status::{InterruptStatus, Status, TurnStatus};
use crate::domain::{Error, InterruptId};
use crate::engine::LAST;
use crate::engine::ports::dispatch::{Lost, TurnOrder};
use crate::engine::settings::Settings;
use crate::engine::telling::view::{FeedItem, NewSession};
use crate::store::about::About;
use crate::store::clock::Clock;
use crate::store::contract::fixture::{Fixture, StoppedClock, at};
use crate::store::owner::TurnOwner;
use crate::store::shared::membership::Membership;
use crate::store::signals::Signal;
use crate::store::sqlite::SqliteStore;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// Runs every job, and rolls it back where it is told to be full; or keeps it, and says that it has failed.
struct Fickle {
    store: Arc<dyn Store>,
    full: AtomicBool,
    lies: AtomicBool,
    /// Nothing comes of what is written.
    hangs: AtomicBool,
    unreadable: Arc<AtomicBool>,
    /// What is read next is not what it should be.
    spoiled: AtomicBool,
    /// What is read by so many of those that write next is not.
    spoiled_writes: AtomicUsize,
    refused: AtomicUsize,
    refused_reads: Arc<AtomicUsize>,
}

impl Fickle {
    fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            full: AtomicBool::default(),
            lies: AtomicBool::default(),
            hangs: AtomicBool::default(),
            unreadable: Arc::default(),
            spoiled: AtomicBool::default(),
            spoiled_writes: AtomicUsize::default(),
            refused: AtomicUsize::default(),
            refused_reads: Arc::default(),
        })
    }

    fn fill(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// It has refused that many writes.
    async fn has_refused(&self, count: usize) {
        while self.refused.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Refuses to be read until somebody has tried.
    async fn refuse_a_read(&self) {
        while self.refused_reads.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        self.unreadable.store(false, Ordering::Relaxed);
    }
}

impl Store for Fickle {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.hangs.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        if self.lies.swap(false, Ordering::Relaxed) {
            let written = self.store.write(about, job);
            return Box::pin(async move { written.await.and(Err(Error::StoreUnavailable("disk away".to_owned()))) });
        }
        let fewer = |left: usize| left.checked_sub(1);
        if self.spoiled_writes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            return self.store.write(about, Box::new(|_| Err(Error::Unreadable("no JSON".to_owned()))));
        }
        if !self.full.load(Ordering::Relaxed) {
            return self.store.write(about, job);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.store.write(
            about,
            Box::new(move |tx| {
                job(tx)?;
                Err(Error::StoreUnavailable("disk full".to_owned()))
            }),
        )
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.spoiled.swap(false, Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Error::Unreadable("no JSON".to_owned()))));
        }
        let (unreadable, refused) = (Arc::clone(&self.unreadable), Arc::clone(&self.refused_reads));
        let is_refused = unreadable.load(Ordering::Relaxed);
        let reading = if is_refused { Box::pin(std::future::ready(Ok(()))) } else { self.store.read(job) };
        Box::pin(async move {
            let read = reading.await;
            // Also what was under way already: it may be late, and see what has happened since.
            if !is_refused && !unreadable.load(Ordering::Relaxed) {
                return read;
            }
            refused.fetch_add(1, Ordering::Relaxed);
            Err(Error::StoreUnavailable("nobody reads".to_owned()))
        })
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn clock(&self) -> &dyn Clock {
        self.store.clock()
    }

    fn owner(&self) -> TurnOwner {
        self.store.owner()
    }

    fn membership(&self) -> Option<Arc<Membership>> {
        self.store.membership()
    }

    fn signals(&self) -> Option<broadcast::Receiver<Signal>> {
        self.store.signals()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

async fn world(settings: Settings) -> (World, Arc<Fickle>) {
    world_on(Fixture::sqlite(), settings).await
}

async fn world_on(fixture: Fixture, settings: Settings) -> (World, Arc<Fickle>) {
    let store = Fickle::new(&fixture.store);
    (World::over(fixture, Arc::clone(&store) as _, settings, runtime()).await, store)
}

fn is_unavailable<T>(outcome: Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::StoreUnavailable(_)))
}

#[tokio::test]
async fn an_answer_that_was_not_stored_wakes_nobody_and_holds_no_place() {
    let (world, store) = world(Settings { park_after: 0.0, workers: 1, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let idle = world.idle().await;
    store.fill(true);
    assert!(is_unavailable(world.answer(asking.session, interrupts[0], json!(1)).await));
    assert!(is_unavailable(world.send(idle).await));
    store.fill(false);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
    assert_eq!(world.status(asking.session).await, Status::Interrupted);
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start ask pause answer");
}

#[tokio::test]
async fn an_answer_that_was_not_stored_keeps_none_of_the_others_waiting() {
    let (world, store) = world(settings()).await;
    let (asking, interrupts) = world.asking(2).await;
    store.fill(true);
    assert!(is_unavailable(world.answer(asking.session, interrupts[0], json!(1)).await));
    store.fill(false);
    world.answer(asking.session, interrupts[1], json!(2)).await.unwrap();
    assert_eq!(world.delivery(asking.turn).await.index(), 4);
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(world.delivery(asking.turn).await.index(), 5);
}

#[tokio::test]
async fn a_turn_that_loses_its_worker_meanwhile_goes_on_when_the_store_is_back() {
    let (world, store) = world(settings()).await;
    let order = world.begin().await;
    store.fill(true);
    let losing = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.turn_lost(order.turn, order.epoch, Lost::Silent).await }
    });
    while store.refused.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    store.fill(false);
    losing.await.unwrap().unwrap();
    world.order().await;
}

#[tokio::test]
async fn how_long_a_lost_turn_waits_for_the_store_is_none_of_its_time() {
    let (world, store) = world(Settings { timeout: 1e3, ..settings() }).await;
    let order = world.begin().await;
    store.fill(true);
    let losing = tokio::spawn({
        let (engine, order) = (world.engine.clone(), order.clone());
        // Its worker was killed because the store was away.
        let lost = Lost::Unstored { message: "the store was not reached".to_owned() };
        async move { engine.turn_lost(order.turn, order.epoch, lost).await }
    });
    store.has_refused(1).await;
    let worked = world.engine.placement.worked(order.turn).unwrap();
    store.has_refused(2).await;
    assert_eq!(world.engine.placement.worked(order.turn), Some(worked), "its timer runs");
    store.fill(false);
    losing.await.unwrap().unwrap();
    world.order().await;
    assert_eq!(u128::from(world.turn(order.turn).await.life.worked_ms), worked.as_millis());
}

#[tokio::test]
async fn a_finished_step_is_held_until_it_can_be_stored() {
    let (world, store) = world(Settings { timeout: 1e3, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let order = world.begin().await;
    store.fill(true);
    let (engine, kept) = (world.engine.clone(), order.clone());
    let appending =
        tokio::spawn(async move { engine.turn_append(kept.turn, kept.epoch, vec![step("finished")]).await });
    store.has_refused(1).await;
    while world.engine.health().await.unwrap().unstored == 0 {
        tokio::task::yield_now().await;
    }
    // Not the turn's time.
    let worked = world.engine.placement.worked(order.turn);
    // Whoever can try again is told to.
    assert!(is_unavailable(world.engine.check_ready().await));
    assert!(is_unavailable(world.answer(asking.session, interrupts[0], json!(1)).await));
    store.has_refused(4).await;
    assert_eq!(world.engine.placement.worked(order.turn), worked);
    assert_eq!(world.kinds(order.turn).await, "start");
    store.fill(false);
    let stored = appending.await.unwrap().unwrap();
    assert_eq!(stored[0].as_ref().unwrap().as_ref().unwrap().index, 1);
    assert_eq!(world.kinds(order.turn).await, "start step");
    assert_eq!(world.engine.health().await.unwrap().unstored, 0);
    world.end(&order).await.unwrap();
    assert_eq!(world.status(order.session).await, Status::Idle);
}

#[tokio::test]
async fn the_end_of_a_turn_is_held_too() {
    let (world, store) = world(settings()).await;
    let order = world.begin().await;
    store.fill(true);
    let ending = tokio::spawn({
        let (engine, order) = (world.engine.clone(), order.clone());
        async move { engine.turn_ended(order.turn, order.epoch, message("done"), vec![message("done")]).await }
    });
    store.has_refused(2).await;
    store.fill(false);
    ending.await.unwrap().unwrap();
    assert_eq!(world.kinds(order.turn).await, "start end");
}

#[tokio::test]
async fn what_was_stored_although_the_store_said_otherwise_is_not_stored_twice() {
    let (world, store) = world(settings()).await;
    let order = world.begin().await;
    store.lies.store(true, Ordering::Relaxed);
    assert!(is_unavailable(world.append(&order, vec![step("once")]).await), "the turn has to begin anew");
    assert_eq!(world.kinds(order.turn).await, "start step");
    world.step(&order, "next").await.unwrap();
    store.lies.store(true, Ordering::Relaxed);
    let listening = world.engine.wait(order.session, None);
    let (ended, heard) = tokio::join!(world.end(&order), listening);
    assert_eq!(ended, Err(Error::TurnNotOpen(Some(TurnStatus::Ended))));
    assert_eq!(heard.unwrap().session.status(), Status::Idle);
    assert_eq!(world.kinds(order.turn).await, "start step step end");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

#[tokio::test]
async fn a_message_that_came_about_although_the_store_said_otherwise_is_answered() {
    let (world, store) = world_on(Fixture::server(), settings()).await;
    let session = world.session().await;
    store.lies.store(true, Ordering::Relaxed);
    assert!(is_unavailable(world.send(session).await));
    let order = world.order_of(session).await;
    assert_eq!(journal_of(&order), "start");
    world.end(&order).await.unwrap();
    assert_eq!(world.status(session).await, Status::Idle);
}

#[tokio::test]
async fn so_is_a_parked_turn_that_was_woken_and_one_that_was_to_be_taken_up_again() {
    let (world, store) = world_on(Fixture::server(), Settings { park_after: 0.0, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    world.parked(asking.turn).await;
    store.lies.store(true, Ordering::Relaxed);
    assert!(is_unavailable(world.answer(asking.session, interrupts[0], json!(1)).await));
    let order = world.order_of(asking.session).await;
    assert_eq!(journal_of(&order), "start ask pause answer");
    store.lies.store(true, Ordering::Relaxed);
    // Whoever took it for lost is told that it is not its own any more; it is, at its next epoch.
    assert_eq!(world.engine.turn_lost(order.turn, order.epoch, Lost::Silent).await, Err(Error::StaleEpoch));
    let again = world.order_of(asking.session).await;
    assert!(again.epoch > order.epoch);
    world.end(&again).await.unwrap();
    assert_eq!(world.status(asking.session).await, Status::Idle);
}

#[tokio::test]
async fn a_turn_that_rests_before_it_is_taken_up_again_is_known() {
    let (world, _) = world(settings()).await;
    let order = world.begin().await;
    world.engine.turn_lost(order.turn, order.epoch, Lost::Silent).await.unwrap();
    assert!(world.engine.placement.known_here().contains(&order.turn));
    world.end(&world.order_of(order.session).await).await.unwrap();
    assert!(world.engine.placement.known_here().is_empty());
}

#[tokio::test]
async fn a_server_that_stops_holds_nothing_any_more() {
    let (world, store) = world(settings()).await;
    let order = world.begin().await;
    store.fill(true);
    let appending = tokio::spawn({
        let (engine, order) = (world.engine.clone(), order.clone());
        async move { engine.turn_append(order.turn, order.epoch, vec![step("lost")]).await }
    });
    store.has_refused(1).await;
    // It does not wait for a turn that waits for the store.
    world.engine.shut_down(Duration::from_secs(1000)).await.unwrap();
    assert!(appending.await.unwrap().is_err());
}

#[tokio::test]
async fn all_that_a_server_does_as_it_stops_has_one_end_although_nothing_comes_of_it() {
    let (world, store) = world(settings()).await;
    let (_paused, _working) = (world.asking(1).await, world.begin().await);
    store.hangs.store(true, Ordering::Relaxed);
    tokio::time::pause();
    let (begun, patience) = (Instant::now(), Duration::from_secs(20));
    assert_eq!(world.engine.come_to_rest(patience).await, Ok(()));
    assert!(begun.elapsed() <= patience + LAST + Duration::from_millis(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn to_be_ready_is_to_have_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hitl.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let world = World::over(Fixture::memory(), store, settings(), runtime()).await;
    // Where SQLite puts what it commits.
    let written = || std::fs::read(directory.path().join("hitl.db-wal")).unwrap();
    for _ in 0..3 {
        let (before, last) = (written(), world.engine.now());
        // Another time to write than the last one.
        while world.engine.now() == last {
            tokio::task::yield_now().await;
        }
        world.engine.check_ready().await.unwrap();
        assert!(written() != before, "nothing was written");
    }
}

/// A turn whose question is overdue: what is to let it expire has failed, and rests before it tries again.
async fn overdue() -> (World, TurnOrder, InterruptId) {
    let (world, store) = world(settings()).await;
    let order = world.begin().await;
    let batch = world.append(&order, vec![question(0, Some(0.02)), waiting(None, &[])]).await.unwrap();
    store.fill(true);
    while store.refused.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    store.fill(false);
    (world, order, asked(batch)[0])
}

#[tokio::test]
async fn whoever_answers_too_late_finds_it_expired_whatever_the_alarm_is_at() {
    let (world, order, interrupt) = overdue().await;
    let late = world.answer(order.session, interrupt, json!(1)).await;
    assert!(matches!(late, Err(Error::InterruptExpired(_))), "{late:?}");
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
    assert_eq!(world.status(order.session).await, Status::Running);
    assert_eq!(world.kinds(order.turn).await, "start ask pause expire");
}

#[tokio::test]
async fn so_does_whoever_claims_it_too_late() {
    let (world, _, interrupt) = overdue().await;
    let (id, ada) = (interrupt.to_string(), Some("ada".to_owned()));
    let late = world.engine.claim_interrupt(&id, Actor::anyone(), ada, 60.0).await;
    assert!(matches!(late, Err(Error::InterruptExpired(_))), "{late:?}");
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
}

#[tokio::test]
async fn a_turn_that_waited_for_a_place_is_read_when_it_starts() {
    let (world, store) = world(Settings { workers: 1, ..settings() }).await;
    let working = world.begin().await;
    let state = vec![message("before")];
    let new = NewSession { state: state.clone(), ..NewSession::default() };
    let waiting = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    world.send(waiting).await.unwrap();
    store.unreadable.store(true, Ordering::Relaxed);
    world.end(&working).await.unwrap();
    // Nothing of it was kept but its name, and nothing is lost where that cannot be looked up at once.
    store.refuse_a_read().await;
    let order = world.order_of(waiting).await;
    assert_eq!((&order.state, order.message.content.as_deref()), (&state, Some("go")));
    assert_eq!(journal_of(&order), "start");
    world.end(&order).await.unwrap();
}

#[tokio::test]
async fn a_turn_that_waited_for_a_place_and_cannot_be_read_says_so_and_holds_none() {
    let (world, store) = world(Settings { workers: 1, ..settings() }).await;
    let working = world.begin().await;
    let waiting = world.session().await;
    world.send(waiting).await.unwrap();
    store.spoiled.store(true, Ordering::Relaxed);
    world.end(&working).await.unwrap();
    while store.spoiled.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    while world.status(waiting).await == Status::Running {
        tokio::task::yield_now().await;
    }
    let failed = world.engine.session(waiting).await.unwrap().session;
    assert_eq!(failed.failure().map(|failure| failure.code.as_str()), Some("journal_unreadable"));
    let next = world.begin().await;
    world.end(&next).await.unwrap();
}

#[tokio::test]
async fn a_suspended_turn_that_cannot_be_read_keeps_no_other_from_being_given_up() {
    let clock = StoppedClock::new(at(0));
    let fixture = Fixture::at_the_time_of(Arc::clone(&clock) as _);
    let store = Fickle::new(&fixture.store);
    // So long that the sweeper, who gives up as well, does not come in between.
    let settings = Settings { suspended_ttl: 3600.0, ..settings() };
    let world = World::over(fixture, Arc::clone(&store) as _, settings, runtime()).await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let order = world.begin().await;
        let away = Failure::new("model_unavailable", "away");
        world.engine.turn_failed(order.turn, order.epoch, away).await.unwrap();
        sessions.push(order.session);
    }
    clock.set(at(3_600_001));
    store.spoiled_writes.store(1, Ordering::Relaxed);
    world.engine.give_up_suspended().await.unwrap();
    let mut left = 0;
    for session in sessions {
        left += usize::from(world.state(session).await.retry().is_some());
    }
    assert_eq!(left, 1);
}

#[tokio::test]
async fn a_failed_turn_that_cannot_be_read_keeps_no_other_from_being_taken_up() {
    let (world, store) = world(settings()).await;
    let mut turns = Vec::new();
    for _ in 0..2 {
        let order = world.begin().await;
        let mismatch = Failure::new("replay_mismatch", "another step");
        world.engine.turn_failed(order.turn, order.epoch, mismatch).await.unwrap();
        turns.push((order.session, order.turn));
    }
    store.spoiled_writes.store(1, Ordering::Relaxed);
    world.engine.reopen_all(&turns).await.unwrap();
    let taken_up = world.order().await.session;
    let mut left = Vec::new();
    for (session, _) in turns {
        left.extend(world.state(session).await.retry().map(|_| session));
    }
    assert!(left.len() == 1 && left[0] != taken_up, "{left:?} {taken_up}");
}

#[tokio::test]
async fn events_that_could_not_be_read_are_told_later() {
    let (world, store) = world(Settings { workers: 9, ..settings() }).await;
    let order = world.begin().await;
    let mut heard = world.engine.subscribe(Some(order.session), None).await.unwrap();
    store.unreadable.store(true, Ordering::Relaxed);
    world.end(&order).await.unwrap();
    store.refuse_a_read().await;
    // Nothing else happens that would ring again.
    let event = tokio::time::timeout(PATIENCE, heard.events.recv()).await.unwrap().unwrap();
    assert!(matches!(event, FeedItem::Stored(event) if event.event.name == "session.idle"));
}

//! A poll that waits is told what the session has become by the commit itself: nobody reads it once more. Where it came
//! with the message, nobody reads it before either.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::support::{World, message, runtime, settings};
use crate::domain::access::Actor;
use crate::domain::status::Status;
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::clock;
use crate::engine::ports::dispatch::TurnOrder;
use crate::engine::telling::bells::SessionSnapshot;
use crate::engine::telling::view::{SessionView, view_and_newest};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{Fixture, session, session_id};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

/// A store that can be written only, once it is told so.
struct Unreadable {
    store: Arc<dyn Store>,
    refuses: AtomicBool,
}

impl Store for Unreadable {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.refuses.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Error::StoreUnavailable("nobody reads".to_owned()))));
        }
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

/// The memory store does at once what it is asked, so that a future that was polled once waits for something else.
async fn world() -> (World, Arc<Unreadable>) {
    let fixture = Fixture::memory();
    let store = Arc::new(Unreadable { store: fixture.store.clone(), refuses: AtomicBool::new(false) });
    (World::over(fixture, store.clone(), settings(), runtime()).await, store)
}

async fn send(world: &World, session: SessionId) -> Option<SessionSnapshot> {
    let (text, anyone) = (message("go"), Actor::anyone());
    world.engine.send_message(session, text, None, None, None, &anyone).await.unwrap()
}

async fn waits(poll: &mut (impl Future<Output = Result<SessionView, Error>> + Unpin)) -> bool {
    timeout(Duration::ZERO, poll).await.is_err()
}

/// What a commit at event `event` would show: the session as it was before `turn`.
async fn shown(world: &World, session: SessionId, turn: TurnId, event: u64) -> Option<Arc<SessionSnapshot>> {
    Some(Arc::new(SessionSnapshot { turn, event: event.into(), view: world.engine.session(session).await.unwrap() }))
}

/// Who waits for the turn hears `late`, takes it for no news, and goes on waiting for its end.
async fn waits_on_after(world: &World, order: &TurnOrder, late: Option<Arc<SessionSnapshot>>) {
    let mut poll = pin!(world.engine.wait(order.session, None));
    assert!(waits(&mut poll).await);
    world.engine.telling.ring(order.session, late);
    assert!(waits(&mut poll).await);
    world.end(order).await.unwrap();
    assert_eq!(poll.await.unwrap().session.status(), Status::Idle);
}

#[tokio::test]
async fn the_end_of_a_turn_is_not_read_again_by_who_waits_for_it() {
    let (world, store) = world().await;
    let order = world.begin().await;
    let mut poll = pin!(world.engine.wait(order.session, None));
    assert!(waits(&mut poll).await);
    store.refuses.store(true, Ordering::Relaxed);
    world.end(&order).await.unwrap();
    let polled = poll.await.unwrap();
    store.refuses.store(false, Ordering::Relaxed);
    assert_eq!(polled.session.status(), Status::Idle);
    assert_eq!(polled, world.engine.session(order.session).await.unwrap());
}

#[tokio::test]
async fn nor_are_the_questions_of_a_turn() {
    let (world, store) = world().await;
    let order = world.begin().await;
    let mut poll = pin!(world.engine.wait(order.session, None));
    assert!(waits(&mut poll).await);
    store.refuses.store(true, Ordering::Relaxed);
    let asked = world.ask(&order, 2).await;
    let polled = poll.await.unwrap();
    store.refuses.store(false, Ordering::Relaxed);
    let interrupts: Vec<_> = polled.interrupts.iter().map(|interrupt| interrupt.interrupt_id).collect();
    assert_eq!(interrupts, asked);
    assert_eq!(polled, world.engine.session(order.session).await.unwrap());
}

#[tokio::test]
async fn who_sends_a_message_and_waits_reads_nothing_at_all() {
    let (world, store) = world().await;
    let session = world.session().await;
    store.refuses.store(true, Ordering::Relaxed);
    for came_first in [false, true] {
        let listener = world.engine.listen(session);
        let sent = send(&world, session).await;
        let mut poll = pin!(world.engine.wait_after(listener, session, sent, None));
        let order = world.order().await;
        // What has become of the turn may be there before anybody waits for it.
        assert!(came_first || waits(&mut poll).await);
        world.end(&order).await.unwrap();
        assert_eq!(poll.await.unwrap().session.status(), Status::Idle);
    }
}

#[tokio::test]
async fn who_sends_a_message_and_waits_hears_whoever_stops_its_turn() {
    let (world, _) = world().await;
    let session = world.session().await;
    let listener = world.engine.listen(session);
    let sent = send(&world, session).await;
    world.engine.cancel(session, Actor::anyone()).await.unwrap();
    let poll = world.engine.wait_after(listener, session, sent, None);
    assert_eq!(poll.await.unwrap().session.status(), Status::Error);
}

#[tokio::test]
async fn a_ring_that_comes_late_says_nothing_about_the_next_turn() {
    let (world, _) = world().await;
    let before = world.begin().await;
    world.end(&before).await.unwrap();
    let late = shown(&world, before.session, before.turn, u64::MAX).await;
    world.send(before.session).await.unwrap();
    let order = world.order().await;
    waits_on_after(&world, &order, late).await;
}

#[tokio::test]
async fn a_ring_that_comes_late_does_not_ask_again_what_was_answered() {
    let (world, _) = world().await;
    let (order, asked) = world.asking(1).await;
    let late = shown(&world, order.session, order.turn, 1).await;
    world.answer(order.session, asked[0], serde_json::json!(1)).await.unwrap();
    waits_on_after(&world, &order, late).await;
}

#[tokio::test]
async fn only_a_later_commit_about_the_turn_that_runs_is_news() {
    let (world, _) = world().await;
    let order = world.begin().await;
    let view = world.engine.session(order.session).await.unwrap();
    let of = |turn, event: u64| SessionSnapshot { turn, event: event.into(), view: view.clone() };
    assert!(of(order.turn, 6).is_after(&view, 5));
    assert!(!of(order.turn, 5).is_after(&view, 5), "read together with it");
    assert!(!of(clock::turn_id(), 6).is_after(&view, 5), "of another turn");
}

#[tokio::test]
async fn what_a_poll_begins_with_is_asked_of_a_shared_database_at_once() {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let database = SimulatedDatabase::new(Arc::clone(&clock));
    let server = || SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(&clock), Handle::current());
    server().transact(About::Session(session_id(1)), |tx| tx.insert_session(&session(1), &[])).await.unwrap();
    let other = server();
    database.calls();
    other.query(|reader| view_and_newest(reader, session_id(1))).await.unwrap();
    assert_eq!(database.calls(), (1, 0));
}

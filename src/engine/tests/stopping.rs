//! A server is told to stop.

use std::time::Duration;

use serde_json::json;

use super::support::{World, journal_of, question, runtime, settings, waiting};
use crate::domain::Error;
use crate::domain::status::Status;
use crate::engine::settings::Settings;
use crate::store::StoreExt;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    however_many_are_asked_it_does_not_wait,
    turns_at_work_may_finish_and_pause,
    what_is_still_at_work_is_left_for_the_next_server,
    servers_that_end_in_order_do_not_count,
    nothing_new_begins,
    an_answer_that_comes_late_is_for_the_next_server,
);

/// Begins to stop, and lets that come to where it waits for turns at work.
fn stop(world: &World, patience: Duration) -> tokio::task::JoinHandle<Result<(), Error>> {
    let engine = world.engine.clone();
    tokio::spawn(async move { engine.shut_down(patience).await })
}

/// Fixtures keep a store open that an engine has closed; this is one that stays.
async fn world(fixture: Fixture, settings: Settings) -> World {
    let store = super::support::unclosed(&fixture.store);
    World::over(fixture, store, settings, runtime()).await
}

async fn however_many_are_asked_it_does_not_wait(fixture: Fixture) {
    let world = world(fixture, Settings { workers: 4, ..settings() }).await;
    let mut asking = Vec::new();
    for _ in 0..70 {
        asking.push(world.asking(1).await);
    }
    world.engine.shut_down(Duration::MAX).await.unwrap();
    for (order, _) in &asking {
        assert!(world.turn(order.turn).await.life.is_parked());
        assert_eq!(world.status(order.session).await, Status::Interrupted);
    }
    let world = world.crash().await;
    let (order, interrupts) = &asking[41];
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(world.order().await.turn, order.turn);
}

async fn turns_at_work_may_finish_and_pause(fixture: Fixture) {
    let world = world(fixture, settings()).await;
    let (finishing, pausing) = (world.begin().await, world.begin().await);
    let stopped = stop(&world, Duration::MAX);
    world.engine.stopping().await;
    world.step(&finishing, "a").await.unwrap();
    world.append(&pausing, vec![question(0, None), waiting(None, &[])]).await.unwrap();
    world.end(&finishing).await.unwrap();
    stopped.await.unwrap().unwrap();
    assert_eq!(world.status(finishing.session).await, Status::Idle);
    assert!(world.turn(pausing.turn).await.life.is_parked());
}

async fn what_is_still_at_work_is_left_for_the_next_server(fixture: Fixture) {
    let world = world(fixture, settings()).await;
    let order = world.begin().await;
    world.step(&order, "a").await.unwrap();
    world.engine.shut_down(Duration::ZERO).await.unwrap();
    // It is not over, which would have the agent cancelled.
    assert_eq!(world.step(&order, "late").await, Err(Error::StaleEpoch));
    assert_eq!(world.end(&order).await, Err(Error::StaleEpoch));
    let lost = crate::engine::ports::dispatch::Lost::Stopping;
    assert_eq!(world.engine.turn_lost(order.turn, order.epoch, lost).await, Err(Error::StaleEpoch));
    assert_eq!(world.status(order.session).await, Status::Running, "never an error");
    let world = world.crash().await;
    assert_eq!(journal_of(&world.order().await), "start step");
    assert_eq!(world.turn(order.turn).await.life.recoveries, 0);
}

async fn servers_that_end_in_order_do_not_count(fixture: Fixture) {
    let mut world = world(fixture, Settings { max_recoveries: 0, ..settings() }).await;
    let first = world.begin().await;
    for _ in 0..4 {
        world.engine.shut_down(Duration::ZERO).await.unwrap();
        assert_eq!(world.turn(first.turn).await.life.claimed, None);
        world = world.crash().await;
        assert_eq!(world.order().await.turn, first.turn);
    }
    assert_eq!(world.turn(first.turn).await.life.recoveries, 0);
    assert_eq!(world.status(first.session).await, Status::Running);
}

async fn nothing_new_begins(fixture: Fixture) {
    let world = world(fixture, Settings { workers: 1, ..settings() }).await;
    let working = world.begin().await;
    let queued = world.session().await;
    world.send(queued).await.unwrap();
    let stopped = stop(&world, Duration::MAX);
    world.engine.stopping().await;
    assert_eq!(world.send(queued).await, Err(Error::ShuttingDown));
    world.end(&working).await.unwrap();
    stopped.await.unwrap().unwrap();
    assert!(world.hands.look(|told| told.orders.is_empty()));
    assert_eq!(world.status(queued).await, Status::Running);
    let world = world.crash().await;
    assert_eq!(world.order().await.session, queued);
}

async fn an_answer_that_comes_late_is_for_the_next_server(fixture: Fixture) {
    let world = world(fixture, Settings { park_after: 0.0, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let working = world.begin().await;
    let stopped = stop(&world, Duration::MAX);
    world.engine.stopping().await;
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    world.end(&working).await.unwrap();
    stopped.await.unwrap().unwrap();
    assert!(world.hands.look(|told| told.orders.is_empty()));
    let id = asking.turn;
    assert!(!world.store.query(move |reader| reader.turn(id)).await.unwrap().unwrap().life.is_parked());
    let world = world.crash().await;
    assert_eq!(journal_of(&world.order().await), "start ask pause answer");
}

//! `--keep-journal`, and `--ttl`.

use serde_json::json;

use super::support::{World, settings};
use crate::domain::status::InterruptStatus;
use crate::engine::settings::Settings;
use crate::store::StoreExt;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    journals_of_ended_turns_go_and_answers_stay,
    with_0_journals_stay,
    what_is_open_or_can_be_retried_keeps_its_journal,
    old_sessions_go_however_many_there_are,
);

const AT_ONCE: f64 = 1e-6;

async fn journals_of_ended_turns_go_and_answers_stay(fixture: Fixture) {
    let world = World::new(fixture, Settings { keep_journal: AT_ONCE, ..settings() }).await;
    let (order, interrupts) = world.asking(1).await;
    world.answer(order.session, interrupts[0], json!("yes")).await.unwrap();
    world.end(&order).await.unwrap();
    // A turn that ended in this millisecond is not older than a moment.
    while !world.journal(order.turn).await.is_empty() {
        world.engine.sweep().await.unwrap();
    }
    let interrupt = world.interrupt(interrupts[0]).await;
    assert_eq!((interrupt.status, interrupt.value), (InterruptStatus::Resolved, Some(json!("yes"))));
    assert!(world.answer(order.session, interrupts[0], json!("yes")).await.unwrap().replayed);
    assert!(world.turn(order.turn).await.life.ended_at().is_some());
}

async fn with_0_journals_stay(fixture: Fixture) {
    let world = World::new(fixture, Settings { keep_journal: 0.0, ..settings() }).await;
    let order = world.begin().await;
    world.end(&order).await.unwrap();
    world.engine.sweep().await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start end");
}

async fn what_is_open_or_can_be_retried_keeps_its_journal(fixture: Fixture) {
    let world =
        World::new(fixture, Settings { keep_journal: AT_ONCE, max_recoveries: 0, workers: 3, ..settings() }).await;
    let (paused, _) = world.asking(1).await;
    let suspended = world.begin().await;
    world.lose(&suspended).await;
    let ended = world.begin().await;
    world.end(&ended).await.unwrap();
    while !world.journal(ended.turn).await.is_empty() {
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(world.kinds(paused.turn).await, "start ask pause");
    assert_eq!(world.kinds(suspended.turn).await, "start");
}

async fn old_sessions_go_however_many_there_are(fixture: Fixture) {
    let world = World::new(fixture, Settings { ttl: 1e-3, ..settings() }).await;
    for _ in 0..250 {
        world.session().await;
    }
    // Not the time of the last one: the engine sweeps by itself too, and it may be gone already.
    let last = world.engine.now();
    while world.engine.now() <= last.plus_seconds(1e-3) {
        tokio::task::yield_now().await;
    }
    world.engine.sweep().await.unwrap();
    assert_eq!(world.store.query(|reader| reader.count_sessions()).await, Ok(0));
}

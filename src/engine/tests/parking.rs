//! When paused turns leave memory, and when they do not.

use serde_json::json;

use super::support::{World, ahead, asked, question, runtime, settings, step, waiting};
use crate::domain::Error;
use crate::domain::status::Status;
use crate::domain::turn::TurnState;
use crate::engine::ports::dispatch::{Record, Runtime};
use crate::engine::settings::Settings;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    a_paused_turn_is_parked_after_a_while,
    with_park_after_0_it_is_parked_as_it_pauses,
    beyond_max_warm_the_longest_paused_are_parked_first,
    what_nothing_would_wake_stays_in_memory,
    what_cannot_be_replayed_stays_in_memory,
    a_turn_with_undelivered_answers_is_not_parked,
    a_parked_turns_worker_writes_nothing,
    a_parked_turn_holds_no_place,
    a_parked_turn_waits_for_its_earliest_timer,
    a_turn_that_went_on_is_not_parked,
    a_pause_that_was_over_before_it_was_stored_parks_nothing,
);

fn park_after(seconds: f64) -> Settings {
    Settings { park_after: seconds, ..settings() }
}

async fn a_paused_turn_is_parked_after_a_while(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.05)).await;
    let (order, interrupts) = world.asking(1).await;
    world.parked(order.turn).await;
    assert_eq!(world.kinds(order.turn).await, "start ask pause", "parking leaves no entry");
    assert_eq!(world.state(order.session).await.pending(), interrupts, "nobody outside can tell");
}

async fn with_park_after_0_it_is_parked_as_it_pauses(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.0)).await;
    let (order, _) = world.asking(1).await;
    // In the very transaction: there is nothing to wait for.
    assert!(world.turn(order.turn).await.life.is_parked());
    assert_eq!(world.hands.look(|told| told.parked.clone()), [order.turn]);
}

async fn beyond_max_warm_the_longest_paused_are_parked_first(fixture: Fixture) {
    let world = World::new(fixture, Settings { max_warm: 2, workers: 4, ..settings() }).await;
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(world.asking(2).await);
    }
    world.parked(turns[0].0.turn).await;
    // The second pauses anew, so that the third is now the one that has waited longest.
    let (order, interrupts) = &turns[1];
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    world.append(order, vec![waiting(Some(world.delivery(order.turn).await.index()), &[])]).await.unwrap();
    let (fourth, _) = world.asking(1).await;
    world.parked(turns[2].0.turn).await;
    for warm in [order.turn, fourth.turn] {
        assert!(!world.turn(warm).await.life.is_parked());
    }
}

/// Its worker said that it waits, went on at once, and all of that came in one piece.
async fn a_pause_that_was_over_before_it_was_stored_parks_nothing(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.0)).await;
    let order = world.begin().await;
    let batch = vec![question(0, None), waiting(None, &[]), step("late"), question(1, None)];
    let outcomes = world.append(&order, batch).await.unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Some(_)))).count(), 3);
    assert_eq!(world.kinds(order.turn).await, "start ask step ask");
    assert!(!world.turn(order.turn).await.life.is_parked());
    world.append(&order, vec![waiting(Some(3), &[])]).await.unwrap();
    assert!(world.turn(order.turn).await.life.is_parked());
}

async fn what_nothing_would_wake_stays_in_memory(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.0)).await;
    let order = world.begin().await;
    world.append(&order, vec![waiting(None, &[])]).await.unwrap();
    assert_eq!(world.engine.park_due().await, Ok(None));
    assert!(!world.turn(order.turn).await.life.is_parked());
    assert_eq!(world.status(order.session).await, Status::Running);
}

async fn what_cannot_be_replayed_stays_in_memory(fixture: Fixture) {
    let runtime = Runtime { replay: false, ..runtime() };
    let world = World::on(fixture, Settings { max_warm: 0, ..park_after(0.0) }, runtime).await;
    let (order, interrupts) = world.asking(1).await;
    assert_eq!(world.engine.park_due().await, Ok(None));
    assert!(!world.turn(order.turn).await.life.is_parked());
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    world.delivery(order.turn).await;
}

async fn a_turn_with_undelivered_answers_is_not_parked(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, interrupts) = world.asking(2).await;
    // The answer is committed; that its turn is at work again has not been noticed yet.
    let (candidates, _) = world.engine.placement.to_park(0, std::time::Duration::ZERO);
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    world.engine.park(candidates).await.unwrap();
    assert!(!world.turn(order.turn).await.life.is_parked());
    assert_eq!(world.hands.look(|told| told.parked.len()), 0);
    world.step(&order, "after the answer").await.unwrap();
}

async fn a_parked_turns_worker_writes_nothing(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.0)).await;
    let (order, interrupts) = world.asking(1).await;
    assert_eq!(world.step(&order, "late").await, Err(Error::TurnNotOpen(None)));
    assert_eq!(world.end(&order).await, Err(Error::TurnNotOpen(None)));
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    world.order().await;
    assert_eq!(world.step(&order, "late").await, Err(Error::TurnNotOpen(None)));
    assert_eq!(world.kinds(order.turn).await, "start ask pause answer");
}

async fn a_parked_turn_holds_no_place(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..park_after(0.0) }).await;
    for _ in 0..3 {
        world.asking(1).await;
    }
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running_workers, health.queued), (0, 0));
    assert_eq!(world.engine.placement.count(), (0, 0));
}

async fn a_parked_turn_waits_for_its_earliest_timer(fixture: Fixture) {
    let world = World::new(fixture, park_after(0.0)).await;
    let order = world.begin().await;
    let (early, late) = (ahead(60_000), ahead(90_000));
    world.append(&order, vec![waiting(None, &[("late", late), ("early", early)])]).await.unwrap();
    let row = world.turn(order.turn).await;
    assert_eq!(row.life.state, TurnState::Parked { wake_at: Some(early) });
    assert_eq!(world.status(order.session).await, Status::Running);
}

async fn a_turn_that_went_on_is_not_parked(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let due = ahead(60_000);
    let batch = world.append(&order, vec![question(0, None), waiting(None, &[("t", due)])]).await.unwrap();
    asked(batch);
    let (candidates, _) = world.engine.placement.to_park(0, std::time::Duration::ZERO);
    world.append(&order, vec![Record::Timer { path: "t".to_owned(), due }, step("a")]).await.unwrap();
    world.engine.park(candidates).await.unwrap();
    assert!(!world.turn(order.turn).await.life.is_parked());
}

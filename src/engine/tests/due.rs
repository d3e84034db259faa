//! Interrupts expire and timers of parked turns fire: in memory, parked, and over restarts.

use serde_json::json;

use super::support::{World, ahead, asked, journal_of, question, runtime, settings, waiting};
use crate::domain::Error;
use crate::domain::journal::Entry;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{InterruptId, TurnId};
use crate::engine::ports::dispatch::{Delivery, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    an_interrupt_of_a_turn_in_memory_expires,
    an_interrupt_of_a_parked_turn_expires_and_wakes_it,
    what_expired_while_no_server_ran_expires_once,
    an_earlier_expiry_is_not_slept_over,
    a_late_answer_is_refused,
    timers_of_a_parked_turn_fire_in_their_order,
    timers_that_were_due_while_no_server_ran_fire_once,
    a_timer_that_is_ahead_does_not_fire_with_the_earlier_one,
    an_answer_before_the_timer_leaves_the_timer_to_the_worker,
    another_agents_interrupts_expire_and_start_nothing,
);

fn parking() -> Settings {
    Settings { park_after: 0.0, ..settings() }
}

/// A turn that asks one question which expires in so many seconds, and is paused.
async fn asking_for(world: &World, seconds: f64) -> (TurnOrder, InterruptId) {
    let order = world.begin().await;
    let batch = world.append(&order, vec![question(0, Some(seconds)), waiting(None, &[])]).await.unwrap();
    (order, asked(batch)[0])
}

async fn an_interrupt_of_a_turn_in_memory_expires(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, interrupt) = asking_for(&world, 0.02).await;
    let delivery = world.delivery(order.turn).await;
    assert!(matches!(delivery, Delivery::Expired { index: 3, interrupt: id, .. } if id == interrupt), "{delivery:?}");
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
    assert_eq!(world.status(order.session).await, Status::Running);
}

async fn an_interrupt_of_a_parked_turn_expires_and_wakes_it(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupt) = asking_for(&world, 0.02).await;
    let order = world.order().await;
    assert_eq!((order.turn, journal_of(&order).as_str()), (first.turn, "start ask pause expire"));
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
}

async fn what_expired_while_no_server_ran_expires_once(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupt) = asking_for(&world, 0.05).await;
    let world = world.crash().await;
    world.until_status(first.session, Status::Running).await;
    assert_eq!(journal_of(&world.order().await), "start ask pause expire");
    let world = world.crash().await;
    assert_eq!(journal_of(&world.order().await), "start ask pause expire");
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
}

async fn an_earlier_expiry_is_not_slept_over(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (late, _) = asking_for(&world, 3600.0).await;
    let (early, _) = asking_for(&world, 0.02).await;
    world.delivery(early.turn).await;
    assert_eq!(world.status(late.session).await, Status::Interrupted);
}

async fn a_late_answer_is_refused(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupt) = asking_for(&world, 0.02).await;
    world.order().await;
    let late = world.answer(first.session, interrupt, json!(1)).await;
    assert!(matches!(late, Err(Error::InterruptExpired(_))), "{late:?}");
}

/// The paths of the timers that fired, in order.
async fn fired(world: &World, turn: TurnId) -> Vec<String> {
    let paths = world.journal(turn).await.into_iter().filter_map(|entry| match entry {
        Entry::Timer { path, .. } => Some(path),
        _ => None,
    });
    paths.collect()
}

async fn timers_of_a_parked_turn_fire_in_their_order(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let first = world.begin().await;
    let timers = [("c", ahead(20)), ("a", ahead(-5)), ("b", ahead(-5))];
    world.append(&first, vec![waiting(None, &timers)]).await.unwrap();
    let order = world.order().await;
    assert_eq!(order.turn, first.turn);
    let fired = fired(&world, first.turn).await;
    // By time, and those of one time in the worker's order; the third may have been due as well.
    assert_eq!(fired[..2], ["a", "b"]);
    assert!(!world.turn(first.turn).await.life.is_parked());
}

async fn timers_that_were_due_while_no_server_ran_fire_once(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    world.append(&first, vec![waiting(None, &[("t", ahead(-10))])]).await.unwrap();
    // Paused in memory, where the worker's own clock would have fired it.
    let world = world.crash().await;
    assert_eq!(journal_of(&world.order().await), "start pause timer");
    let world = world.crash().await;
    assert_eq!(journal_of(&world.order().await), "start pause timer");
    assert_eq!(fired(&world, first.turn).await, ["t"]);
}

async fn a_timer_that_is_ahead_does_not_fire_with_the_earlier_one(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let first = world.begin().await;
    let late = ahead(3_600_000);
    world.append(&first, vec![waiting(None, &[("late", late), ("early", ahead(10))])]).await.unwrap();
    let order = world.order().await;
    assert_eq!(fired(&world, first.turn).await, ["early"]);
    world.append(&order, vec![waiting(None, &[("late", late)])]).await.unwrap();
    assert_eq!(world.turn(first.turn).await.life.wake_at(), Some(late));
}

async fn an_answer_before_the_timer_leaves_the_timer_to_the_worker(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let first = world.begin().await;
    let due = ahead(3_600_000);
    let batch = world.append(&first, vec![question(0, None), waiting(None, &[("t", due)])]).await.unwrap();
    world.answer(first.session, asked(batch)[0], json!(1)).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start ask pause answer");
    assert_eq!(world.turn(first.turn).await.life.wake_at(), None);
    assert_eq!(world.store_next_due().await, None);
}

async fn another_agents_interrupts_expire_and_start_nothing(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupt) = asking_for(&world, 0.1).await;
    let others = Settings { agent: "other:agent".to_owned(), ..parking() };
    let world = world.crash_into(others, runtime()).await;
    world.until_status(first.session, Status::Running).await;
    assert_eq!(world.interrupt(interrupt).await.status, InterruptStatus::Expired);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    let world = world.crash_into(parking(), runtime()).await;
    assert_eq!(journal_of(&world.order().await), "start ask pause expire");
}

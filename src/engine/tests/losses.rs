//! Workers die under their turns.

use serde_json::json;

use super::support::{World, journal_of, runtime, settings};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::session::Phase;
use crate::domain::status::Status;
use crate::engine::ports::dispatch::{Lost, Runtime};
use crate::engine::settings::Settings;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    a_turn_goes_on_with_another_worker,
    the_time_at_work_is_counted_over_lost_workers,
    after_max_recoveries_it_is_an_error_with_its_journal_kept,
    with_no_recoveries_the_first_loss_is_the_error,
    a_silent_worker_is_a_lost_one,
    what_the_store_lost_is_not_counted,
    a_broken_protocol_fails_at_once,
    a_paused_turn_that_loses_its_worker_is_parked,
    a_turn_that_was_answered_before_it_was_lost_is_taken_up_again,
    an_answer_while_it_waits_to_be_taken_up_is_in_its_journal,
    an_agent_that_cannot_be_replayed_fails,
    a_worker_that_was_only_late_writes_nothing,
    it_can_be_cancelled_while_it_waits_to_be_taken_up,
    a_loss_frees_its_place,
);

async fn a_turn_goes_on_with_another_worker(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    world.step(&first, "a").await.unwrap();
    world.lose(&first).await;
    let order = world.order().await;
    assert_eq!((order.turn, journal_of(&order).as_str()), (first.turn, "start step"));
    assert_eq!((first.alone, order.alone), (false, true), "another loss will be its own doing");
    assert_eq!(world.status(first.session).await, Status::Running);
    world.end(&order).await.unwrap();
    assert_eq!(world.status(first.session).await, Status::Idle);
}

async fn the_time_at_work_is_counted_over_lost_workers(fixture: Fixture) {
    let world = World::new(fixture, Settings { timeout: 1000.0, ..settings() }).await;
    let first = world.begin().await;
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    world.lose(&first).await;
    let order = world.order().await;
    let worked = world.turn(first.turn).await.life.worked_ms;
    assert!(worked >= 30, "{worked}");
    let standing = world.engine.placement.standing(order.turn, order.epoch).unwrap();
    assert!(standing.worked_ms() >= worked, "{standing:?}");
}

async fn after_max_recoveries_it_is_an_error_with_its_journal_kept(fixture: Fixture) {
    let world = World::new(fixture, Settings { max_recoveries: 2, ..settings() }).await;
    let mut order = world.begin().await;
    for _ in 0..2 {
        world.lose(&order).await;
        order = world.order().await;
    }
    world.lose(&order).await;
    let Phase::Error { failure, retry: Some(retry) } = world.state(order.session).await.phase else { panic!() };
    assert_eq!((failure.code.as_str(), retry.turn), ("worker_exited", order.turn));
    assert_eq!(failure.message, "Worker process exited unexpectedly");
    assert_eq!(world.kinds(order.turn).await, "start");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
    // A retry begins the count anew.
    world.engine.retry(order.session, Actor::anyone()).await.unwrap();
    let order = world.order().await;
    world.lose(&order).await;
    world.order().await;
    assert_eq!(world.turn(order.turn).await.life.recoveries, 1);
}

async fn with_no_recoveries_the_first_loss_is_the_error(fixture: Fixture) {
    let world = World::new(fixture, Settings { max_recoveries: 0, ..settings() }).await;
    let order = world.begin().await;
    world.lose(&order).await;
    assert_eq!(world.status(order.session).await, Status::Error);
}

async fn a_silent_worker_is_a_lost_one(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    world.engine.turn_lost(first.turn, first.epoch, Lost::Silent).await.unwrap();
    assert_eq!(world.order().await.turn, first.turn);
    assert_eq!(world.turn(first.turn).await.life.recoveries, 1);
}

async fn what_the_store_lost_is_not_counted(fixture: Fixture) {
    let world = World::new(fixture, Settings { max_recoveries: 0, ..settings() }).await;
    let first = world.begin().await;
    let lost = Lost::Unstored { message: "disk full".to_owned() };
    world.engine.turn_lost(first.turn, first.epoch, lost).await.unwrap();
    assert_eq!(world.order().await.turn, first.turn);
    assert_eq!(world.turn(first.turn).await.life.recoveries, 0);
}

async fn a_broken_protocol_fails_at_once(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let lost = Lost::Violation { message: "WorkerProtocolError: nonsense".to_owned() };
    world.engine.turn_lost(order.turn, order.epoch, lost).await.unwrap();
    let Phase::Error { failure, retry: None } = world.state(order.session).await.phase else { panic!() };
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("worker_protocol", "WorkerProtocolError: nonsense"));
}

async fn a_paused_turn_that_loses_its_worker_is_parked(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (first, interrupts) = world.asking(1).await;
    world.lose(&first).await;
    let row = world.turn(first.turn).await;
    assert_eq!((row.life.is_parked(), row.life.recoveries), (true, 0));
    assert_eq!(world.status(first.session).await, Status::Interrupted);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start ask pause answer");
}

async fn a_turn_that_was_answered_before_it_was_lost_is_taken_up_again(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (first, interrupts) = world.asking(2).await;
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    world.lose(&first).await;
    assert_eq!(journal_of(&world.order().await), "start ask ask pause answer");
}

async fn an_answer_while_it_waits_to_be_taken_up_is_in_its_journal(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let mut last = world.begin().await;
    let interrupts = super::support::asked(world.append(&last, vec![super::support::question(0, None)]).await.unwrap());
    // The third time it waits for two seconds, in which an answer is stored.
    for _ in 0..2 {
        world.lose(&last).await;
        last = world.order().await;
    }
    world.lose(&last).await;
    world.answer(last.session, interrupts[0], json!(1)).await.unwrap();
    let order = world.order().await;
    let told = world.hands.look(|told| told.deliveries.len());
    assert_eq!((journal_of(&order).as_str(), told), ("start ask answer", 0));
}

async fn an_agent_that_cannot_be_replayed_fails(fixture: Fixture) {
    let world = World::on(fixture, settings(), Runtime { replay: false, ..runtime() }).await;
    let (order, interrupts) = world.asking(1).await;
    world.lose(&order).await;
    let Phase::Error { failure, retry: None } = world.state(order.session).await.phase else { panic!() };
    assert_eq!(failure.code, "not_replayable");
    assert!(failure.message.contains("replay=False"), "{}", failure.message);
    assert_eq!(world.answer(order.session, interrupts[0], json!(1)).await, Err(Error::InterruptCancelled));
}

async fn a_worker_that_was_only_late_writes_nothing(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    world.engine.turn_lost(first.turn, first.epoch, Lost::Silent).await.unwrap();
    assert_eq!(world.step(&first, "late").await, Err(Error::TurnNotOpen(None)));
    let order = world.order().await;
    assert_eq!(world.step(&first, "late").await, Err(Error::TurnNotOpen(None)));
    assert_eq!(world.end(&first).await, Err(Error::TurnNotOpen(None)));
    let lost = world.engine.turn_lost(first.turn, first.epoch, Lost::Silent).await;
    assert_eq!(lost, Err(Error::TurnNotOpen(None)), "the newer worker's turn is not lost with it");
    assert_eq!(world.kinds(first.turn).await, "start");
    world.end(&order).await.unwrap();
}

async fn it_can_be_cancelled_while_it_waits_to_be_taken_up(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..settings() }).await;
    let first = world.begin().await;
    world.lose(&first).await;
    world.engine.cancel(first.session, Actor::anyone()).await.unwrap();
    let next = world.begin().await;
    world.end(&next).await.unwrap();
    // The pause before it would have been taken up is over by now, or finds nothing.
    world.engine.placement.put_first(first.turn, first.epoch);
    world.engine.pump();
    let last = world.begin().await;
    assert_ne!(last.turn, first.turn);
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
}

async fn a_loss_frees_its_place(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, max_recoveries: 0, ..settings() }).await;
    let first = world.begin().await;
    let next = world.session().await;
    world.send(next).await.unwrap();
    world.lose(&first).await;
    assert_eq!(world.order().await.session, next);
}

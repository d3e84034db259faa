//! Suspended turns, taken up again on request and by new code.

use serde_json::json;

use super::support::{World, journal_of, runtime, settings};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::audit::Action;
use crate::domain::scope::Scopes;
use crate::domain::session::{Failure, Phase};
use crate::domain::status::{InterruptStatus, Status};
use crate::engine::ports::dispatch::{Runtime, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::Fixture;
use crate::store::query::AuditQuery;

crate::store::contract::for_each_store!(
    a_mismatch_keeps_the_journal_and_the_questions,
    a_retry_goes_on_with_the_same_journal,
    a_turn_that_is_retried_has_all_its_time,
    the_audit_says_who_retried_a_turn_and_after_what,
    with_the_same_code_a_restart_does_not_retry,
    with_other_code_a_restart_retries,
    on_a_python_that_can_replay_it_a_restart_retries,
    another_agents_failed_turns_are_not_retried,
    what_expired_meanwhile_expires_after_the_retry,
    a_new_message_abandons_the_turn_for_good,
    an_error_of_the_agent_cannot_be_retried,
    a_failed_turn_that_can_be_retried_is_not_swept,
    a_retry_goes_before_new_turns,
    what_passes_suspends_the_turn_and_a_retry_leaves_a_mark,
    what_passes_is_not_retried_by_other_code,
);

fn mismatch() -> Failure {
    Failure::new("replay_mismatch", "ReplayMismatch: another step")
}

/// A turn that asked one of two questions twice and failed on its replay.
async fn mismatched(world: &World) -> (TurnOrder, crate::domain::InterruptId) {
    let (first, interrupts) = world.asking(2).await;
    world.parked(first.turn).await;
    world.answer(first.session, interrupts[0], json!("kept")).await.unwrap();
    let order = world.order().await;
    world.engine.turn_failed(order.turn, order.epoch, mismatch()).await.unwrap();
    (order, interrupts[1])
}

fn parking() -> Settings {
    Settings { park_after: 0.0, ..settings() }
}

async fn a_mismatch_keeps_the_journal_and_the_questions(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (order, open) = mismatched(&world).await;
    let Phase::Error { failure, retry: Some(retry) } = world.state(order.session).await.phase else { panic!() };
    assert_eq!((failure, retry.turn, retry.pending), (mismatch(), order.turn, vec![open]));
    assert_eq!(world.kinds(order.turn).await, "start ask ask pause answer");
    assert_eq!(world.interrupt(open).await.status, InterruptStatus::Pending);
    let refused = world.answer(order.session, open, json!(1)).await;
    assert_eq!(refused, Err(Error::NotInterrupted(Status::Error)));
    let again = world.answer(order.session, world.first_answered(order.session).await, json!("kept")).await.unwrap();
    assert!(again.replayed, "the answer is kept, and a repetition is told so");
    assert_eq!(world.step(&order, "late").await, Err(Error::TurnNotOpen(None)));
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn a_retry_goes_on_with_the_same_journal(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, open) = mismatched(&world).await;
    let view = world.engine.retry(failed.session, Actor::anyone()).await.unwrap();
    assert_eq!((view.session.status(), view.interrupts.len()), (Status::Interrupted, 1));
    let order = world.order().await;
    assert_eq!((order.turn, journal_of(&order).as_str()), (failed.turn, "start ask ask pause answer"));
    assert_eq!(world.engine.retry(failed.session, Actor::anyone()).await.unwrap_err(), Error::NothingToRetry);
    world.answer(failed.session, open, json!(2)).await.unwrap();
    world.delivery(failed.turn).await;
    world.end(&order).await.unwrap();
    assert_eq!(world.status(failed.session).await, Status::Idle);
}

async fn a_turn_that_is_retried_has_all_its_time(fixture: Fixture) {
    let world = World::new(fixture, Settings { timeout: 1000.0, ..settings() }).await;
    let (first, interrupts) = world.asking(1).await;
    let (turn, epoch) = (first.turn, first.epoch);
    world.store.transact(About::Turn(turn), move |tx| tx.park_turn(turn, epoch, None, 900_000)).await.unwrap();
    let world = world.crash().await;
    world.answer(first.session, interrupts[0], json!("yes")).await.unwrap();
    let order = world.order().await;
    world.engine.turn_failed(turn, order.epoch, mismatch()).await.unwrap();
    world.engine.retry(first.session, Actor::anyone()).await.unwrap();
    let again = world.order().await;
    let standing = world.engine.placement.standing(turn, again.epoch).unwrap();
    assert!(standing.worked_ms() < 900_000, "{standing:?}");
}

async fn the_audit_says_who_retried_a_turn_and_after_what(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, _) = mismatched(&world).await;
    let retried =
        || world.engine.audit(AuditQuery { action: Some(Action::Retried), limit: 9, ..AuditQuery::default() });
    assert!(retried().await.unwrap().items.is_empty());
    world.engine.retry(failed.session, Actor::named("ada", Scopes::ALL, &[])).await.unwrap();
    let rows = retried().await.unwrap().items;
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.session_id, row.actor.as_deref()), (Some(failed.session), Some("ada")));
    assert_eq!(row.details.get("error_code"), Some(&json!("replay_mismatch")));
    assert_eq!(world.engine.retry(failed.session, Actor::anyone()).await.unwrap_err(), Error::NothingToRetry);
    assert_eq!(retried().await.unwrap().items.len(), 1, "what is refused leaves no row");
}

async fn with_the_same_code_a_restart_does_not_retry(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, _) = mismatched(&world).await;
    let world = world.crash().await;
    world.engine.retry_under_new_code().await.unwrap();
    assert_eq!(world.status(failed.session).await, Status::Error);
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn with_other_code_a_restart_retries(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, open) = mismatched(&world).await;
    let mended = Runtime { code: "mended".to_owned(), ..runtime() };
    let world = world.crash_into(parking(), mended).await;
    assert_eq!(journal_of(&world.order().await), "start ask ask pause answer taken");
    assert_eq!(world.state(failed.session).await.pending(), [open]);
}

async fn on_a_python_that_can_replay_it_a_restart_retries(fixture: Fixture) {
    let later = Runtime { python: "3.99".to_owned(), ..runtime() };
    let world = World::on(fixture, parking(), later.clone()).await;
    let (failed, _) = mismatched(&world).await;
    let world = world.crash_into(parking(), later).await;
    world.engine.retry_under_new_code().await.unwrap();
    assert_eq!(world.status(failed.session).await, Status::Error);
    let world = world.crash_into(parking(), runtime()).await;
    assert_eq!(journal_of(&world.order().await), "start ask ask pause answer taken");
    assert_eq!(world.status(failed.session).await, Status::Interrupted);
}

async fn another_agents_failed_turns_are_not_retried(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, _) = mismatched(&world).await;
    let others = Settings { agent: "other:agent".to_owned(), ..parking() };
    let world = world.crash_into(others, Runtime { code: "other".to_owned(), ..runtime() }).await;
    world.engine.retry_under_new_code().await.unwrap();
    assert_eq!(
        world.engine.retry(failed.session, Actor::anyone()).await.unwrap_err(),
        Error::OtherAgent("agent".to_owned())
    );
    assert_eq!(world.status(failed.session).await, Status::Error);
}

async fn what_expired_meanwhile_expires_after_the_retry(fixture: Fixture) {
    let world = World::new(fixture, Settings { interrupt_ttl: 0.05, ..settings() }).await;
    let (order, interrupts) = world.asking(1).await;
    world.engine.turn_failed(order.turn, order.epoch, mismatch()).await.unwrap();
    while world.interrupt(interrupts[0]).await.expires_at > Some(WallClock.now()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.interrupt(interrupts[0]).await.status, InterruptStatus::Pending);
    world.engine.retry(order.session, Actor::anyone()).await.unwrap();
    let order = world.order().await;
    world.until_status(order.session, Status::Running).await;
    assert_eq!(world.interrupt(interrupts[0]).await.status, InterruptStatus::Expired);
    assert_eq!(world.kinds(order.turn).await, "start ask pause expire");
}

async fn a_new_message_abandons_the_turn_for_good(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, open) = mismatched(&world).await;
    world.send(failed.session).await.unwrap();
    let new = world.order().await;
    assert_ne!(new.turn, failed.turn);
    assert_eq!(world.interrupt(open).await.status, InterruptStatus::Cancelled);
    world.end(&new).await.unwrap();
    assert_eq!(world.engine.retry(failed.session, Actor::anyone()).await.unwrap_err(), Error::NothingToRetry);
    let world = world.crash_into(parking(), Runtime { code: "mended".to_owned(), ..runtime() }).await;
    world.engine.retry_under_new_code().await.unwrap();
    assert_eq!(world.status(failed.session).await, Status::Idle);
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn an_error_of_the_agent_cannot_be_retried(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let order = world.begin().await;
    let failure = Failure::new("agent_error", "ValueError: no");
    world.engine.turn_failed(order.turn, order.epoch, failure.clone()).await.unwrap();
    assert_eq!(world.state(order.session).await.phase, Phase::Error { failure, retry: None });
    assert_eq!(world.kinds(order.turn).await, "start end");
    assert_eq!(world.engine.retry(order.session, Actor::anyone()).await.unwrap_err(), Error::NothingToRetry);
}

async fn a_failed_turn_that_can_be_retried_is_not_swept(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (failed, _) = mismatched(&world).await;
    let gone = world.begin().await;
    world.end(&gone).await.unwrap();
    // Not before: the server sweeps by itself, and a session may be gone before its first message.
    let world = world.crash_into(Settings { ttl: 1e-6, ..parking() }, runtime()).await;
    let id = gone.session;
    while world.store.query(move |reader| reader.session(id)).await.unwrap().is_some() {
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(world.status(failed.session).await, Status::Error);
}

async fn a_retry_goes_before_new_turns(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..parking() }).await;
    let (failed, _) = mismatched(&world).await;
    let working = world.begin().await;
    let new = world.session().await;
    world.send(new).await.unwrap();
    world.engine.retry(failed.session, Actor::anyone()).await.unwrap();
    world.end(&working).await.unwrap();
    assert_eq!(world.order().await.turn, failed.turn);
}

fn away() -> Failure {
    Failure::new("model_unavailable", "ModelUnavailable: away")
}

async fn what_passes_suspends_the_turn_and_a_retry_leaves_a_mark(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let order = world.begin().await;
    for failure in [away(), Failure::new("max_steps_exceeded", "MaxStepsExceeded: 3")] {
        let order = if failure == away() { order.clone() } else { world.order().await };
        world.engine.turn_failed(order.turn, order.epoch, failure.clone()).await.unwrap();
        let Phase::Error { failure: kept, retry: Some(retry) } = world.state(order.session).await.phase else {
            panic!()
        };
        assert_eq!((kept, retry.turn), (failure, order.turn));
        world.engine.retry(order.session, Actor::anyone()).await.unwrap();
    }
    let again = world.order().await;
    assert_eq!((again.turn, journal_of(&again).as_str()), (order.turn, "start taken taken"));
    world.end(&again).await.unwrap();
    assert_eq!(world.status(order.session).await, Status::Idle);
}

async fn what_passes_is_not_retried_by_other_code(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let order = world.begin().await;
    world.engine.turn_failed(order.turn, order.epoch, away()).await.unwrap();
    let world = world.crash_into(parking(), Runtime { code: "mended".to_owned(), ..runtime() }).await;
    world.engine.retry_under_new_code().await.unwrap();
    // Nor where it was listed as one that is: it has failed anew since.
    world.engine.reopen_all(&[(order.session, order.turn)]).await.unwrap();
    assert_eq!(world.status(order.session).await, Status::Error);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    world.engine.retry(order.session, Actor::anyone()).await.unwrap();
    assert_eq!(world.order().await.turn, order.turn);
}

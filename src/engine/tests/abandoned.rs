//! What turns did that came to no answer: told to the next turn, whatever comes between.

use serde_json::json;

use super::support::{World, message, runtime, settings};
use crate::domain::access::Actor;
use crate::domain::journal::{Abandoned, CallOutcome, Entry, StepIdentity, StepResult};
use crate::domain::session::Failure;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, JsonObject, SessionId};
use crate::engine::ports::dispatch::{Record, Runtime, TurnOrder};
use crate::engine::ports::held::{Held, Holder};
use crate::engine::settings::Settings;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    a_message_instead_of_a_retry_tells_the_new_turn,
    a_turn_that_failed_tells_the_next_one,
    a_turn_that_was_cancelled_tells_the_next_one,
    a_turn_that_was_parked_untold_goes_on_untold,
    a_turn_that_ends_is_the_last_that_is_told,
    a_turn_that_fails_hands_on_what_it_was_told,
    after_suspended_ttl_nothing_can_be_retried_and_nothing_is_lost,
    before_suspended_ttl_a_turn_stays_suspended,
    what_was_given_up_is_not_taken_up_by_other_code,
    many_are_given_up_in_one_sweep,
    two_sweeps_at_once_pass_over_nobody,
    a_session_tells_what_its_replay_waits_for,
);

fn step(path: &str, kind: &str, result: serde_json::Value) -> Record {
    let step = StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: "pay".to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: (kind == "tool").then(|| "c1".to_owned()),
    };
    Record::Step { step, result: StepResult::Value(result) }
}

/// A turn that has paid, and is suspended.
async fn paid_and_suspended(world: &World) -> TurnOrder {
    let order = world.begin().await;
    suspend_paid(world, &order).await;
    order
}

async fn suspend_paid(world: &World, order: &TurnOrder) {
    pay(world, order).await;
    suspend(world, order).await;
}

async fn pay(world: &World, order: &TurnOrder) {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}});
    let reply = json!({"message": {"role": "assistant", "tool_calls": [call]}});
    world.append(order, vec![step("0#1", "model", reply), step("0.0#1", "tool", json!("paid"))]).await.unwrap();
}

async fn suspend(world: &World, order: &TurnOrder) {
    let away = Failure::new("model_unavailable", "ModelUnavailable: away");
    world.engine.turn_failed(order.turn, order.epoch, away).await.unwrap();
}

/// What the turn that a message begins is told.
async fn told(world: &World, session: SessionId) -> (TurnOrder, Option<Abandoned>) {
    world.send(session).await.unwrap();
    let order = world.order().await;
    let Some(Entry::Start { abandoned, .. }) = order.journal.first().map(|first| first.entry.clone()) else { panic!() };
    assert_eq!(world.journal(order.turn).await.first(), order.journal.first().map(|first| &first.entry));
    (order, abandoned.map(|abandoned| *abandoned))
}

fn outcomes(abandoned: Option<Abandoned>) -> Vec<CallOutcome> {
    let replies = abandoned.into_iter().flat_map(|abandoned| abandoned.turns).flat_map(|turn| turn.replies);
    replies.flat_map(|reply| reply.calls).map(|call| call.outcome).collect()
}

fn paid() -> CallOutcome {
    CallOutcome::Value(json!("paid"))
}

async fn a_message_instead_of_a_retry_tells_the_new_turn(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = paid_and_suspended(&world).await;
    let (second, abandoned) = told(&world, first.session).await;
    let turn = abandoned.clone().unwrap().turns.remove(0);
    assert_eq!(turn.message, message("go"));
    assert_eq!(outcomes(abandoned), [paid()]);
    suspend_paid(&world, &second).await;
    // Over a restart, too.
    let world = world.crash().await;
    assert_eq!(outcomes(told(&world, first.session).await.1), [paid(), paid()]);
}

async fn a_turn_that_failed_tells_the_next_one(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    pay(&world, &first).await;
    world.engine.turn_failed(first.turn, first.epoch, Failure::new("agent_error", "ValueError: no")).await.unwrap();
    let (second, abandoned) = told(&world, first.session).await;
    let turn = abandoned.clone().unwrap().turns.remove(0);
    assert_eq!((turn.message, outcomes(abandoned)), (message("go"), vec![paid()]));
    pay(&world, &second).await;
    world.engine.turn_failed(second.turn, second.epoch, Failure::timed_out()).await.unwrap();
    // Over a restart, too, and once the journals are gone.
    let world = world.crash_into(impatient(), runtime()).await;
    while !world.journal(second.turn).await.is_empty() {
        world.engine.sweep().await.unwrap();
    }
    assert_eq!(outcomes(told(&world, first.session).await.1), [paid(), paid()]);
}

async fn a_turn_that_was_cancelled_tells_the_next_one(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    pay(&world, &first).await;
    world.ask(&first, 1).await;
    world.engine.cancel(first.session, Actor::anyone()).await.unwrap();
    assert_eq!(outcomes(told(&world, first.session).await.1), [paid()]);
}

/// What a turn is told is in its journal from its first entry on, and nothing that is known later is added.
async fn a_turn_that_was_parked_untold_goes_on_untold(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    pay(&world, &order).await;
    let begun = world.journal(order.turn).await;
    let world = world.crash().await;
    let again = world.order().await;
    assert_eq!((again.turn, world.journal(order.turn).await), (order.turn, begun));
    let Some(Entry::Start { abandoned, .. }) = again.journal.first().map(|first| &first.entry) else { panic!() };
    assert_eq!(*abandoned, None);
}

async fn a_turn_that_ends_is_the_last_that_is_told(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = paid_and_suspended(&world).await;
    let (second, abandoned) = told(&world, first.session).await;
    assert!(abandoned.is_some());
    world.end(&second).await.unwrap();
    assert_eq!(told(&world, first.session).await.1, None);
}

async fn a_turn_that_fails_hands_on_what_it_was_told(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = paid_and_suspended(&world).await;
    let (second, _) = told(&world, first.session).await;
    world.engine.turn_failed(second.turn, second.epoch, Failure::new("agent_error", "ValueError: no")).await.unwrap();
    let (third, abandoned) = told(&world, first.session).await;
    assert_eq!(outcomes(abandoned), [paid()]);
    world.engine.cancel(third.session, Actor::anyone()).await.unwrap();
    assert_eq!(outcomes(told(&world, first.session).await.1), [paid()]);
}

/// Everything is too old at once.
fn impatient() -> Settings {
    Settings { suspended_ttl: 1e-6, keep_journal: 1e-6, ..settings() }
}

async fn after_suspended_ttl_nothing_can_be_retried_and_nothing_is_lost(fixture: Fixture) {
    let world = World::new(fixture, impatient()).await;
    let order = world.begin().await;
    let asked = world.ask(&order, 1).await[0];
    suspend_paid(&world, &order).await;
    while !world.journal(order.turn).await.is_empty() {
        world.engine.sweep().await.unwrap();
    }
    let state = world.state(order.session).await;
    let failure = state.failure().cloned().unwrap();
    let text = "Turn cancelled: nobody retried it for 0.000001 s after: ModelUnavailable: away";
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("turn_cancelled", text));
    assert_eq!((state.status(), state.retry()), (Status::Error, None));
    assert_eq!(world.interrupt(asked).await.status, InterruptStatus::Cancelled);
    assert_eq!(world.engine.retry(order.session, Actor::anyone()).await.unwrap_err(), Error::NothingToRetry);
    assert_eq!(outcomes(told(&world, order.session).await.1), [paid()]);
}

async fn before_suspended_ttl_a_turn_stays_suspended(fixture: Fixture) {
    let world = World::new(fixture, Settings { suspended_ttl: 1e6, ..settings() }).await;
    let order = paid_and_suspended(&world).await;
    world.engine.sweep().await.unwrap();
    assert!(world.state(order.session).await.retry().is_some());
}

async fn what_was_given_up_is_not_taken_up_by_other_code(fixture: Fixture) {
    let world = World::new(fixture, impatient()).await;
    let order = world.begin().await;
    let mismatch = Failure::new("replay_mismatch", "ReplayMismatch: another step");
    world.engine.turn_failed(order.turn, order.epoch, mismatch).await.unwrap();
    while world.state(order.session).await.retry().is_some() {
        world.engine.sweep().await.unwrap();
    }
    let world = world.crash_into(settings(), Runtime { code: "mended".to_owned(), ..runtime() }).await;
    assert_eq!(world.status(order.session).await, Status::Error);
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

/// Suspends as many turns: their sessions.
async fn suspended(world: &World, count: usize) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let order = world.begin().await;
        suspend(world, &order).await;
        sessions.push(order.session);
    }
    sessions
}

async fn many_are_given_up_in_one_sweep(fixture: Fixture) {
    let world = World::new(fixture, impatient()).await;
    let sessions = suspended(&world, 205).await;
    // That none of them is of this millisecond.
    let last = paid_and_suspended(&world).await;
    while world.state(last.session).await.retry().is_some() {
        world.engine.sweep().await.unwrap();
    }
    for session in sessions {
        assert_eq!(world.state(session).await.retry(), None);
    }
}

async fn two_sweeps_at_once_pass_over_nobody(fixture: Fixture) {
    let world = World::new(fixture, Settings { suspended_ttl: 1e6, ..settings() }).await;
    let sessions = suspended(&world, 205).await;
    let world = world.crash_into(impatient(), runtime()).await;
    let (one, other) = tokio::join!(world.engine.sweep(), world.engine.sweep());
    one.unwrap();
    other.unwrap();
    for session in sessions {
        assert_eq!(world.state(session).await.retry(), None);
    }
}

async fn a_session_tells_what_its_replay_waits_for(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    world.step(&order, "first").await.unwrap();
    let world = world.crash().await;
    let again = world.order().await;
    let by = vec![Holder { what: "raw I/O".to_owned(), location: Some("agent.py:31".to_owned()) }];
    let held = |replay| Held { by: by.clone(), at_work: false, replay };
    world.engine.turn_held(again.turn, again.epoch, held(true));
    let shown = world.engine.session(order.session).await.unwrap().replay.unwrap();
    assert_eq!((shown.waits_for, shown.impure_at, shown.warnings), (by.clone(), None, Vec::<String>::new()));
    let polled = world.engine.wait(order.session, Some(std::time::Duration::ZERO)).await.unwrap();
    assert_eq!(polled.replay.unwrap().waits_for, by);
    world.engine.turn_replayed(again.turn, again.epoch, Vec::new()).await.unwrap();
    assert_eq!(world.engine.session(order.session).await.unwrap().replay, None);
    // An open question that something keeps in memory is no replay.
    world.engine.turn_held(again.turn, again.epoch, held(false));
    assert_eq!(world.engine.session(order.session).await.unwrap().replay, None);
}

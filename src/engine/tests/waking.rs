//! Answers to parked turns.

use serde_json::json;

use super::support::{World, journal_of, settings};
use crate::domain::access::Actor;
use crate::domain::journal::Entry;
use crate::domain::status::Status;
use crate::domain::{Error, SessionId};
use crate::engine::ports::dispatch::Runtime;
use crate::engine::settings::Settings;
use crate::engine::telling::view::Answer;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    an_answer_starts_a_parked_turn_with_its_journal,
    the_worker_learns_that_the_code_has_changed,
    several_answers_at_once_start_it_once,
    answers_while_it_waits_for_a_place_start_it_once,
    answers_to_parked_turns_go_before_new_turns,
    a_cancelled_parked_turn_is_never_started,
    a_deleted_parked_turn_is_never_started,
    an_answered_turn_that_is_cancelled_in_the_queue_is_never_started,
    a_refused_answer_wakes_nobody,
    another_agents_session_is_shown_and_not_answered,
    an_answer_to_a_server_without_workers_counts_and_starts_nothing,
);

fn parking() -> Settings {
    Settings { park_after: 0.0, ..settings() }
}

async fn an_answer_to_a_server_without_workers_counts_and_starts_nothing(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    let nowhere = Runtime { agent: None, code: String::new(), python: String::new(), replay: true, pin: false };
    let world = world.crash_into(Settings { workers: 0, ..parking() }, nowhere).await;
    world.answer(first.session, interrupts[0], json!("yes")).await.unwrap();
    assert_eq!(world.kinds(first.turn).await, "start ask pause answer");
    let idle = world.session().await;
    assert_eq!(world.send(idle).await, Err(Error::NoWorker));
    assert_eq!(world.send(first.session).await, Err(Error::SessionBusy(Status::Running)));
    // Whoever has workers goes on with it.
    let world = world.crash_into(parking(), super::support::runtime()).await;
    assert_eq!(journal_of(&world.order().await), "start ask pause answer");
}

async fn an_answer_starts_a_parked_turn_with_its_journal(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    world.answer(first.session, interrupts[0], json!("yes")).await.unwrap();
    let order = world.order().await;
    assert_eq!((order.turn, order.message.content.as_deref()), (first.turn, Some("go")));
    assert!(order.epoch > first.epoch);
    assert_eq!(journal_of(&order), "start ask pause answer");
    assert!(world.hands.look(|told| told.deliveries.is_empty()), "what stands in the order is not delivered again");
    world.end(&order).await.unwrap();
    assert_eq!(world.status(first.session).await, Status::Idle);
    assert_eq!(world.engine.messages(first.session, 0, None).await.unwrap().items.len(), 1);
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn the_worker_learns_that_the_code_has_changed(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(2).await;
    let newer = Runtime {
        agent: None,
        code: "fedcba9876543210".to_owned(),
        python: "3.12".to_owned(),
        replay: true,
        pin: false,
    };
    let world = world.crash_into(parking(), newer).await;
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    let order = world.order().await;
    assert_eq!(journal_of(&order), "start ask ask pause answer taken");
    let taken = Entry::Taken { code: "fedcba9876543210".to_owned(), python: "3.12".to_owned(), policy: None };
    assert_eq!(order.journal.last().map(|last| &last.entry), Some(&taken));
    // Told once.
    world.append(&order, vec![super::support::waiting(None, &[])]).await.unwrap();
    world.answer(first.session, interrupts[1], json!(2)).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start ask ask pause answer taken pause answer");
}

async fn several_answers_at_once_start_it_once(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(3).await;
    let answers = interrupts.iter().map(|id| world.answer(first.session, *id, json!(1)));
    for answered in futures_util::future::join_all(answers).await {
        answered.unwrap();
    }
    let order = world.order().await;
    // Those that came after the claim are delivered, and none twice.
    let known = order.journal.len() as u64;
    let told =
        world.hands.look(|told| told.deliveries.iter().map(|(_, delivery)| delivery.index()).collect::<Vec<_>>());
    assert_eq!(told, (known..8).collect::<Vec<_>>());
    assert_eq!(world.kinds(first.turn).await, "start ask ask ask pause answer answer answer");
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn answers_while_it_waits_for_a_place_start_it_once(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..parking() }).await;
    let (first, interrupts) = world.asking(2).await;
    let working = world.begin().await;
    for interrupt in &interrupts {
        world.answer(first.session, *interrupt, json!(1)).await.unwrap();
    }
    assert_eq!(world.engine.health().await.unwrap().queued, 1);
    assert!(world.hands.look(|told| told.orders.is_empty()), "--workers 1");
    world.end(&working).await.unwrap();
    let order = world.order().await;
    assert_eq!(journal_of(&order), "start ask ask pause answer answer");
    world.end(&order).await.unwrap();
    assert!(world.hands.look(|told| told.orders.is_empty() && told.deliveries.is_empty()));
}

async fn answers_to_parked_turns_go_before_new_turns(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..parking() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let working = world.begin().await;
    let new = world.session().await;
    world.send(new).await.unwrap();
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    world.end(&working).await.unwrap();
    let first = world.order().await;
    assert_eq!(first.turn, asking.turn);
    world.end(&first).await.unwrap();
    assert_eq!(world.order().await.session, new);
}

async fn a_cancelled_parked_turn_is_never_started(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    world.engine.cancel(first.session, Actor::anyone()).await.unwrap();
    assert_eq!(world.kinds(first.turn).await, "start ask pause cancel end");
    assert_eq!(world.answer(first.session, interrupts[0], json!(1)).await, Err(Error::InterruptCancelled));
    assert_eq!(world.status(first.session).await, Status::Error);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    let world = world.crash().await;
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn a_deleted_parked_turn_is_never_started(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    world.engine.delete_session(first.session, Actor::anyone()).await.unwrap();
    assert_eq!(world.answer(first.session, interrupts[0], json!(1)).await, Err(Error::SessionNotFound));
    let world = world.crash().await;
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn an_answered_turn_that_is_cancelled_in_the_queue_is_never_started(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..parking() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let working = world.begin().await;
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    world.engine.cancel(asking.session, Actor::anyone()).await.unwrap();
    let new = world.session().await;
    world.send(new).await.unwrap();
    world.end(&working).await.unwrap();
    assert_eq!(world.order().await.session, new);
}

async fn a_refused_answer_wakes_nobody(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    let answer = |interrupt: String| Answer {
        interrupt_id: interrupt,
        value: json!(1),
        place: Vec::new(),
        said: None,
        expected_type: None,
    };
    let both = vec![answer(interrupts[0].to_string()), answer("nobody".to_owned())];
    let refused = world.engine.resume(first.session, both, Actor::anyone(), None).await;
    assert_eq!(refused, Err(Error::UnknownInterrupt("nobody".to_owned())));
    assert!(world.turn(first.turn).await.life.is_parked());
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running_workers, health.queued), (0, 0));
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    world.order().await;
}

async fn another_agents_session_is_shown_and_not_answered(fixture: Fixture) {
    let world = World::new(fixture, parking()).await;
    let (first, interrupts) = world.asking(1).await;
    let (running, _) = (world.begin().await, ());
    let others = Settings { agent: "other:agent".to_owned(), ..parking() };
    let world = world.crash_into(others, super::support::runtime()).await;
    let refused = Err(Error::OtherAgent("agent".to_owned()));
    assert_eq!(world.answer(first.session, interrupts[0], json!(1)).await, refused);
    assert_eq!(world.status(running.session).await, Status::Running);
    assert_eq!(world.status(first.session).await, Status::Interrupted);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    // Its own server goes on with all of it.
    let world = world.crash_into(parking(), super::support::runtime()).await;
    let again: SessionId = world.order().await.session;
    assert_eq!(again, running.session);
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(world.order().await.session, first.session);
}

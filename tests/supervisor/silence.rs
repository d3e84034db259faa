//! Workers that say nothing.

use std::time::Duration;

use hitl::engine::ports::dispatch::Lost;
use hitl::supervisor::settings::SupervisorSettings;
use serde_json::json;

use super::support::{Said, Turn, World, exists, scripted, shared, signal, until};

const TIMEOUT: Duration = Duration::from_secs(1);

async fn lost(turn: &mut Turn) -> Lost {
    loop {
        if let Said::Lost(lost) = turn.next().await {
            return lost;
        }
    }
}

#[tokio::test]
async fn a_silent_worker_is_killed_and_its_turns_are_lost() {
    for settings in [scripted(), shared(1)] {
        let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..settings }).await;
        let mut turn = world.start("hang");
        let pid = turn.step().await;
        assert_eq!(lost(&mut turn).await, Lost::Silent);
        until("its end", || !exists(&pid)).await;
        assert_eq!(world.run("echo next").await.unwrap(), "next");
        world.shut_down().await;
    }
}

#[tokio::test]
async fn a_stopped_worker_is_killed_too() {
    let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..scripted() }).await;
    let mut turn = world.start("idle");
    let pid = turn.step().await;
    signal("-STOP", &pid);
    assert_eq!(lost(&mut turn).await, Lost::Silent);
    until("its end", || !exists(&pid)).await;
    world.shut_down().await;
}

#[tokio::test]
async fn a_worker_that_answers_pings_lives_as_long_as_it_likes() {
    let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..scripted() }).await;
    assert_eq!(world.run("pings 6").await.unwrap(), "enough");
    world.shut_down().await;
}

/// Its turn awaits nothing but people: it costs nothing, not even a ping.
#[tokio::test]
async fn a_worker_whose_turns_wait_may_be_silent() {
    let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..scripted() }).await;
    let mut silent = world.start("wait_and_hang");
    silent.waits().await;
    for _ in 0..2 {
        assert_eq!(lost(&mut world.start("hang")).await, Lost::Silent);
    }
    assert!(silent.is_quiet());
    world.shut_down().await;
}

/// Its turn has something to do, whatever it said before it knew that.
#[tokio::test]
async fn a_turn_that_waited_before_its_answer_came_is_at_work() {
    let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..scripted() }).await;
    let mut turn = world.start("overtaken");
    let (interrupt, ..) = turn.asked().await;
    world.answer(&turn, interrupt, json!(true));
    assert_eq!(lost(&mut turn).await, Lost::Silent);
    world.shut_down().await;
}

#[tokio::test]
async fn a_silent_neighbour_takes_the_waiting_turns_of_its_worker_along() {
    let world = World::with(SupervisorSettings { worker_timeout: TIMEOUT, ..shared(1) }).await;
    let mut waiting = world.start("wait");
    waiting.waits().await;
    let mut hanging = world.start("hang");
    assert_eq!(lost(&mut hanging).await, Lost::Silent);
    assert_eq!(lost(&mut waiting).await, Lost::Silent);
    world.shut_down().await;
}

/// It is given up although it lives: whoever has its turn now is not disturbed. More of them in `zombies`.
#[tokio::test]
async fn a_spared_worker_keeps_nothing_of_its_turn() {
    let settings = SupervisorSettings { worker_timeout: TIMEOUT, spare_silent: true, ..scripted() };
    let world = World::with(settings).await;
    let mut turn = world.start("zombie");
    let zombie = turn.step().await;
    signal("-STOP", &zombie);
    assert_eq!(lost(&mut turn).await, Lost::Silent);
    world.start_again(&turn, "wait");
    assert_ne!(turn.step().await, zombie);
    turn.waits().await;
    let before = world.inbox.batches(turn.id);
    signal("-CONT", &zombie);
    until("the end of the zombie", || !exists(&zombie)).await;
    assert_eq!(world.inbox.batches(turn.id), before);
    assert!(turn.is_quiet());
    world.shut_down().await;
}

//! Task isolation: many turns in a few workers.

use std::collections::HashSet;
use std::os::unix::net::UnixStream;

use hitl::engine::ports::dispatch::{Dispatch as _, Lost};
use hitl::supervisor::Supervisor;

use serde_json::json;

use super::support::{Said, Turn, World, captured_log, exists, settings, shared, until, within};

#[tokio::test]
async fn turns_run_side_by_side_in_one_process() {
    let world = World::tasks(1).await;
    let mut asleep: Vec<Turn> = (0..10).map(|_| world.start("sleep")).collect();
    for turn in &mut asleep {
        assert!(matches!(turn.next().await, Said::Waiting(..)));
    }
    let first = world.run("pid").await.unwrap();
    assert_eq!(world.run("pid").await.unwrap(), first);
    world.shut_down().await;
}

#[tokio::test]
async fn turns_are_spread_over_the_workers() {
    let world = World::tasks(2).await;
    let mut seen = HashSet::new();
    // Until the second worker is there, the first one gets them all.
    while seen.len() < 2 {
        let (one, other) = (world.start("pid"), world.start("pid"));
        seen.extend([one.outcome().await.unwrap(), other.outcome().await.unwrap()]);
    }
    let mut asleep = world.start("sleep");
    assert!(matches!(asleep.next().await, Said::Waiting(..)));
    let calm = world.run("pid").await.unwrap();
    assert_eq!(world.run("pid").await.unwrap(), calm);
    world.shut_down().await;
}

#[tokio::test]
async fn a_dead_worker_fails_its_turns_and_is_replaced() {
    let world = World::tasks(1).await;
    let mut asleep = world.start("sleep");
    assert!(matches!(asleep.next().await, Said::Waiting(..)));
    assert_eq!(world.run("os_exit").await.unwrap_err().code, "worker_exited");
    assert_eq!(asleep.outcome().await.unwrap_err().code, "worker_exited");
    assert_eq!(world.run("echo again").await.unwrap(), "again");
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_has_lost_a_worker_runs_beside_no_other() {
    let world = World::tasks(1).await;
    let mut neighbour = world.start("sleep");
    neighbour.waits().await;
    let shared = world.run("pid").await.unwrap();
    let mut alone = world.start_alone("pid_and_ask");
    let pid = alone.step().await;
    let (interrupt, ..) = alone.asked().await;
    let failure = world.start_alone("os_exit").outcome().await.unwrap_err();
    assert_eq!(failure.code, "worker_exited");
    assert_eq!(world.run("pid").await.unwrap(), shared);
    assert!(neighbour.is_quiet());
    world.answer(&alone, interrupt, json!("blue"));
    assert_eq!(alone.outcome().await.unwrap(), format!("{pid} blue"));
    assert_ne!(pid, shared);
    until("the end of the worker that it had alone", || !exists(&pid)).await;
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_has_lost_a_worker_runs_in_the_only_one_there_can_be() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut worker = in_process(theirs);
    let world = World::over(within(Supervisor::in_process(ours, 16_384, 60.0)).await.unwrap());
    assert_eq!(world.start_alone("step abc").outcome().await.unwrap(), "ABC");
    world.shut_down().await;
    worker.wait().unwrap();
}

#[tokio::test]
async fn of_a_worker_that_breaks_the_protocol_no_turn_can_be_blamed() {
    let world = World::tasks(1).await;
    let mut asleep = world.start("sleep");
    assert!(matches!(asleep.next().await, Said::Waiting(..)));
    for failure in [world.run("garbage").await.unwrap_err(), asleep.outcome().await.unwrap_err()] {
        assert_eq!(failure.code, "worker_exited", "it is taken up again");
        assert!(failure.message.contains("WorkerProtocolError: "), "{failure:?}");
    }
    assert_eq!(world.run("echo again").await.unwrap(), "again");
    world.shut_down().await;
}

#[tokio::test]
async fn what_cannot_be_read_of_a_turn_is_that_turns_alone() {
    let world = World::tasks(1).await;
    let mut neighbour = world.start("sleep");
    neighbour.waits().await;
    let pid = world.run("pid").await.unwrap();
    // It is refused, and the turn may say another.
    let refused = world.run("wrong_end").await.unwrap();
    assert!(refused.contains("`end` frame: "), "{refused}");
    let failure = world.run("wrong_waiting").await.unwrap_err();
    assert_eq!(failure.code, "worker_protocol");
    assert!(failure.message.starts_with("WorkerProtocolError: `waiting` frame: "), "{failure:?}");
    assert_eq!(world.run("pid").await.unwrap(), pid);
    assert!(neighbour.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_its_worker_lets_go_of_unasked_is_lost_and_the_others_are_not() {
    let world = World::with(shared(1)).await;
    let mut neighbour = world.start("wait");
    neighbour.waits().await;
    let pid = world.run("pid").await.unwrap();
    let mut turn = world.start("drop");
    turn.step().await;
    let Said::Lost(Lost::Exited { message }) = turn.next().await else { panic!("it is not lost") };
    assert_eq!(message, "The worker could not store how the turn ended");
    assert_eq!(world.run("pid").await.unwrap(), pid);
    assert!(neighbour.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_stopped_turn_leaves_the_others_alone() {
    let world = World::tasks(1).await;
    let mut neighbour = world.start("ask color");
    while !matches!(neighbour.next().await, Said::Waiting(..)) {}
    let mut turn = world.start("sleep");
    assert!(matches!(turn.next().await, Said::Waiting(..)));
    let pid = world.run("pid").await.unwrap();
    world.cancel(&turn);
    assert_eq!(world.run("pid").await.unwrap(), pid);
    assert!(neighbour.is_quiet());
    world.shut_down().await;
    assert!(turn.is_quiet());
}

#[tokio::test]
async fn a_stopped_turn_that_goes_on_costs_its_worker_new_turns_but_not_its_other_ones() {
    let world = World::tasks(1).await;
    let pid = world.run("pid").await.unwrap();
    let mut neighbour = world.start("sleep");
    assert!(matches!(neighbour.next().await, Said::Waiting(..)));
    let mut stubborn = world.start("stubborn");
    assert!(matches!(stubborn.next().await, Said::Waiting(..)));
    world.cancel(&stubborn);
    let session = stubborn.session.to_string();
    until("the retirement", || {
        captured_log().lines().any(|line| line.contains(&session) && line.contains("tasks of a stopped turn go on"))
    })
    .await;
    assert_ne!(world.run("pid").await.unwrap(), pid);
    assert!(neighbour.is_quiet());
    world.cancel(&neighbour);
    until("the end of the retired worker", || !super::support::exists(&pid)).await;
    world.shut_down().await;
}

#[tokio::test]
async fn a_worker_whose_loop_is_blocked_is_replaced_when_a_turn_is_stopped() {
    let world = World::tasks(1).await;
    let pid = world.run("pid").await.unwrap();
    let mut blocked = world.start("block");
    assert!(matches!(blocked.next().await, Said::Replayed(_)));
    world.cancel(&blocked);
    until("the end of the blocked worker", || !super::support::exists(&pid)).await;
    assert_ne!(world.run("pid").await.unwrap(), pid);
    world.shut_down().await;
}

/// What is at the other end where a program serves a live object, as a process in the place of its thread.
fn in_process(channel: UnixStream) -> std::process::Child {
    captured_log();
    let settings = settings("agents:agent");
    std::process::Command::new(&settings.python)
        .args(["-m", "hitl.worker.plain", "pool", "agents:agent"])
        .args(&settings.paths)
        .envs(settings.environment)
        .stdin(std::os::fd::OwnedFd::from(channel))
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_supervisor_can_be_given_its_one_worker() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut worker = in_process(theirs);
    let world = World::over(within(Supervisor::in_process(ours, 16_384, 60.0)).await.unwrap());
    assert_eq!(world.run("step abc").await.unwrap(), "ABC");
    assert!(world.supervisor.has_workers());
    assert_eq!(world.run("os_exit").await.unwrap_err().code, "worker_exited");
    assert_eq!(world.run("echo nobody").await.unwrap_err().code, "worker_exited");
    assert!(!world.supervisor.has_workers(), "it cannot be replaced");
    world.shut_down().await;
    worker.wait().unwrap();
}

//! Real agents that lose their worker, and go on in another one where they stood.

use hitl::engine::ports::dispatch::{Dispatch, Lost};
use serde_json::json;

use super::support::{Said, Turn, World, exists, until};

/// One step, then a question: who asks, and the process that did the step.
async fn standing(world: &World) -> (Turn, hitl::domain::InterruptId, String) {
    let mut turn = world.start("pid_and_ask");
    let pid = turn.step().await;
    let (interrupt, ..) = turn.asked().await;
    turn.waits().await;
    (turn, interrupt, pid)
}

/// What a turn that has been started again says until it ends.
async fn rest(mut turn: Turn) -> (Vec<Said>, String) {
    let mut said = Vec::new();
    loop {
        match turn.next().await {
            Said::Ended(content, _) => return (said, content.unwrap_or_default()),
            Said::Lost(lost) => panic!("{lost:?} after {said:?}"),
            word => said.push(word),
        }
    }
}

#[tokio::test]
async fn a_parked_turn_goes_on_with_its_answer() {
    for world in [World::processes().await, World::tasks(1).await] {
        let (turn, interrupt, pid) = standing(&world).await;
        world.supervisor.park(turn.id);
        world.answer(&turn, interrupt, json!("blue"));
        world.start_again(&turn, "pid_and_ask");
        let (said, content) = rest(turn).await;
        assert!(!said.iter().any(|word| matches!(word, Said::Step(..) | Said::Ask(..))), "{said:?}");
        assert_eq!(content, format!("{pid} blue"));
        world.shut_down().await;
    }
}

#[tokio::test]
async fn a_turn_that_is_warm_again_waits_again() {
    let world = World::tasks(1).await;
    let (mut turn, interrupt, pid) = standing(&world).await;
    for _ in 0..3 {
        world.supervisor.park(turn.id);
        world.start_again(&turn, "pid_and_ask");
        assert_eq!(turn.next().await, Said::Replayed(Vec::new()));
        turn.waits().await;
    }
    world.answer(&turn, interrupt, json!("blue"));
    assert_eq!(turn.outcome().await.unwrap(), format!("{pid} blue"));
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_goes_on_after_its_worker_was_killed() {
    let world = World::processes().await;
    let (mut turn, interrupt, pid) = standing(&world).await;
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    assert!(matches!(turn.next().await, Said::Lost(Lost::Exited { .. })));
    // Two processes never have the turn at once.
    assert!(!exists(&pid));
    world.start_again(&turn, "pid_and_ask");
    assert_eq!(turn.next().await, Said::Replayed(Vec::new()));
    world.answer(&turn, interrupt, json!("blue"));
    let (_, content) = rest(turn).await;
    assert_eq!(content, format!("{pid} blue"));
    world.shut_down().await;
}

#[tokio::test]
async fn no_worker_is_to_blame_for_being_killed_because_the_store_was_not_reached() {
    let world = World::processes().await;
    let (mut turn, interrupt, _) = standing(&world).await;
    world.supervisor.kill_workers();
    // By the time that this is told, the store may be there again.
    world.supervisor.go_on();
    assert!(matches!(turn.next().await, Said::Lost(Lost::Unstored { .. })));
    world.start_again(&turn, "pid_and_ask");
    assert_eq!(turn.next().await, Said::Replayed(Vec::new()));
    world.answer(&turn, interrupt, json!("blue"));
    assert!(rest(turn).await.1.ends_with(" blue"));
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_begins_anew_at_the_same_epoch_hears_what_is_delivered_to_it() {
    let world = World::processes().await;
    let (mut turn, interrupt, _) = standing(&world).await;
    world.start_anew(&turn, "pid_and_ask");
    while turn.next().await != Said::Replayed(Vec::new()) {}
    world.answer(&turn, interrupt, json!("blue"));
    assert!(rest(turn).await.1.ends_with(" blue"));
    world.shut_down().await;
}

#[tokio::test]
async fn an_agent_that_has_changed_is_told_what_does_not_fit() {
    let world = World::processes().await;
    let (mut turn, ..) = standing(&world).await;
    world.supervisor.park(turn.id);
    world.start_again(&turn, "step abc");
    let failure = loop {
        if let Said::Failed(failure) = turn.next().await {
            break failure;
        }
    };
    assert_eq!(failure.code, "replay_mismatch", "{}", failure.message);
    world.shut_down().await;
}

#[tokio::test]
async fn a_blocked_agent_is_taken_over() {
    use hitl::supervisor::settings::SupervisorSettings;
    let settings = super::support::settings("agents:agent");
    let worker_timeout = std::time::Duration::from_secs(1);
    let world = World::with(SupervisorSettings { worker_timeout, ..settings }).await;
    let mut turn = world.start("pid_and_block");
    let pid = turn.step().await;
    loop {
        if let Said::Lost(lost) = turn.next().await {
            assert_eq!(lost, Lost::Silent);
            break;
        }
    }
    until("its end", || !exists(&pid)).await;
    world.shut_down().await;
}

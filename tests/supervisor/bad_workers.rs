//! Whatever a turn does to its worker ends that turn, with an error that says so, and nothing else.

use super::support::{Said, World, captured_log, until};

async fn ends_with(action: &str, code: &str, message: &str) {
    let world = World::processes().await;
    let mut neighbour = world.start("sleep");
    assert!(matches!(neighbour.next().await, Said::Waiting(..)));
    let failure = world.run(action).await.unwrap_err();
    assert_eq!(failure.code, code);
    assert!(failure.message.contains(message), "{}", failure.message);
    assert!(neighbour.is_quiet());
    assert_eq!(world.run("echo fine").await.unwrap(), "fine");
    world.shut_down().await;
}

const EXITED: &str = "Worker process exited unexpectedly";

#[tokio::test]
async fn a_segmentation_fault() {
    ends_with("segfault", "worker_exited", EXITED).await;
}

#[tokio::test]
async fn an_exit_without_a_word() {
    ends_with("os_exit", "worker_exited", EXITED).await;
}

#[tokio::test]
async fn a_system_exit() {
    ends_with("system_exit", "agent_error", "SystemExit: 5").await;
}

#[tokio::test]
async fn a_closed_channel() {
    ends_with("close_channel", "worker_exited", EXITED).await;
}

/// The process is dead, but the end of its channel does not come: a program that it started holds it.
#[tokio::test]
async fn an_exit_that_leaves_the_channel_to_others() {
    ends_with("subprocess_and_die", "worker_exited", EXITED).await;
}

#[tokio::test]
async fn garbage() {
    ends_with("garbage", "worker_protocol", "WorkerProtocolError: a frame is no JSON").await;
}

#[tokio::test]
async fn an_unknown_frame() {
    ends_with("unknown_frame", "worker_protocol", "WorkerProtocolError: unknown frame \"surprise\"").await;
}

#[tokio::test]
async fn a_frame_of_another_turn() {
    ends_with("foreign_turn", "worker_protocol", "which this worker does not run").await;
}

#[tokio::test]
async fn a_frame_that_is_too_large() {
    ends_with("too_large", "worker_protocol", "a frame of 1073741824 bytes is above the limit").await;
}

#[tokio::test]
async fn a_lost_worker_is_logged_with_its_session_and_how_it_ended() {
    let world = World::processes().await;
    let turn = world.start("os_exit");
    let session = turn.session.to_string();
    assert_eq!(turn.outcome().await.unwrap_err().code, "worker_exited");
    until("the log line", || {
        captured_log().lines().any(|line| line.contains(&session) && line.contains("exit code 7"))
    })
    .await;
    let turn = world.start("segfault");
    let session = turn.session.to_string();
    assert_eq!(turn.outcome().await.unwrap_err().code, "worker_exited");
    until("the log line", || captured_log().lines().any(|line| line.contains(&session) && line.contains("SIGSEGV")))
        .await;
    world.shut_down().await;
}

//! Turns that go well, and what their workers are told.

use hitl::domain::journal::StepResult;
use hitl::domain::message::ChatMessage;
use serde_json::json;

use super::support::{Said, Turn, World, captured_log, until};

#[tokio::test]
async fn a_turn_ends_with_its_response_and_state() {
    let world = World::processes().await;
    let mut turn = world.start_with("echo hello there", vec![ChatMessage::default(); 3]);
    assert_eq!(turn.next().await, Said::Ended(Some("hello there".to_owned()), 5));
    world.shut_down().await;
}

#[tokio::test]
async fn an_error_of_the_agent_is_its_type_and_message() {
    let world = World::processes().await;
    let failure = world.run("nonsense").await.unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("agent_error", "ValueError: unknown action nonsense")
    );
    world.shut_down().await;
}

#[tokio::test]
async fn a_step_goes_on_when_it_is_committed() {
    let world = World::processes().await;
    let mut turn = world.start("step abc");
    assert!(matches!(turn.next().await, Said::Step(_, StepResult::Value(value)) if value == json!("ABC")));
    assert_eq!(turn.next().await, Said::Ended(Some("ABC".to_owned()), 2));
    world.shut_down().await;
}

#[tokio::test]
async fn a_value_that_is_nested_too_deeply_fails_the_step_and_not_the_worker() {
    let world = World::processes().await;
    let failure = world.run("deep").await.unwrap_err();
    assert_eq!(failure.code, "value_too_deep", "{}", failure.message);
    world.shut_down().await;
}

#[tokio::test]
async fn an_answer_reaches_the_turn_that_asked() {
    let world = World::processes().await;
    let mut turn = world.start("ask color");
    let (interrupt, kind, _) = turn.asked().await;
    assert_eq!(kind, "color");
    assert!(matches!(turn.next().await, Said::Waiting(..)));
    world.answer(&turn, interrupt, json!("blue"));
    assert_eq!(turn.outcome().await.unwrap(), "blue");
    world.shut_down().await;
}

/// An answer can be committed before the supervisor hears that the question was; the worker must learn of the question
/// first, or it would not know what is answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_never_overtakes_its_question() {
    let world = World::tasks(1).await;
    let mut turns: Vec<Turn> = (0..20).map(|_| world.start("race a b c d e")).collect();
    for turn in &mut turns {
        for _ in 0..5 {
            let (interrupt, kind, _) = turn.asked().await;
            world.answer(turn, interrupt, json!(kind));
        }
    }
    for turn in turns {
        assert_eq!(turn.outcome().await.unwrap(), "a b c d e");
    }
    world.shut_down().await;
}

#[tokio::test]
async fn an_expired_question_raises() {
    let world = World::processes().await;
    let mut turn = world.start("ask color");
    let (interrupt, ..) = turn.asked().await;
    world.expire(&turn, interrupt);
    assert!(turn.outcome().await.unwrap_err().message.starts_with("InterruptExpired"));
    world.shut_down().await;
}

#[tokio::test]
async fn more_turns_than_idle_children_wait_for_theirs_in_order() {
    let world = World::processes().await;
    let turns: Vec<Turn> = (0..12).map(|number| world.start(&format!("echo {number}"))).collect();
    for (number, turn) in turns.into_iter().enumerate() {
        assert_eq!(turn.outcome().await.unwrap(), number.to_string());
    }
    world.shut_down().await;
}

#[tokio::test]
async fn each_turn_has_a_process_without_descriptors_of_others() {
    // Whoever runs the tests may let every process of theirs inherit something.
    let inherited: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("pipe:") || name.starts_with("socket:"))
        .collect();
    let world = World::processes().await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        assert!(seen.insert(world.run("pid").await.unwrap()));
    }
    let descriptors = world.run("descriptors").await.unwrap();
    let open: Vec<&str> = descriptors.lines().filter(|name| !inherited.iter().any(|other| other == name)).collect();
    let count = |kind: &str| open.iter().filter(|name| name.starts_with(kind)).count();
    // The channel and asyncio's own pair; standard output and error; the loop's selector.
    assert_eq!((count("socket:"), count("pipe:"), count("anon_inode:")), (3, 2, 1), "{descriptors}");
    world.shut_down().await;
}

#[tokio::test]
async fn what_a_turn_prints_is_logged_with_its_session() {
    let world = World::processes().await;
    let turn = world.start("print 2000");
    let session = turn.session;
    turn.outcome().await.unwrap();
    let lines = || {
        let log = captured_log();
        log.lines().filter(|line| line.contains(&session.to_string())).map(str::to_owned).collect::<Vec<_>>()
    };
    until("the end of the output", || lines().iter().any(|line| line.contains("to stderr, unfinished"))).await;
    until("all lines", || lines().iter().any(|line| line.contains("[line cut]"))).await;
    let lines = lines();
    assert_eq!(lines.iter().filter(|line| line.contains("stream=\"stdout\"")).count(), 2001);
    assert!(lines.iter().all(|line| line.contains(" INFO hitl::agent: ") && line.len() < 9000));
    world.shut_down().await;
}

#[tokio::test]
async fn what_a_turn_started_ends_with_it() {
    let world = World::processes().await;
    let pid = world.run("subprocess").await.unwrap();
    until("the end of the subprocess", || !super::support::exists(&pid)).await;
    world.shut_down().await;
}

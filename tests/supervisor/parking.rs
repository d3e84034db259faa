//! Turns leave their workers, and come back.

use hitl::domain::journal::Entry;
use hitl::domain::{InterruptId, Timestamp};
use hitl::engine::ports::dispatch::{Delivery, Dispatch};
use serde_json::json;

use super::fake::{Fake, parked, waiting};
use super::support::{Said, Turn, World, captured_log, exists, recorded, scripted, settings, until};

fn expired(index: u64) -> Delivery {
    Delivery::Expired { index, at: Timestamp::from_millis(2), interrupt: InterruptId(uuid::Uuid::nil()) }
}

#[tokio::test]
async fn a_parked_child_is_gone_without_a_word() {
    let world = World::with(scripted()).await;
    let mut turn = world.start("wait");
    let pid = turn.step().await;
    turn.waits().await;
    world.supervisor.park(turn.id);
    until("the end of the child", || !exists(&pid)).await;
    assert_eq!(world.run("echo next").await.unwrap(), "next");
    assert!(turn.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_parked_child_that_holds_something_is_told_to_leave_and_let_go() {
    let world = World::with(scripted()).await;
    let mut turn = world.start("wait_holding");
    let pid = turn.step().await;
    turn.waits().await;
    world.supervisor.park(turn.id);
    until("its last word", || captured_log().contains(&format!("{pid} was told to leave"))).await;
    until("the end of the child", || !exists(&pid)).await;
    assert!(turn.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn nobody_waits_for_a_parked_child_and_one_that_stays_is_killed() {
    let world = World::with(scripted()).await;
    let mut turn = world.start("wait_holding_endless");
    let pid = turn.step().await;
    turn.waits().await;
    world.start_again(&turn, "echo elsewhere");
    assert_eq!(turn.outcome().await.unwrap(), "elsewhere");
    assert!(exists(&pid));
    until("the end of the child", || !exists(&pid)).await;
    world.shut_down().await;
}

#[tokio::test]
async fn a_child_whose_turn_is_at_work_is_killed_whatever_it_holds() {
    let world = World::with(scripted()).await;
    let mut turn = world.start("holding");
    let pid = turn.step().await;
    world.start_again(&turn, "echo elsewhere");
    assert_eq!(turn.outcome().await.unwrap(), "elsewhere");
    until("the end of the child", || !exists(&pid)).await;
    assert!(!captured_log().contains(&format!("{pid} was told to leave")));
    world.shut_down().await;
}

#[tokio::test]
async fn a_shutdown_waits_for_a_child_that_leaves() {
    for settings in [scripted(), super::support::shared(1)] {
        let world = World::with(settings).await;
        let mut turn = world.start("wait_holding");
        let pid = turn.step().await;
        turn.waits().await;
        world.supervisor.park(turn.id);
        world.shut_down().await;
        assert!(captured_log().contains(&format!("{pid} was told to leave")));
        assert!(!exists(&pid));
    }
}

#[tokio::test]
async fn a_shared_worker_drops_a_parked_turn_and_goes_on() {
    let world = World::with(super::support::shared(1)).await;
    let mut turn = world.start("wait");
    let pid = turn.step().await;
    turn.waits().await;
    let mut neighbour = world.start("wait");
    neighbour.waits().await;
    world.supervisor.park(turn.id);
    assert_eq!(world.run("pid").await.unwrap(), pid);
    assert!(turn.is_quiet() && neighbour.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_parked_turn_that_goes_on_costs_its_worker_new_turns() {
    let world = World::with(super::support::shared(1)).await;
    let mut turn = world.start("wait_stubborn");
    let pid = turn.step().await;
    turn.waits().await;
    world.supervisor.park(turn.id);
    until("the end of the retired worker", || !exists(&pid)).await;
    assert_ne!(world.run("pid").await.unwrap(), pid);
    assert!(turn.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn a_turn_that_is_parked_before_it_begins_never_does() {
    let world = World::with(scripted()).await;
    let mut turns: Vec<_> = (0..20).map(|_| world.start("wait")).collect();
    for turn in &turns {
        world.supervisor.park(turn.id);
    }
    assert_eq!(world.run("echo next").await.unwrap(), "next");
    assert!(turns.iter_mut().all(super::support::Turn::is_quiet));
    world.shut_down().await;
}

/// A turn that waits at a worker, which has been told to drop it and has not said that it did.
async fn told_to_park() -> (World, Fake, Turn) {
    let (world, mut fake) = Fake::worker().await;
    let mut turn = world.start("x");
    fake.next_of("turn").await;
    fake.say(&[waiting(&turn, 0)]).await;
    turn.waits().await;
    world.supervisor.park(turn.id);
    assert_eq!(fake.next().await, json!({"frame": "park", "turn": turn.id}));
    (world, fake, turn)
}

/// Frames say which turn they are about, and not which life of it: the worker has to have dropped the old one first.
#[tokio::test]
async fn a_turn_comes_back_to_a_worker_only_when_that_has_dropped_it() {
    let (world, mut fake, turn) = told_to_park().await;
    let epoch = world.start_again(&turn, "x");
    let index = world.expire(&turn, InterruptId(uuid::Uuid::nil()));
    let other = world.start("y");
    assert_eq!(fake.next().await["turn"], other.id.to_string());
    // What the old life still says counts for nothing.
    let late = fake.step(&turn, "late");
    fake.say(&[late, parked(&turn)]).await;
    assert_eq!(fake.next().await["frame"], "refused");
    let again = fake.next().await;
    assert_eq!((&again["turn"], &again["epoch"]), (&json!(turn.id), &json!(epoch)));
    let delivered = fake.next().await;
    assert_eq!(
        (&delivered["frame"], &delivered["index"], &delivered["at"]),
        (&json!("expired"), &json!(index), &json!(2))
    );
    let end = fake.end(&turn, "done");
    fake.say(&[end]).await;
    assert_eq!(turn.outcome().await.unwrap(), "done");
    world.shut_down().await;
}

/// The worker may have sent it before it was told to drop the turn, and still has to take that in.
#[tokio::test]
async fn an_end_that_comes_too_late_does_not_free_the_turn() {
    let (world, mut fake, turn) = told_to_park().await;
    world.start_again(&turn, "x");
    let late = fake.end(&turn, "late");
    let refused = fake.step(&turn, "late");
    fake.say(&[late, refused]).await;
    assert_eq!(fake.next().await["frame"], "refused");
    fake.say(&[parked(&turn)]).await;
    assert_eq!(fake.next().await["frame"], "turn");
    let end = fake.end(&turn, "done");
    fake.say(&[end]).await;
    assert_eq!(turn.outcome().await.unwrap(), "done");
    world.shut_down().await;
}

/// The worker could not store its end, and says so before it has heard that it is to leave: to that order it says no more.
#[tokio::test]
async fn a_turn_that_is_let_go_of_while_it_is_told_to_leave_is_free_at_that_one_word() {
    let (world, mut fake, mut turn) = told_to_park().await;
    fake.say(&[json!({"frame": "cancelled", "turn": turn.id, "left": 0})]).await;
    let epoch = world.start_again(&turn, "x");
    let again = fake.next().await;
    assert_eq!((&again["turn"], &again["epoch"]), (&json!(turn.id), &json!(epoch)));
    let step = fake.step(&turn, "again");
    fake.say(&[step]).await;
    assert_eq!(fake.next().await["frame"], "ack");
    assert!(matches!(turn.next().await, Said::Step(..)));
    let end = fake.end(&turn, "done");
    fake.say(&[end]).await;
    assert_eq!(turn.outcome().await.unwrap(), "done");
    world.shut_down().await;
}

#[tokio::test]
async fn a_word_under_an_old_epoch_takes_the_turn_from_its_worker() {
    let (world, mut fake) = Fake::worker().await;
    let mut turn = world.start("x");
    fake.next_of("turn").await;
    world.inbox.claim(turn.id);
    let late = fake.step(&turn, "late");
    fake.say(&[late]).await;
    assert_eq!(fake.next().await, json!({"frame": "park", "turn": turn.id}));
    fake.say(&[parked(&turn)]).await;
    assert_eq!(world.inbox.batches(turn.id), [0; 0]);
    assert!(turn.is_quiet());
    world.shut_down().await;
}

#[tokio::test]
async fn what_stands_in_the_journal_already_is_not_delivered_again() {
    let (world, mut fake) = Fake::worker().await;
    let entry = Entry::Expire { interrupt_id: InterruptId(uuid::Uuid::nil()) };
    let turn = world.start_order("x", Vec::new(), vec![world.started("3.11"), recorded(entry)]);
    world.supervisor.deliver(turn.id, expired(1));
    world.supervisor.deliver(turn.id, expired(2));
    let frame = fake.next().await;
    assert_eq!(frame["journal"][1]["entry"], "expire");
    assert_eq!(fake.next().await["index"], 2);
    world.supervisor.deliver(turn.id, expired(1));
    world.supervisor.deliver(turn.id, expired(3));
    assert_eq!(fake.next().await["index"], 3);
    world.shut_down().await;
}

#[tokio::test]
async fn a_journal_of_a_python_that_is_not_known_to_agree_is_refused_before_anything_runs() {
    let (world, mut fake) = Fake::worker().await;
    let pause = || recorded(Entry::Pause { timers: Vec::new(), context: None });
    let mut turn = world.start_order("x", Vec::new(), vec![world.started("3.20"), pause()]);
    let Said::Failed(failure) = turn.next().await else { panic!("it was not refused") };
    assert_eq!(failure.code, "python_unsupported");
    assert!(failure.message.contains("Python 3.20") && failure.message.contains("Python 3.11"), "{}", failure.message);
    let agreeing = world.start_order("x", Vec::new(), vec![world.started("3.13"), pause()]);
    assert_eq!(fake.next().await["turn"], agreeing.id.to_string());
    world.shut_down().await;
}

#[tokio::test]
async fn what_runs_in_workers_is_known_before_the_first_turn() {
    let mut given = settings("versioned:agent");
    let world = World::with(given.clone()).await;
    let runtime = world.supervisor.runtime();
    assert_eq!((runtime.code.as_str(), runtime.replay), ("2026-11", false));
    assert!(runtime.python.starts_with("3."));
    world.shut_down().await;
    given.agent = "scripted:agent".to_owned();
    let world = World::with(given).await;
    let runtime = world.supervisor.runtime();
    assert!(runtime.code.len() == 16 && runtime.code.chars().all(|digit| digit.is_ascii_hexdigit()), "{runtime:?}");
    assert!(runtime.replay);
    world.shut_down().await;
    let (world, _fake) = Fake::worker().await;
    assert_eq!(world.supervisor.runtime().code, "c0de");
    world.shut_down().await;
}

//! What a worker says in one go is stored in one go, and acknowledged in the journal's order.

use hitl::domain::journal::{Entry, PendingTimer};
use hitl::domain::{InterruptId, Timestamp};
use hitl::engine::ports::dispatch::{Delivery, Dispatch, Lost};
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;

use super::fake::{Fake, parked, waiting};
use super::support::{Inbox, Said, World};

/// Keeps the store from committing until it is dropped.
async fn held(inbox: &Inbox) -> SemaphorePermit<'_> {
    inbox.commits.acquire_many(u32::try_from(inbox.commits.available_permits()).unwrap()).await.unwrap()
}

/// A supervisor of this kind has a semaphore that can be taken whole.
async fn slow_world() -> (World, Fake) {
    let (world, fake) = Fake::worker().await;
    world.inbox.commits.forget_permits(tokio::sync::Semaphore::MAX_PERMITS - 1);
    (world, fake)
}

#[tokio::test]
async fn ten_questions_and_the_wait_for_them_are_one_commit() {
    let (world, mut fake) = Fake::worker().await;
    let mut turn = world.start("x");
    let frame = fake.next().await;
    assert_eq!((&frame["frame"], &frame["epoch"], &frame["state"]), (&json!("turn"), &json!(1), &json!([])));
    assert_eq!(frame["message"], json!({"role": "user", "content": "x"}));
    assert_eq!(frame["journal"][0]["entry"], "start");
    let mut said: Vec<Value> = (0..10).map(|number| fake.ask(&turn, &format!("q{number}"))).collect();
    said.push(waiting(&turn, 0));
    fake.say(&said).await;
    for number in 0..10 {
        let ack = fake.next().await;
        let place = (&ack["frame"], &ack["call"], &ack["index"], &ack["at"]);
        assert_eq!(place, (&json!("ack"), &json!(number + 1), &json!(number + 1), &json!(1)));
        let Said::Ask(id, ..) = turn.next().await else { panic!("no question") };
        assert_eq!(ack["interrupt_id"], id.to_string());
    }
    let timers = vec![PendingTimer { path: "0@1".to_owned(), due: Timestamp::from_millis(9) }];
    assert_eq!(turn.next().await, Said::Waiting(Some(0), timers));
    assert_eq!(world.inbox.batches(turn.id), [11]);
    world.shut_down().await;
}

#[tokio::test]
async fn what_is_said_during_a_commit_is_the_next_one() {
    let (world, mut fake) = slow_world().await;
    let turn = world.start("x");
    fake.next_of("turn").await;
    let hold = held(&world.inbox).await;
    let first = fake.step(&turn, "a");
    fake.say(&[first]).await;
    // Another turn's word shows that those before it were heard.
    let other = world.start("y");
    fake.next_of("turn").await;
    for name in ["b", "c", "d"] {
        let step = fake.step(&turn, name);
        fake.say(&[step]).await;
    }
    let end = fake.end(&other, "y");
    fake.say(&[end]).await;
    assert_eq!(other.outcome().await.unwrap(), "y");
    drop(hold);
    for _ in 0..5 {
        fake.next_of("ack").await;
    }
    let batches = world.inbox.batches(turn.id);
    // The first word was on its way alone, or else all of them were heard before it was.
    assert!(batches == [1, 3] || batches == [4], "{batches:?}");
    world.shut_down().await;
}

#[tokio::test]
async fn every_kind_of_word_is_stored_in_order() {
    let (world, mut fake) = Fake::worker().await;
    let mut turn = world.start("x");
    fake.next_of("turn").await;
    let wakes =
        json!({"frame": "wakes", "turn": turn.id, "wakes": [{"after": 1, "task": "0.1", "location": "a.py:3"}]});
    let said = [fake.intent(&turn, "pay"), wakes, fake.timer(&turn, "0@1"), fake.step(&turn, "pay"), waiting(&turn, 0)];
    fake.say(&said).await;
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        acknowledged.push(fake.next_of("ack").await["index"].as_u64().unwrap());
    }
    assert_eq!(acknowledged, [1, 3, 4]);
    assert_eq!(turn.next().await, Said::Intent("pay".to_owned()));
    assert!(matches!(turn.next().await, Said::Wakes(wakes) if wakes[0].location.as_deref() == Some("a.py:3")));
    assert_eq!(turn.next().await, Said::Timer("0@1".to_owned(), Timestamp::from_millis(5)));
    assert!(matches!(turn.next().await, Said::Step(..)));
    assert!(matches!(turn.next().await, Said::Waiting(..)));
    world.shut_down().await;
}

#[tokio::test]
async fn a_refused_question_does_not_keep_its_neighbours_from_being_stored() {
    let (world, mut fake) = Fake::worker().await;
    let turn = world.start("x");
    fake.next_of("turn").await;
    let said = [fake.ask(&turn, "one"), fake.ask(&turn, "refused"), fake.ask(&turn, "two")];
    fake.say(&said).await;
    assert_eq!(fake.next().await["index"], 1);
    let refused = fake.next().await;
    assert_eq!(
        (&refused["frame"], &refused["call"], &refused["code"]),
        (&json!("refused"), &json!(2), &json!("invalid_payload"))
    );
    assert_eq!(fake.next().await["index"], 2);
    world.shut_down().await;
}

/// Answers that are committed while words are on their way go where they stand in the journal.
#[tokio::test]
async fn deliveries_and_acknowledgements_keep_the_order_of_the_journal() {
    let (world, mut fake) = slow_world().await;
    let turn = world.start("x");
    fake.next_of("turn").await;
    let answer = |index| Delivery::Answer {
        index,
        at: Timestamp::from_millis(2),
        interrupt: InterruptId(uuid::Uuid::nil()),
        value: json!(index),
        by: None,
    };
    let hold = held(&world.inbox).await;
    let said = [fake.step(&turn, "a"), fake.step(&turn, "b")];
    fake.say(&said).await;
    let (before, after) = (world.inbox.append(turn.id, Entry::Cancel {}), 4);
    // The supervisor may not have heard of the steps yet; their places are behind this one all the same.
    world.supervisor.deliver(turn.id, answer(after));
    world.supervisor.deliver(turn.id, answer(before));
    drop(hold);
    let mut indexes = Vec::new();
    for _ in 0..4 {
        indexes.push(fake.next().await["index"].as_u64().unwrap());
    }
    let steps: Vec<u64> = indexes.iter().copied().filter(|index| [2, 3].contains(index)).collect();
    assert_eq!(steps, [2, 3]);
    world.shut_down().await;
}

#[tokio::test]
async fn a_replay_is_announced_with_its_warnings() {
    let (world, mut fake) = Fake::worker().await;
    let mut turn = world.start("x");
    fake.next_of("turn").await;
    fake.say(&[json!({"frame": "replayed", "turn": turn.id, "warnings": ["a prompt was edited"]})]).await;
    assert_eq!(turn.next().await, Said::Replayed(vec!["a prompt was edited".to_owned()]));
    world.shut_down().await;
}

/// Whether the step is in the journal nobody knows, so that the worker can neither be told yes nor no.
#[tokio::test]
async fn a_word_that_may_or_may_not_be_stored_takes_the_turn_from_its_worker() {
    let (world, mut fake) = Fake::worker().await;
    for end in [false, true] {
        let mut turn = world.start("x");
        fake.next_of("turn").await;
        world.inbox.lose_track(turn.id);
        let said = if end { fake.end(&turn, "x") } else { fake.step(&turn, "a") };
        fake.say(&[said]).await;
        assert_eq!(fake.next().await, json!({"frame": "park", "turn": turn.id}));
        fake.say(&[parked(&turn)]).await;
        assert_eq!(turn.next().await, Said::Lost(Lost::Unstored { message: "it did not say".to_owned() }));
    }
    world.shut_down().await;
}

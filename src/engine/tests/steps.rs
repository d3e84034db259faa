//! Steps, as listeners hear of them.

use serde_json::{Value, json};

use super::support::{PATIENCE, World, asked, question, settings, waiting};
use crate::domain::event::EventView;
use crate::domain::journal::{StepIdentity, StepResult};
use crate::domain::told::StartedTool;
use crate::domain::{JsonObject, SessionId};
use crate::engine::ports::dispatch::Record;
use crate::engine::telling::view::{FeedItem, Subscription};
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    steps_are_told_among_the_events_of_their_session,
    steps_are_told_again_to_whoever_was_away_and_to_nobody_else,
);

fn identity(path: &str, kind: &str) -> StepIdentity {
    StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: "look_up".to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: Some("call_1".to_owned()),
    }
}

fn done(path: &str, kind: &str, value: Value) -> Record {
    Record::Step { step: identity(path, kind), result: StepResult::Value(value) }
}

fn said(path: &str, text: &str) -> Record {
    done(path, "model", json!({"message": {"role": "assistant", "content": text}, "usage": {}}))
}

/// A tool that begins and may run again.
pub fn started(path: &str) -> Record {
    Record::Started(StartedTool {
        step_id: path.to_owned(),
        name: "look_up".to_owned(),
        tool_call_id: Some("call_1".to_owned()),
        arguments: Some(json!({"id": 7})),
    })
}

/// Up to the event of that name: each with its number, where it is stored.
async fn until(heard: &mut Subscription, name: &str) -> Vec<(Option<u64>, EventView)> {
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, heard.events.recv()).await.unwrap().unwrap();
        let (number, event) = match next {
            FeedItem::Stored(numbered) => (Some(numbered.number), numbered.event.clone()),
            FeedItem::Passing(event) => (None, EventView::clone(&event)),
        };
        let is_last = event.name == name;
        events.push((number, event));
        if is_last {
            return events;
        }
    }
}

fn names(events: &[(Option<u64>, EventView)]) -> Vec<&str> {
    events.iter().map(|(_, event)| event.name.as_str()).collect()
}

async fn steps_are_told_among_the_events_of_their_session(it: Fixture) {
    let world = World::new(it, settings()).await;
    let mut all = world.engine.subscribe(None, None).await.unwrap();
    let own = world.session().await;
    world.send(own).await.unwrap();
    let order = world.order().await;
    let mut heard = world.engine.subscribe(Some(own), None).await.unwrap();
    world.append(&order, vec![said("0#1", "one moment")]).await.unwrap();
    world.append(&order, vec![started("0#2"), done("0#3", "step", json!("a password"))]).await.unwrap();
    world.append(&order, vec![done("0#2", "tool", json!("ada"))]).await.unwrap();
    let intent = Record::Intent { step: identity("0#4", "tool"), arguments: Some(json!({"id": 8})) };
    world.append(&order, vec![intent, done("0#4", "tool", json!("bob"))]).await.unwrap();
    world.end(&order).await.unwrap();
    let events = until(&mut heard, "session.idle").await;
    let expected =
        ["message.completed", "tool.started", "tool.finished", "tool.started", "tool.finished", "session.idle"];
    assert_eq!(names(&events), expected);
    let stored: Vec<bool> = events.iter().map(|(number, _)| number.is_some()).collect();
    assert_eq!(stored, [true, false, true, true, true, true]);
    let told: Vec<&Value> = events.iter().map(|(_, event)| &event.data["session_id"]).collect();
    assert!(told.iter().all(|session| **session == json!(own)));
    assert_eq!(events[0].1.data["message"], json!({"role": "assistant", "content": "one moment"}));
    assert_eq!((&events[1].1.data["args"], &events[3].1.data["args"]), (&json!({"id": 7}), &json!({"id": 8})));
    assert_eq!((&events[2].1.data["result"], &events[4].1.data["result"]), (&json!("ada"), &json!("bob")));
    assert_eq!(events[1].1.data["turn_id"], json!(order.turn));
    let over_all = until(&mut all, "session.idle").await;
    assert_eq!(over_all[1..], events);
}

async fn steps_are_told_again_to_whoever_was_away_and_to_nobody_else(it: Fixture) {
    let world = World::new(it, settings()).await;
    let mut heard = world.engine.subscribe(None, None).await.unwrap();
    let order = world.begin().await;
    let session: SessionId = order.session;
    world.append(&order, vec![said("0#1", "one moment")]).await.unwrap();
    world.append(&order, vec![started("0#2")]).await.unwrap();
    let batch = world.append(&order, vec![done("0#2", "tool", json!("ada")), question(0, None), waiting(None, &[])]);
    let interrupt = asked(batch.await.unwrap())[0];
    let before = until(&mut heard, "session.interrupted").await;
    let world = world.crash().await;
    let number = before[1].0.unwrap();
    assert_eq!(before[1].1.name, "message.completed");
    for of in [None, Some(session)] {
        let mut again = world.engine.subscribe(of, Some(number)).await.unwrap();
        let missed = until(&mut again, "session.interrupted").await;
        let stored: Vec<_> = before[2..].iter().filter(|(number, _)| number.is_some()).cloned().collect();
        assert_eq!(missed, stored);
    }
    // The turn goes on from its journal: what stands there is not told once more.
    let mut heard = world.engine.subscribe(Some(session), None).await.unwrap();
    world.answer(session, interrupt, json!(1)).await.unwrap();
    let order = world.order_of(session).await;
    world.engine.turn_replayed(order.turn, order.epoch, Vec::new()).await.unwrap();
    world.append(&order, vec![said("0#5", "done")]).await.unwrap();
    world.end(&order).await.unwrap();
    let events = until(&mut heard, "session.idle").await;
    assert_eq!(names(&events), ["interrupt.resolved", "session.running", "message.completed", "session.idle"]);
}

//! Decisions that no person has to make, and those that hold for the rest of a session.

use serde_json::{Value, json};

use super::support::{World, call, settings, waiting};
use crate::domain::interrupt::{Interrupt, InterruptStatus};
use crate::domain::session::Status;
use crate::domain::{Error, SessionId};
use crate::engine::dispatch::{Appended, Record, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::StoreExt;
use crate::store::contract::fixture::Fixture;

super::for_each_store!(
    what_the_tools_code_decides_interrupts_nobody,
    what_the_tools_code_decides_wrongly_is_for_a_person,
    a_call_that_needs_nobody_leaves_no_record,
    a_turn_that_got_its_answer_at_once_is_not_paused,
);

/// A call of `delete_file` by the agent `files`.
fn delete() -> Value {
    json!({
        "type": "tool_approval", "agent": "files", "allowed_decisions": ["approve", "edit", "reject"],
        "payload": {"type": "tool_approval", "tool_name": "delete_file", "tool_args": {"path": "/tmp/x"}},
        "args_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    })
}

fn with(mut ask: Value, members: Value) -> Value {
    ask.as_object_mut().unwrap().extend(members.as_object().cloned().unwrap());
    ask
}

async fn ask(world: &World, order: &TurnOrder, ask: Value) -> Appended {
    let batch = world.append(order, vec![call(ask)]).await.unwrap();
    batch.into_iter().next().unwrap().unwrap().unwrap()
}

async fn record(world: &World, appended: &Appended) -> Interrupt {
    world.interrupt(appended.interrupt.unwrap()).await
}

/// Names of the events of a session.
async fn told(world: &World, session: SessionId) -> Vec<String> {
    let events = world.store.query(move |reader| reader.events_after(0, Some(session), 100)).await.unwrap();
    events.into_iter().map(|event| event.event.name).collect()
}

async fn what_the_tools_code_decides_interrupts_nobody(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 9, ..settings() }).await;
    for (proposed, value) in [
        (json!({"approved": true}), json!({"type": "approve"})),
        (json!({"type": "edit", "args": {"path": "/y"}}), json!({"type": "edit", "args": {"path": "/y"}})),
        (json!({"approved": false, "reason": "no"}), json!({"type": "reject", "reason": "no"})),
    ] {
        let order = world.begin().await;
        let appended = ask(&world, &order, with(delete(), json!({"proposed": proposed}))).await;
        assert_eq!((appended.index, &appended.answer), (1, &Some((2, value.clone()))));
        assert_eq!(world.kinds(order.turn).await, "start ask answer");
        assert_eq!(world.status(order.session).await, Status::Running);
        assert_eq!(told(&world, order.session).await, ["session.running", "interrupt.resolved"]);
        let record = record(&world, &appended).await;
        assert_eq!((record.status, record.value), (InterruptStatus::Resolved, Some(value)));
        assert_eq!((record.rule.as_deref(), record.resolved_by.as_deref()), (Some("on_approval"), Some("on_approval")));
        assert_eq!(record.resolved_at, Some(record.created_at));
    }
}

async fn what_the_tools_code_decides_wrongly_is_for_a_person(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 9, ..settings() }).await;
    for proposed in [
        json!({"approved": "true"}),
        json!(true),
        json!({"type": "respond", "message": "not allowed here"}),
        json!({"type": "edit", "args": {"path": 7}}),
        json!({"type": "reject", "by": "policy"}),
    ] {
        let order = world.begin().await;
        let appended = ask(&world, &order, with(delete(), json!({"proposed": proposed}))).await;
        assert_eq!(appended.answer, None, "{proposed}");
        assert_eq!(world.status(order.session).await, Status::Interrupted);
        assert_eq!(record(&world, &appended).await.rule, None);
    }
}

async fn a_call_that_needs_nobody_leaves_no_record(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let large = "x".repeat(world.settings.max_payload);
    let payload = json!({"type": "tool_approval", "tool_name": "write_file", "tool_args": {"text": large}});
    let appended = ask(&world, &order, with(delete(), json!({"required": false, "payload": payload}))).await;
    assert_eq!(appended.answer, Some((2, json!({"type": "approve"}))));
    assert_eq!(world.kinds(order.turn).await, "start ask answer");
    let id = appended.interrupt.unwrap().to_string();
    assert_eq!(world.engine.interrupt(&id).await, Err(Error::UnknownInterrupt(id)));
    assert_eq!(told(&world, order.session).await, ["session.running"]);
}

async fn a_turn_that_got_its_answer_at_once_is_not_paused(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let decided = with(delete(), json!({"proposed": {"approved": true}}));
    world.append(&order, vec![call(decided), waiting(Some(0), &[])]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask answer");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
    world.append(&order, vec![Record::Waiting { seen: Some(2), timers: Vec::new() }]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask answer pause");
}

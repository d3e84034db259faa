//! Decisions that no person has to make, and those that hold for the rest of a session.

use serde_json::{Value, json};

use super::support::{World, asked, call, settings, waiting};
use crate::domain::access::Actor;
use crate::domain::grant::GrantedDecision;
use crate::domain::interrupt::Interrupt;
use crate::domain::scope::Scopes;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, SessionId};
use crate::engine::ports::dispatch::{Appended, Record, TurnOrder};
use crate::engine::settings::Settings;
use crate::engine::telling::view::Answer;
use crate::store::StoreExt;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    what_the_tools_code_decides_interrupts_nobody,
    what_the_tools_code_decides_wrongly_is_for_a_person,
    a_call_that_needs_nobody_leaves_no_record,
    a_turn_that_got_its_answer_at_once_is_not_paused,
    a_decision_for_always_holds_for_that_tool_of_that_agent_in_that_session,
    a_grant_survives_a_restart_and_ends_when_it_is_revoked,
    a_later_grant_takes_the_place_of_an_earlier_one,
    always_answers_what_the_session_asks_already_except_what_is_answered_by_itself,
    what_the_tools_code_says_comes_before_a_grant,
    what_the_tools_code_says_for_always_ends_with_its_turn,
    what_the_tools_code_says_for_always_takes_nothing_from_a_person,
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
        // A person could not say this; the tool's own code may.
        (json!({"type": "respond", "message": "done"}), json!({"type": "respond", "message": "done"})),
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
    assert_eq!(appended.answer, Some((2, json!({"type": "approve", "by": "policy"}))));
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
    world.append(&order, vec![Record::Waiting { seen: Some(2), timers: Vec::new(), context: None }]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask answer pause");
}

async fn answer(world: &World, appended: &Appended, session: SessionId, value: Value) -> Result<Status, Error> {
    world.answer(session, appended.interrupt.unwrap(), value).await.map(|resumed| resumed.status)
}

async fn a_decision_for_always_holds_for_that_tool_of_that_agent_in_that_session(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 9, ..settings() }).await;
    let order = world.begin().await;
    let first = ask(&world, &order, delete()).await;
    let always = json!({"approved": true, "always": true});
    assert_eq!(answer(&world, &first, order.session, always).await, Ok(Status::Running));
    let [grant] = world.engine.grants(order.session).await.unwrap().try_into().unwrap();
    assert_eq!((grant.agent.as_deref(), grant.tool.as_str()), (Some("files"), "delete_file"));

    let other_args = json!({"payload": {"tool_name": "delete_file", "tool_args": {"path": "/other"}}});
    let again = ask(&world, &order, with(delete(), other_args)).await;
    assert_eq!(again.answer.as_ref().map(|(_, value)| value), Some(&json!({"type": "approve"})));
    let decided = record(&world, &again).await;
    assert_eq!((decided.rule, decided.status), (Some(grant.rule()), InterruptStatus::Resolved));

    for other in [
        json!({"agent": "other"}),
        json!({"agent": null}),
        json!({"tool_source": "mcp:files"}),
        json!({"payload": {"tool_name": "delete_files", "tool_args": {}}}),
        json!({"type": "delete_file"}),
        json!({"allowed_decisions": ["reject"]}),
    ] {
        assert_eq!(ask(&world, &order, with(delete(), other.clone())).await.answer, None, "{other}");
    }
    let elsewhere = world.begin().await;
    assert_eq!(ask(&world, &elsewhere, delete()).await.answer, None);
}

async fn a_grant_survives_a_restart_and_ends_when_it_is_revoked(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let first = ask(&world, &order, delete()).await;
    let never = json!({"approved": false, "always": true, "reason": "not here"});
    answer(&world, &first, order.session, never).await.unwrap();
    world.end(&order).await.unwrap();
    let world = world.crash().await;

    world.send(order.session).await.unwrap();
    let order = world.order().await;
    let again = ask(&world, &order, delete()).await;
    assert_eq!(again.answer.unwrap().1, json!({"type": "reject", "reason": "not here"}));

    let [grant] = world.engine.grants(order.session).await.unwrap().try_into().unwrap();
    let id = grant.grant_id.to_string();
    let elsewhere = world.session().await;
    for (session, id) in [(elsewhere, id.as_str()), (order.session, "nonsense")] {
        let refused = world.engine.revoke_grant(session, id, &Actor::anyone()).await;
        assert_eq!(refused, Err(Error::UnknownGrant(id.to_owned())));
    }
    assert_eq!(world.engine.revoke_grant(order.session, &id, &Actor::anyone()).await, Ok(()));
    assert_eq!(world.engine.revoke_grant(order.session, &id, &Actor::anyone()).await, Err(Error::UnknownGrant(id)));
    assert_eq!(ask(&world, &order, delete()).await.answer, None);
}

async fn a_later_grant_takes_the_place_of_an_earlier_one(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let ids = asked(world.append(&order, vec![call(delete()), call(delete())]).await.unwrap());
    let post = |place: usize, approved: bool| Answer {
        interrupt_id: ids[place].to_string(),
        value: json!({"approved": approved, "always": true}),
        place: Vec::new(),
        said: None,
        expected_type: None,
    };
    world.engine.resume(order.session, vec![post(0, true), post(1, false)], Actor::anyone(), None).await.unwrap();
    let [grant] = world.engine.grants(order.session).await.unwrap().try_into().unwrap();
    assert_eq!(grant.decision, GrantedDecision::Reject);
}

async fn always_answers_what_the_session_asks_already_except_what_is_answered_by_itself(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let calls = vec![
        call(delete()),
        call(delete()),
        call(with(delete(), json!({"agent": "other"}))),
        call(delete()),
        waiting(Some(0), &[]),
    ];
    let ids = asked(world.append(&order, calls).await.unwrap());
    let post = |place: usize, value: Value| Answer {
        interrupt_id: ids[place].to_string(),
        value,
        place: Vec::new(),
        said: None,
        expected_type: None,
    };
    let answers = vec![
        post(0, json!({"approved": true, "always": true})),
        post(3, json!({"approved": false, "reason": "not this one"})),
    ];
    let resumed =
        world.engine.resume(order.session, answers, Actor::named("alice", Scopes::ALL, &[]), None).await.unwrap();
    assert_eq!(resumed.status, Status::Interrupted);
    assert_eq!(world.state(order.session).await.pending(), [ids[2]]);
    assert_eq!(world.kinds(order.turn).await, "start ask ask ask ask pause answer answer answer");
    let delivered: Vec<u64> = [
        world.delivery(order.turn).await.index(),
        world.delivery(order.turn).await.index(),
        world.delivery(order.turn).await.index(),
    ]
    .into();
    assert_eq!(delivered, [6, 7, 8]);
    let [grant] = world.engine.grants(order.session).await.unwrap().try_into().unwrap();
    let second = world.interrupt(ids[1]).await;
    assert_eq!((second.value, second.rule), (Some(json!({"type": "approve"})), Some(grant.rule())));
    assert_eq!(second.resolved_by.as_deref(), Some("alice"));
    assert_eq!(world.interrupt(ids[3]).await.value.unwrap()["approved"], false);
}

async fn what_the_tools_code_says_comes_before_a_grant(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let first = ask(&world, &order, delete()).await;
    answer(&world, &first, order.session, json!({"approved": true, "always": true})).await.unwrap();
    let proposed = with(delete(), json!({"proposed": {"approved": false, "reason": "locked"}}));
    let decided = ask(&world, &order, proposed).await;
    assert_eq!(decided.answer.unwrap().1, json!({"type": "reject", "reason": "locked"}));
}

/// Whatever runs in a worker can say so; what a later turn may do is not for it to say.
async fn what_the_tools_code_says_for_always_ends_with_its_turn(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let always = with(delete(), json!({"proposed": {"approved": true, "always": true}}));
    assert!(ask(&world, &order, always).await.answer.is_some());
    let [grant] = world.engine.grants(order.session).await.unwrap().try_into().unwrap();
    assert_eq!((grant.created_by.as_deref(), grant.turn_id), (Some("on_approval"), Some(order.turn)));
    assert_eq!(ask(&world, &order, delete()).await.answer.unwrap().1, json!({"type": "approve"}));
    world.end(&order).await.unwrap();

    world.send(order.session).await.unwrap();
    let later = world.order().await;
    assert_eq!(ask(&world, &later, delete()).await.answer, None);
    assert_eq!(world.engine.grants(order.session).await.unwrap(), []);
}

async fn what_the_tools_code_says_for_always_takes_nothing_from_a_person(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let first = ask(&world, &order, delete()).await;
    answer(&world, &first, order.session, json!({"approved": false, "always": true})).await.unwrap();
    let always = with(delete(), json!({"proposed": {"approved": true, "always": true}}));
    ask(&world, &order, always).await;
    assert_eq!(ask(&world, &order, delete()).await.answer.unwrap().1, json!({"type": "reject"}));

    world.end(&order).await.unwrap();
    world.send(order.session).await.unwrap();
    let later = world.order().await;
    assert_eq!(ask(&world, &later, delete()).await.answer.unwrap().1, json!({"type": "reject"}));
}

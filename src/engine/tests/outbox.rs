//! Webhooks are told of what they want to be told of: at least once, under one id, in the order of the session.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::receiver::{Call, Receiver};
use super::support::{PATIENCE, World, message, settings};
use crate::domain::access::Actor;
use crate::domain::event::EventName;
use crate::domain::notice::{Notice, Tries};
use crate::domain::session::Failure;
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId};
use crate::engine::settings::Settings;
use crate::engine::telling::figures::{Family, Figures, Labelled};
use crate::engine::telling::view::NewSession;
use crate::store::StoreExt;
use crate::store::about::About;
use crate::store::contract::fixture::{Fixture, session_id};
use crate::store::query::NoticeQuery;
use uuid::Uuid;

crate::store::contract::for_each_store!(
    nobody_is_told_who_did_not_ask_and_nothing_is_written,
    the_servers_webhook_hears_every_event_in_order,
    an_interrupt_is_told_as_its_record,
    a_session_has_a_webhook_for_all_its_turns,
    a_suspension_is_told_as_an_error_and_the_end_of_its_retry_as_idle,
    an_address_is_told_once_as_the_nearest_says,
    what_fails_is_tried_again_under_its_id_before_what_comes_after_it,
    a_receiver_that_fails_one_session_does_not_hold_up_another,
    a_receiver_that_hangs_is_given_up_for_this_time,
    a_receiver_that_hangs_does_not_hold_up_the_others,
    however_many_receivers_of_clients_hang_the_servers_own_are_told,
    what_clients_name_at_the_servers_own_host_does_not_hold_it_up,
    what_has_waited_long_behind_others_has_one_try,
    what_is_given_up_is_kept_and_lets_the_next_one_through,
    what_was_given_up_is_told_on_request,
    what_waits_for_its_next_try_waits_over_a_restart,
    a_try_without_an_outcome_is_made_again_by_the_next_server,
    what_is_withdrawn_with_its_session_is_told,
    reminders_come_until_somebody_answers,
    reminders_end_where_the_operator_wants_none_any_more,
    the_figures_tell_what_waits_and_what_came_of_it,
);

fn all() -> Option<Vec<EventName>> {
    Some(EventName::FOR_WEBHOOKS.to_vec())
}

fn webhook(receiver: &Receiver, events: Option<Vec<EventName>>) -> Webhook {
    Webhook { url: receiver.url.clone(), token: None, include_messages: false, events }
}

/// With a server's webhook that hears everything, and hardly any pauses.
fn telling(receiver: &Receiver) -> Settings {
    Settings {
        webhooks: vec![webhook(receiver, all())],
        webhook_allow_private: true,
        tries: Tries { pace: 0.001, ..Tries::default() },
        ..settings()
    }
}

async fn notices(world: &World) -> Vec<Notice> {
    world.engine.telling.notices(NoticeQuery { limit: 100, ..NoticeQuery::default() }).await.unwrap().items
}

/// The notices, once all are as `are` says.
async fn until_notices(world: &World, are: impl Fn(&[Notice]) -> bool) -> Vec<Notice> {
    let reached = async {
        loop {
            let notices = notices(world).await;
            if are(&notices) {
                return notices;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap()
}

/// A turn that asks, is answered and ends: six events.
async fn conversation(world: &World) -> SessionId {
    let (order, asked) = world.asking(1).await;
    world.answer(order.session, asked[0], json!("yes")).await.unwrap();
    world.end(&order).await.unwrap();
    order.session
}

const CONVERSATION: [&str; 6] = [
    "session.running",
    "interrupt.created",
    "session.interrupted",
    "interrupt.resolved",
    "session.running",
    "session.idle",
];

async fn nobody_is_told_who_did_not_ask_and_nothing_is_written(fixture: Fixture) {
    let world = World::new(fixture, Settings { remind_after: 0.001, ..settings() }).await;
    conversation(&world).await;
    assert_eq!(notices(&world).await, []);
}

async fn the_servers_webhook_hears_every_event_in_order(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, telling(&receiver)).await;
    let session = conversation(&world).await;
    assert_eq!(receiver.events(6).await, CONVERSATION);
    let calls = receiver.calls();
    assert_eq!(calls.iter().map(|call| &call.id).collect::<HashSet<_>>().len(), 6);
    assert!(calls.iter().all(|call| call.session() == session.to_string()));
    let told = until_notices(&world, |all| all.iter().all(|one| one.status == NoticeStatus::Delivered)).await;
    assert_eq!(told.len(), 6);
    assert!(told.iter().all(|notice| notice.attempts == 1));
}

async fn an_interrupt_is_told_as_its_record(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, telling(&receiver)).await;
    let (order, asked) = world.asking(1).await;
    let pending = world.interrupt(asked[0]).await;
    world.answer(order.session, asked[0], json!("yes")).await.unwrap();
    let resolved = world.interrupt(asked[0]).await;
    receiver.events(4).await;
    let bodies: Vec<_> = receiver.calls().into_iter().map(|call| call.body).collect();
    let expected = json!({"type": "interrupt.created", "timestamp": pending.created_at, "data": pending});
    assert_eq!(bodies[1], expected);
    assert_eq!(bodies[2]["interrupts"], json!([pending]));
    let expected = json!({"type": "interrupt.resolved", "timestamp": resolved.resolved_at, "data": resolved});
    assert_eq!(bodies[3], expected);
}

async fn a_session_has_a_webhook_for_all_its_turns(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, Settings { webhooks: Vec::new(), ..telling(&receiver) }).await;
    let new = NewSession { webhook: Some(webhook(&receiver, None)), ..NewSession::default() };
    let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    for _ in 0..2 {
        world.send(session).await.unwrap();
        let order = world.order_of(session).await;
        world.end(&order).await.unwrap();
    }
    conversation(&world).await;
    assert_eq!(receiver.events(2).await, ["session.idle", "session.idle"]);
    assert!(receiver.calls().iter().all(|call| call.session() == session.to_string()));
    let private = Webhook { url: "http://10.0.0.1/".to_owned(), ..webhook(&receiver, None) };
    let strict = World::new(Fixture::memory(), settings()).await;
    let new = NewSession { webhook: Some(private), ..NewSession::default() };
    assert!(matches!(strict.engine.create_session(new, None, &Actor::anyone()).await, Err(Error::WebhookRefused(_))));
}

async fn a_suspension_is_told_as_an_error_and_the_end_of_its_retry_as_idle(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, Settings { webhooks: Vec::new(), ..telling(&receiver) }).await;
    let new = NewSession { webhook: Some(webhook(&receiver, None)), ..NewSession::default() };
    let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    world.send(session).await.unwrap();
    let order = world.order_of(session).await;
    let away = Failure::new("model_unavailable", "ModelUnavailable: away");
    world.engine.turn_failed(order.turn, order.epoch, away).await.unwrap();
    assert_eq!(receiver.events(1).await, ["session.error"]);
    world.engine.retry(session, Actor::anyone()).await.unwrap();
    let order = world.order().await;
    world.end(&order).await.unwrap();
    assert_eq!(receiver.events(2).await, ["session.error", "session.idle"]);
}

async fn an_address_is_told_once_as_the_nearest_says(fixture: Fixture) {
    let (first, second) = (Receiver::new().await, Receiver::new().await);
    let world = World::new(fixture, telling(&first)).await;
    let new = NewSession { webhook: Some(webhook(&second, None)), ..NewSession::default() };
    let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    let of_message = Webhook { include_messages: true, ..webhook(&first, None) };
    world.engine.send_message(session, message("go"), Some(of_message), None, None, &Actor::anyone()).await.unwrap();
    let order = world.order_of(session).await;
    world.end(&order).await.unwrap();
    assert_eq!(first.events(2).await, ["session.running", "session.idle"]);
    assert_eq!(second.events(1).await, ["session.idle"]);
    let has_messages: Vec<bool> =
        first.calls().iter().chain(&second.calls()).map(|call| call.body.get("messages").is_some()).collect();
    assert_eq!(has_messages, [false, true, false]);
}

async fn what_fails_is_tried_again_under_its_id_before_what_comes_after_it(fixture: Fixture) {
    // Two of three fail.
    let receiver = Receiver::answering(|_, before| Some(if before % 3 == 2 { 200 } else { 500 })).await;
    let world = World::new(fixture, telling(&receiver)).await;
    conversation(&world).await;
    assert_eq!(receiver.events(6).await, CONVERSATION);
    let calls = receiver.calls();
    assert_eq!(calls.len(), 18);
    for tries in calls.chunks(3) {
        let ids: HashSet<_> = tries.iter().map(|call| (&call.id, call.body.to_string())).collect();
        assert_eq!(ids.len(), 1, "{tries:?}");
    }
}

async fn a_receiver_that_fails_one_session_does_not_hold_up_another(fixture: Fixture) {
    let bad = Arc::new(OnceLock::new());
    let failing = Arc::clone(&bad);
    let answers =
        move |call: &Call, _: usize| Some(if failing.get() == Some(&call.session().to_owned()) { 503 } else { 200 });
    let receiver = Receiver::answering(answers).await;
    let world = World::new(fixture, telling(&receiver)).await;
    let session = world.session().await;
    bad.set(session.to_string()).unwrap();
    world.send(session).await.unwrap();
    receiver.until(|calls| calls.len() >= 2).await;
    conversation(&world).await;
    assert_eq!(receiver.events(6).await, CONVERSATION);
}

async fn a_receiver_that_hangs_is_given_up_for_this_time(fixture: Fixture) {
    let receiver = Receiver::answering(|_, before| (before > 0).then_some(200)).await;
    let world = World::new(fixture, Settings { webhook_timeout: 0.2, ..telling(&receiver) }).await;
    conversation(&world).await;
    assert_eq!(receiver.events(6).await, CONVERSATION);
    let calls = receiver.calls();
    assert_eq!(calls[0].id, calls[1].id);
}

/// Has a turn begin of which `receiver` is told at an address of its own.
async fn send_to(world: &World, receiver: &Receiver, number: usize) {
    let url = format!("{}&session={number}", receiver.url);
    let new = NewSession { webhook: Some(Webhook { url, ..webhook(receiver, all()) }), ..NewSession::default() };
    let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
    world.send(session).await.unwrap();
}

async fn a_receiver_that_hangs_does_not_hold_up_the_others(fixture: Fixture) {
    let (hanging, well) = (Receiver::answering(|_, _| None).await, Receiver::new().await);
    let world = World::new(fixture, Settings { webhook_timeout: 600.0, ..telling(&well) }).await;
    // More sessions than are told at once.
    for number in 0..70 {
        send_to(&world, &hanging, number).await;
    }
    assert_eq!(well.events(70).await, ["session.running"; 70]);
    assert_eq!(hanging.calls().len(), 16);
}

async fn however_many_receivers_of_clients_hang_the_servers_own_are_told(fixture: Fixture) {
    let own = Receiver::new().await;
    let world = World::new(fixture, Settings { webhook_timeout: 600.0, ..telling(&own) }).await;
    let mut hanging = Vec::new();
    for _ in 0..5 {
        hanging.push(Receiver::answering(|_, _| None).await);
    }
    for number in 0..80 {
        send_to(&world, &hanging[number % 5], number).await;
    }
    assert_eq!(own.events(80).await, ["session.running"; 80]);
    let taken: usize = hanging.iter().map(|receiver| receiver.calls().len()).sum();
    assert!(taken <= 48, "{taken}");
}

async fn what_clients_name_at_the_servers_own_host_does_not_hold_it_up(fixture: Fixture) {
    // Only what clients have named wants the messages.
    let answers = |call: &Call, _| call.body.get("messages").is_none().then_some(200);
    let receiver = Receiver::answering(answers).await;
    let world = World::new(fixture, Settings { webhook_timeout: 600.0, ..telling(&receiver) }).await;
    for number in 0..40 {
        let url = format!("{}&session={number}", receiver.url);
        let of_client = Webhook { url, include_messages: true, ..webhook(&receiver, all()) };
        let new = NewSession { webhook: Some(of_client), ..NewSession::default() };
        let session = world.engine.create_session(new, None, &Actor::anyone()).await.unwrap().session.id;
        world.send(session).await.unwrap();
    }
    assert_eq!(receiver.events(40).await, ["session.running"; 40]);
}

async fn what_has_waited_long_behind_others_has_one_try(fixture: Fixture) {
    let receiver = Receiver::answering(|_, _| Some(500)).await;
    let settings = Settings { tries: Tries { retries: 2, pace: 0.001 }, ..telling(&receiver) };
    let world = World::new(fixture, settings.clone()).await;
    let (now, webhook) = (world.engine.now(), webhook(&receiver, all()));
    let notice = |session: u128, ago: f64| {
        let (id, created_at) = (Uuid::from_u128(session), now.plus_seconds(-ago));
        let event = EventName::Session(Status::Idle);
        Notice::new(id, session_id(session), None, event, &webhook, &json!({"status": "idle"}), created_at)
            .first_in_lane(now)
    };
    for one in [notice(1, 61.0), notice(2, 1.0)] {
        let session = About::Session(one.session_id);
        world.store.transact(session, move |tx| tx.insert_notice(&one)).await.unwrap();
    }
    world.engine.telling.take_over_outbox();
    let settled = until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
    let tried = |number| settled.iter().find(|one| one.session_id == session_id(number)).unwrap().attempts;
    assert_eq!((tried(1), tried(2)), (1, 3));
    let late = settled.iter().find(|one| one.session_id == session_id(1)).unwrap();
    assert_eq!(late.status, NoticeStatus::Failed);
    // Who asks for it again gets as many as for a new one.
    world.engine.telling.retry_notice(&late.id.to_string()).await.unwrap();
    let again = until_notices(&world, |all| all.iter().all(|one| one.is_settled() && one.attempts == 3)).await;
    assert_eq!(again.len(), 2);
}

async fn what_is_given_up_is_kept_and_lets_the_next_one_through(fixture: Fixture) {
    let receiver =
        Receiver::answering(|call, _| Some(if call.event() == "interrupt.created" { 500 } else { 200 })).await;
    let tries = Tries { retries: 2, pace: 0.001 };
    let world = World::new(fixture, Settings { tries, ..telling(&receiver) }).await;
    conversation(&world).await;
    let expected: Vec<_> = CONVERSATION.into_iter().filter(|event| *event != "interrupt.created").collect();
    assert_eq!(receiver.events(5).await, expected);
    let told = until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
    let given_up: Vec<_> = told.iter().filter(|notice| notice.status == NoticeStatus::Failed).collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!((given_up[0].event, given_up[0].attempts), (EventName::CREATED, 3));
    assert_eq!(given_up[0].last_error.as_deref(), Some("it answered 500 Internal Server Error"));
}

async fn what_was_given_up_is_told_on_request(fixture: Fixture) {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let answers = move |_: &Call, _: usize| Some(if well.load(Ordering::SeqCst) { 200 } else { 500 });
    let receiver = Receiver::answering(answers).await;
    let tries = Tries { retries: 0, pace: 0.001 };
    let world = World::new(fixture, Settings { tries, ..telling(&receiver) }).await;
    conversation(&world).await;
    let lost = until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
    is_well.store(true, Ordering::SeqCst);
    let id = lost[0].id.to_string();
    let retried = world.engine.telling.retry_notice(&id).await.unwrap();
    assert_eq!((retried.status, retried.attempts), (NoticeStatus::Pending, 0));
    assert_eq!(receiver.events(1).await, ["session.idle"]);
    assert_eq!(receiver.taken()[0].id, id);
    until_notices(&world, |all| all.iter().any(|one| one.status == NoticeStatus::Delivered)).await;
    assert_eq!(world.engine.telling.retry_notice(&id).await, Err(Error::NoticeNotFailed(NoticeStatus::Delivered)));
    for unknown in ["", "msg_1", "msg_00000000000000000000000000000abc"] {
        assert_eq!(world.engine.telling.retry_notice(unknown).await, Err(Error::UnknownNotice(unknown.to_owned())));
    }
}

async fn what_waits_for_its_next_try_waits_over_a_restart(fixture: Fixture) {
    let away = Receiver::answering(|_, _| Some(503)).await;
    let slow = Settings { tries: Tries { pace: 1e6, ..Tries::default() }, ..telling(&away) };
    let world = World::new(fixture, slow.clone()).await;
    conversation(&world).await;
    away.until(|calls| calls.len() == 1).await;
    until_notices(&world, |all| all.iter().any(|one| one.attempts == 1 && !one.leased)).await;
    let world = world.crash_into(slow, super::support::runtime()).await;
    let told = notices(&world).await;
    assert_eq!(told.iter().filter(|one| one.status == NoticeStatus::Pending).count(), 6);
    assert_eq!(told.iter().filter(|one| one.due_at.is_some()).count(), 1, "the others wait for it");
}

async fn a_try_without_an_outcome_is_made_again_by_the_next_server(fixture: Fixture) {
    let receiver = Receiver::answering(|_, before| (before > 0).then_some(200)).await;
    let world = World::new(fixture, telling(&receiver)).await;
    conversation(&world).await;
    receiver.until(|calls| calls.len() == 1).await;
    let settings = telling(&receiver);
    let world = world.crash_into(settings, super::support::runtime()).await;
    assert_eq!(receiver.events(6).await, CONVERSATION);
    let calls = receiver.calls();
    assert_eq!((calls.len(), &calls[0].id), (7, &calls[1].id));
    until_notices(&world, |all| all.iter().all(|one| one.status == NoticeStatus::Delivered)).await;
}

async fn what_is_withdrawn_with_its_session_is_told(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, telling(&receiver)).await;
    let (order, asked) = world.asking(1).await;
    world.engine.delete_session(order.session, Actor::anyone()).await.unwrap();
    let events = receiver.events(4).await;
    assert_eq!(events.last().map(String::as_str), Some("interrupt.cancelled"));
    assert_eq!(receiver.calls()[3].body["data"]["interrupt_id"], json!(asked[0]));
}

async fn reminders_come_until_somebody_answers(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, Settings { remind_after: 0.02, ..telling(&receiver) }).await;
    let (order, asked) = world.asking(1).await;
    let reminders = |calls: &[Call]| calls.iter().filter(|call| call.body.get("reminder").is_some()).count();
    let calls = receiver.until(|calls| reminders(calls) == 3).await;
    let created: Vec<_> = calls.into_iter().filter(|call| call.event() == "interrupt.created").collect();
    let id = created[0].id.clone();
    for (number, reminder) in created.iter().enumerate().skip(1) {
        assert_eq!(reminder.id, format!("{id}_r{number}"));
        assert_eq!(reminder.body["reminder"], json!(number));
        assert_eq!(reminder.body["data"], created[0].body["data"]);
    }
    world.answer(order.session, asked[0], json!("yes")).await.unwrap();
    let left = until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
    assert!(left.iter().any(|notice| notice.event.as_str() == "interrupt.resolved"));
    let events: Vec<_> = receiver.taken().iter().map(Call::event).collect();
    let answered = events.iter().position(|event| event == "interrupt.resolved").unwrap();
    assert!(!events[answered..].contains(&"interrupt.created".to_owned()), "{events:?}");
}

async fn reminders_end_where_the_operator_wants_none_any_more(fixture: Fixture) {
    let receiver = Receiver::new().await;
    let world = World::new(fixture, Settings { remind_after: 0.5, ..telling(&receiver) }).await;
    world.asking(1).await;
    receiver.events(3).await;
    let world = world.crash_into(telling(&receiver), super::support::runtime()).await;
    // With reminders one would always be scheduled, or pending.
    until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
}

async fn the_figures_tell_what_waits_and_what_came_of_it(fixture: Fixture) {
    let answers = |call: &Call, before: usize| match call.event().as_str() {
        _ if before == 0 => Some(500),
        "interrupt.created" => Some(500),
        _ => Some(200),
    };
    let receiver = Receiver::answering(answers).await;
    let tries = Tries { retries: 1, pace: 0.001 };
    let world = World::new(fixture, Settings { tries, ..telling(&receiver) }).await;
    conversation(&world).await;
    until_notices(&world, |all| all.iter().all(Notice::is_settled)).await;
    let counts = [("delivered", 5), ("retried", 2), ("failed", 1)];
    let told = Family {
        name: "hitl_webhook_deliveries_total",
        help: "Tries to tell webhooks: delivered, to be retried, failed for good.",
        figures: Figures::Counter(counts.map(|(outcome, count)| Labelled::one("outcome", outcome, count)).into()),
    };
    let nothing = [("hitl_outbox_pending", 0), ("hitl_outbox_lag_seconds", 0)];
    // Counted right after it is stored.
    let counted = async {
        loop {
            let figures = world.engine.figures().await.unwrap();
            if figures.contains(&told) {
                return figures;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let figures = tokio::time::timeout(PATIENCE, counted).await.expect("what webhooks were told is counted");
    for (name, value) in nothing {
        assert!(figures.iter().any(|family| *family == Family::gauge(name, family.help, value)), "{name}");
    }
}

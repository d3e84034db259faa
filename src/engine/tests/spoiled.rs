//! What cannot be read is in nobody's way who needs no more than what stands beside it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::support::{World, asked, call, message, question, runtime, settings, step};
use crate::domain::access::Actor;
use crate::domain::event::EventName;
use crate::domain::journal::StepIdentity;
use crate::domain::scope::Scopes;
use crate::domain::session::Failure;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId};
use crate::engine::journal::giving_up;
use crate::engine::ports::dispatch::{Record, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::contract::fixture::{Fixture, change_rows, identity, spoil_steps};
use crate::store::record::DueKind;
use crate::store::sqlite::SqliteStore;
use crate::store::{Store, StoreExt};

/// An engine on a file.
struct Spoiled {
    world: World,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Spoiled {
    async fn new() -> Self {
        Self::with(settings()).await
    }

    async fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hitl.db");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let world = World::over(Fixture::memory(), store, settings, runtime()).await;
        Self { world, path, _directory: directory }
    }

    /// See [`change_rows`].
    fn change(&self, sql: &str) -> usize {
        change_rows(&self.path, sql)
    }

    /// What came of a step cannot be read any more, nor the journal as a whole.
    async fn spoil(&self, turn: crate::domain::TurnId) {
        assert_eq!(spoil_steps(&self.path), 1);
        let read = self.world.store.query(move |reader| reader.journal(turn)).await;
        assert!(matches!(read, Err(Error::Unreadable(_))), "{read:?}");
    }
}

fn unknown(step: StepIdentity) -> Record {
    let payload = json!({"type": "unknown_outcome", "tool_name": "pay", "tool_args": {}});
    let ask = json!({"type": "unknown_outcome", "agent": "assistant", "payload": payload});
    Record::Ask { step, ask: Box::new(serde_json::from_value(ask).unwrap()) }
}

fn approval(approvers: &Value) -> Record {
    let payload = json!({"type": "tool_approval", "tool_name": "pay", "tool_args": {}});
    call(json!({"type": "tool_approval", "agent": "assistant", "approvers": approvers, "payload": payload}))
}

#[tokio::test]
async fn whoever_could_let_a_step_run_is_asked_what_came_of_it() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    it.world.append(&order, vec![approval(&json!(["bob"])), step("x")]).await.unwrap();
    it.spoil(order.turn).await;
    let batch = it.world.append(&order, vec![unknown(identity("0#1/0#2", "interrupt"))]).await.unwrap();
    assert_eq!(it.world.interrupt(asked(batch)[0]).await.approvers, ["bob"]);
}

#[tokio::test]
async fn whoever_could_let_it_run_in_the_name_of_another_agent_is_asked_what_came_of_it() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    let Record::Ask { step, mut ask } = approval(&json!(["bob"])) else { unreachable!("it asks") };
    ask.agent = Some("billing".to_owned());
    it.world.append(&order, vec![Record::Ask { step, ask }]).await.unwrap();
    let batch = it.world.append(&order, vec![unknown(identity("0#1/0#2", "interrupt"))]).await.unwrap();
    assert_eq!(it.world.interrupt(asked(batch)[0]).await.approvers, ["bob"]);
}

#[tokio::test]
async fn whoever_could_let_another_call_of_the_tool_run_is_not_asked_what_came_of_this_one() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    let about = |mut asks: Record, call: Option<&str>, path: &str| {
        let Record::Ask { step, ask } = &mut asks else { unreachable!("it asks") };
        (step.path, ask.tool_call_id) = (path.to_owned(), call.map(str::to_owned));
        asks
    };
    let first = about(approval(&json!(["bob"])), Some("call_1"), "0#1");
    let second = about(approval(&json!(["carol"])), Some("call_2"), "0#2");
    it.world.append(&order, vec![first, second]).await.unwrap();
    // Of one that nobody was asked about, or that does not say which it is, whoever could let the tool run last is.
    let calls = [(Some("call_1"), "bob"), (Some("call_2"), "carol"), (Some("call_3"), "carol"), (None, "carol")];
    for (number, (call, approver)) in calls.into_iter().enumerate() {
        let path = format!("0#3/?{number}");
        let batch =
            it.world.append(&order, vec![about(unknown(identity("", "interrupt")), call, &path)]).await.unwrap();
        assert_eq!(it.world.interrupt(asked(batch)[0]).await.approvers, [approver], "{call:?}");
    }
}

#[tokio::test]
async fn what_came_of_a_step_is_answered() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    let begun = Record::Intent { step: identity("0#1", "tool"), arguments: None };
    it.world.append(&order, vec![step("x"), begun]).await.unwrap();
    let batch = it.world.append(&order, vec![unknown(identity("0#1/0#2", "interrupt"))]).await.unwrap();
    it.spoil(order.turn).await;
    it.world.answer(order.session, asked(batch)[0], json!({"outcome": "not_done"})).await.unwrap();
}

#[tokio::test]
async fn who_sent_a_message_is_asked_for_where_the_message_cannot_be_read() {
    let it = Spoiled::new().await;
    let session = it.world.session().await;
    let ada = Actor::named("ada", Scopes::ALL, &[]);
    it.world.engine.send_message(session, message("go"), None, None, None, &ada).await.unwrap();
    let order = it.world.order_of(session).await;
    assert_eq!(it.change("UPDATE turns SET message = '{'"), 1);
    let read = it.world.store.query(move |reader| reader.turn(order.turn)).await;
    assert!(matches!(read, Err(Error::Unreadable(_))), "{read:?}");
    let batch = it.world.append(&order, vec![approval(&json!([]))]).await.unwrap();
    assert_eq!(it.world.interrupt(asked(batch)[0]).await.sent_by.as_deref(), Some("ada"));
}

#[tokio::test]
async fn what_is_due_stays_due_where_something_else_cannot_be_read() {
    let url = "http://127.0.0.1:9/".to_owned();
    let hears = Webhook { url, token: None, include_messages: true, events: Some(EventName::FOR_WEBHOOKS.to_vec()) };
    let it = Spoiled::with(Settings { webhooks: vec![hears], webhook_allow_private: true, ..settings() }).await;
    let order = it.world.begin().await;
    let batch = it.world.append(&order, vec![question(0, Some(1e6))]).await.unwrap();
    let due = DueKind::Interrupt(asked(batch)[0]);
    assert_eq!(it.change("INSERT INTO messages SELECT seq, 0, '{' FROM sessions"), 1);
    let why = Error::Unreadable("messages.message".to_owned());
    let stays = it.world.engine.suspend_unreadable(due, &why).await;
    assert_eq!(stays, Err(why.clone()));
    assert!(it.world.store_next_due().await.is_some());
    assert_eq!(it.change("UPDATE interrupts SET payload = '{'"), 1);
    it.world.engine.suspend_unreadable(due, &why).await.unwrap();
    assert_eq!(it.world.store_next_due().await, None);
}

#[tokio::test]
async fn a_turn_that_cannot_be_read_is_cancelled_and_tells_nothing() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    it.world.append(&order, vec![step("x")]).await.unwrap();
    it.spoil(order.turn).await;
    it.world.engine.cancel(order.session, Actor::anyone()).await.unwrap();
    let ended = it.world.state(order.session).await;
    assert_eq!((ended.turn(), ended.abandoned), (None, None));
}

#[tokio::test]
async fn a_paused_turn_whose_session_cannot_be_read_stays_in_memory_and_is_not_tried_for_ever() {
    let it = Spoiled::new().await;
    let (kept, interrupts) = it.world.asking(1).await;
    assert_eq!(it.change("UPDATE sessions SET status = 'later'"), 1);
    let (parked, _) = it.world.asking(1).await;
    let to_park = || it.world.engine.placement.to_park(0, Duration::ZERO).0;
    it.world.engine.park(to_park()).await.unwrap();
    assert!(it.world.turn(parked.turn).await.life.is_parked());
    assert_eq!(to_park(), []);
    // Once it can be read it goes on as if nothing had been.
    assert_eq!(it.change("UPDATE sessions SET status = 'interrupted' WHERE status = 'later'"), 1);
    it.world.answer(kept.session, interrupts[0], json!(1)).await.unwrap();
    it.world.delivery(kept.turn).await;
    it.world.engine.shut_down(Duration::ZERO).await.unwrap();
}

impl Spoiled {
    async fn suspended(&self) -> TurnOrder {
        let order = self.world.begin().await;
        let away = Failure::new("model_unavailable", "ModelUnavailable: away");
        self.world.engine.turn_failed(order.turn, order.epoch, away).await.unwrap();
        order
    }

    async fn is_suspended(&self, session: SessionId) -> bool {
        self.world.state(session).await.retry().is_some()
    }

    /// Gives up what is suspended until now: all of it is of long ago.
    async fn give_up(&self) {
        self.change("UPDATE turns SET ended_at = seq WHERE suspended_code IS NOT NULL");
        self.world.engine.give_up_suspended().await.unwrap();
    }
}

#[tokio::test]
async fn suspended_turns_that_cannot_be_read_keep_no_other_from_being_given_up() {
    let it = Spoiled::with(Settings { suspended_ttl: 1e6, ..settings() }).await;
    let first = it.suspended().await;
    let mut unreadable = Vec::new();
    for _ in 0..=giving_up::AT_ONCE {
        unreadable.push(it.suspended().await.session);
    }
    let in_one = it.change("UPDATE turns SET message = '{' WHERE seq > 1 AND seq % 2 = 0");
    let in_other = it.change("UPDATE turns SET webhook = '{' WHERE seq > 1 AND seq % 2 = 1");
    assert_eq!(in_one + in_other, unreadable.len());
    let last = it.suspended().await;
    it.give_up().await;
    for order in [first, last] {
        assert!(!it.is_suspended(order.session).await);
    }
    // They are there for who mends the store.
    for session in unreadable {
        assert!(it.is_suspended(session).await);
    }
    let late = it.suspended().await;
    it.give_up().await;
    assert!(!it.is_suspended(late.session).await);
}

#[tokio::test]
async fn a_suspended_turn_that_cannot_be_given_up_keeps_no_other_from_it() {
    let it = Spoiled::with(Settings { suspended_ttl: 1e6, ..settings() }).await;
    it.suspended().await;
    let last = it.suspended().await;
    // Its session was failed by another turn, as it says.
    assert_eq!(it.change("UPDATE sessions SET turn = randomblob(16) WHERE seq = 1"), 1);
    it.give_up().await;
    assert!(!it.is_suspended(last.session).await);
}

#[tokio::test]
async fn a_turn_whose_time_is_over_is_stopped_also_where_it_cannot_be_ended() {
    let it = Spoiled::new().await;
    let (order, _) = it.world.asking(1).await;
    it.world.step(&order, "x").await.unwrap();
    assert_eq!(it.change("UPDATE interrupts SET payload = '{'"), 1);
    it.world.engine.turn_timed_out(order.turn, order.epoch).await;
    let stopped = it.world.hands.until("the stop", |told| told.stopped.pop()).await;
    assert_eq!(stopped, (order.turn, "Agent timed out".to_owned()));
}

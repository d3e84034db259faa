//! What another server writes to a turn that is at work here reaches it in the order of its journal, however late this one
//! would have heard of it: here nobody rings, and looks find nothing.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;

use super::support::{World, ahead, asked, question, runtime, server, settings, step, waiting};
use crate::domain::access::digest;
use crate::domain::{InterruptId, Timestamp};
use crate::engine::ports::dispatch::{Delivery, TurnOrder};
use crate::faults;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::Fixture;
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::network::{Link, Weather};
use crate::store::simulated::{LeftOut, SimulatedDatabase};
use crate::store::upkeep::Upkeep;

/// A clock that is an hour ahead.
struct Ahead;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        ahead(3_600_000)
    }
}

/// Where a turn is at work, and another server of the same database, which is late enough there for every question to expire.
async fn servers() -> (World, World, SimulatedDatabase) {
    let database = SimulatedDatabase::new(Arc::new(WallClock)).without(Some(LeftOut::Looks));
    let here = server(&database, &Link::new(Weather::default()), Arc::new(WallClock), false).await;
    let there = server(&database, &Link::new(Weather::default()), Arc::new(Ahead), true).await;
    (here, there, database)
}

/// A turn that has asked so many questions, and is at work besides.
async fn asking(here: &World, count: usize, expires_in: Option<f64>) -> (TurnOrder, Vec<InterruptId>) {
    let order = here.begin().await;
    let questions = (0..count).map(|number| question(number, expires_in)).collect();
    let interrupts = asked(here.append(&order, questions).await.unwrap());
    (order, interrupts)
}

/// What the turn has been told so far.
fn told(here: &World) -> Vec<u64> {
    here.hands.look(|told| told.deliveries.iter().map(|(_, delivery)| delivery.index()).collect())
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_given_at_another_server_comes_before_the_step_after_it() {
    let (here, there, _) = servers().await;
    let (order, interrupts) = asking(&here, 1, None).await;
    there.answer(order.session, interrupts[0], json!("yes")).await.unwrap();
    let stored = here.step(&order, "a").await.unwrap();
    assert_eq!((told(&here), stored.index), (vec![2], 3));
    assert!(matches!(here.delivery(order.turn).await, Delivery::Answer { value, .. } if value == json!("yes")));
    here.step(&order, "b").await.unwrap();
    here.end(&order).await.unwrap();
    assert_eq!(here.kinds(order.turn).await, "start ask answer step step end");
    assert!(told(&here).is_empty(), "once");
}

#[tokio::test(start_paused = true)]
async fn an_expiry_that_another_server_has_written_comes_before_the_step_after_it() {
    let (here, there, _) = servers().await;
    let (order, interrupts) = asking(&here, 1, Some(600.0)).await;
    there.engine.expire_overdue(interrupts).await;
    let stored = here.step(&order, "a").await.unwrap();
    assert_eq!((told(&here), stored.index), (vec![2], 3));
    assert!(matches!(here.delivery(order.turn).await, Delivery::Expired { .. }));
}

#[tokio::test(start_paused = true)]
async fn answers_of_both_servers_come_in_the_order_of_the_journal_and_once() {
    let (here, there, _) = servers().await;
    let (order, interrupts) = asking(&here, 3, None).await;
    for (number, server) in [&there, &here, &there].into_iter().enumerate() {
        server.answer(order.session, interrupts[number], json!(number)).await.unwrap();
    }
    let stored = here.step(&order, "a").await.unwrap();
    assert_eq!((told(&here), stored.index), (vec![4, 5, 6], 7));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_says_it_waits_beside_the_step_after_an_answer_goes_on() {
    let (here, there, _) = servers().await;
    let (order, interrupts) = asking(&here, 2, None).await;
    there.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    here.append(&order, vec![step("a"), waiting(Some(2), &[])]).await.unwrap();
    assert_eq!((told(&here), here.kinds(order.turn).await.as_str()), (vec![3], "start ask ask answer step"));
    here.append(&order, vec![waiting(Some(4), &[])]).await.unwrap();
    here.answer(order.session, interrupts[1], json!(2)).await.unwrap();
    here.hands.until("the second answer", |told| (told.deliveries.len() == 2).then_some(())).await;
    assert_eq!(
        (told(&here), here.kinds(order.turn).await.as_str()),
        (vec![3, 6], "start ask ask answer step pause answer")
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_with_nothing_unknown_before_it_asks_the_database_nothing() {
    let (here, _there, database) = servers().await;
    let (order, interrupts) = asking(&here, 1, None).await;
    // What a commit that is refused was written on is read anew.
    let one_commit = (u64::from(faults::refuses_once()), 1);
    let _ = database.calls();
    here.step(&order, "a").await.unwrap();
    assert_eq!(database.calls(), one_commit);
    here.answer(order.session, interrupts[0], json!("yes")).await.unwrap();
    let _ = database.calls();
    here.step(&order, "b").await.unwrap();
    assert_eq!((told(&here), database.calls()), (vec![3], one_commit));
}

/// Many more than the rounds in which a job may ask for what it needs here; few enough for the lease of a server, which is of real
/// time, on a machine that is slow.
const MANY: usize = 60;

#[tokio::test(start_paused = true)]
async fn however_many_were_answered_elsewhere_a_turn_is_told_of_them_at_once() {
    let (here, there, database) = servers().await;
    let (order, interrupts) = asking(&here, MANY, None).await;
    for interrupt in interrupts {
        there.answer(order.session, interrupt, json!("yes")).await.unwrap();
    }
    let _ = database.calls();
    here.step(&order, "a").await.unwrap();
    let (calls, _) = database.calls();
    assert!(calls <= 10, "it has asked {calls} times");
    assert_eq!(told(&here).len(), MANY);
}

#[tokio::test(start_paused = true)]
async fn however_many_were_answered_a_turn_is_taken_up_at_once() {
    let database = SimulatedDatabase::new(Arc::new(WallClock));
    let begun = async || {
        let store = SharedStore::new(database.clone(), StoreAccess::Alone, Arc::new(WallClock), Handle::current());
        World::over(Fixture::memory(), Arc::new(store), settings(), runtime()).await
    };
    let first = begun().await;
    let (order, interrupts) = first.asking(MANY).await;
    for interrupt in interrupts {
        first.answer(order.session, interrupt, json!("yes")).await.unwrap();
    }
    first.engine.stopped.cancel();
    tokio::task::yield_now().await;
    let _ = database.calls();
    let second = begun().await;
    assert_eq!(second.order().await.answered_by.len(), 0, "nobody has said who they are");
    let (calls, _) = database.calls();
    assert!(calls <= 10, "it has asked {calls} times");
}

#[tokio::test(start_paused = true)]
async fn cookies_that_are_no_sign_in_change_nothing_for_anybody() {
    let (here, _there, database) = servers().await;
    let before = database.access_version().await.unwrap();
    let _ = database.calls();
    for number in 0..100 {
        here.engine.access().sign_out(digest(format!("cookie {number}").as_bytes())).await.unwrap();
    }
    assert_eq!(database.access_version().await, Ok(before));
    assert_eq!(database.calls().1, 0, "nothing is committed");
}

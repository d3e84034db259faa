//! A standby takes the place of the database, and what it had not got is gone: whoever knew more begins anew with what is
//! there, and whoever has lost nothing goes on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{advance, sleep};

use super::support::{self, World, journal_of};
use crate::domain::Error;
use crate::domain::journal::Entry;
use crate::domain::status::Status;
use crate::engine::ports::dispatch::{Delivery, TurnOrder};
use crate::store::clock::WallClock;
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::network::{Link, Weather};

/// Longer than it takes a server to see that another database is there.
const A_WHILE: Duration = Duration::from_secs(10);

/// A server of a database, with its end of the network.
async fn server() -> (World, SimulatedDatabase, Arc<Link>) {
    let (database, link) = (SimulatedDatabase::new(Arc::new(WallClock)), Link::new(Weather::default()));
    let world = support::server(&database, &link, Arc::new(WallClock), false).await;
    // From its first look on it knows which database that is.
    sleep(A_WHILE).await;
    (world, database, link)
}

/// The journal that the turn of `order` begins anew with, once it does.
async fn begun_anew(world: &World, order: &TurnOrder) -> (TurnOrder, String) {
    let again = world.order_of(order.session).await;
    assert!(again.epoch > order.epoch && world.hands.look(|told| told.parked.contains(&order.turn)));
    let journal = journal_of(&again);
    (again, journal)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_in_the_place_of_one_that_was_taken_back_reaches_its_turn() {
    let (world, database, _) = server().await;
    let (order, asked) = world.asking(1).await;
    let standby = database.standby();
    world.answer(order.session, asked[0], json!("first")).await.unwrap();
    let Delivery::Answer { value, .. } = world.delivery(order.turn).await else { panic!() };
    assert_eq!(value, json!("first"));
    database.fail_over(standby);
    world.answer(order.session, asked[0], json!("second")).await.unwrap();
    let (again, journal) = begun_anew(&world, &order).await;
    assert_eq!(journal, "start ask pause answer");
    let is_second = |entry: &Entry| matches!(entry, Entry::Answer { value, .. } if *value == json!("second"));
    assert!(again.journal.iter().any(|recorded| is_second(&recorded.entry)));
    world.end(&again).await.unwrap();
    assert_eq!(world.status(order.session).await, Status::Idle);
}

#[tokio::test(start_paused = true)]
async fn a_word_that_was_said_on_what_was_taken_back_is_not_stored() {
    let (world, database, _) = server().await;
    let order = world.begin().await;
    let standby = database.standby();
    world.step(&order, "a").await.unwrap();
    database.fail_over(standby);
    assert_eq!(world.step(&order, "b").await, Err(Error::StaleEpoch));
    assert_eq!(world.end(&order).await, Err(Error::StaleEpoch));
    let (again, journal) = begun_anew(&world, &order).await;
    assert_eq!(journal, "start");
    world.step(&again, "a").await.unwrap();
    world.end(&again).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start step end");
}

#[test]
fn a_word_that_is_still_looked_at_when_its_run_is_taken_back_is_none_of_the_next_runs() {
    // What may take its time has one thread, which is busy.
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let (world, database, _) = server().await;
        let (first, asked) = world.asking(1).await;
        world.lose(&first).await;
        let standby = database.standby();
        world.answer(first.session, asked[0], json!("first")).await.unwrap();
        let order = world.order_of(first.session).await;
        let (free, busy) = std::sync::mpsc::channel::<()>();
        drop(spawn_blocking(move || busy.recv()));
        // Nobody else does while that thread is busy.
        tokio::spawn(async {
            loop {
                advance(Duration::from_millis(10)).await
            }
        });
        let (engine, turn, epoch) = (Arc::clone(&world.engine), order.turn, order.epoch);
        let looked_at = support::call(json!({
            "type": "tool_approval", "agent": "bank", "allowed_decisions": ["approve", "edit", "reject"],
            "payload": {"type": "tool_approval", "tool_name": "pay", "tool_args": {"amount": 1}},
            "args_schema": {"type": "object", "properties": {"amount": {"type": "integer"}}},
            "response_schema": {"type": "object"},
        }));
        let saying = tokio::spawn(async move { engine.turn_append(turn, epoch, vec![looked_at]).await });
        yield_now().await;
        database.fail_over(standby);
        world.hands.until("parking", |told| told.parked.contains(&turn).then_some(())).await;
        world.answer(first.session, asked[0], json!("second")).await.unwrap();
        let again = world.order_of(first.session).await;
        assert_eq!(again.epoch, order.epoch);
        free.send(()).unwrap();
        assert_eq!(saying.await.unwrap(), Err(Error::StaleEpoch));
        assert_eq!(world.kinds(turn).await, "start ask pause answer");
        world.end(&again).await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_claim_was_taken_back_begins_anew() {
    let (world, database, _) = server().await;
    let session = world.session().await;
    let standby = database.standby();
    world.send(session).await.unwrap();
    let order = world.order_of(session).await;
    database.fail_over(standby);
    assert_eq!(world.step(&order, "a").await, Err(Error::StaleEpoch));
    world.hands.until("parking", |told| told.parked.contains(&order.turn).then_some(())).await;
    assert_eq!(world.status(session).await, Status::Idle);
    // Whoever sent it was told that it is there, and sends it again.
    world.send(session).await.unwrap();
    let again = world.order_of(session).await;
    world.end(&again).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_has_lost_nothing_goes_on() {
    let (world, database, _) = server().await;
    let (order, asked) = world.asking(1).await;
    let working = world.begin().await;
    world.step(&working, "a").await.unwrap();
    for _ in 0..2 {
        database.fail_over(database.standby());
        sleep(A_WHILE).await;
    }
    world.step(&working, "b").await.unwrap();
    world.answer(order.session, asked[0], json!("yes")).await.unwrap();
    drop(world.delivery(order.turn).await);
    world.end(&order).await.unwrap();
    world.end(&working).await.unwrap();
    assert!(world.hands.look(|told| told.parked.is_empty() && told.orders.is_empty()));
    assert_eq!(world.kinds(working.turn).await, "start step step end");
}

#[tokio::test(start_paused = true)]
async fn a_word_of_which_nobody_knew_while_no_database_was_there_is_stored_once() {
    let (world, database, link) = server().await;
    let order = world.begin().await;
    link.calm(Weather { lost: 100, ..Weather::default() });
    let (engine, turn, epoch) = (Arc::clone(&world.engine), order.turn, order.epoch);
    let said = tokio::spawn(async move { engine.turn_append(turn, epoch, vec![support::step("a")]).await });
    sleep(A_WHILE * 3).await;
    database.fail_over(database.standby());
    link.calm(Weather::default());
    drop(said.await.unwrap().unwrap());
    sleep(A_WHILE).await;
    world.end(&order).await.unwrap();
    assert!(world.hands.look(|told| told.parked.is_empty() && told.orders.is_empty()));
    assert_eq!(world.kinds(order.turn).await, "start step end");
}

//! Several servers at one database: what each knows, what it asks, and what it may say.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;

use super::SharedStore;
use crate::domain::journal::Entry;
use crate::domain::{Error, SessionId};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::*;
use crate::store::simulated::SimulatedDatabase;
use crate::store::{Store, StoreExt, Transaction};

/// The calls that a database sees: how often it is asked, and how often something is committed.
type Calls = (u64, u64);

const NONE: Calls = (0, 0);
const ASKED: Calls = (1, 0);
const COMMITTED: Calls = (0, 1);

/// Two servers at a database that holds a session with an open turn.
struct World {
    database: SimulatedDatabase,
    one: SharedStore<SimulatedDatabase>,
    other: SharedStore<SimulatedDatabase>,
}

impl World {
    async fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let database = SimulatedDatabase::new(Arc::clone(&clock));
        let server = || SharedStore::new(database.clone(), Arc::clone(&clock), Handle::current());
        let (one, other) = (server(), server());
        let made = one.transact(about(1), |tx| {
            tx.insert_session(&session(1), &[])?;
            tx.insert_turn(&turn(session_id(1), 1))
        });
        made.await.unwrap();
        database.calls();
        Self { database, one, other }
    }

    /// What the database sees while `act` is done.
    async fn calls<T>(&self, act: impl Future<Output = Result<T, Error>>) -> Calls {
        self.database.calls();
        act.await.map(drop).unwrap();
        self.database.calls()
    }
}

fn append(store: &impl Store, about: About) -> impl Future<Output = Result<u64, Error>> {
    store.transact(about, |tx| tx.append_foreign(turn_id(1), &step("s", json!(1)), at(0)))
}

/// Counts one message more, unless there are `most` already.
fn count(store: &impl Store, most: usize) -> impl Future<Output = Result<usize, Error>> {
    store.transact(about(1), move |tx: &mut dyn Transaction| {
        let mut row = tx.session(session_id(1))?.ok_or(Error::SessionNotFound)?;
        if row.total_messages >= most {
            return Err(Error::QueueFull);
        }
        row.total_messages += 1;
        tx.update_session(&row)?;
        Ok(row.total_messages)
    })
}

#[tokio::test]
async fn who_wrote_a_session_last_commits_without_asking() {
    let world = World::new().await;
    assert_eq!(world.calls(append(&world.one, about(1))).await, COMMITTED);
    assert_eq!(world.calls(append(&world.one, About::Turn(turn_id(1)))).await, COMMITTED);
    // Another one asks once, and commits.
    assert_eq!(world.calls(append(&world.other, about(1))).await, (1, 1));
    assert_eq!(world.calls(append(&world.other, about(1))).await, COMMITTED);
    // By now the first does not know it any more: it is refused, asks, and commits.
    assert_eq!(world.calls(append(&world.one, about(1))).await, (1, 2));
}

#[tokio::test]
async fn a_job_that_changes_nothing_commits_nothing() {
    let world = World::new().await;
    let look = |store: &SharedStore<_>| store.transact(about(1), |tx| tx.session(session_id(1)));
    assert_eq!(world.calls(look(&world.one)).await, ASKED);
    assert_eq!(world.calls(world.one.transact(About::Nothing, |_| Ok(()))).await, NONE);
}

#[tokio::test]
async fn what_comes_to_nothing_is_said_of_what_is_there_and_not_of_what_was() {
    let world = World::new().await;
    assert_eq!(count(&world.one, 2).await, Ok(1));
    assert_eq!(count(&world.other, 2).await, Ok(2));
    // The first still thinks that there is one.
    assert_eq!(count(&world.one, 2).await, Err(Error::QueueFull));
    assert_eq!(count(&world.other, 3).await, Ok(3));
    world.one.transact(about(1), |tx| tx.update_session(&session(1))).await.unwrap();
    // And the other that there are three.
    assert_eq!(count(&world.other, 3).await, Ok(1));
}

#[tokio::test]
async fn a_session_that_another_has_deleted_and_made_again_is_the_new_one() {
    let world = World::new().await;
    let gone = world.other.transact(about(1), |tx| tx.delete_session(session_id(1)));
    assert_eq!(gone.await, Ok(true));
    assert_eq!(count(&world.one, 9).await, Err(Error::SessionNotFound));
    world.other.transact(about(1), |tx| tx.insert_session(&session(1), &[message("new")])).await.unwrap();
    assert_eq!(count(&world.one, 9).await, Ok(1));
    let left = world.one.query(|reader| Ok((reader.messages(session_id(1))?, reader.turn(turn_id(1))?)));
    assert_eq!(left.await, Ok((vec![message("new")], None)));
}

#[tokio::test]
async fn a_session_that_is_replaced_in_one_job_keeps_nothing() {
    let world = World::new().await;
    let replaced = world.one.transact(about(1), |tx| {
        tx.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))?;
        tx.delete_session(session_id(1))?;
        tx.insert_session(&session(1), &[message("new")])
    });
    replaced.await.unwrap();
    let left = world.other.query(|reader| Ok((reader.messages(session_id(1))?, reader.turn(turn_id(1))?)));
    assert_eq!(left.await, Ok((vec![message("new")], None)));
    assert_eq!(count(&world.one, 9).await, Ok(1));
}

#[tokio::test]
async fn what_is_new_and_there_already_is_refused_as_a_single_store_would() {
    let world = World::new().await;
    let insert = |store: &SharedStore<_>| store.transact(about(1), |tx| tx.insert_turn(&turn(session_id(1), 2)));
    insert(&world.other).await.unwrap();
    assert!(matches!(insert(&world.one).await, Err(Error::Internal(_))));
    let again = world.one.transact(about(1), |tx| tx.insert_session(&session(1), &[]));
    assert_eq!(again.await, Err(Error::SessionExists));
}

#[tokio::test]
async fn sessions_that_nobody_worked_on_for_long_are_forgotten() {
    let world = World::new().await;
    let many = 1024;
    for number in 2..many + 2 {
        let id = SessionId(uuid::Uuid::from_u128(number));
        let made = crate::domain::session::Session::new(id, "agents:main", 0, at(0));
        world.one.transact(About::Session(id), move |tx| tx.insert_session(&made, &[])).await.unwrap();
    }
    assert_eq!(world.calls(append(&world.one, about(1))).await, (1, 1));
    let last = SessionId(uuid::Uuid::from_u128(many + 1));
    let reply = crate::store::record::StoredReply { request_digest: String::new(), body: json!(1), created_at: at(0) };
    let kept =
        world.one.transact(About::Session(last), move |tx| tx.insert_reply(&format!("messages:{last}"), "k", &reply));
    assert_eq!(world.calls(kept).await, COMMITTED);
}

#[tokio::test]
async fn a_row_that_is_read_again_takes_no_other_rows_place() {
    let world = World::new().await;
    let ask = |store: &SharedStore<_>, session: u128, numbers: &'static [u128]| {
        store.transact(about(session), move |tx| {
            numbers.iter().try_for_each(|number| tx.insert_interrupt(&approval(session, *number, "rm")))
        })
    };
    ask(&world.one, 1, &[1]).await.unwrap();
    // Between the first and the others of that session the database has one of another.
    world.other.transact(about(2), |tx| tx.insert_session(&session(2), &[])).await.unwrap();
    ask(&world.other, 2, &[2]).await.unwrap();
    ask(&world.one, 1, &[3, 4]).await.unwrap();
    let settled = |tx: &mut dyn Transaction| {
        let asked = tx.interrupt(interrupt_id(3))?.expect("it was asked");
        tx.update_interrupt(&asked.cancel(at(9)).unwrap_or(asked))
    };
    world.one.transact(about(1), settled).await.unwrap();
    // It is over by now, and read again; with something written, or all would be read anew.
    let again = world.one.transact(about(1), |tx| {
        tx.interrupt(interrupt_id(3))?;
        tx.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))?;
        Ok((tx.pending(session_id(1))?, tx.interrupt(interrupt_id(4))?))
    });
    let asked = [approval(1, 1, "rm"), approval(1, 4, "rm")];
    assert_eq!(again.await, Ok((asked.to_vec(), Some(approval(1, 4, "rm")))));
}

//! Notices of a session that is gone: nothing but they themselves is compared where two servers have to do with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

use super::*;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{Fixture, about, at};
use crate::store::contract::outbox::notice;
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;

type Server = Arc<SharedStore<SimulatedDatabase>>;

const TRIES: Tries = Tries { retries: 9, pace: 1.0 };

fn id(number: u128) -> NoticeId {
    waiting(number).id
}

/// One that was told before its session was deleted.
fn waiting(number: u128) -> Notice {
    notice(number, 1)
}

fn being_sent(number: u128) -> Notice {
    waiting(number).leased(at(0))
}

fn given_up(number: u128) -> Notice {
    being_sent(number).failed("no", &Tries { retries: 0, ..TRIES }, at(0))
}

/// Two servers at a database that has these notices, and no session.
async fn servers(notices: Vec<Notice>) -> (Server, Server) {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let database = SimulatedDatabase::new(Arc::clone(&clock));
    let server = || {
        let store = SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(&clock), Handle::current());
        Arc::new(store)
    };
    let (one, other) = (server(), server());
    one.transact(about(1), move |tx| notices.iter().try_for_each(|notice| tx.insert_notice(notice))).await.unwrap();
    (one, other)
}

/// Its receiver takes a notice at `one`, which knows what stands in the lane and has not committed that when `other` does
/// something as well.
async fn delivered_while(
    one: &Server,
    number: u128,
    other: &Server,
    act: impl Fn(&mut dyn Transaction) -> Result<(), Error> + Clone + Send + Sync + 'static,
) {
    let (other, runtime, is_first) = (Arc::clone(other), Handle::current(), AtomicBool::new(true));
    let settled = one.transact(about(1), move |tx| {
        let settled = record_attempt(tx, id(number), 1, &Ok(()), &TRIES)?;
        if is_first.swap(false, Ordering::SeqCst) {
            let (other, runtime, act) = (Arc::clone(&other), runtime.clone(), act.clone());
            let acting = std::thread::spawn(move || runtime.block_on(other.transact(about(1), act)));
            acting.join().expect("it does not panic")?;
        }
        Ok(settled)
    });
    assert_eq!(settled.await, Ok(Some(NoticeStatus::Delivered)));
}

/// When a notice is due.
async fn due_at(store: &Server, number: u128) -> Option<Timestamp> {
    let found = store.query(move |reader| reader.notice(id(number))).await.unwrap().unwrap();
    assert_eq!(found.status, NoticeStatus::Pending);
    found.due_at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_tried_again_while_the_one_before_it_is_taken_elsewhere_is_sent() {
    let (one, other) = servers(vec![being_sent(1), given_up(2)]).await;
    delivered_while(&one, 1, &other, |tx| try_again(tx, id(2)).map(drop)).await;
    assert!(due_at(&other, 2).await.is_some(), "it waits for nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_waits_for_two_that_are_taken_at_once_is_sent() {
    // Both were tried again at once, when nothing was in the lane.
    let (one, other) = servers(vec![being_sent(1), being_sent(2), waiting(3)]).await;
    let settle = |tx: &mut dyn Transaction| record_attempt(tx, id(2), 1, &Ok(()), &TRIES).map(drop);
    delivered_while(&one, 1, &other, settle).await;
    assert!(due_at(&other, 3).await.is_some(), "it waits for nobody");
}

#[tokio::test]
async fn what_is_tried_again_waits_for_the_one_before_it() {
    let (one, other) = servers(vec![being_sent(1), given_up(2)]).await;
    one.transact(about(1), |tx| try_again(tx, id(2)).map(drop)).await.unwrap();
    assert_eq!(due_at(&other, 2).await, None);
    other.transact(about(1), |tx| record_attempt(tx, id(1), 1, &Ok(()), &TRIES).map(drop)).await.unwrap();
    assert!(due_at(&one, 2).await.is_some());
    assert_eq!(one.transact(about(1), |tx| try_again(tx, id(3))).await, Ok(None));
}

crate::store::contract::for_each_store!(
    what_was_sent_is_settled_where_the_next_one_cannot_be_read,
    what_was_given_up_is_tried_again_behind_one_that_cannot_be_read,
);

async fn insert(it: &Fixture, notices: Vec<Notice>) {
    it.write(move |tx| notices.iter().try_for_each(|notice| tx.insert_notice(notice))).await;
}

async fn what_was_sent_is_settled_where_the_next_one_cannot_be_read(it: Fixture) {
    insert(&it, vec![being_sent(1), waiting(2), waiting(3)]).await;
    if !it.change_rows("outbox", "event = 'session.later' WHERE created_at % 1000 = 2").await {
        return;
    }
    let settled = it.store.transact(about(1), |tx| record_attempt(tx, id(1), 1, &Ok(()), &TRIES));
    assert_eq!(settled.await, Ok(Some(NoticeStatus::Delivered)));
    // Who can read it sends it, and in order.
    it.change_rows("outbox", "event = 'session.idle' WHERE created_at % 1000 = 2").await;
    let due = it.read(|reader| Ok([2, 3].map(|number| reader.notice(id(number)).unwrap().unwrap().due_at.is_some())));
    assert_eq!(due.await, [true, false]);
}

async fn what_was_given_up_is_tried_again_behind_one_that_cannot_be_read(it: Fixture) {
    insert(&it, vec![waiting(1).first_in_lane(at(1)), given_up(2)]).await;
    if !it.change_rows("outbox", "event = 'session.later' WHERE created_at % 1000 = 1").await {
        return;
    }
    let again = it.store.transact(about(1), |tx| try_again(tx, id(2))).await.unwrap().unwrap();
    assert_eq!((again.status, again.due_at), (NoticeStatus::Pending, None));
}

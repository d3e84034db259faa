//! Several servers at one database: what each knows, what it asks, and what it may say.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;

use futures_util::FutureExt;

use super::backend::{Backend, Committed};
use super::changes::{Changes, NoticeChange, PolicySwap, ReplyChange, RowChange, SessionChange};
use super::question::Version;
use super::{SharedStore, StoreAccess};
use crate::domain::journal::Entry;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::{PolicyChange, PushedPolicy, digest};
use crate::domain::status::NoticeStatus;
use crate::domain::{Error, SessionId};
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::*;
use crate::store::contract::outbox::notice;
use crate::store::record::StoredReply;
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
        let server = || SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(&clock), Handle::current());
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

/// After how many promotions what is known of the session is as it is.
fn promotions(store: &impl Store) -> impl Future<Output = Result<u64, Error>> {
    store.transact(about(1), |tx: &mut dyn Transaction| {
        drop(tx.session(session_id(1))?);
        Ok(tx.promotions())
    })
}

#[tokio::test]
async fn who_has_made_a_session_knows_of_the_promotions_before_it_as_whoever_reads_it() {
    let world = World::new().await;
    let told = promotions(&world.other).await.unwrap();
    assert!(told > 0);
    assert_eq!(promotions(&world.one).await, Ok(told));
    // Another one writes: what is read then is no news of a promotion.
    append(&world.other, about(1)).await.unwrap();
    append(&world.one, about(1)).await.unwrap();
    assert_eq!(promotions(&world.one).await, Ok(told));
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
async fn no_time_of_a_session_goes_back_where_the_clocks_of_two_servers_differ() {
    let (ahead, behind) = (StoppedClock::new(at(9_000)), StoppedClock::new(at(2_000)));
    let database = SimulatedDatabase::new(Arc::new(WallClock));
    let server = |clock: &Arc<StoppedClock>| {
        SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(clock) as _, Handle::current())
    };
    let (one, other) = (server(&ahead), server(&behind));
    let made = one.transact(about(1), |tx| {
        tx.insert_session(&session(1), &[])?;
        tx.insert_turn(&turn(session_id(1), 1))
    });
    made.await.unwrap();
    let append = async |store: &SharedStore<_>| {
        let appended = store.transact(About::Turn(turn_id(1)), |tx: &mut dyn Transaction| {
            let now = tx.now();
            tx.append_foreign(turn_id(1), &step("s", json!(1)), now).map(|_| now)
        });
        appended.await.unwrap()
    };
    assert_eq!(append(&other).await, at(2_000), "nothing later is written yet");
    assert_eq!(append(&one).await, at(9_000));
    // By its own clock that is yet to come: an entry alone tells of it.
    assert_eq!(append(&other).await, at(9_000));
    // It knows the session by now, and reads it no more.
    assert_eq!(append(&other).await, at(9_000));
    behind.set(at(9_500));
    assert_eq!(append(&other).await, at(9_500));
    let late = one.transact(about(1), |tx| tx.append_event(&event(1, "late"), at(11_000)));
    late.await.unwrap();
    assert_eq!(append(&other).await, at(11_000), "an event tells of it as well");
    let mut changed = session(1);
    changed.updated_at = at(12_000);
    one.transact(about(1), move |tx| tx.update_session(&changed)).await.unwrap();
    assert_eq!(append(&other).await, at(12_000), "and the session itself");
    // What is no session's is as late as the server's own clock says.
    assert_eq!(other.transact(About::Nothing, |tx| Ok(tx.now())).await, Ok(at(9_500)));
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
    let reply = StoredReply { request_digest: String::new(), body: json!(1), created_at: at(0) };
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

/// A session with so many notices to one address, told in one job.
fn tell(store: &impl Store, numbers: std::ops::Range<u128>) -> impl Future<Output = Result<(), Error>> {
    store.transact(about(1), move |tx| {
        numbers.clone().try_for_each(|number| {
            let is_first = !tx.has_pending_notice(session_id(1), URL)?;
            let told = notice(number, 1);
            tx.insert_notice(&if is_first { told.first_in_lane(at(0)) } else { told })
        })
    })
}

const URL: &str = "https://example.com/hook";

/// Takes a notice for a try, unless somebody has; whether it was taken.
fn take(tx: &mut dyn Transaction, id: NoticeId) -> Result<bool, Error> {
    let Some(mut taken) = tx.notice(id)?.filter(|notice| !notice.leased) else { return Ok(false) };
    taken.leased = true;
    taken.attempts += 1;
    tx.update_notice(&taken)?;
    Ok(true)
}

#[tokio::test]
async fn a_job_that_tells_or_settles_much_asks_a_few_times() {
    let world = World::new().await;
    // Whether there is one before them; and all of it is committed.
    assert_eq!(world.calls(tell(&world.one, 0..1000)).await, (1, 1));
    let settle_all = world.one.transact(about(1), |tx| {
        let mut settled = 0;
        while let Some(mut first) = tx.first_pending_notice(session_id(1), URL)? {
            assert_eq!(first.id, notice(settled, 1).id, "in order");
            first.status = NoticeStatus::Delivered;
            tx.update_notice(&first)?;
            settled += 1;
        }
        Ok(settled)
    });
    world.database.calls();
    assert_eq!(settle_all.await, Ok(1000));
    let (asked, committed) = world.database.calls();
    assert!(asked <= 10, "it has asked {asked} times");
    assert_eq!(committed, 1);
}

#[tokio::test]
async fn who_of_many_approvers_was_asked_last_is_asked_once() {
    let world = World::new().await;
    let asked = world.one.transact(about(1), |tx| {
        (1..=1000).try_for_each(|number| {
            tx.insert_interrupt(&approval(1, number, "rm"))?;
            let settled = approval(1, number, "rm").cancel(at(9));
            settled.map_or(Ok(()), |settled| tx.update_interrupt(&settled))?;
            let (step, interrupt_id) = (identity("s", "interrupt"), interrupt_id(number));
            tx.append_foreign(turn_id(1), &Entry::Ask { step, interrupt_id }, at(0)).map(drop)
        })
    });
    asked.await.unwrap();
    world.database.calls();
    let named = world.other.query(|reader| {
        reader.journal(turn_id(1))?;
        reader.last_with_approvers(turn_id(1), &|_| true)
    });
    assert_eq!(named.await, Ok(None));
    let (asked, _) = world.database.calls();
    assert!(asked <= 10, "it has asked {asked} times");
}

#[tokio::test]
async fn of_two_who_push_at_once_each_takes_the_place_of_what_is_there() {
    let world = World::new().await;
    let policy = move |number: u32| {
        let text = format!("# {number}\n");
        PushedPolicy { digest: digest(&text), text, pushed_at: at(1), pushed_by: None }
    };
    let push = move |tx: &mut dyn Transaction, number: u32| {
        let before = tx.pushed_policy()?.map(|policy| policy.digest);
        tx.change_policy(&PolicyChange::Pushed(policy(number)))?;
        Ok(before)
    };
    assert_eq!(world.one.transact(About::Access, move |tx| push(tx, 1)).await, Ok(None));
    let database = world.database.clone();
    let is_first_run = std::sync::atomic::AtomicBool::new(true);
    let replaced = world.one.transact(About::Access, move |tx| {
        let before = push(tx, 2)?;
        if before.is_some() && is_first_run.swap(false, std::sync::atomic::Ordering::SeqCst) {
            let swap = PolicySwap { seen: before.clone(), change: PolicyChange::Removed };
            let by_another = Changes { policy: Some(swap), ..Changes::default() };
            let committed = database.commit(by_another).now_or_never().expect("it does not wait");
            assert_eq!(committed, Ok(Committed::Yes { events: Vec::new() }));
        }
        Ok(before)
    });
    assert_eq!(replaced.await, Ok(None), "another one has removed it in between");
    let there = world.other.query(|reader| reader.pushed_policy());
    assert_eq!(there.await, Ok(Some(policy(2))));
}

#[tokio::test]
async fn a_notice_of_a_session_that_is_gone_is_one_servers() {
    let world = World::new().await;
    tell(&world.one, 0..2).await.unwrap();
    world.one.transact(about(1), |tx| tx.delete_session(session_id(1))).await.unwrap();
    let id = notice(0, 1).id;
    // Another server takes it once this one has read it.
    let database = world.database.clone();
    let is_first_run = std::sync::atomic::AtomicBool::new(true);
    let taken = world.one.transact(about(1), move |tx| {
        let seen = tx.notice(id)?;
        let outcome = take(tx, id)?;
        if let Some(seen) = seen.filter(|_| is_first_run.swap(false, std::sync::atomic::Ordering::SeqCst)) {
            let by_another = Notice { leased: true, attempts: 1, ..seen.clone() };
            let change = NoticeChange { notice: by_another, seen: Some(seen) };
            let changes = Changes { notices: vec![change], ..Changes::default() };
            let committed = database.commit(changes).now_or_never().expect("it does not wait");
            assert_eq!(committed, Ok(Committed::Yes { events: Vec::new() }));
        }
        Ok(outcome)
    });
    assert_eq!(taken.await, Ok(false), "it is the other one's");
    // One that was settled meanwhile is not removed either, nor settled again.
    let removed = |changes: Changes| world.database.commit(changes);
    let gone = Changes { deleted_notices: vec![notice(0, 1).first_in_lane(at(0))], ..Changes::default() };
    assert_eq!(removed(gone).await, Ok(Committed::Moved));
}

#[tokio::test]
async fn of_two_sessions_that_are_made_for_one_key_there_is_the_first_alone() {
    let world = World::new().await;
    // Each under an id of its own, as on both sides of midnight.
    let kept = |number: u128| {
        let reply = StoredReply { request_digest: String::new(), body: json!(number as u64), created_at: at(0) };
        ReplyChange { scope: "sessions".to_owned(), key: "k".to_owned(), reply, is_new: true }
    };
    let database = world.database.clone();
    let is_first_run = std::sync::atomic::AtomicBool::new(true);
    let made = world.one.transact(about(2), move |tx| {
        if let Some(reply) = tx.reply("sessions", "k")? {
            return Ok(reply.body);
        }
        tx.insert_session(&session(2), &[])?;
        tx.insert_reply("sessions", "k", &kept(2).reply)?;
        if is_first_run.swap(false, std::sync::atomic::Ordering::SeqCst) {
            let next = Version { count: 1, token: 1 };
            let row = RowChange::Written(Box::new(session(3)));
            let by_another = SessionChange { id: session_id(3), seen: None, next, row };
            let changes = Changes { sessions: vec![by_another], replies: vec![kept(3)], ..Changes::default() };
            let committed = database.commit(changes).now_or_never().expect("it does not wait");
            assert_eq!(committed, Ok(Committed::Yes { events: Vec::new() }));
        }
        Ok(json!(2))
    });
    assert_eq!(made.await, Ok(json!(3)));
    let there = world.one.query(|reader| Ok([2, 3].map(|number| reader.session(session_id(number)))));
    assert_eq!(there.await, Ok([Ok(None), Ok(Some(session(3)))]));
}

#[tokio::test]
async fn what_was_called_before_the_store_is_closed_is_done_also_where_whose_it_is_is_not_known_yet() {
    let world = World::new().await;
    let late = append(&world.other, About::Turn(turn_id(1)));
    let closed = world.other.close();
    assert_eq!(late.await, Ok(0));
    closed.await.unwrap();
    assert!(matches!(append(&world.other, about(1)).await, Err(Error::StoreUnavailable(_))));
}

#[tokio::test]
async fn a_turn_of_another_session_that_a_job_looks_at_is_not_taken_for_its_own() {
    let world = World::new().await;
    world
        .one
        .transact(about(2), |tx| {
            tx.insert_session(&session(2), &[])?;
            tx.insert_turn(&turn(session_id(2), 2))
        })
        .await
        .unwrap();
    let look = world.other.transact(about(1), |tx| {
        tx.turn(turn_id(2))?;
        tx.append_foreign(turn_id(1), &step("s", json!(1)), at(0))
    });
    look.await.unwrap();
    // With something written, or all would be read anew.
    let last = world.other.transact(about(1), |tx| {
        let last = tx.last_turn(session_id(1))?.map(|turn| turn.id);
        tx.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))?;
        Ok(last)
    });
    assert_eq!(last.await, Ok(Some(turn_id(1))));
}

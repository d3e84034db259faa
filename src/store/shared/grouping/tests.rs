//! What becomes of commits of many sessions at once.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::*;
use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::*;
use crate::store::contract::outbox::notice;
use crate::store::record::StoredReply;
use crate::store::shared::changes::{NoticeChange, ReplyChange, RowChange, SessionChange};
use crate::store::shared::question::Version;
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::network::{SimulatedConnection, Weather};
use crate::store::{Store, StoreExt, Transaction};

const SESSIONS: u128 = 40;
/// Of the weather.
const SEEDS: u64 = 8;

fn store<B: Backend>(backend: B) -> SharedStore<B> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    SharedStore::new(backend, StoreAccess::Alone, clock, Handle::current())
}

/// A database with so many sessions, each with a turn at work, and a server that knows them.
async fn world(weather: Weather, seed: u64) -> (SimulatedDatabase, SharedStore<SimulatedConnection>) {
    let database = SimulatedDatabase::new(Arc::new(WallClock));
    let far = store(SimulatedConnection::new(database.clone(), weather, seed));
    let made = (1..=SESSIONS).map(|number| {
        far.transact(about(number), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.claim_turn(turn_id(number), me(), 0)
        })
    });
    for outcome in join_all(made).await {
        assert_eq!(outcome, Ok(1));
    }
    database.calls();
    (database, far)
}

/// A step that is told, an event, another such step, of one session, in one job: the number that the event is said to have.
async fn tell(store: &impl Store, number: u128) -> Result<u64, Error> {
    let numbered = store.transact(about(number), move |tx: &mut dyn Transaction| {
        tx.append_told(turn_id(number), 1, &step("one", json!(format!("one of {number}"))), at(0))?;
        let handle = tx.append_event(&event(number, &format!("two of {number}")), at(0))?;
        tx.append_told(turn_id(number), 1, &step("two", json!(format!("three of {number}"))), at(0))?;
        Ok(handle)
    });
    numbered.await.map(|handle| handle.get())
}

/// What a session says that it was told of, with the numbers.
type Heard = Vec<(u64, String)>;

/// What each session says.
async fn heard(database: &SimulatedDatabase) -> BTreeMap<u128, Heard> {
    let near = store(database.clone());
    let read = near.query(|reader| {
        let text = |told: &NumberedEvent| {
            let data = &told.event.data;
            let said = data.get("result").or(data.get("error")).and_then(|said| said.as_str());
            (told.number, said.unwrap_or_default().to_owned())
        };
        let of = |number: u128| {
            let told = reader.events_after(0, Some(session_id(number)), 10)?;
            Ok((number, told.iter().map(text).collect()))
        };
        (1..=SESSIONS).map(of).collect()
    });
    read.await.unwrap()
}

/// All that [`tell`] tells, in order.
fn told(number: u128) -> Vec<String> {
    ["one", "two", "three"].map(|word| format!("{word} of {number}")).to_vec()
}

fn texts(heard: &Heard) -> Vec<String> {
    heard.iter().map(|(_, text)| text.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_others_are_under_way_goes_as_one_and_each_is_told_its_own() {
    let (database, far) = world(Weather { slow_ms: 20, ..Weather::default() }, 1).await;
    let numbers = join_all((1..=SESSIONS).map(|number| tell(&far, number))).await;
    let (_, committed) = database.calls();
    // Two at once, then 16 as one each time.
    assert!(committed <= 6, "{committed} commits of {SESSIONS} sessions");
    let mut taken = HashSet::new();
    for ((number, heard), said) in heard(&database).await.into_iter().zip(numbers) {
        assert_eq!(texts(&heard), told(number));
        assert_eq!(said, Ok(heard[1].0), "session {number}");
        assert!(heard.iter().all(|(number, _)| taken.insert(*number)));
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_late_takes_nobody_along() {
    let (database, far) = world(Weather { slow_ms: 20, ..Weather::default() }, 2).await;
    let near = store(database.clone());
    let late = [5, 17, 30];
    for number in late {
        // The other server does not hear of it, and goes by what it knows.
        near.transact(about(number), move |tx| tx.append_event(&event(number, "first"), at(0))).await.unwrap();
    }
    for outcome in join_all((1..=SESSIONS).map(|number| tell(&far, number))).await {
        outcome.unwrap();
    }
    for (number, heard) in heard(&database).await {
        let first = late.contains(&number).then(|| "first".to_owned());
        assert_eq!(texts(&heard), first.into_iter().chain(told(number)).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_lost_late_or_repeated_happens_once_or_nobody_is_told_that_it_did() {
    let (mut unknown, mut together) = (0, 0);
    for seed in 0..SEEDS {
        let calm = Weather { slow_ms: 20, ..Weather::default() };
        let (database, _) = world(calm, seed).await;
        let rough = Weather { lost: 5, unanswered: 10, late: 5, repeated: 20, refused: 10, ..calm };
        let far = store(SimulatedConnection::new(database.clone(), rough, seed));
        let numbers = join_all((1..=SESSIONS).map(|number| tell(&far, number))).await;
        let (_, committed) = database.calls();
        together += u64::from(u128::from(committed) < SESSIONS);
        // What was held arrives.
        sleep(Duration::from_secs(60)).await;
        for ((number, heard), said) in heard(&database).await.into_iter().zip(numbers) {
            match said {
                Ok(_) => assert_eq!(texts(&heard), told(number), "seed {seed}"),
                Err(Error::StoreUnavailable(_)) => {
                    unknown += 1;
                    assert!(heard.is_empty() || texts(&heard) == told(number), "seed {seed}: {heard:?}");
                }
                Err(error) => panic!("seed {seed}, session {number}: {error}"),
            }
        }
    }
    assert!(unknown > 0, "nothing was lost for good");
    assert!(together > SEEDS / 2, "commits went together in {together} worlds");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_its_place_to_the_next() {
    let (database, _) = world(Weather::default(), 3).await;
    let connection = SimulatedConnection::new(database, Weather { slow_ms: 20, ..Weather::default() }, 3);
    let queue = CommitQueue::new(1);
    let commit = |number: u128| {
        let changes = Changes { events: vec![(event(number, "told"), at(0))], ..Changes::default() };
        queue.commit(&connection, changes, true)
    };
    {
        let (mut first, mut second) = (std::pin::pin!(commit(1)), std::pin::pin!(commit(2)));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
    }
    assert!(matches!(commit(3).await, Ok(Committed::Yes { events }) if events.len() == 1));
    assert_eq!(queue.state().under_way, 0);
}

#[tokio::test(start_paused = true)]
async fn where_others_are_first_all_the_time_nobody_goes_with_another_and_later_they_do_again() {
    let queue = CommitQueue::new(1);
    for _ in 0..8 {
        queue.note(&Ok(Committed::Moved));
    }
    assert_eq!(queue.state().together, 1);
    for _ in 0..MOST_TOGETHER * 2 {
        queue.note(&Ok(Committed::Yes { events: Vec::new() }));
    }
    assert_eq!(queue.state().together, MOST_TOGETHER);
}

/// A commit that leaves a session's own row as it is.
fn kept(number: u128) -> Changes {
    let version = |count| Version { count, token: 1 };
    let id = session_id(number);
    let change = SessionChange { id, seen: Some(version(1)), next: version(2), row: RowChange::Kept };
    Changes { sessions: vec![change], ..Changes::default() }
}

#[tokio::test]
async fn what_was_lost_goes_by_itself_when_it_is_sent_again() {
    let queue = CommitQueue::new(1);
    let Ok(first) = queue.enter(kept(1), true) else { panic!("nobody is under way") };
    let (Err(again), Err(_other)) = (queue.enter(kept(2), false), queue.enter(kept(3), true)) else {
        panic!("one is under way")
    };
    drop(first);
    let Ok(CommitReply::Goes(batch)) = again.await else { panic!("it has waited longest") };
    assert!(batch.others.is_empty());
}

#[test]
fn commits_of_the_same_rows_are_of_one_form_and_what_is_compared_by_more_goes_by_itself() {
    let form = |change: &dyn Fn(&mut Changes)| {
        let mut changes = kept(1);
        change(&mut changes);
        changes.form()
    };
    let plain = form(&|_| {});
    assert!(plain.is_some());
    assert_eq!(plain, kept(2).form());
    let with_event = form(&|it| it.events.push((event(1, "e"), at(0))));
    assert!(with_event.is_some() && with_event != plain);
    let asks = |expires_at| form(&|it| it.interrupts.push((Interrupt { expires_at, ..approval(1, 1, "rm") }, true)));
    assert!(asks(None).is_some() && asks(None) != asks(Some(at(9))), "what can be due is looked up apart");
    let replies_to = |scope: String| {
        let reply = StoredReply { request_digest: String::new(), body: json!({}), created_at: at(0) };
        let kept = ReplyChange { scope, key: "k".to_owned(), reply, is_new: true };
        form(&|it| it.replies.push(kept.clone()))
    };
    assert!(replies_to(format!("messages:{}", session_id(1))).is_some());
    assert_eq!(replies_to("sessions".to_owned()), None, "two sessions may be made for one key");
    assert_eq!(form(&|it| it.notices.push(NoticeChange { notice: notice(1, 1), seen: None })), None);
    assert_eq!(form(&|it| it.sessions[0].row = RowChange::Deleted), None);
    assert_eq!(form(&|it| it.sessions.extend(kept(2).sessions)), None);
    assert_eq!(form(&|it| it.keys.push(key(1, "ada"))), None);
    assert_eq!(Changes::default().form(), None);
}

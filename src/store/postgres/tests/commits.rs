//! Commits, and those that come too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::support::*;
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::domain::policy::{PolicyChange, PushedPolicy, digest};
use crate::domain::status::Status;
use crate::store::contract::fixture::*;
use crate::store::postgres::connection::{Connection, Frame, SqlCall};
use crate::store::postgres::servers::PostgresServers;
use crate::store::record::StoredReply;
use crate::store::shared::backend::Backend;
use crate::store::shared::changes::{Changes, PolicySwap, ReplyChange, RowChange, SessionChange};
use crate::store::shared::question::{Answer, StoreQuestion, Version};
use crate::store::shared::servers::{Registered, ServerKind, ServerRole, ServerRow, ServerRows};

#[tokio::test]
async fn what_has_moved_is_not_written_and_nothing_else_of_the_batch() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    let kept =
        |seen: Version| SessionChange { id: session_id(1), seen: Some(seen), next: version(9), row: RowChange::Kept };
    let stale = [Version { count: 7, ..version(1) }, Version { token: 7, ..version(1) }];
    let written = RowChange::Written(Box::new(session_in(1, Status::Idle)));
    for seen in stale {
        for row in [RowChange::Kept, written.clone(), RowChange::Deleted] {
            let changes = Changes {
                sessions: vec![SessionChange { row, ..kept(seen) }, new_session(session(2))],
                messages: vec![(session_id(1), 0, vec![message("late")])],
                events: vec![(event(1, "late"), at(0))],
                ..Changes::default()
            };
            assert!(is_moved(&store, changes).await, "{seen:?}");
        }
    }
    assert_eq!(slice(&store, 1).await.unwrap().version, version(1));
    assert!(slice(&store, 2).await.is_none());
    assert_eq!(database.count("messages").await, 0);
    assert_eq!(database.count("events").await, 0);
    // The connection is as good as before.
    commit(&store, Changes { sessions: vec![kept(version(1))], ..Changes::default() }).await;
    assert_eq!(slice(&store, 1).await.unwrap().version, version(9));
}

#[tokio::test]
async fn whoever_is_dead_commits_nothing_whatever_it_is_of() {
    let database = Database::new().await;
    let store = database.store().await;
    for number in [1, 2] {
        store_session(&store, number).await;
    }
    let members = PostgresServers::new(database.address());
    let me = ServerRow::of_this_process(ServerKind::Server, ServerRole::default());
    assert_eq!(members.register(me.clone()).await, Ok(Registered::Yes));
    store.commits_for(me.id);
    let of = |number, seen, row| Changes { sessions: vec![touched(number, seen, row)], ..Changes::default() };
    let written = |number| RowChange::Written(Box::new(session_in(number, Status::Idle)));
    commit(&store, of(1, 1, RowChange::Kept)).await;
    commit(&store, of(2, 1, written(2))).await;
    // Alive, and too late.
    assert!(is_moved(&store, of(1, 1, RowChange::Kept)).await);
    members.leave(me.id).await.unwrap();
    let changes = [
        of(1, 2, RowChange::Kept),
        of(2, 2, written(2)),
        of(1, 2, RowChange::Deleted),
        Changes { sessions: vec![new_session(session(3))], ..Changes::default() },
        Changes { deeds: vec![(Deed::new(Action::KeyCreated), at(0))], ..Changes::default() },
        // Dead, and too late: the first of both is what counts.
        of(1, 1, RowChange::Kept),
        of(2, 1, written(2)),
    ];
    for changes in changes {
        let refused = store.commit(changes.clone()).await;
        let Err(Error::StoreUnavailable(why)) = refused else { panic!("{refused:?}: {changes:?}") };
        assert_eq!(why, "another server has taken the place of this one", "{changes:?}");
    }
    assert_eq!(slice(&store, 1).await.unwrap().version, version(2));
    assert!(slice(&store, 3).await.is_none());
}

#[tokio::test]
async fn what_is_new_and_there_already_has_moved() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let reply = StoredReply { request_digest: String::new(), body: json!({}), created_at: at(0) };
    let kept = ReplyChange { scope: "sessions".to_owned(), key: "k".to_owned(), reply, is_new: true };
    commit(&store, Changes { replies: vec![kept.clone()], ..Changes::default() }).await;
    let touched = || vec![touched(1, 1, RowChange::Kept)];
    let again = [
        Changes { sessions: vec![new_session(session(1))], ..Changes::default() },
        Changes { sessions: touched(), turns: vec![turn_change(turn(session_id(1), 1), true)], ..Changes::default() },
        Changes { sessions: touched(), entries: vec![entry(0, "again")], ..Changes::default() },
        Changes { sessions: touched(), interrupts: vec![(custom(1, 1), true)], ..Changes::default() },
        Changes { sessions: vec![new_session(session(9))], replies: vec![kept], ..Changes::default() },
    ];
    for changes in again {
        assert!(is_moved(&store, changes.clone()).await, "{changes:?}");
    }
    let absent = SessionChange { id: session_id(1), seen: None, next: version(1), row: RowChange::Kept };
    assert!(is_moved(&store, Changes { sessions: vec![absent], ..Changes::default() }).await);
    assert_eq!(slice(&store, 1).await.unwrap().version, version(1));
}

#[tokio::test]
async fn a_session_goes_with_all_that_is_its_own() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let told = Changes { events: vec![(event(1, "gone"), at(0))], ..Changes::default() };
    commit(&store, Changes { sessions: vec![touched(1, 1, RowChange::Deleted)], ..told }).await;
    for table in ["sessions", "messages", "turns", "journal", "interrupts"] {
        assert_eq!(database.count(table).await, 0, "{table}");
    }
    assert_eq!(database.count("events").await, 1);
}

#[tokio::test]
async fn of_many_that_write_at_once_one_is_first() {
    let database = Database::new().await;
    let (first, second) = (database.store().await, database.store().await);
    store_session(&first, 1).await;
    let mut writers = Vec::new();
    for number in 0..20 {
        let store = if number % 2 == 0 { first.clone() } else { second.clone() };
        let next = Version { count: 2, token: number };
        let change = SessionChange { next, ..touched(1, 1, RowChange::Kept) };
        let event = (event(1, &number.to_string()), at(0));
        writers.push(tokio::spawn(async move {
            is_moved(&store, Changes { sessions: vec![change], events: vec![event], ..Changes::default() }).await
        }));
    }
    let mut winners = 0;
    for writer in writers {
        winners += usize::from(!writer.await.unwrap());
    }
    assert_eq!(winners, 1);
    assert_eq!(database.count("events").await, 1);
}

#[tokio::test]
async fn a_commit_that_is_dropped_in_the_middle_is_whole_or_nothing() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    let mut connection = Connection::open(&database.address()).await.unwrap();
    let mut applied = 0;
    for number in 0..20 {
        // What two statements write is there in one number or in none.
        let insert = |table: &str| SqlCall::new(format!("INSERT INTO {table} VALUES ({number})"), vec![]);
        if number == 0 {
            database.execute("CREATE TABLE one (number int); CREATE TABLE other (number int)").await;
        }
        let calls = || vec![insert("one"), insert("other")];
        // What is prepared for the first time is not sent yet.
        connection.run(Frame::Commit, calls()).await.unwrap();
        let mut exchange = Box::pin(connection.run(Frame::Commit, calls()));
        drop(futures_util::poll!(exchange.as_mut()));
        drop(exchange);
        applied += 2;
    }
    // Whatever was sent before is answered before this.
    connection.run(Frame::Commit, vec![SqlCall::new("SELECT 1", vec![])]).await.unwrap();
    let count = async |table: &str| -> i64 {
        database.client().await.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    };
    assert_eq!((count("one").await, count("other").await), (applied, applied));
}

#[tokio::test]
async fn a_commit_with_more_events_than_a_transaction_numbers_has_its_numbers_for_itself_and_whoever_listens_misses_none()
 {
    let database = Database::new().await;
    let (many, few, listener) = (database.store().await, database.store().await, database.store().await);
    for number in [1, 2] {
        store_session(&many, number).await;
    }
    let of = |number, seen, events| {
        let events = (0..events).map(|_| (event(number, "x"), at(0))).collect();
        Changes { sessions: vec![touched(number, seen, RowChange::Kept)], events, ..Changes::default() }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let beside = tokio::spawn({
        let (store, is_over) = (few, Arc::clone(&is_over));
        async move {
            let mut told = 0;
            while !is_over.load(Ordering::Relaxed) {
                told += 1;
                commit(&store, of(2, told, 1)).await;
            }
            told
        }
    });
    let heard = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut heard: Vec<u64> = Vec::new();
            loop {
                let was_over = is_over.load(Ordering::Relaxed);
                let after = heard.last().copied().unwrap_or_default();
                let page = ask(&listener, StoreQuestion::EventsAfter { after, session: None, limit: 700 }).await;
                let Ok(Answer::Events(page)) = page else { panic!("{page:?}") };
                // Whoever commits beside it has ended with the last page, too.
                if page.is_empty() && was_over {
                    return heard;
                }
                heard.extend(page.into_iter().map(|event| event.number));
            }
        }
    });
    for seen in 1..=2 {
        let numbers = commit(&many, of(1, seen, 8200)).await;
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(numbers.len(), 8200);
    }
    is_over.store(true, Ordering::Relaxed);
    let told = usize::try_from(beside.await.unwrap()).unwrap();
    let heard = heard.await.unwrap();
    assert!(heard.len() >= 2 * 8200, "{}", heard.len());
    let all =
        ask(&database.store().await, StoreQuestion::EventsAfter { after: 0, session: None, limit: 100_000 }).await;
    let Ok(Answer::Events(all)) = all else { panic!("{all:?}") };
    assert_eq!(all.len(), 2 * 8200 + told);
    assert!(all.iter().map(|event| event.number).take(heard.len()).eq(heard));
    // The rows that took the numbers are gone.
    assert_eq!(database.count("replies").await, 0);
}

#[tokio::test]
async fn a_policy_takes_the_place_of_the_one_that_was_seen_and_of_no_other() {
    let database = Database::new().await;
    let store = database.store().await;
    let policy = |text: &str| {
        let (text, digest) = (text.to_owned(), digest(text));
        PushedPolicy { text, digest, pushed_at: at(1), pushed_by: None }
    };
    let swap = |seen: Option<&str>, next: Option<&str>| {
        let change = next.map_or(PolicyChange::Removed, |text| PolicyChange::Pushed(policy(text)));
        Changes { policy: Some(PolicySwap { seen: seen.map(digest), change }), ..Changes::default() }
    };
    assert!(is_moved(&store, swap(Some("# a"), Some("# b"))).await, "there is none");
    assert!(is_moved(&store, swap(Some("# a"), None)).await, "there is none");
    commit(&store, swap(None, Some("# a"))).await;
    assert!(is_moved(&store, swap(None, Some("# b"))).await, "there is one");
    assert!(is_moved(&store, swap(Some("# b"), Some("# c"))).await, "another one is there");
    assert!(is_moved(&store, swap(Some("# b"), None)).await, "another one is there");
    commit(&store, swap(Some("# a"), Some("# b"))).await;
    let told = store.answer(vec![StoreQuestion::PushedPolicy]).await.unwrap().remove(0).unwrap();
    assert!(matches!(told, Answer::PushedPolicy(Some(there)) if there == policy("# b")));
    commit(&store, swap(Some("# b"), None)).await;
    assert_eq!(database.count("policy").await, 0);
}

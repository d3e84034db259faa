//! Commits, and those that come too late.

use super::support::*;
use crate::domain::status::Status;
use crate::store::contract::fixture::*;
use crate::store::shared::backend::Backend;
use crate::store::shared::changes::{Changes, RowChange, SessionChange};
use crate::store::shared::question::Version;

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
async fn what_is_new_and_there_already_has_moved() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let touched = || vec![touched(1, 1, RowChange::Kept)];
    let again = [
        Changes { sessions: vec![new_session(session(1))], ..Changes::default() },
        Changes { sessions: touched(), turns: vec![turn_change(turn(session_id(1), 1), true)], ..Changes::default() },
        Changes { sessions: touched(), entries: vec![entry(0, "again")], ..Changes::default() },
        Changes { sessions: touched(), interrupts: vec![(custom(1, 1), true)], ..Changes::default() },
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
async fn a_commit_that_nobody_waits_for_any_more_is_whole_or_nothing() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    for round in 0..20_u64 {
        let seen = slice(&store, 1).await.unwrap().version;
        let change = SessionChange {
            seen: Some(seen),
            next: Version { count: seen.count + 1, token: round },
            ..touched(1, 1, RowChange::Kept)
        };
        let changes = Changes { sessions: vec![change], events: vec![(event(1, "x"), at(0))], ..Changes::default() };
        // Polled once: by then all of it is on its way.
        let mut committing = store.commit(changes);
        drop(futures_util::poll!(committing.as_mut()));
        drop(committing);
    }
    store.close().await.unwrap();
    let store = database.store().await;
    let version = slice(&store, 1).await.unwrap().version;
    assert_eq!(database.count("events").await, i64::try_from(version.count).unwrap() - 1);
}

#[tokio::test]
async fn a_store_finds_the_database_again_after_its_connections_were_cut() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = 'hitl'";
    database.execute(cut).await;
    // The one that was cut may still be taken for whole once.
    let mut tries = 0;
    while store.answer(vec![crate::store::shared::question::StoreQuestion::CountSessions]).await.is_err() {
        tries += 1;
        assert!(tries < 9, "it does not come back");
    }
    assert!(slice(&store, 1).await.is_some());
}

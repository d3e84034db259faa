//! Commits, and those that come too late.

use super::support::*;
use crate::domain::status::Status;
use crate::store::contract::fixture::*;
use crate::store::postgres::connection::{Connection, Frame, SqlCall};
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

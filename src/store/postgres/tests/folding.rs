//! What a commit writes of sessions that are there is one statement, as far as it can be.

use uuid::Uuid;

use super::support::*;
use crate::domain::audit::{Action, Deed};
use crate::domain::status::Status;
use crate::store::contract::fixture::*;
use crate::store::kept::KeptForms;
use crate::store::postgres::folding::{GUARDS, Places};
use crate::store::postgres::servers::PostgresServers;
use crate::store::postgres::writing;
use crate::store::shared::changes::{Changes, RowChange};
use crate::store::shared::question::StoreQuestion;
use crate::store::shared::servers::{Registered, ServerKind, ServerRole, ServerRow, ServerRows};

/// Changes of the first session, as it was seen at its first version.
fn of(row: RowChange) -> Changes {
    Changes { sessions: vec![touched(1, 1, row)], entries: vec![entry(1, "second")], ..Changes::default() }
}

fn written() -> RowChange {
    RowChange::Written(Box::new(session_in(1, Status::Idle)))
}

/// As much as one commit can write in one statement.
fn most(row: RowChange) -> Changes {
    Changes {
        turns: vec![turn_change(turn(session_id(1), 1), false), turn_change(turn(session_id(1), 2), true)],
        interrupts: vec![(undue(1), false), (undue(2), true)],
        events: vec![(event(1, "one"), at(0)), (event(1, "two"), at(0))],
        deeds: vec![(Deed::new(Action::KeyCreated), at(0))],
        ..of(row)
    }
}

/// How many statements it is, of somebody who is a server and of somebody who is none.
fn statements(changes: &Changes) -> [usize; 2] {
    let calls = |member| writing::calls(changes, &KeptForms::default(), member).unwrap().calls.len();
    [calls(Some(Uuid::nil())), calls(None)]
}

#[test]
fn a_commit_of_sessions_that_are_there_is_one_statement() {
    for row in [RowChange::Kept, written()] {
        assert_eq!(statements(&of(row.clone())), [1, 1]);
        assert_eq!(statements(&most(row)), [1, 1]);
    }
}

#[test]
fn a_commit_of_a_server_that_compares_nothing_is_one_statement() {
    let new = Changes { sessions: vec![new_session(session(2))], ..Changes::default() };
    let begun = Changes { turns: vec![turn_change(turn(session_id(2), 2), true)], ..new.clone() };
    let deeds = Changes { deeds: vec![(Deed::new(Action::KeyCreated), at(0))], ..Changes::default() };
    assert_eq!([&new, &begun, &deeds].map(statements), [[1, 1], [1, 2], [1, 1]]);
    let beside = Changes { sessions: [new.sessions, vec![touched(1, 1, written())]].concat(), ..most(RowChange::Kept) };
    assert_eq!(statements(&beside), [1, 1]);
}

#[test]
fn places_that_one_number_has_no_room_for_take_further_numbers_though_some_before_them_are_free() {
    let told = |place| {
        let mut changes = of(written());
        changes.entries[0].told = Some(place);
        statements(&changes)[0]
    };
    let most = writing::MOST_NUMBERED;
    let one = told(most) - told(most - 1);
    assert!(one > 0);
    assert_eq!([told(0), told(most - 1), told(2 * most - 1), told(2 * most)], [1, 1, 1 + one, 1 + 2 * one]);
}

#[test]
fn each_guard_has_the_places_of_what_comes_into_it() {
    for guard in GUARDS {
        assert!(Places::of(guard).is_some(), "{guard}");
    }
}

#[test]
fn what_depends_on_another_part_is_a_statement_of_its_own() {
    // When it is due is read from its turn, which may be another one now.
    let due = Changes { interrupts: vec![(custom(1, 2), true)], ..of(RowChange::Kept) };
    assert_eq!(statements(&due), [2, 2]);
    // What is new takes the place of what went.
    let cut = Changes { messages: vec![(session_id(1), 0, vec![message("new")])], ..of(RowChange::Kept) };
    assert_eq!(statements(&cut), [3, 3]);
    // What a session had goes first.
    let replaced = of(RowChange::Replaced(Box::new(session(1))));
    assert_eq!(statements(&replaced), [4, 3]);
}

#[tokio::test]
async fn all_of_it_is_there_or_nothing_is() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let late = Changes { sessions: vec![touched(1, 7, written())], ..most(RowChange::Kept) };
    assert!(is_moved(&store, late).await);
    // The last part is refused: somebody has written that entry.
    let again = Changes { entries: vec![entry(0, "again")], ..most(written()) };
    assert!(is_moved(&store, again).await);
    assert_eq!(slice(&store, 1).await.unwrap().version, version(1));
    let rows = async || {
        let mut rows = Vec::new();
        for table in ["turns", "journal", "interrupts", "events", "deeds"] {
            rows.push(database.count(table).await);
        }
        rows
    };
    assert_eq!(rows().await, [1, 1, 1, 0, 0]);
    let told = commit(&store, most(written())).await;
    assert_eq!(rows().await, [2, 2, 2, 2, 1]);
    assert_eq!(slice(&store, 1).await.unwrap().version, version(2));
    let client = database.client().await;
    let rows = client.query("SELECT number FROM hitl.events ORDER BY number", &[]).await.unwrap();
    let stored: Vec<u64> = rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect();
    assert_eq!(told, stored);
}

#[tokio::test]
async fn what_a_server_makes_is_there_once_with_the_numbers_of_its_events() {
    let database = Database::new().await;
    let store = database.store().await;
    let members = PostgresServers::new(database.address());
    let me = ServerRow::of_this_process(ServerKind::Server, ServerRole::default());
    assert_eq!(members.register(me.clone()).await, Ok(Registered::Yes));
    store.commits_for(me.id);
    let new = Changes {
        sessions: vec![new_session(session(2))],
        turns: vec![turn_change(turn(session_id(2), 2), true)],
        events: vec![(event(2, "one"), at(0)), (event(2, "two"), at(0))],
        ..Changes::default()
    };
    let told = commit(&store, new.clone()).await;
    assert_eq!((told.len(), told[1]), (2, told[0] + 1));
    assert_eq!(number(&store, StoreQuestion::LastEventOf(session_id(2))).await, told[1]);
    assert!(is_moved(&store, new).await);
    assert_eq!((database.count("turns").await, database.count("events").await), (1, 2));
}

#[tokio::test]
async fn a_guard_that_waited_for_another_transaction_holds_where_that_came_to_nothing() {
    for comes_to_nothing in [true, false] {
        let database = Database::new().await;
        let store = database.store().await;
        store_all(&store).await;
        let (mut other, watcher) = (database.client().await, database.client().await);
        let first = other.transaction().await.unwrap();
        first.batch_execute("UPDATE hitl.sessions SET version = 9").await.unwrap();
        let second = store.clone();
        let waiting = tokio::spawn(async move { is_moved(&second, most(written())).await });
        until_some(&watcher, WAITING).await;
        if comes_to_nothing {
            first.rollback().await.unwrap()
        } else {
            first.commit().await.unwrap()
        }
        assert_eq!(waiting.await.unwrap(), !comes_to_nothing);
        assert_eq!(database.count("journal").await, if comes_to_nothing { 2 } else { 1 });
    }
}

//! Upkeep.

use super::support::*;
use crate::domain::audit::{Action, Deed};
use crate::domain::session::Session;
use crate::domain::turn::{Life, TurnState};
use crate::store::contract::fixture::*;
use crate::store::contract::outbox::due;
use crate::store::record::Turn;
use crate::store::shared::changes::{Changes, NoticeChange, RowChange};
use crate::store::shared::question::StoreQuestion;
use crate::store::signals::{OrphanedTurn, TurnTaker};
use crate::store::upkeep::{Receivers, Sweep, Upkeep};

#[tokio::test]
async fn old_sessions_go_with_all_they_have_and_the_audit_tells_of_each() {
    let database = Database::new().await;
    let store = database.store().await;
    for (number, millis) in [(1, 10), (2, 5), (3, 99)] {
        let session = Session { updated_at: at(millis), ..session(number) };
        commit(&store, Changes { sessions: vec![new_session(session)], ..Changes::default() }).await;
    }
    let swept = store.sweep_sessions(at(50), 9, Deed::new(Action::SessionDeleted), at(60)).await.unwrap();
    assert_eq!(swept, [session_id(1), session_id(2)]);
    assert_eq!(store.totals().await.unwrap().audit.seq, 2);
    assert_eq!(number(&store, StoreQuestion::CountSessions).await, 1);
}

#[tokio::test]
async fn whoever_keeps_a_session_elsewhere_is_told_that_its_journal_was_removed() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let ended =
        Turn { life: Life { state: TurnState::Ended { at: at(1) }, ..Life::default() }, ..turn(session_id(1), 1) };
    assert_eq!(
        store.orphaned_turns(TurnTaker::default()).await.unwrap(),
        [OrphanedTurn { turn: turn_id(1), epoch: Some(0) }]
    );
    let changes = Changes {
        sessions: vec![touched(1, 1, RowChange::Kept)],
        turns: vec![turn_change(ended, false)],
        ..Changes::default()
    };
    commit(&store, changes).await;
    assert_eq!(store.orphaned_turns(TurnTaker::default()).await.unwrap(), []);
    assert_eq!(store.compact_journals(at(2), 9).await, Ok(1));
    assert_eq!(store.compact_journals(at(2), 9).await, Ok(0));
    let slice = slice(&store, 1).await.unwrap();
    let turn = slice.turn.unwrap().unwrap();
    assert!(turn.is_compacted && turn.entries == 0);
    assert_ne!(slice.version, version(2));
    let late = Changes { sessions: vec![touched(1, 2, RowChange::Kept)], ..Changes::default() };
    assert!(is_moved(&store, late).await);
}

#[tokio::test]
async fn the_newest_event_stays_so_that_numbers_never_go_back() {
    let database = Database::new().await;
    let store = database.store().await;
    let events = (0..5).map(|millis| (event(1, "x"), at(millis))).collect();
    let numbers = commit(&store, Changes { events, ..Changes::default() }).await;
    assert_eq!(store.sweep(Sweep::Events, at(2), 9).await, Ok(2));
    assert_eq!(store.sweep(Sweep::Events, at(99), 9).await, Ok(2));
    assert_eq!(number(&store, StoreQuestion::LastEvent).await, numbers[4]);
}

#[tokio::test]
async fn numbers_go_on_above_those_of_a_database_that_was_restored_elsewhere() {
    let database = Database::new().await;
    let store = database.store().await;
    commit(&store, Changes { events: vec![(event(1, "x"), at(0))], ..Changes::default() }).await;
    // As though transactions had been counted much further where it came from.
    database.execute("UPDATE hitl.events SET number = number + (1::bigint << 50)").await;
    let old = number(&store, StoreQuestion::LastEventOf(session_id(1))).await;
    let store = database.store().await;
    let new = commit(&store, Changes { events: vec![(event(1, "y"), at(0))], ..Changes::default() }).await;
    assert!(new[0] > old);
    assert_eq!(number(&store, StoreQuestion::LastEvent).await, new[0]);
}

#[tokio::test]
async fn a_notice_that_this_version_cannot_read_is_left_to_a_later_one_and_keeps_no_other_from_being_due() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let notices = [1, 2, 3].map(|number| NoticeChange { notice: due(number, 1), seen: None });
    commit(&store, Changes { notices: notices.into(), ..Changes::default() }).await;
    database.execute("UPDATE hitl.outbox SET event = 'session.teleported' WHERE id::text LIKE '%1'").await;
    database.execute("UPDATE hitl.outbox SET status = 'lost' WHERE id::text LIKE '%2'").await;
    assert_eq!(store.next_notice_at(Receivers::all()).await, Ok(Some(at(3))));
    let found = store.due_notices(at(9), Receivers::all(), 9).await.unwrap();
    assert_eq!(found.iter().map(|notice| notice.due_at).collect::<Vec<_>>(), [Some(at(3))]);
}

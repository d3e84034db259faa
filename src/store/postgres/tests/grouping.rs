//! Commits of many sessions at once, which go together.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;

use super::support::*;
use crate::store::StoreExt;
use crate::store::Transaction;
use crate::store::clock::WallClock;
use crate::store::contract::fixture::*;
use crate::store::shared::{SharedStore, StoreAccess};

const SESSIONS: u128 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_while_others_are_under_way_is_one_transaction_and_each_is_told_its_own_numbers() {
    let database = Database::new().await;
    let backend = database.store().await;
    let store = Arc::new(SharedStore::new(backend, StoreAccess::Alone, Arc::new(WallClock), Handle::current()));
    let made = (1..=SESSIONS).map(|number| {
        store.transact(about(number), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.claim_turn(turn_id(number), me(), 0)
        })
    });
    assert!(join_all(made).await.into_iter().all(|outcome| outcome == Ok(1)));
    // Nobody gets on until all of them have come.
    let client = database.client().await;
    client.batch_execute("BEGIN; LOCK TABLE hitl.sessions IN EXCLUSIVE MODE").await.unwrap();
    let begun = Arc::new(AtomicU64::new(0));
    let told: Vec<_> = (1..=SESSIONS)
        .map(|number| {
            let (store, begun) = (Arc::clone(&store), Arc::clone(&begun));
            tokio::spawn(async move {
                let told = store.transact(about(number), move |tx: &mut dyn Transaction| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    tx.append_told(turn_id(number), 1, &step("one", json!(1)), at(0))?;
                    let handle = tx.append_event(&event(number, "two"), at(0))?;
                    tx.append_told(turn_id(number), 1, &step("three", json!(3)), at(0))?;
                    Ok(handle)
                });
                told.await
            })
        })
        .collect();
    while u128::from(begun.load(Ordering::SeqCst)) < SESSIONS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    let mut numbers = HashSet::new();
    for (number, outcome) in (1..=SESSIONS).zip(join_all(told).await) {
        let said = outcome.unwrap().unwrap().get();
        let told = store.query(move |reader| reader.events_after(0, Some(session_id(number)), 10)).await.unwrap();
        assert_eq!(told.iter().map(|told| told.event.session_id).collect::<Vec<_>>(), [session_id(number); 3]);
        assert_eq!(told[1].number, said);
        assert!(told.iter().all(|told| numbers.insert(told.number)));
    }
    let transactions = client.query_one("SELECT count(DISTINCT xmin::text) FROM hitl.journal", &[]).await.unwrap();
    let transactions = transactions.get::<_, i64>(0);
    // Four at once, and the rest 16 as one; a few more where somebody was late.
    assert!(transactions <= 12, "{transactions} transactions for {SESSIONS} sessions");
}

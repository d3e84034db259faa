//! What is read of everybody while transactions are open, ours and those of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Client;

use super::support::*;
use crate::domain::audit::{Action, Deed};
use crate::store::contract::fixture::*;
use crate::store::postgres::PostgresBackend;
use crate::store::shared::changes::{Changes, RowChange};
use crate::store::shared::question::{Answer, StoreQuestion};

/// Tells an event of a session that was written so often, and a deed: the number of the event.
async fn tell(store: &PostgresBackend, session: u128, seen: u64) -> u64 {
    let changes = Changes {
        sessions: vec![touched(session, seen, RowChange::Kept)],
        events: vec![(event(session, "told"), at(0))],
        deeds: vec![(Deed::new(Action::KeyCreated), at(0))],
        ..Changes::default()
    };
    commit(store, changes).await[0]
}

/// The numbers of the next events of all.
async fn next(store: &PostgresBackend, after: u64) -> Vec<u64> {
    match ask(store, StoreQuestion::EventsAfter { after, session: None, limit: 256 }).await.unwrap() {
        Answer::Events(events) => events.into_iter().map(|event| event.number).collect(),
        other => panic!("{other:?}"),
    }
}

/// Somebody with a transaction that has a number, until they are dropped.
async fn open(client: Client, sql: &str) -> Client {
    client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
    client
}

#[tokio::test]
async fn nothing_waits_for_transactions_that_write_nothing_here() {
    let database = Database::new().await;
    let elsewhere = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    database.execute("CREATE TABLE public.others (number int)").await;
    elsewhere.execute("CREATE SCHEMA hitl; CREATE TABLE hitl.events (number int)").await;
    let write = "INSERT INTO public.others VALUES (1)";
    let _open = [
        open(database.client().await, "SELECT pg_current_xact_id()").await,
        open(database.client().await, write).await,
        // Further numbers of the same one, and a look at what is here.
        open(database.client().await, &format!("{write}; SAVEPOINT one; {write}; SELECT number FROM hitl.events"))
            .await,
        open(elsewhere.client().await, "INSERT INTO hitl.events VALUES (1)").await,
    ];
    let two_phases = database.client().await;
    let name = database.name();
    two_phases.batch_execute(&format!("BEGIN; {write}; PREPARE TRANSACTION '{name}'")).await.unwrap();

    let told = [tell(&store, 1, 1).await, tell(&store, 1, 2).await];
    assert_eq!(next(&store, 0).await, told);
    assert_eq!(number(&store, StoreQuestion::LastEvent).await, told[1]);
    assert_eq!(store.link_audit().await.unwrap().seq, 2);
    two_phases.batch_execute(&format!("ROLLBACK PREPARED '{name}'")).await.unwrap();
}

#[tokio::test]
async fn what_may_still_be_committed_below_is_waited_for_beside_transactions_that_write_nothing_here() {
    let database = Database::new().await;
    let store = database.patient(Duration::from_secs(1)).await;
    for session in [1, 2] {
        store_session(&store, session).await;
    }
    let _foreign = open(database.client().await, "SELECT pg_current_xact_id()").await;
    let first = tell(&store, 1, 1).await;
    assert_eq!(next(&store, 0).await, [first]);
    // One of another server, which is slow.
    let event = "INSERT INTO hitl.events (number, session, status, stored_at) \
                 SELECT event_base + (pg_current_xact_id()::text::bigint << 12), (SELECT id FROM hitl.sessions WHERE seq = 2), 'idle', 0 \
                 FROM hitl.meta";
    let ours = open(database.client().await, event).await;
    let third = tell(&store, 1, 2).await;
    assert_eq!(next(&store, first).await, [0_u64; 0]);
    assert_eq!(number(&store, StoreQuestion::LastEvent).await, first);
    assert_eq!(store.link_audit().await.unwrap().seq, 1);

    ours.batch_execute("COMMIT").await.unwrap();
    let told = next(&store, first).await;
    assert_eq!((told.len(), told[1]), (2, third));
    assert_eq!(store.link_audit().await.unwrap().seq, 2);
}

#[tokio::test]
async fn a_reader_beside_transactions_of_others_misses_nothing_of_many_that_write_at_once() {
    let database = Database::new().await;
    let store = database.store().await;
    let _foreign = open(database.client().await, "SELECT pg_current_xact_id()").await;
    for session in 1..=6 {
        store_session(&store, session).await;
    }
    let mut writers = Vec::new();
    for session in 1..=6 {
        let store = database.store().await;
        writers.push(tokio::spawn(async move {
            let mut told = Vec::new();
            for seen in 1..=60 {
                told.push(tell(&store, session, seen).await);
            }
            told
        }));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let reading = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut read = Vec::new();
            loop {
                let is_last = is_over.load(Ordering::SeqCst);
                let some = next(&store, read.last().copied().unwrap_or_default()).await;
                if is_last && some.is_empty() {
                    return read;
                }
                read.extend(some);
            }
        }
    });
    let mut told = Vec::new();
    for writer in writers {
        told.extend(writer.await.unwrap());
    }
    is_over.store(true, Ordering::SeqCst);
    told.sort_unstable();
    assert_eq!(reading.await.unwrap(), told);
}

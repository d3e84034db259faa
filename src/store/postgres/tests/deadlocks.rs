//! Transactions that wait for each other: the database ends one of them, and its job runs again.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::support::*;
use crate::domain::status::Status;
use crate::store::clock::WallClock;
use crate::store::contract::fixture::*;
use crate::store::shared::{SharedStore, StoreAccess};

/// How many the database has ended, each because it waited for one that waited for it.
const ENDED: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

#[tokio::test]
async fn a_job_that_deadlocks_with_another_transaction_runs_again_and_counts_once() {
    let database = Database::new().await;
    // Whoever waits for less is chosen: here that is never the other one. It has as long as that to cross.
    database.execute(&format!("ALTER DATABASE {} SET deadlock_timeout = '1700ms'", database.name())).await;
    let backend = database.store().await;
    store_session(&backend, 1).await;
    store_session(&backend, 2).await;
    let store = SharedStore::new(backend.clone(), StoreAccess::Alone, Arc::new(WallClock), Handle::current());
    let (mut other, watcher) = (database.client().await, database.client().await);
    let crossing = other.transaction().await.unwrap();
    crossing.batch_execute("SET LOCAL deadlock_timeout = '1h'").await.unwrap();
    let hold = "SELECT FROM hitl.sessions WHERE id = $1 FOR UPDATE";
    crossing.query(hold, &[&session_id(1).0]).await.unwrap();

    let job = tokio::spawn(async move {
        let changed = change(&store, move |tx| {
            // First the row of the second session is written, then that of the first one is looked at.
            tx.update_session(&session_in(2, Status::Idle))?;
            tx.append_event(&event(1, "once"), at(0)).map(drop)
        });
        changed.await.unwrap();
    });
    until_some(&watcher, WAITING).await;
    crossing.query(hold, &[&session_id(2).0]).await.unwrap();
    crossing.rollback().await.unwrap();
    job.await.unwrap();
    until_some(&watcher, ENDED).await;
    assert_eq!(database.count("events").await, 1);
    // Each of both was written once since it was made.
    for number in [1, 2] {
        assert_eq!(slice(&backend, number).await.unwrap().version.count, 2);
    }
}

//! A database that is copied, and what keeps it from being.

use std::time::Duration;

use super::support::*;
use crate::domain::audit::{Action, Deed};
use crate::store::contract::fixture::*;
use crate::store::postgres::copying::PostgresSource;
use crate::store::shared::changes::Changes;

#[tokio::test]
async fn it_is_not_copied_while_the_end_of_its_audit_cannot_be_read() {
    let database = Database::new().await;
    let store = database.store().await;
    let other = database.client().await;
    other.batch_execute("BEGIN; UPDATE hitl.meta SET event_base = event_base").await.unwrap();
    commit(&store, Changes { deeds: vec![(Deed::new(Action::KeyCreated), at(0))], ..Changes::default() }).await;

    let refused = PostgresSource::open_within(&database.address(), Duration::from_millis(100)).await.err().unwrap();
    let hint = "end them (pg_stat_activity shows them), and copy again";
    assert_eq!((refused.code(), refused.hint()), ("store_busy", hint));

    other.batch_execute("COMMIT").await.unwrap();
    PostgresSource::open(&database.address()).await.unwrap();
    assert_eq!(database.count("audit_chain").await, 1);
}

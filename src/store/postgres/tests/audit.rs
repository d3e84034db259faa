//! The audit, and who links it.

use super::support::*;
use crate::domain::audit::{Action, AuditRow, Deed, Head};
use crate::store::contract::fixture::*;
use crate::store::postgres::PostgresBackend;
use crate::store::query::AuditQuery;
use crate::store::shared::changes::Changes;
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::upkeep::Upkeep;

fn told(deed: Deed) -> Changes {
    Changes { deeds: vec![(deed, at(0))], ..Changes::default() }
}

async fn rows(store: &PostgresBackend) -> Vec<AuditRow> {
    let query = AuditQuery { limit: 5000, ..AuditQuery::default() };
    match ask(store, StoreQuestion::Audit(query)).await.unwrap() {
        Answer::Audit(page) => page.items,
        other => panic!("{other:?}"),
    }
}

/// Whether each row is bound to the one before.
fn is_chain(rows: &[AuditRow]) -> bool {
    let mut head = Head::nothing();
    rows.iter().all(|row| {
        let fits = row.seq == head.seq + 1 && row.prev == head.hash && row.hash == row.expected_hash();
        head = row.head();
        fits
    })
}

#[tokio::test]
async fn many_that_link_at_once_make_one_chain_without_a_gap() {
    let database = Database::new().await;
    let stores = [database.store().await, database.store().await, database.store().await];
    let mut tasks = Vec::new();
    for number in 0..60 {
        let store = stores[number % 3].clone();
        tasks.push(tokio::spawn(async move {
            commit(&store, told(Deed::new(Action::KeyCreated).with("number", number))).await;
            store.link_audit().await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let rows = rows(&stores[0]).await;
    assert_eq!(rows.len(), 60);
    assert!(is_chain(&rows), "{rows:?}");
    assert_eq!(stores[1].totals().await.unwrap().audit, rows[59].head());
}

#[tokio::test]
async fn somebody_sees_an_interrupt_once_also_before_it_is_linked() {
    let database = Database::new().await;
    let store = database.store().await;
    let seen = StoreQuestion::Seen(interrupt_id(1), "ada".to_owned());
    let is_seen = async || matches!(ask(&store, seen.clone()).await.unwrap(), Answer::Seen(true));
    assert!(!is_seen().await);
    let deed = || Deed { interrupt_id: Some(interrupt_id(1)), ..Deed::new(Action::Seen).by(Some("ada"), None) };
    commit(&store, told(deed())).await;
    commit(&store, told(deed())).await;
    assert!(is_seen().await);
    assert_eq!(database.count("audit_chain").await, 0);
    assert_eq!(rows(&store).await.len(), 1);
}

#[tokio::test]
async fn a_row_that_was_changed_shows() {
    let database = Database::new().await;
    let store = database.store().await;
    commit(&store, told(Deed::new(Action::KeyCreated).by(Some("ada"), Some([127, 0, 0, 1].into())))).await;
    assert!(is_chain(&rows(&store).await));
    database.execute("UPDATE hitl.deeds SET actor = 'bob'").await;
    assert!(!is_chain(&rows(&store).await));
}

#[tokio::test]
async fn whoever_looks_waits_for_what_was_told_before_and_not_for_what_is_told_meanwhile() {
    let database = Database::new().await;
    let (store, busy) = (database.store().await, database.store().await);
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tellers: Vec<_> = (0..4)
        .map(|_| {
            let (busy, is_over) = (busy.clone(), std::sync::Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut told_so_far = 0_u64;
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    commit(&busy, told(Deed::new(Action::KeyCreated))).await;
                    told_so_far += 1;
                }
                told_so_far
            })
        })
        .collect();
    for _ in 0..10 {
        commit(&store, told(Deed::new(Action::KeyRevoked))).await;
        let looking = tokio::time::timeout(std::time::Duration::from_secs(30), store.link_audit());
        let head = looking.await.expect("it comes back").unwrap();
        assert!(head.seq > 0);
    }
    is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut all = 10;
    for teller in tellers {
        all += teller.await.unwrap();
    }
    assert_eq!(store.link_audit().await.unwrap().seq, all);
}

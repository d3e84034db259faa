//! The audit: rows are added, and stay.

use super::fixture::*;
use crate::domain::Error;
use crate::domain::audit::{Action, AuditRow, Deed, Head, Verifier};
use crate::store::query::AuditQuery;

super::for_each_store!(
    an_empty_audit_has_a_head,
    rows_read_back_and_follow_each_other,
    a_job_that_fails_leaves_no_row_and_no_gap,
    rows_outlive_their_session,
    rows_are_listed_oldest_first_with_a_cursor,
    every_filter_keeps_what_it_names_and_all_of_it,
    who_has_seen_what_is_known,
);

fn deed(action: Action, session: u128, actor: &str) -> Deed {
    let address = Some([192, 0, 2, 7].into());
    let about = Deed { interrupt_id: Some(interrupt_id(session)), ..Deed::new(action) };
    about.session(session_id(session)).by(Some(actor), address).with("number", 0.1)
}

/// Four rows, at 0, 1, 2 and 3.
async fn four(it: &Fixture) -> Vec<AuditRow> {
    it.write(|tx| {
        let deeds = [
            deed(Action::Asked, 1, "ada"),
            Deed::new(Action::SignedIn).by(Some("bob"), None),
            deed(Action::Seen, 1, "bob"),
            deed(Action::Asked, 2, "bob"),
        ];
        (0..).zip(deeds).try_for_each(|(millis, deed)| tx.append_audit(deed, at(millis)))
    })
    .await;
    list(it, AuditQuery::default()).await
}

async fn list(it: &Fixture, query: AuditQuery) -> Vec<AuditRow> {
    let query = AuditQuery { limit: 100, ..query };
    it.read(move |reader| reader.audit(&query)).await.items
}

async fn an_empty_audit_has_a_head(it: Fixture) {
    assert_eq!(it.read(|reader| reader.audit_head()).await, Head::nothing());
    assert_eq!(list(&it, AuditQuery::default()).await, []);
}

async fn rows_read_back_and_follow_each_other(it: Fixture) {
    let rows = four(&it).await;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let head = it.read(|reader| reader.audit_head()).await;
    let mut verifier = Verifier::new(Some(head.clone()));
    assert_eq!(rows.iter().try_for_each(|row| verifier.take(row)), Ok(()));
    assert_eq!(verifier.finish(), Ok(head));
}

async fn a_job_that_fails_leaves_no_row_and_no_gap(it: Fixture) {
    let rows = four(&it).await;
    it.refuse(|tx| {
        tx.append_audit(Deed::new(Action::KeyCreated), at(4))?;
        tx.append_audit(Deed::new(Action::KeyRevoked), at(4))?;
        Err(Error::SessionNotFound)
    })
    .await;
    assert_eq!(list(&it, AuditQuery::default()).await, rows);
    it.write(|tx| tx.append_audit(Deed::new(Action::KeyCreated), at(5))).await;
    let next = list(&it, AuditQuery::default()).await.remove(4);
    assert_eq!((next.seq, &next.prev), (5, &rows[3].hash));
}

async fn rows_outlive_their_session(it: Fixture) {
    it.write(|tx| tx.insert_session(&session(1), &[])).await;
    let rows = four(&it).await;
    it.write(|tx| tx.delete_session(session_id(1))).await;
    assert_eq!(list(&it, AuditQuery::default()).await, rows);
}

async fn rows_are_listed_oldest_first_with_a_cursor(it: Fixture) {
    let rows = four(&it).await;
    let page = |cursor| AuditQuery { limit: 3, cursor, ..AuditQuery::default() };
    let first = it.read(move |reader| reader.audit(&page(None))).await;
    assert_eq!(first.items, rows[..3]);
    let second = it.read(move |reader| reader.audit(&page(first.next))).await;
    assert_eq!((second.items.as_slice(), second.next), (&rows[3..], None));
    assert_eq!(it.read(move |reader| reader.audit(&page(Some(99)))).await.items, []);
}

async fn every_filter_keeps_what_it_names_and_all_of_it(it: Fixture) {
    let rows = four(&it).await;
    let none = AuditQuery::default;
    let numbers = async |query| list(&it, query).await.iter().map(|row| row.seq).collect::<Vec<_>>();
    assert_eq!(numbers(AuditQuery { session_id: Some(session_id(1)), ..none() }).await, [1, 3]);
    assert_eq!(numbers(AuditQuery { interrupt_id: Some(interrupt_id(2)), ..none() }).await, [4]);
    assert_eq!(numbers(AuditQuery { actor: Some("bob".to_owned()), ..none() }).await, [2, 3, 4]);
    assert_eq!(numbers(AuditQuery { action: Some(Action::Asked), ..none() }).await, [1, 4]);
    assert_eq!(numbers(AuditQuery { after: Some(at(1)), ..none() }).await, [3, 4]);
    let all = AuditQuery {
        session_id: Some(session_id(1)),
        interrupt_id: Some(interrupt_id(1)),
        actor: Some("bob".to_owned()),
        action: Some(Action::Seen),
        after: Some(at(1)),
        ..none()
    };
    assert_eq!(list(&it, all).await, rows[2..3]);
}

async fn who_has_seen_what_is_known(it: Fixture) {
    four(&it).await;
    let seen = async |interrupt, actor: &'static str| {
        it.read(move |reader| reader.has_seen(interrupt_id(interrupt), actor)).await
    };
    assert!(seen(1, "bob").await);
    assert!(!seen(1, "ada").await, "it was asked under that name, and not looked at");
    assert!(!seen(2, "bob").await);
}

//! Rows that somebody else has changed, and the ways to rows.

use rusqlite::Connection;

use super::*;
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::store::about::About;
use crate::store::contract::fixture::*;
use crate::store::contract::outbox::due;
use crate::store::query::{AuditQuery, InterruptQuery, SessionQuery};
use crate::store::upkeep::Receivers;
use crate::store::{Reader, Store, StoreExt};

/// Stores one of everything, spoils it with `sql`, and reads with `read`: the error.
async fn spoiled<T: Send + std::fmt::Debug + 'static>(
    sql: &str,
    read: impl Fn(&dyn Reader) -> Result<T, Error> + Send + 'static,
) -> String {
    let (_directory, path) = place();
    let store = open(&path);
    let stored = store.transact(about(1), |transaction| {
        transaction.insert_session(&session_in(1, crate::domain::status::Status::Interrupted), &[message("m")])?;
        transaction.insert_turn(&turn(session_id(1), 1))?;
        transaction.append_foreign(turn_id(1), &step("s", serde_json::json!(1)), at(0))?;
        transaction.append_event(&event(1, "x"), at(0))?;
        transaction.insert_interrupt(&custom(1, 1))
    });
    stored.await.unwrap();
    store.close().await.unwrap();
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let store = open(&path);
    let outcome = store.query(read).await;
    // The store itself is well.
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(1));
    match outcome {
        Err(Error::Unreadable(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_malformed_row_is_an_error_that_names_the_column() {
    let session = |reader: &dyn Reader| reader.session(session_id(1));
    let says = async |column: &str, sql: &str| {
        let text = spoiled(sql, session).await;
        assert!(text.contains(&format!("sessions.{column}")), "{text}");
    };
    says("status", "UPDATE sessions SET status = 'confused'").await;
    says("turn", "UPDATE sessions SET turn = NULL").await;
    says("turn", "UPDATE sessions SET turn = x'0102'").await;
    says("pending", "UPDATE sessions SET pending = x'0102'").await;
    says("total_messages", "UPDATE sessions SET total_messages = -1").await;
    says("response", "UPDATE sessions SET response = '{'").await;
}

#[tokio::test]
async fn so_it_is_in_every_other_table() {
    let text = spoiled("UPDATE interrupts SET payload = '[]'", |reader| reader.interrupt(interrupt_id(1))).await;
    assert!(text.contains("interrupts.payload"), "{text}");
    let text = spoiled("UPDATE interrupts SET status = ''", |reader| reader.interrupt(interrupt_id(1))).await;
    assert!(text.contains("interrupts.status"), "{text}");
    let journal = |reader: &dyn Reader| reader.journal(turn_id(1));
    for (sql, column) in [
        ("UPDATE journal SET entry = 'new'", "journal.entry"),
        ("UPDATE journal SET body = NULL", "journal.body"),
        ("UPDATE journal SET body = '{'", "journal.body"),
        ("UPDATE journal SET arguments = '[]'", "journal.arguments"),
        ("UPDATE journal SET interrupt = x'01'", "journal.interrupt"),
        ("UPDATE journal SET name = NULL", "the step is missing"),
        ("UPDATE journal SET entry = 'ask'", "the interrupt is missing"),
    ] {
        let text = spoiled(sql, journal).await;
        assert!(text.contains(column), "{sql}: {text}");
    }
    let text = spoiled("UPDATE messages SET message = '7'", |reader| reader.messages(session_id(1))).await;
    assert!(text.contains("messages.message"), "{text}");
    let text = spoiled("UPDATE turns SET epoch = -1", |reader| reader.turn(turn_id(1))).await;
    assert!(text.contains("turns.epoch"), "{text}");
    let text = spoiled("UPDATE events SET status = 'x'", |reader| reader.events_after(0, None, 1)).await;
    assert!(text.contains("events.status"), "{text}");
}

#[tokio::test]
async fn what_nests_too_deep_to_be_read_back_is_not_stored() {
    let (_directory, path) = place();
    let store = open(&path);
    let deep = (0..200).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let outcome = store
        .transact(about(1), move |transaction| {
            transaction.insert_session(&session(1), &[])?;
            transaction.insert_turn(&turn(session_id(1), 1))?;
            transaction.append_foreign(turn_id(1), &step("s", deep.clone()), at(0))
        })
        .await;
    assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
    assert_eq!(store.query(|reader| reader.count_sessions()).await, Ok(0));
}

/// How SQLite would run a statement.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let params = rusqlite::params_from_iter(std::iter::repeat_n(1, count));
    let steps: Vec<String> = statement.query_map(params, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
    steps.join("\n")
}

#[tokio::test]
async fn what_has_to_be_fast_uses_an_index_and_sorts_nothing() {
    use crate::domain::status::NoticeStatus;
    use crate::store::query::NoticeQuery;
    use crate::store::sqlite::outbox::notices_sql;
    use crate::store::sqlite::reading::{audit_sql, interrupts_sql, sessions_sql};
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = Connection::open(&path).unwrap();
    let pending = InterruptQuery {
        status: Some(crate::domain::status::InterruptStatus::Pending),
        cursor: Some(9),
        limit: 10,
        ..InterruptQuery::default()
    };
    let of_session = InterruptQuery { session_id: Some(session_id(1)), ..pending.clone() };
    let claimed = InterruptQuery { claimed_by: Some(("ada".to_owned(), at(0))), ..pending.clone() };
    let of_tool = InterruptQuery { status: None, tool: Some("rm".to_owned()), ..pending.clone() };
    let of_one_session =
        AuditQuery { session_id: Some(session_id(1)), cursor: Some(3), limit: 10, ..AuditQuery::default() };
    let of_interrupt = AuditQuery { interrupt_id: Some(interrupt_id(1)), limit: 10, ..AuditQuery::default() };
    let of_actor = AuditQuery { actor: Some("ada".to_owned()), limit: 10, ..AuditQuery::default() };
    let idle = SessionQuery {
        status: Some(crate::domain::status::Status::Idle),
        limit: 10,
        cursor: Some(3),
        ..SessionQuery::default()
    };
    let newest = SessionQuery { order: crate::store::query::Order::Newest, ..idle.clone() };
    let outbox = include_str!("../sql/outbox/select.sql");
    let failed = NoticeQuery { status: Some(NoticeStatus::Failed), limit: 10, ..NoticeQuery::default() };
    let told = NoticeQuery { session_id: Some(session_id(1)), limit: 10, ..NoticeQuery::default() };
    for (sql, index) in [
        (interrupts_sql(&pending), "interrupts_pending"),
        (interrupts_sql(&of_session), "interrupts_of_session"),
        (interrupts_sql(&claimed), "interrupts_claimed"),
        (interrupts_sql(&of_tool), "interrupts_by_tool"),
        (sessions_sql(&idle), "sessions_by_status"),
        (sessions_sql(&newest), "sessions_by_status"),
        (audit_sql(&of_one_session), "audit_of_session"),
        (audit_sql(&of_interrupt), "audit_of_interrupt"),
        (audit_sql(&of_actor), "audit_of_actor"),
        (include_str!("../sql/audit/has_seen.sql").to_owned(), "audit_of_interrupt"),
        (include_str!("../sql/sessions/sweep.sql").to_owned(), "sessions_settled"),
        (include_str!("../sql/events/after_of_session.sql").to_owned(), "events_of_session"),
        (include_str!("../sql/turns/due.sql").to_owned(), "turns_waking"),
        (include_str!("../sql/turns/next_due.sql").to_owned(), "turns_waking"),
        (include_str!("../sql/turns/to_compact.sql").to_owned(), "turns_todo"),
        (include_str!("../sql/interrupts/due.sql").to_owned(), "interrupts_due"),
        (include_str!("../sql/interrupts/next_due.sql").to_owned(), "interrupts_due"),
        (include_str!("../sql/interrupts/stop_expiry.sql").to_owned(), "interrupts_of_session"),
        (include_str!("../sql/interrupts/resume_expiry.sql").to_owned(), "interrupts_of_session"),
        (include_str!("../sql/replies/sweep.sql").to_owned(), "replies_by_age"),
        (format!("{outbox}{}", include_str!("../sql/outbox/lane.sql")), "outbox_lane"),
        (format!("{outbox}{}", include_str!("../sql/outbox/due.sql")), "outbox_due"),
        (include_str!("../sql/outbox/next_due.sql").to_owned(), "outbox_due"),
        (include_str!("../sql/outbox/has_pending.sql").to_owned(), "outbox_lane"),
        (include_str!("../sql/outbox/make_first_due.sql").to_owned(), "outbox_lane"),
        (include_str!("../sql/outbox/figures.sql").to_owned(), "outbox_by_status"),
        (include_str!("../sql/outbox/release.sql").to_owned(), "outbox_by_status"),
        (include_str!("../sql/outbox/sweep.sql").to_owned(), "outbox_settled"),
        (notices_sql(&failed), "outbox_by_status"),
        (notices_sql(&told), "outbox_of_session"),
        (include_str!("../sql/turns/unparked.sql").to_owned(), "turns_todo"),
        (
            format!("{}{}", include_str!("../sql/turns/select.sql"), include_str!("../sql/turns/last.sql")),
            "turns_of_session",
        ),
    ] {
        let plan = plan(&connection, &sql);
        assert!(plan.contains(&format!("INDEX {index} ")), "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn notices_to_who_is_passed_over_are_not_read() {
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = crate::store::sqlite::connection::open(&path).unwrap();
    let next = plan(&connection, include_str!("../sql/outbox/next_due.sql"));
    assert!(next.contains("COVERING INDEX outbox_due "), "{next}");
}

#[tokio::test]
async fn a_list_of_sessions_and_a_search_go_along_the_sessions_and_no_further_than_they_may() {
    use crate::domain::search::Needle;
    use crate::domain::status::Status;
    use crate::store::query::{Order, SessionSearch};
    use crate::store::sqlite::reading::{session_search_sql, sessions_sql};
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = crate::store::sqlite::connection::open(&path).unwrap();
    let newest = SessionQuery { order: Order::Newest, limit: 10, cursor: Some(9), ..SessionQuery::default() };
    let one = SessionQuery { id: Some(session_id(1)), ..newest.clone() };
    let idle = SessionQuery { status: Some(Status::Idle), ..newest.clone() };
    let search = SessionSearch { needle: Needle::new("refund"), within: 100 };
    let [reach, found] = session_search_sql(&newest, &search);
    let [reach_idle, found_idle] = session_search_sql(&idle, &search);
    // A title is two look-ups for each row that is looked at.
    let title = ["SEARCH turns USING INDEX turns_of_session (session=?)", "SEARCH messages USING PRIMARY KEY"];
    for (sql, step, is_titled) in [
        (sessions_sql(&newest), "SEARCH sessions USING INTEGER PRIMARY KEY (rowid<?)", true),
        (sessions_sql(&one), "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (id=?", true),
        (reach, "SEARCH sessions USING INTEGER PRIMARY KEY (rowid<?)", false),
        (found, "SEARCH sessions USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", true),
        (reach_idle, "SEARCH sessions USING COVERING INDEX sessions_by_status (status=? AND rowid<?)", false),
        (found_idle, "SEARCH sessions USING INDEX sessions_by_status (status=? AND rowid>? AND rowid<?)", true),
    ] {
        let plan = plan(&connection, &sql);
        assert!(plan.contains(step), "{sql}\n{plan}");
        assert!(title.iter().all(|step| plan.contains(step) == is_titled), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn what_a_turn_asked_and_began_is_found_in_its_own_journal_from_the_end() {
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = Connection::open(&path).unwrap();
    for sql in [
        include_str!("../sql/journal/asking.sql"),
        include_str!("../sql/journal/begun.sql"),
        include_str!("../sql/interrupts/with_approvers.sql"),
    ] {
        let plan = plan(&connection, sql);
        assert!(plan.starts_with("SEARCH journal USING PRIMARY KEY (turn=?)"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn whoever_was_away_for_long_is_told_by_the_journals_of_the_session_alone() {
    let (_directory, path) = place();
    let store = open(&path);
    let far = include_str!("../sql/events/told_of_session_far.sql");
    for number in [1, 2] {
        let stored = store.transact(about(number), move |tx| {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.claim_turn(turn_id(number), me(), 0)
        });
        stored.await.unwrap();
    }
    // What another session does meanwhile is more than is gone through.
    for (number, count) in [(1, 3), (2, 1100), (1, 2)] {
        let told = store.transact(about(number), move |tx| {
            (0..count)
                .try_for_each(|_| tx.append_told(turn_id(number), 1, &step("s", serde_json::json!(1)), at(0)).map(drop))
        });
        told.await.unwrap();
    }
    let after = async |number, limit| {
        let read = store.query(move |reader| reader.events_after(number, Some(session_id(1)), limit)).await.unwrap();
        read.iter().map(|told| told.number).collect::<Vec<_>>()
    };
    assert_eq!(after(0, 10).await, [1, 2, 3, 1104, 1105]);
    assert_eq!((after(0, 2).await, after(2, 2).await), (vec![1, 2], vec![3, 1104]));
    assert_eq!((after(1104, 10).await, after(1105, 10).await), (vec![1105], vec![]));
    store.close().await.unwrap();
    let plan = plan(&crate::store::sqlite::connection::open(&path).unwrap(), far);
    for step in
        ["SEARCH of_session USING COVERING INDEX turns_of_session (session=?)", "SEARCH own USING PRIMARY KEY (turn=?)"]
    {
        assert!(plan.contains(step), "{step}: {plan}");
    }
    assert!(plan.contains("SEARCH journal USING INDEX journal_told (event=?)"), "{plan}");
}

#[tokio::test]
async fn a_row_of_the_audit_cannot_be_changed_removed_or_replaced() {
    let (_directory, path) = place();
    let store = open(&path);
    let deeds = store.transact(About::Nothing, |tx| {
        tx.append_audit(Deed::new(Action::Asked), at(0))?;
        tx.append_audit(Deed::new(Action::Decided), at(1))
    });
    deeds.await.unwrap();
    let head = store.query(|reader| reader.audit_head()).await;
    store.close().await.unwrap();
    let connection = Connection::open(&path).unwrap();
    for (sql, why) in [
        ("UPDATE audit SET actor = 'bob'", "never changed"),
        ("DELETE FROM audit WHERE seq = 2", "never removed"),
        ("INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 1", "only added at its end"),
        (
            "INSERT INTO audit SELECT 9, at, action, session, interrupt, actor, address, details, prev, hash FROM audit WHERE seq = 2",
            "only added at its end",
        ),
    ] {
        let refused = connection.execute_batch(sql).unwrap_err().to_string();
        assert!(refused.contains(why), "{sql}: {refused}");
    }
    drop(connection);
    assert_eq!(open(&path).query(|reader| reader.audit_head()).await, head);
}

#[tokio::test]
async fn what_may_be_stored_may_be_audited() {
    let (_directory, path) = place();
    let deepest = (0..120).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let deed = Deed::new(Action::Decided).with("value", deepest.clone());
    let store = open(&path);
    store.transact(About::Nothing, move |tx| tx.append_audit(deed.clone(), at(0))).await.unwrap();
    let query = AuditQuery { limit: 1, ..AuditQuery::default() };
    let read = store.query(move |reader| reader.audit(&query)).await.unwrap().items;
    assert_eq!(read[0].details["value"], deepest);
    // Also as a line of an export.
    let line = serde_json::json!(read[0]).to_string();
    assert_eq!(serde_json::from_str::<crate::domain::audit::AuditRow>(&line).unwrap(), read[0]);
}

#[tokio::test]
async fn a_notice_that_this_version_cannot_read_keeps_no_other_one_from_being_due() {
    let (_directory, path) = place();
    let store = open(&path);
    let notices = [1, 2, 3].map(|number| due(number, 1));
    let stored = store.transact(about(1), move |tx| notices.iter().try_for_each(|notice| tx.insert_notice(notice)));
    stored.await.unwrap();
    change_rows(&path, "UPDATE outbox SET event = 'session.teleported' WHERE seq = 1");
    change_rows(&path, "UPDATE outbox SET status = 'lost' WHERE seq = 2");
    assert_eq!(store.upkeep().next_notice_at(Receivers::all()).await, Ok(Some(at(3))));
    let found = store.upkeep().due_notices(at(9), Receivers::all(), 9).await.unwrap();
    assert_eq!(found.iter().map(|notice| notice.due_at).collect::<Vec<_>>(), [Some(at(3))]);
}

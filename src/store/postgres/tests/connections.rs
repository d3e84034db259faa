//! Connections: what holds in each, and what they leave behind.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::support::*;
use crate::domain::Error;
use crate::store::postgres::asking::params;
use crate::store::postgres::connection::{CallFailure, Connection, Frame, SqlCall};
use crate::store::postgres::opening;
use crate::store::postgres::param::SqlParam;
use crate::store::postgres::pool::{CONNECTIONS, ConnectionPool};
use crate::store::shared::backend::Backend;
use crate::store::shared::changes::{Changes, RowChange};
use crate::store::shared::question::StoreQuestion;

const FRAMES: [Frame; 3] = [Frame::Snapshot, Frame::Commit, Frame::Beat];

async fn text(pool: &Arc<ConnectionPool>, frame: Frame, sql: &str) -> Result<String, CallFailure> {
    let rows = pool.run(frame, vec![SqlCall::new(sql, vec![])]).await?;
    Ok(rows[0][0].get(0))
}

/// Waits until as many connections of a store as `expected` are as `sql` says.
async fn until_there_are(database: &Database, expected: i64, sql: &str) {
    let client = database.client().await;
    let ours = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'hitl' AND {sql}"
    );
    while client.query_one(&ours, &[]).await.unwrap().get::<_, i64>(0) != expected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn no_transaction_waits_for_ever_nor_stays_open_for_ever() {
    let database = Database::new().await;
    drop(database.store().await);
    // Behind a pooler nothing may stay in a connection: there the limits are the transaction's own.
    for options in ["", "&pooler=transaction"] {
        let address = format!("{}{options}", database.text()).parse().unwrap();
        let mut connection = Connection::open(&address).await.unwrap();
        let mut setting = async |frame: Frame, name: &str| -> String {
            let call = SqlCall::new(format!("SELECT current_setting('{name}')"), vec![]);
            connection.run(frame, vec![call]).await.unwrap()[0][0].get(0)
        };
        for frame in FRAMES {
            assert_eq!(setting(frame, "idle_in_transaction_session_timeout").await, "4500ms");
        }
        assert_eq!(setting(Frame::Snapshot, "statement_timeout").await, "4500ms");
        assert_eq!(setting(Frame::Commit, "lock_timeout").await, "2s");
        // One that has what it needs is given its time: nobody could tell what came of it.
        assert_eq!(setting(Frame::Commit, "statement_timeout").await, "0");
        // Nothing of a beat stays: a commit after it waits for its disk.
        assert_eq!(setting(Frame::Beat, "synchronous_commit").await, "off");
        assert_eq!(setting(Frame::Commit, "synchronous_commit").await, "on");
    }
}

/// A connection that is kept for such transactions, as those of a pool are.
async fn kept_for(database: &Database, options: &str, frame: Frame) -> Connection {
    let address = format!("{}{options}", database.text()).parse().unwrap();
    let (mut connection, _) = opening::connect(&address).await.unwrap();
    connection.keep_for(frame).await.unwrap();
    connection
}

/// What the database refuses where there is a transaction around it.
const ONLY_ALONE: &str = "VACUUM hitl.meta";

#[tokio::test]
async fn what_is_one_statement_goes_alone_in_a_connection_that_is_kept_for_it() {
    let database = Database::new().await;
    drop(database.store().await);
    let cases = [
        ("", Frame::Commit, Frame::Commit, true),
        ("", Frame::Snapshot, Frame::Snapshot, true),
        // It waits for no disk by a setting of its transaction.
        ("", Frame::Commit, Frame::Beat, false),
        ("&pooler=transaction", Frame::Commit, Frame::Commit, false),
        ("&pooler=transaction", Frame::Snapshot, Frame::Snapshot, false),
    ];
    for (options, kept, frame, is_alone) in cases {
        let mut connection = kept_for(&database, options, kept).await;
        let mut goes_alone = async |calls: &[&str]| {
            let calls = calls.iter().map(|sql| SqlCall::new(*sql, vec![])).collect();
            match connection.run(frame, calls).await {
                Ok(_) => true,
                Err(CallFailure::Refused(code, _)) if code == SqlState::ACTIVE_SQL_TRANSACTION => false,
                Err(failed) => panic!("{failed:?}"),
            }
        };
        assert_eq!(goes_alone(&[ONLY_ALONE]).await, is_alone, "{options} {frame:?}");
        // Two are one transaction.
        assert!(!goes_alone(&[ONLY_ALONE, "SELECT 2"]).await, "{options} {frame:?}");
    }
}

#[tokio::test]
async fn what_goes_alone_is_a_transaction_as_any_other_whatever_the_database_has_as_its_own() {
    let database = Database::new().await;
    drop(database.store().await);
    let theirs = ["default_transaction_isolation = 'serializable'", "default_transaction_read_only = on"];
    for setting in theirs {
        database.execute(&format!("ALTER DATABASE {} SET {setting}", database.name())).await;
    }
    let names = [
        "transaction_isolation",
        "transaction_read_only",
        "synchronous_commit",
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
    ];
    let settings =
        format!("SELECT concat_ws(' ', {})", names.map(|name| format!("current_setting('{name}')")).join(", "));
    for frame in [Frame::Commit, Frame::Snapshot] {
        let mut connection = kept_for(&database, "", frame).await;
        let mut around = Connection::open(&database.address()).await.unwrap();
        let call = || vec![SqlCall::new(settings.clone(), vec![])];
        let alone: String = connection.run(frame, call()).await.unwrap()[0][0].get(0);
        let framed: String = around.run(frame, call()).await.unwrap()[0][0].get(0);
        assert_eq!(alone, framed);
    }
}

#[tokio::test]
async fn a_statement_that_is_complete_counts_only_once_it_is_committed() {
    let database = Database::new().await;
    drop(database.store().await);
    database.execute("CREATE TABLE late (number int UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    let mut connection = kept_for(&database, "", Frame::Commit).await;
    let insert = || SqlCall::new("INSERT INTO late VALUES (1) RETURNING number", vec![]);
    let twice = SqlCall::new("INSERT INTO late VALUES (2), (2) RETURNING number", vec![]);
    // All its rows are there before the database looks.
    let refused = connection.run(Frame::Commit, vec![twice]).await;
    assert!(matches!(&refused, Err(failed) if failed.is_moved()), "{refused:?}");
    // The connection is as good as before, and nothing of it is there.
    assert_eq!(connection.run(Frame::Commit, vec![insert()]).await.unwrap()[0].len(), 1);
    let there: i64 = database.client().await.query_one("SELECT count(*) FROM late", &[]).await.unwrap().get(0);
    assert_eq!(there, 1);
}

#[tokio::test]
async fn what_is_prepared_is_planned_once_however_often_it_is_made() {
    let database = Database::new().await;
    let store = database.store().await;
    let pool = store.pool();
    let settings = "SELECT concat_ws(' ', current_setting('plan_cache_mode'), current_setting('enable_seqscan'), \
                    current_setting('jit'))";
    assert_eq!(text(&pool, Frame::Commit, settings).await.unwrap(), "force_generic_plan off off");
    for number in 1..=10 {
        store_session(&store, number).await;
    }
    // Those of one connection are told: commits that follow each other take the same.
    let planned = "SELECT sum(custom_plans)::text || ' of ' || (sum(generic_plans) >= 10)::text \
                   FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO hitl.sessions%'";
    assert_eq!(text(&pool, Frame::Commit, planned).await.unwrap(), "0 of true");
}

#[tokio::test]
async fn a_commit_that_gets_no_lock_has_changed_nothing_and_leaves_nobody_waiting() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE hitl.sessions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let change = Changes { sessions: vec![touched(1, 1, RowChange::Kept)], ..Changes::default() };
    let refused = store.commit(change.clone()).await;
    let Err(Error::StoreUnavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("lock timeout"), "{why}");
    until_there_are(&database, 0, "wait_event_type = 'Lock'").await;
    held.rollback().await.unwrap();
    commit(&store, change).await;
}

/// A text that says that it is a number: the driver finds out that it is none, and not the database.
struct Misfit(String);

impl SqlParam for Misfit {
    fn value(&self) -> &(dyn ToSql + Sync) {
        &self.0
    }

    fn sql_type(&self) -> Type {
        Type::INT8
    }
}

#[tokio::test]
async fn what_cannot_be_sent_takes_the_rest_of_its_batch_with_it() {
    let database = Database::new().await;
    let store = database.store().await;
    let pool = store.pool();
    let key = "INSERT INTO hitl.sign_ins (token, key, ends_at) VALUES ('\\x01', '\\x02', 1)";
    let misfit = SqlCall::new("SELECT $1::bigint", vec![Box::new(Misfit("one".to_owned()))]);
    let failed = pool.run(Frame::Commit, vec![SqlCall::new(key, vec![]), misfit]).await;
    assert!(matches!(failed, Err(CallFailure::Unsendable(_))), "{failed:?}");
    assert_eq!(database.count("sign_ins").await, 0);
    // The connection is as good as before.
    pool.run(Frame::Commit, vec![SqlCall::new(key, vec![])]).await.unwrap();
    assert_eq!(database.count("sign_ins").await, 1);
}

/// How many statements a connection has prepared, after some calls.
async fn left_behind(database: &Database, options: &str) -> i64 {
    let address = format!("{}{options}", database.text()).parse().unwrap();
    let mut connection = Connection::open(&address).await.unwrap();
    let calls = || vec![SqlCall::new("SELECT $1 || 'two'", params!["one"]), SqlCall::new("SELECT 1", params![])];
    for frame in FRAMES {
        let rows = connection.run(frame, calls()).await.unwrap();
        assert_eq!((rows[0][0].get(0), rows[1][0].get(0)), ("onetwo", 1));
    }
    let count = "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql";
    let rows = connection.run(Frame::Snapshot, vec![SqlCall::new(count, params![])]).await.unwrap();
    rows[0][0].get(0)
}

#[tokio::test]
async fn behind_a_pooler_no_statement_is_left_in_a_connection() {
    let database = Database::new().await;
    assert_eq!(left_behind(&database, "&pooler=transaction").await, 0);
    // Two, and the one that counts them.
    assert_eq!(left_behind(&database, "").await, 3);
}

/// Makes calls, and waits for them no longer than until they are at work.
async fn give_up(database: &Database, frame: Frame, calls: Vec<SqlCall>) {
    let mut connection = kept_for(database, "", frame).await;
    let at_work = until_there_are(database, 1, "wait_event = 'PgSleep'");
    let given_up = connection.run_until(at_work, frame, calls).await;
    assert!(matches!(&given_up, Err(CallFailure::Lost(why)) if why.contains("no answer")), "{given_up:?}");
    assert!(connection.is_over());
    until_there_are(database, 0, "state <> 'idle'").await;
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_any_more_is_left_to_its_end() {
    let database = Database::new().await;
    drop(database.store().await);
    let key = "INSERT INTO hitl.sign_ins (token, key, ends_at) VALUES ('\\x01', '\\x02', 1)";
    let slow = "SELECT 'over' FROM pg_sleep(2)";
    give_up(&database, Frame::Commit, vec![SqlCall::new(key, vec![]), SqlCall::new(slow, vec![])]).await;
    assert_eq!(database.count("sign_ins").await, 1);
    // Also where it is one statement, without a transaction around it.
    let both = "INSERT INTO hitl.sign_ins (token, key, ends_at) SELECT '\\x03', '\\x04', 1 FROM pg_sleep(2)";
    give_up(&database, Frame::Commit, vec![SqlCall::new(both, vec![])]).await;
    assert_eq!(database.count("sign_ins").await, 2);
}

#[tokio::test]
async fn what_nobody_reads_any_more_is_cancelled() {
    let database = Database::new().await;
    drop(database.store().await);
    // Nothing else ends it while this test is waited for.
    let (unlimited, slow) = ("SET LOCAL statement_timeout = 0", "SELECT 'over' FROM pg_sleep(3600)");
    give_up(&database, Frame::Snapshot, vec![SqlCall::new(unlimited, vec![]), SqlCall::new(slow, vec![])]).await;
}

#[tokio::test]
async fn slow_reads_leave_connections_to_commits() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    let pool = store.pool();
    let holder = database.client().await;
    holder.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    for _ in 0..CONNECTIONS {
        let pool = Arc::clone(&pool);
        let wait = "SELECT 'over' FROM (SELECT pg_advisory_xact_lock_shared(1)) waited";
        tokio::spawn(async move { text(&pool, Frame::Snapshot, wait).await });
    }
    while pool.free(Frame::Snapshot) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.free(Frame::Commit), 4);
    assert!(store.answer(vec![StoreQuestion::Keys, StoreQuestion::SignIns]).await.is_ok(), "and to who may come in");
    commit(&store, Changes { sessions: vec![touched(1, 1, RowChange::Kept)], ..Changes::default() }).await;
    holder.batch_execute("SELECT pg_advisory_unlock(1)").await.unwrap();
}

#[tokio::test]
async fn every_new_connection_is_looked_at_as_the_first_one_was() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    assert!(slice(&store, 1).await.is_some());
    database.execute(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).await;
    // Those that there are have begun before.
    assert!(store.answer(vec![StoreQuestion::CountSessions]).await.is_ok());
    database.execute(CUT).await;
    let why = loop {
        match store.answer(vec![StoreQuestion::CountSessions]).await {
            Err(Error::StoreUnavailable(why)) if why.contains("synchronous_commit") => break why,
            // The one that was cut may still be taken for whole once.
            Err(_) => {}
            Ok(_) => panic!("it was not looked at"),
        }
    };
    assert!(why.starts_with("the database cannot be reached: "), "{why}");
    database.execute(&format!("ALTER DATABASE {} RESET synchronous_commit", database.name())).await;
    assert!(store.answer(vec![StoreQuestion::CountSessions]).await.is_ok());
}

#[tokio::test]
async fn a_store_finds_the_database_again_after_its_connections_were_cut() {
    let database = Database::new().await;
    let store = database.store().await;
    store_session(&store, 1).await;
    database.execute(CUT).await;
    // The one that was cut may still be taken for whole once.
    let mut tries = 0;
    while store.answer(vec![StoreQuestion::CountSessions]).await.is_err() {
        tries += 1;
        assert!(tries < 9, "it does not come back");
    }
    assert!(slice(&store, 1).await.is_some());
}

/// Cuts every connection of a store.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = 'hitl'";

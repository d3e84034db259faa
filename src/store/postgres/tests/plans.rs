//! How the database goes about each statement where there are many rows: none looks at all of a table.

use serde_json::json;
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use super::support::*;
use crate::domain::event::StoredEvent;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Timestamp, audit};
use crate::store::contract::fixture::*;
use crate::store::graphs::{CheckpointKey, CheckpointQuery};
use crate::store::kept::KeptForms;
use crate::store::postgres::connection::PLANNED_ONCE;
use crate::store::postgres::{asking, graphs, writing};
use crate::store::query::{AuditQuery, InterruptQuery, NoticeQuery, SessionQuery};
use crate::store::record::{DueKind, StoredReply};
use crate::store::shared::changes::{Changes, NoticeChange, ReplyChange, RowChange, TurnChange};
use crate::store::shared::question::StoreQuestion;

/// What a plan of a statement that takes longer the more rows there are says.
const SCANS: [&str; 12] = [
    "Seq Scan on sessions",
    "Seq Scan on turns",
    "Seq Scan on messages",
    "Seq Scan on journal",
    "Seq Scan on interrupts",
    "Seq Scan on replies",
    "Seq Scan on events",
    "Seq Scan on deeds",
    "Seq Scan on outbox",
    "Seq Scan on graph_checkpoints",
    "Seq Scan on graph_values",
    "Seq Scan on graph_writes",
];

/// The plan for parameters of which nothing is known. PostgreSQL 15 has no `EXPLAIN (GENERIC_PLAN)`.
async fn plan(client: &Client, statement: &str) -> String {
    let prepared = client.prepare(statement).await.unwrap_or_else(|error| panic!("{error:?}: {statement}"));
    let unknown = vec!["NULL"; prepared.params().len()].join(", ");
    let executed = if unknown.is_empty() { "planned".to_owned() } else { format!("planned({unknown})") };
    let asked = format!(
        "SET plan_cache_mode = force_generic_plan; PREPARE planned AS {statement}; \
         EXPLAIN (COSTS OFF) EXECUTE {executed}; DEALLOCATE planned"
    );
    let explained = client.simple_query(&asked).await;
    let rows = explained.unwrap_or_else(|error| panic!("{error:?}: {statement}"));
    let line = |row: &SimpleQueryMessage| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    rows.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// How many rows there are of each kind.
fn many() -> u64 {
    if std::env::var_os("HITL_TEST_FULL").is_some() { 100_000 } else { 20_000 }
}

/// The statement of that name.
fn text_of(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/postgres/sql");
    std::fs::read_to_string(format!("{folder}/{name}.sql")).unwrap()
}

async fn full() -> (Database, Client) {
    let database = Database::new().await;
    drop(database.store().await);
    let client = database.client().await;
    let rows =
        include_str!("many_rows.sql").replace("generate_series(1, 100000)", &format!("generate_series(1, {})", many()));
    client.batch_execute(&rows).await.unwrap();
    (database, client)
}

/// What jobs ask on their way, one of each kind, and pages as the inbox and clients ask for them.
fn questions() -> Vec<StoreQuestion> {
    let (session, turn, interrupt) = (session_id(1), turn_id(1), interrupt_id(1));
    let pending = InterruptQuery { status: Some(InterruptStatus::Pending), limit: 50, ..InterruptQuery::default() };
    vec![
        StoreQuestion::Session(session),
        StoreQuestion::Messages(session),
        StoreQuestion::MessagesPage { session, first: 1, limit: 10 },
        StoreQuestion::Turn(turn),
        StoreQuestion::Journal(turn),
        StoreQuestion::LastEntry(turn),
        StoreQuestion::JournalPage { turn, first: 1, limit: 10 },
        StoreQuestion::AskingStep(turn, interrupt),
        StoreQuestion::BegunStep(turn, "1".to_owned()),
        StoreQuestion::WithApprovers(turn),
        StoreQuestion::Interrupt(interrupt),
        StoreQuestion::SessionOfTurn(turn),
        StoreQuestion::SenderOfTurn(turn),
        StoreQuestion::SessionOfInterrupt(interrupt),
        StoreQuestion::Reply { scope: "messages:1".to_owned(), key: "k".to_owned() },
        StoreQuestion::Carried(turn),
        StoreQuestion::Lane { session, url: "https://a.test/1".to_owned(), limit: 2 },
        StoreQuestion::Seen(interrupt, "ada".to_owned()),
        StoreQuestion::LastEvent,
        StoreQuestion::LastEventOf(session),
        StoreQuestion::AuditHead,
        StoreQuestion::EventsAfter { after: 1, session: None, limit: 256 },
        StoreQuestion::EventsAfter { after: 1, session: Some(session), limit: 256 },
        StoreQuestion::Sessions(SessionQuery { limit: 50, ..SessionQuery::default() }),
        StoreQuestion::Sessions(SessionQuery {
            status: Some(Status::Interrupted),
            limit: 50,
            ..SessionQuery::default()
        }),
        // A search looks for what it finds in pages of these.
        StoreQuestion::Sessions(SessionQuery { cursor: Some(1000), limit: 50, ..SessionQuery::default() }),
        StoreQuestion::Sessions(SessionQuery { id: Some(session), limit: 1, ..SessionQuery::default() }),
        StoreQuestion::Interrupts(pending.clone()),
        StoreQuestion::Interrupts(InterruptQuery { cursor: Some(1000), ..pending.clone() }),
        StoreQuestion::Interrupts(InterruptQuery { tool: Some("tool 1".to_owned()), ..pending.clone() }),
        StoreQuestion::Interrupts(InterruptQuery { session_id: Some(session), ..pending.clone() }),
        StoreQuestion::Interrupts(InterruptQuery { claimed_by: Some(("ada".to_owned(), at(1))), ..pending }),
        StoreQuestion::Notices(NoticeQuery { limit: 50, ..NoticeQuery::default() }),
        StoreQuestion::Audit(AuditQuery { limit: 50, ..AuditQuery::default() }),
        StoreQuestion::Audit(AuditQuery { session_id: Some(session), limit: 50, ..AuditQuery::default() }),
        StoreQuestion::Audit(AuditQuery { interrupt_id: Some(interrupt), limit: 50, ..AuditQuery::default() }),
    ]
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn kept(is_new: bool) -> ReplyChange {
    let reply = StoredReply { request_digest: String::new(), body: json!({}), created_at: at(1) };
    ReplyChange { scope: "messages:1".to_owned(), key: "k".to_owned(), reply, is_new }
}

/// One of each kind of row.
fn changes() -> Changes {
    let seen = crate::store::contract::outbox::notice(1, 1);
    Changes {
        sessions: vec![
            touched(1, 1, RowChange::Written(Box::new(session(1)))),
            touched(2, 1, RowChange::Kept),
            touched(3, 1, RowChange::Deleted),
            new_session(session(4)),
        ],
        messages: vec![(session_id(1), 1, vec![message("two")])],
        turns: vec![
            TurnChange { moves_due: true, ..turn_change(turn(session_id(1), 1), false) },
            turn_change(turn(session_id(4), 4), true),
        ],
        entries: vec![entry(1, "second")],
        interrupts: vec![(custom(1, 1), false), (custom(1, 2), true)],
        replies: [true, false].map(kept).to_vec(),
        set_aside: vec![
            (session_id(1), DueKind::Timers(turn_id(1))),
            (session_id(1), DueKind::Interrupt(interrupt_id(1))),
        ],
        notices: vec![NoticeChange { notice: seen.clone(), seen: Some(seen) }],
        first_due: vec![(session_id(1), "https://a.test/1".to_owned(), at(1))],
        events: vec![(StoredEvent::session(session_id(1), Status::Idle, None), at(1))],
        deeds: vec![(audit::Deed::new(audit::Action::ALL[0]), at(1))],
        ..Changes::default()
    }
}

/// Those that are one statement: the sessions are there, and stay.
fn folded() -> Vec<Changes> {
    let of = |row| {
        let (sessions, interrupts) = (vec![touched(1, 1, row)], vec![(undue(1), false), (undue(2), true)]);
        Changes { sessions, interrupts, ..changes() }
    };
    vec![of(RowChange::Kept), of(RowChange::Written(Box::new(session(1))))]
}

/// Those of a server, which are one statement too: they compare nothing but that it lives.
fn new() -> Changes {
    let turns = vec![turn_change(turn(session_id(4), 4), true)];
    let events = vec![(StoredEvent::session(session_id(4), Status::Idle, None), at(1))];
    Changes { sessions: vec![new_session(session(4))], turns, events, ..Changes::default() }
}

/// Pages of checkpoints as graphs ask for them: the newest, one, those of a run, those of everybody.
fn pages() -> Vec<CheckpointQuery> {
    let text = |text: &str| Some(text.to_owned());
    let key = CheckpointKey { thread: "t1".to_owned(), namespace: String::new(), id: "c9".to_owned() };
    let all = CheckpointQuery { limit: 16, ..CheckpointQuery::default() };
    let of_thread = CheckpointQuery { thread: text("t1"), ..all.clone() };
    let of_graph = CheckpointQuery { namespace: text(""), ..of_thread.clone() };
    vec![
        CheckpointQuery { id: text("c9"), ..of_graph.clone() },
        CheckpointQuery { before: text("c9"), ..of_graph.clone() },
        CheckpointQuery { after: Some(key.clone()), ..of_thread.clone() },
        CheckpointQuery { run: text("r1"), ..all.clone() },
        CheckpointQuery { after: Some(key), ..all.clone() },
        of_graph,
        of_thread,
        all,
    ]
}

/// All that sessions need on their way.
fn statements() -> Vec<String> {
    let mut statements: Vec<String> =
        questions().iter().flat_map(asking::calls).map(|call| call.sql().to_owned()).collect();
    for changes in [vec![changes(), new()], folded()].concat() {
        for member in [None, Some(Uuid::nil())] {
            let calls = writing::calls(&changes, &KeptForms::default(), member).unwrap().calls;
            statements.extend(calls.iter().map(|call| call.sql().to_owned()));
        }
    }
    statements.extend(pages().iter().flat_map(graphs::calls).map(|call| call.sql().to_owned()));
    // What is done over everything every second or so, for every commit, and for every scrape.
    statements.extend(
        [
            "servers/lives",
            "servers/beat",
            "turns/orphaned",
            "turns/orphaned_of",
            "turns/left",
            "turns/owned",
            "turns/withheld",
            "turns/ready",
            "turns/moved",
            "turns/retriable",
            "turns/suspended",
            "turns/compact",
            "due/list",
            "due/next",
            "outbox/next_due",
            "outbox/figures",
            "outbox/sweep",
            "events/sweep",
            "events/horizon",
            "horizon/of_all",
            "horizon/of_ours",
            "replies/sweep",
            "sessions/sweep",
            "graphs/upsert",
            "graphs/upsert_values",
            "graphs/upsert_writes",
            "graphs/delete",
            "graphs/delete_writes",
            "graphs/delete_unnamed",
            "graphs/delete_thread",
            "graphs/delete_thread_values",
            "graphs/delete_thread_writes",
            "graphs/copy",
            "graphs/copy_values",
            "graphs/copy_writes",
            "interrupts/count_pending",
            "deeds/unlinked",
            "deeds/horizon",
        ]
        .map(text_of),
    );
    statements.push(format!("{} {}", text_of("outbox/select"), text_of("outbox/due")));
    assert!(statements.len() > 60, "{}", statements.len());
    statements
}

/// Fails where one of them looks at a whole table.
async fn none_looks_at_a_whole_table(client: &Client) {
    // As the first statement of each look tells those that follow.
    client.batch_execute("SET hitl.horizon = '0'").await.unwrap();
    let mut wrong = Vec::new();
    for statement in statements() {
        let plan = plan(client, &statement).await;
        if SCANS.iter().any(|scan| plan.contains(scan)) {
            wrong.push(format!("{statement}\n{plan}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn nothing_that_sessions_need_on_their_way_looks_at_a_whole_table() {
    let (database, client) = full().await;
    none_looks_at_a_whole_table(&client).await;
    // Nor does how many sessions there are, which is told as the database knows it.
    let counted = number(&database.store().await, StoreQuestion::CountSessions).await;
    assert!(counted.abs_diff(many()) <= many() / 100, "{counted}");
}

#[tokio::test]
async fn notices_to_who_is_passed_over_are_not_read() {
    let (_database, client) = full().await;
    client.batch_execute("VACUUM ANALYZE hitl.outbox").await.unwrap();
    for statement in [text_of("outbox/next_due"), format!("{} {}", text_of("outbox/select"), text_of("outbox/due"))] {
        let plan = plan(&client, &statement).await;
        assert!(plan.contains("Index Only Scan using outbox_due"), "{statement}\n{plan}");
        assert!(!plan.contains("Index Scan using outbox_due"), "{statement}\n{plan}");
    }
}

#[tokio::test]
async fn nor_does_what_is_planned_before_anything_is_known_of_a_table() {
    let database = Database::new().await;
    drop(database.store().await);
    let client = database.client().await;
    // As each connection has them: what it prepares now, it makes alike until the tables are analysed.
    client.batch_execute(PLANNED_ONCE).await.unwrap();
    none_looks_at_a_whole_table(&client).await;
}

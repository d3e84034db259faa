//! Any sequence of jobs, failing ones included, shows the same on every store.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};
use serde_json::{Value, json};

use super::fixture::*;
use super::outbox::notice;
use crate::domain::audit::{Action, Deed};
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::notice::Notice;
use crate::domain::session::Session;
use crate::domain::status::{InterruptStatus, NoticeStatus, Status};
use crate::domain::{Error, SessionId, TurnId};
use crate::store::query::{InterruptQuery, NoticeQuery, Order, Page, SessionQuery};
use crate::store::record::StoredReply;
use crate::store::signals::TurnTaker;
use crate::store::upkeep::{LeftTurns, Receivers, Sweep, Upkeep, UpkeepWriter};
use crate::store::{Reader, Transaction};

/// Few enough that operations meet each other's rows.
const IDS: std::ops::Range<u128> = 0..4;

#[derive(Debug, Clone)]
enum Operation {
    InsertSession(u128, Status, Vec<String>),
    UpdateSession(u128, Status, i64),
    SetMessages(u128, Vec<String>),
    SetMessagesFrom(u128, usize, Vec<String>),
    DeleteSession(u128),
    SweepSessions(i64, usize),
    InsertInterrupt(u128, u128, Value, Option<i64>),
    UpdateInterrupt(u128, u128, InterruptStatus, Option<Value>, Option<i64>),
    InsertTurn(u128, u128),
    ClaimTurn(u128),
    Append(u128, u64, Value),
    AppendTold(u128, u64, Value),
    AppendForeign(u128, Value),
    AppendIntent(u128, String),
    AppendAsk(u128, u128),
    EndTurn(u128, i64),
    ParkTurn(u128, u64, Option<i64>),
    SuspendTurn(u128, i64, bool),
    ReopenTurn(u128),
    WakeTurn(u128),
    LoseTurn(u128, u64, bool),
    AbandonTurn(u128, i64),
    NoteTurn(u128, Option<String>, Vec<String>),
    CompactJournals(i64, usize),
    InsertReply(u128, Value, i64),
    SweepReplies(i64, usize),
    AppendEvent(u128, i64),
    AppendInterruptEvent(u128, u128, InterruptStatus),
    SweepEvents(i64, usize),
    InsertNotice(u128, NoticeStatus, Option<i64>),
    UpdateNotice(u128, NoticeStatus, Option<i64>, bool),
    DeleteNotice(u128),
    ReleaseNotices(i64),
    SweepNotices(i64, usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let status = || prop::sample::select(vec![Status::Idle, Status::Running, Status::Interrupted, Status::Error]);
    let settled = || {
        prop::sample::select(vec![
            InterruptStatus::Pending,
            InterruptStatus::Resolved,
            InterruptStatus::Expired,
            InterruptStatus::Cancelled,
        ])
    };
    let standing = || {
        prop::sample::select(vec![
            NoticeStatus::Scheduled,
            NoticeStatus::Pending,
            NoticeStatus::Delivered,
            NoticeStatus::Failed,
        ])
    };
    let texts = || prop::collection::vec("[ab]", 0..4);
    let time = || 0_i64..20;
    prop_oneof![
        4 => (IDS, status(), texts()).prop_map(|(id, status, texts)| InsertSession(id, status, texts)),
        2 => (IDS, status(), time()).prop_map(|(id, status, time)| UpdateSession(id, status, time)),
        2 => (IDS, texts()).prop_map(|(id, texts)| SetMessages(id, texts)),
        2 => (IDS, 0..3_usize, texts()).prop_map(|(id, first, texts)| SetMessagesFrom(id, first, texts)),
        1 => IDS.prop_map(DeleteSession),
        1 => (time(), 1..4_usize).prop_map(|(before, limit)| SweepSessions(before, limit)),
        3 => (IDS, IDS, json_value(), prop::option::of(time()))
            .prop_map(|(session, id, value, expires_at)| InsertInterrupt(session, id, value, expires_at)),
        2 => (IDS, IDS, settled(), prop::option::of(json_value()), prop::option::of(time()))
            .prop_map(|(session, id, status, value, due)| UpdateInterrupt(session, id, status, value, due)),
        3 => (IDS, IDS).prop_map(|(session, id)| InsertTurn(session, id)),
        2 => IDS.prop_map(ClaimTurn),
        3 => (IDS, 0_u64..3, json_value()).prop_map(|(id, epoch, value)| Append(id, epoch, value)),
        2 => (IDS, 0_u64..3, json_value()).prop_map(|(id, epoch, value)| AppendTold(id, epoch, value)),
        2 => (IDS, json_value()).prop_map(|(id, value)| AppendForeign(id, value)),
        1 => (IDS, "[ab]").prop_map(|(id, kind)| AppendIntent(id, kind)),
        2 => (IDS, IDS).prop_map(|(id, interrupt)| AppendAsk(id, interrupt)),
        1 => (IDS, time()).prop_map(|(id, time)| EndTurn(id, time)),
        2 => (IDS, 0_u64..3, prop::option::of(time())).prop_map(|(id, epoch, time)| ParkTurn(id, epoch, time)),
        2 => (IDS, time(), any::<bool>()).prop_map(|(id, time, is_new)| SuspendTurn(id, time, is_new)),
        2 => IDS.prop_map(ReopenTurn),
        1 => IDS.prop_map(WakeTurn),
        1 => (IDS, 0_u64..3, any::<bool>()).prop_map(|(id, epoch, counts)| LoseTurn(id, epoch, counts)),
        1 => (IDS, time()).prop_map(|(id, time)| AbandonTurn(id, time)),
        1 => (IDS, prop::option::of("[ab]"), texts()).prop_map(|(id, at, texts)| NoteTurn(id, at, texts)),
        1 => (time(), 0_usize..3).prop_map(|(time, limit)| CompactJournals(time, limit)),
        1 => (IDS, json_value(), time()).prop_map(|(key, body, time)| InsertReply(key, body, time)),
        1 => (time(), 0..4_usize).prop_map(|(before, limit)| SweepReplies(before, limit)),
        2 => (IDS, time()).prop_map(|(id, time)| AppendEvent(id, time)),
        1 => (IDS, IDS, settled()).prop_map(|(session, id, status)| AppendInterruptEvent(session, id, status)),
        1 => (time(), 0..4_usize).prop_map(|(before, limit)| SweepEvents(before, limit)),
        3 => (IDS, standing(), prop::option::of(time()))
            .prop_map(|(id, status, time)| InsertNotice(id, status, time)),
        2 => (IDS, standing(), prop::option::of(time()), any::<bool>())
            .prop_map(|(id, status, time, leased)| UpdateNotice(id, status, time, leased)),
        1 => IDS.prop_map(DeleteNotice),
        1 => time().prop_map(ReleaseNotices),
        1 => (time(), 0..4_usize).prop_map(|(before, limit)| SweepNotices(before, limit)),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(".{0,3}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// What an operation over everything gave, as text; `None` for one about rows.
fn apply_over_all(operation: &Operation, transaction: &mut dyn UpkeepWriter) -> Option<Result<String, Error>> {
    let said = |what: &dyn std::fmt::Debug| format!("{what:?}");
    Some(match *operation {
        Operation::SweepSessions(before, limit) => transaction.sweep_sessions(at(before), limit).map(|it| said(&it)),
        Operation::CompactJournals(time, limit) => transaction.compact_journals(at(time), limit).map(|it| said(&it)),
        Operation::SweepReplies(before, limit) => transaction.sweep_replies(at(before), limit).map(|it| said(&it)),
        Operation::SweepEvents(before, limit) => transaction.sweep_events(at(before), limit).map(|it| said(&it)),
        Operation::ReleaseNotices(time) => transaction.release_notices(at(time)).map(|it| said(&it)),
        Operation::SweepNotices(before, limit) => transaction.sweep_notices(at(before), limit).map(|it| said(&it)),
        _ => return None,
    })
}

/// The same, for any store.
async fn keep_up(operation: &Operation, upkeep: &dyn Upkeep) -> Option<String> {
    let swept = async |kind, before, limit| format!("{:?}", upkeep.sweep(kind, at(before), limit).await);
    Some(match *operation {
        Operation::SweepSessions(before, limit) => {
            let deed = Deed::new(Action::SessionDeleted);
            format!("{:?}", upkeep.sweep_sessions(at(before), limit, deed, at(0)).await)
        }
        Operation::CompactJournals(time, limit) => format!("{:?}", upkeep.compact_journals(at(time), limit).await),
        Operation::SweepReplies(before, limit) => swept(Sweep::Replies, before, limit).await,
        Operation::SweepEvents(before, limit) => swept(Sweep::Events, before, limit).await,
        Operation::ReleaseNotices(time) => format!("{:?}", upkeep.release_notices(at(time)).await),
        Operation::SweepNotices(before, limit) => swept(Sweep::Notices, before, limit).await,
        _ => return None,
    })
}

/// What an operation about rows gave, as text.
fn apply(operation: &Operation, transaction: &mut dyn Transaction) -> Result<String, Error> {
    let say = |what: &dyn std::fmt::Debug| Ok(format!("{what:?}"));
    match operation.clone() {
        Operation::SweepSessions(..)
        | Operation::CompactJournals(..)
        | Operation::SweepReplies(..)
        | Operation::SweepEvents(..)
        | Operation::ReleaseNotices(..)
        | Operation::SweepNotices(..) => Ok(String::new()),
        Operation::InsertSession(id, status, texts) => {
            let messages: Vec<_> = texts.iter().map(|text| message(text)).collect();
            say(&transaction.insert_session(&session_in(id, status), &messages)?)
        }
        Operation::UpdateSession(id, status, time) => {
            let session = Session { updated_at: at(time), total_messages: 1, ..session_in(id, status) };
            say(&transaction.update_session(&session)?)
        }
        Operation::SetMessages(id, texts) => {
            let messages: Vec<_> = texts.iter().map(|text| message(text)).collect();
            say(&transaction.set_messages(session_id(id), &messages)?)
        }
        Operation::SetMessagesFrom(id, first, texts) => {
            let messages: Vec<_> = texts.iter().map(|text| message(text)).collect();
            say(&transaction.set_messages_from(session_id(id), first, &messages)?)
        }
        Operation::DeleteSession(id) => say(&transaction.delete_session(session_id(id))?),
        Operation::InsertInterrupt(session, id, value, expires_at) => {
            let payload = object(json!({"type": "x", "value": value}));
            let expires_at = expires_at.map(at);
            say(&transaction.insert_interrupt(&Interrupt { payload, expires_at, ..custom(session, id) })?)
        }
        Operation::UpdateInterrupt(session, id, status, value, expires_at) => {
            let expires_at = expires_at.map(at);
            let interrupt = Interrupt { status, value, expires_at, ..approval(session, id, "rm") };
            say(&transaction.update_interrupt(&interrupt)?)
        }
        Operation::InsertTurn(session, id) => say(&transaction.insert_turn(&turn(session_id(session), id))?),
        Operation::ClaimTurn(id) => say(&transaction.claim_turn(turn_id(id), me(), 0)?),
        Operation::Append(id, epoch, value) => {
            say(&transaction.append(turn_id(id), epoch, &step("s", value), at(0))?)
        }
        Operation::AppendTold(id, epoch, value) => {
            say(&transaction.append_told(turn_id(id), epoch, &step("s", value), at(0))?)
        }
        Operation::AppendForeign(id, value) => {
            let answer = Entry::Answer { interrupt_id: interrupt_id(id), value };
            say(&transaction.append_foreign(turn_id(id), &answer, at(0))?)
        }
        Operation::AppendIntent(id, kind) => {
            let intent = Entry::Intent { step: identity("0#1", &kind), arguments: None };
            say(&transaction.append_foreign(turn_id(id), &intent, at(0))?)
        }
        Operation::AppendAsk(id, interrupt) => {
            let ask = Entry::Ask { step: identity("0#1/0#2", "interrupt"), interrupt_id: interrupt_id(interrupt) };
            say(&transaction.append_foreign(turn_id(id), &ask, at(0))?)
        }
        Operation::ParkTurn(id, epoch, wake_at) => {
            say(&transaction.park_turn(turn_id(id), epoch, wake_at.map(at), epoch + 5)?)
        }
        Operation::SuspendTurn(id, time, is_new) => {
            say(&transaction.suspend_turn(turn_id(id), at(time), if is_new { "new" } else { "old" })?)
        }
        Operation::ReopenTurn(id) => say(&transaction.reopen_turn(turn_id(id))?),
        Operation::WakeTurn(id) => say(&transaction.wake_turn(turn_id(id))?),
        Operation::LoseTurn(id, epoch, counts) => say(&transaction.lose_turn(turn_id(id), epoch, counts, epoch + 5)?),
        Operation::AbandonTurn(id, time) => say(&transaction.abandon_turn(turn_id(id), at(time))?),
        Operation::NoteTurn(id, impure_at, warnings) => {
            say(&transaction.note_turn(turn_id(id), impure_at, warnings)?)
        }
        Operation::EndTurn(id, time) => say(&transaction.end_turn(turn_id(id), at(time))?),
        Operation::InsertReply(key, body, time) => {
            let reply = StoredReply { request_digest: "d".to_owned(), body, created_at: at(time) };
            say(&transaction.insert_reply("scope", &key.to_string(), &reply)?)
        }
        Operation::AppendEvent(id, time) => say(&transaction.append_event(&event(id, "x"), at(time))?),
        Operation::AppendInterruptEvent(session, id, status) => {
            let interrupt = Interrupt { status, ..custom(session, id) };
            say(&transaction.append_event(&StoredEvent::interrupt(&interrupt), at(0))?)
        }
        Operation::InsertNotice(id, status, time) => {
            // Of few sessions, so that several are in one lane.
            let notice = Notice { status, due_at: time.map(at), ..notice(id, id % 2) };
            say(&transaction.insert_notice(&notice)?)
        }
        Operation::UpdateNotice(id, status, time, leased) => {
            let settled_at = if leased { None } else { time.map(at) };
            let notice = Notice { status, due_at: time.map(at), leased, settled_at, ..notice(id, id % 2) };
            say(&transaction.update_notice(&notice)?)
        }
        Operation::DeleteNotice(id) => say(&transaction.delete_notice(notice(id, 0).id)?),
    }
}

/// Everything that can be read, as lines.
fn look(reader: &dyn Reader) -> Result<Vec<String>, Error> {
    let mut seen = look_at_rows(reader)?;
    seen.extend(look_at_lists(reader)?);
    seen.push(format!("{:?}", reader.last_event()?));
    seen.push(format!("{:?}", reader.events_after(0, None, 1000)?));
    for id in IDS {
        seen.push(format!("{:?}", reader.events_after(1, Some(session_id(id)), 3)?));
        seen.push(format!("{:?}", reader.last_event_of(session_id(id))?));
    }
    Ok(seen)
}

/// Events without their numbers, which are each store's own.
fn look_at_events(reader: &dyn Reader) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    for session in [None].into_iter().chain(IDS.map(|id| Some(session_id(id)))) {
        let events = reader.events_after(0, session, 1000)?;
        let newest = events.last().map_or(0, |event| event.number);
        // Numbers of what is gone with its journal may be known for a while, or not.
        let stands = match session {
            None => newest <= reader.last_event()?,
            Some(id) => newest == reader.last_event_of(id)?,
        };
        seen.push(format!("{} {:?}", stands, events.into_iter().map(|it| it.event).collect::<Vec<_>>()));
    }
    Ok(seen)
}

/// What a job about these rows can read.
fn look_at_rows(reader: &dyn Reader) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    for id in IDS {
        seen.push(format!("{:?}", reader.session(session_id(id))?));
        seen.push(format!("{:?}", reader.messages(session_id(id))?));
        seen.push(format!("{:?}", reader.messages_page(session_id(id), 1, 2)?));
        seen.push(format!("{:?}", reader.pending(session_id(id))?));
        seen.push(format!("{:?}", reader.turn(turn_id(id))?));
        seen.push(format!("{:?}", reader.journal(turn_id(id))?));
        seen.push(format!("{:?}", reader.journal_after(turn_id(id), Some(0))?));
        seen.push(format!("{:?}", reader.journal_page(turn_id(id), 1, 2)?));
        seen.push(format!("{:?}", reader.last_entry(turn_id(id))?));
        seen.push(format!("{:?}", reader.asking_step(turn_id(id), interrupt_id(id))?));
        seen.push(format!("{:?}", reader.begun_step(turn_id(id), "0#1")?));
        seen.push(format!("{:?}", reader.last_with_approvers(turn_id(id), &|asked| asked.is_pending())?));
        seen.push(format!("{:?}", reader.interrupt(interrupt_id(id))?));
        seen.push(format!("{:?}", reader.notice(notice(id, 0).id)?));
        seen.push(format!("{:?}", reader.first_pending_notice(session_id(id), &notice(id, 0).url)?));
        seen.push(format!("{:?}", reader.has_pending_notice(session_id(id), &notice(id, 0).url)?));
        seen.push(format!("{:?}", reader.webhook_of_turn(turn_id(id))?));
        seen.push(format!("{:?}", reader.reply("scope", &id.to_string())?));
    }
    Ok(seen)
}

/// What is read over everything.
fn look_at_lists(reader: &dyn Reader) -> Result<Vec<String>, Error> {
    let mut seen = vec![format!("{:?}", reader.count_sessions()?)];
    for id in IDS {
        seen.extend(all_interrupts(reader, Some(session_id(id)), None)?);
    }
    seen.extend(all_interrupts(reader, None, Some(InterruptStatus::Pending))?);
    seen.extend(all_interrupts(reader, None, Some(InterruptStatus::Resolved))?);
    for status in [None, Some(NoticeStatus::Pending)] {
        seen.extend(pages(|cursor| reader.notices(&NoticeQuery { status, session_id: None, limit: 2, cursor }))?);
    }
    for status in [None, Some(Status::Idle), Some(Status::Interrupted)] {
        for order in [Order::Oldest, Order::Newest] {
            seen.extend(pages(|cursor| {
                reader.sessions(&SessionQuery { order, status, limit: 2, cursor, ..SessionQuery::default() })
            })?);
        }
    }
    Ok(seen)
}

/// Which turns other code would take up; their places are each store's own.
async fn retriable(upkeep: &dyn Upkeep, code: &str, limit: usize) -> Result<Vec<(TurnId, Option<String>)>, Error> {
    let found = upkeep.retriable_turns(session(1).agent, code.to_owned(), 0, limit).await?;
    Ok(found.into_iter().map(|found| (found.turn, found.failure_code)).collect())
}

/// How the turns stand that nobody has.
async fn left(upkeep: &dyn Upkeep) -> Result<LeftTurns, Error> {
    upkeep.left_turns(upkeep.orphaned_turns(TurnTaker::default()).await?).await
}

/// Everything that upkeep finds, as lines.
async fn find(upkeep: &dyn Upkeep) -> Vec<String> {
    vec![
        format!("{:?}", upkeep.orphaned_turns(TurnTaker::default()).await),
        format!("{:?}", upkeep.next_due().await),
        format!("{:?}", upkeep.due(at(10), 100).await),
        format!("{:?}", upkeep.due(at(100), 3).await),
        format!("{:?}", retriable(upkeep, "new", 3).await),
        format!("{:?}", retriable(upkeep, "", 2).await),
        format!("{:?}", left(upkeep).await),
        format!("{:?}", upkeep.suspended_turns(at(10), 0, 3).await),
        format!("{:?}", upkeep.suspended_turns(at(10), 2, 3).await),
        format!("{:?}", upkeep.next_notice_at(Receivers::all()).await),
        format!("{:?}", upkeep.due_notices(at(10), Receivers::all(), 100).await),
        format!("{:?}", upkeep.due_notices(at(100), Receivers::all(), 2).await),
        format!("{:?}", upkeep.outbox_figures().await),
        format!("{:?}", upkeep.totals().await),
    ]
}

fn all_interrupts(
    reader: &dyn Reader,
    session_id: Option<SessionId>,
    status: Option<InterruptStatus>,
) -> Result<Vec<String>, Error> {
    let query = InterruptQuery { session_id, status, limit: 2, ..InterruptQuery::default() };
    pages(|cursor| reader.interrupts(&InterruptQuery { cursor, ..query.clone() }))
}

/// Every page of a list.
fn pages<T: std::fmt::Debug>(get: impl Fn(Option<u64>) -> Result<Page<T>, Error>) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = get(cursor)?;
        seen.push(format!("{:?}", page.items));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(seen);
        }
    }
}

/// Runs a job of these operations: what each gave, and everything that can be read during and after it.
async fn run(
    it: &Fixture,
    operations: Vec<Operation>,
    succeeds: bool,
) -> (Vec<String>, Result<(), Error>, Vec<String>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let job = move |transaction: &mut dyn UpkeepWriter| {
        for operation in &operations {
            let came_to = apply_over_all(operation, transaction).unwrap_or_else(|| apply(operation, transaction));
            sender.send(format!("{came_to:?}")).unwrap();
        }
        sender.send(format!("{:?}", look(transaction))).unwrap();
        if succeeds { Ok(()) } else { Err(Error::QueueFull) }
    };
    let outcome = it.local().write_upkeep(Box::new(job)).await;
    let mut after = it.read(look).await;
    after.extend(find(it.upkeep()).await);
    (receiver.try_iter().collect(), outcome, after)
}

/// The same where jobs are about rows alone, and what is done over everything comes after them: on any store.
async fn run_apart(it: &Fixture, operations: Vec<Operation>, succeeds: bool) -> (Vec<String>, Result<(), Error>) {
    let came_to = Arc::new(Mutex::new(Vec::new()));
    let (lines, about_rows) = (Arc::clone(&came_to), operations.clone());
    let job = move |transaction: &mut dyn Transaction| {
        // The last run counts.
        let mut seen = Vec::new();
        for operation in &about_rows {
            let what = apply(operation, transaction);
            let is_event = matches!(operation, Operation::AppendEvent(..) | Operation::AppendInterruptEvent(..));
            seen.push(if is_event { format!("{}", what.is_ok()) } else { format!("{what:?}") });
        }
        seen.push(format!("{:?}", look_at_rows(transaction)?));
        *lines.lock().unwrap() = seen;
        if succeeds { Ok(()) } else { Err(Error::QueueFull) }
    };
    let outcome = change(it.store.as_ref(), job).await;
    // A job that fails is not told what it would have met: a shared store looks whether what is new is there already when
    // it commits.
    let mut seen = if succeeds { came_to.lock().unwrap().clone() } else { Vec::new() };
    for operation in &operations {
        seen.extend(keep_up(operation, it.upkeep()).await);
    }
    let read =
        |reader: &dyn Reader| Ok([look_at_rows(reader)?, look_at_lists(reader)?, look_at_events(reader)?].concat());
    seen.extend(it.read(read).await);
    seen.extend(find(it.upkeep()).await);
    (seen, outcome)
}

async fn shows_what_memory_shows(it: Fixture, jobs: Vec<(Vec<Operation>, bool)>) -> Result<(), TestCaseError> {
    let memory = Fixture::memory();
    for (operations, succeeds) in jobs {
        let expected = run_apart(&memory, operations.clone(), succeeds).await;
        prop_assert_eq!(run_apart(&it, operations, succeeds).await, expected);
    }
    Ok(())
}

fn jobs() -> impl Strategy<Value = Vec<(Vec<Operation>, bool)>> {
    prop::collection::vec((prop::collection::vec(operation(), 0..8), prop::bool::weighted(0.8)), 1..10)
}

/// The same cases each time; `PROPTEST_CASES` takes others, as many as one has time for.
fn config(cases: u32) -> ProptestConfig {
    let own = ProptestConfig::default();
    let is_asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    let (cases, rng_seed) = if is_asked_for { (own.cases, own.rng_seed) } else { (cases, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..own }
}

fn blocking<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn a_postgres_database_shows_the_same(jobs in jobs()) {
        blocking(async { shows_what_memory_shows(Fixture::postgres(), jobs).await })?;
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn a_shared_store_shows_the_same(jobs in jobs()) {
        blocking(async { shows_what_memory_shows(Fixture::shared(), jobs).await })?;
    }

    #[test]
    fn every_local_store_shows_the_same(jobs in jobs()) {
        blocking(async {
            let (memory, sqlite) = (Fixture::memory(), Fixture::sqlite());
            for (operations, succeeds) in jobs {
                let expected = run(&memory, operations.clone(), succeeds).await;
                let got = run(&sqlite, operations, succeeds).await;
                prop_assert_eq!(expected, got);
            }
            Ok(())
        })?;
    }
}

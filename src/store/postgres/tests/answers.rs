//! What is answered after commits.

use std::time::Duration;

use super::support::*;
use crate::domain::Error;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::turn::{Life, TurnState};
use crate::store::contract::fixture::*;
use crate::store::query::{InterruptQuery, SessionQuery, TitledSession};
use crate::store::record::{DueKind, StoredReply};
use crate::store::shared::backend::Backend;
use crate::store::shared::changes::{Changes, ReplyChange, RowChange, TurnChange};
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::upkeep::Upkeep;

#[tokio::test]
async fn what_was_committed_is_what_is_read() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let slice = slice(&store, 1).await.unwrap();
    assert_eq!(slice.version, version(1));
    assert_eq!(slice.session, Ok(session_in(1, Status::Interrupted)));
    let stored = slice.turn.unwrap().unwrap();
    assert_eq!((stored.turn, stored.entries, stored.is_compacted), (turn(session_id(1), 1), 1, false));
    let pending: Vec<_> = slice.pending.unwrap().into_iter().map(|stored| stored.interrupt).collect();
    assert_eq!(pending, [custom(1, 1)]);
    let questions = vec![
        StoreQuestion::Messages(session_id(1)),
        StoreQuestion::Journal(turn_id(1)),
        StoreQuestion::LastEntry(turn_id(1)),
        StoreQuestion::SessionOfTurn(turn_id(1)),
        StoreQuestion::SenderOfTurn(turn_id(1)),
        StoreQuestion::SessionOfInterrupt(interrupt_id(1)),
        StoreQuestion::Interrupt(interrupt_id(2)),
        StoreQuestion::CountSessions,
    ];
    let answers: Vec<Answer> =
        Backend::answer(&store, questions).await.unwrap().into_iter().map(Result::unwrap).collect();
    let entry = recorded(step("first", serde_json::json!("first")));
    assert!(matches!(&answers[0], Answer::Messages(all) if *all == [message("one"), message("two")]));
    assert!(matches!(&answers[1], Answer::Entries(all) if *all == [entry.clone()]));
    assert!(matches!(&answers[2], Answer::Entries(all) if *all == [entry]));
    assert!(matches!(&answers[3], Answer::Whose(Some(id)) if *id == session_id(1)));
    assert!(matches!(&answers[4], Answer::Sender(Some(name)) if name == "key 1"));
    assert!(matches!(&answers[5], Answer::Whose(Some(id)) if *id == session_id(1)));
    assert!(matches!(&answers[6], Answer::Interrupt(None)));
    assert!(matches!(&answers[7], Answer::Number(1)));
}

#[tokio::test]
async fn a_session_comes_with_what_is_pending_in_order_and_with_the_number_of_its_newest_event() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let all = async |number| {
        let asked = vec![
            StoreQuestion::LastEventOf(session_id(number)),
            StoreQuestion::LastEventOf(session_id(9)),
            StoreQuestion::Session(session_id(number)),
        ];
        let answers = Backend::answer(&store, asked).await.unwrap().into_iter().map(Result::unwrap).collect::<Vec<_>>();
        let [Answer::Number(newest), Answer::Number(0), Answer::Session { slice, .. }] = &answers[..] else {
            panic!("{answers:?}")
        };
        let pending = slice.as_ref().map(|slice| slice.pending.as_ref().unwrap());
        (*newest, pending.map(|all| all.iter().map(|it| it.interrupt.interrupt_id).collect::<Vec<_>>()))
    };
    assert_eq!(all(1).await, (0, Some(vec![interrupt_id(1)])));
    assert_eq!(all(2).await, (0, None));
    let answered = crate::domain::interrupt::Interrupt { status: InterruptStatus::Resolved, ..custom(1, 1) };
    let changes = Changes {
        sessions: vec![touched(1, 1, RowChange::Kept)],
        interrupts: vec![(answered, false), (undue(5), true), (undue(4), true), (undue(6), true)],
        events: vec![(event(1, "a"), at(0)), (event(1, "b"), at(0))],
        ..Changes::default()
    };
    let told = commit(&store, changes).await;
    assert_eq!(all(1).await, (told[1], Some(vec![interrupt_id(5), interrupt_id(4), interrupt_id(6)])));
    // Its events are there without it.
    commit(&store, Changes { sessions: vec![touched(1, 2, RowChange::Deleted)], ..Changes::default() }).await;
    assert_eq!(all(1).await, (told[1], None));
}

#[tokio::test]
async fn the_latest_time_of_a_session_is_that_of_its_change_its_newest_event_or_its_newest_turn_s_last_entry() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let latest = async || slice(&store, 1).await.unwrap().latest;
    let before = latest().await.unwrap();
    for (number, (table, column)) in (1..).zip([("journal", "at"), ("sessions", "updated_at"), ("journal", "at")]) {
        let later = before.plus_seconds(60.0 * f64::from(number));
        database.execute(&format!("UPDATE hitl.{table} SET {column} = {}", later.millis())).await;
        assert_eq!(latest().await, Some(later), "{table}");
    }
    let later = before.plus_seconds(3600.0);
    let change = touched(1, 1, RowChange::Kept);
    commit(&store, Changes { sessions: vec![change], events: vec![(event(1, "told"), later)], ..Changes::default() })
        .await;
    assert_eq!(latest().await, Some(later));
}

#[tokio::test]
async fn messages_go_from_an_index_on_and_replies_take_the_place_of_older_ones() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let reply = |text: &str| StoredReply { request_digest: text.into(), body: text.into(), created_at: at(1) };
    for (seen, text) in [(1, "three"), (2, "fo\0ur")] {
        let changes = Changes {
            sessions: vec![touched(1, seen, RowChange::Kept)],
            messages: vec![(session_id(1), 1, vec![message(text), message("last")])],
            replies: vec![ReplyChange {
                scope: "scope".into(),
                key: "k\0y".into(),
                reply: reply(text),
                is_new: seen == 1,
            }],
            ..Changes::default()
        };
        commit(&store, changes).await;
    }
    let messages = ask(&store, StoreQuestion::Messages(session_id(1))).await.unwrap();
    let expected = [message("one"), message("fo\0ur"), message("last")];
    assert!(matches!(&messages, Answer::Messages(all) if *all == expected), "{messages:?}");
    let stored = ask(&store, StoreQuestion::Reply { scope: "scope".into(), key: "k\0y".into() }).await.unwrap();
    assert!(matches!(&stored, Answer::Reply(Some(stored)) if *stored == reply("fo\0ur")), "{stored:?}");
}

#[tokio::test]
async fn an_interrupt_is_due_unless_its_turn_is_suspended_or_it_was_set_aside() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    let life = |state| crate::store::record::Turn { life: Life { state, ..Life::default() }, ..turn(session_id(1), 1) };
    let suspended = TurnState::Suspended { at: at(1), code: "v1".to_owned() };
    let is_due = async || !store.due(at(5000), 9).await.unwrap().is_empty();
    assert!(is_due().await);
    let mut seen = 0;
    let mut change = async |changes: Changes| {
        seen += 1;
        commit(&store, Changes { sessions: vec![touched(1, seen, RowChange::Kept)], ..changes }).await;
    };
    let moving = |state| TurnChange { moves_due: true, ..turn_change(life(state), false) };
    change(Changes { turns: vec![moving(suspended)], ..Changes::default() }).await;
    assert!(!is_due().await);
    change(Changes { interrupts: vec![(custom(1, 1), false)], ..Changes::default() }).await;
    assert!(!is_due().await);
    change(Changes { turns: vec![moving(TurnState::UnderWay)], ..Changes::default() }).await;
    assert!(is_due().await);
    assert_eq!(store.next_due().await, Ok(Some(at(5000))));
    let aside = vec![(session_id(1), DueKind::Interrupt(interrupt_id(1)))];
    change(Changes { set_aside: aside, ..Changes::default() }).await;
    assert!(!is_due().await);
    // Nothing has come of it by what else becomes of its turn.
    change(Changes { turns: vec![turn_change(life(TurnState::UnderWay), false)], ..Changes::default() }).await;
    assert!(!is_due().await);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_told_in_its_place_and_left_out_of_lists() {
    let database = Database::new().await;
    let store = database.store().await;
    store_all(&store).await;
    store_session(&store, 2).await;
    database.execute("UPDATE hitl.sessions SET status = 'confused' WHERE seq = 1").await;
    database.execute("UPDATE hitl.interrupts SET payload = '['").await;
    let slice = slice(&store, 1).await.unwrap();
    assert_eq!(slice.version, version(1));
    assert!(matches!(&slice.session, Err(Error::Unreadable(why)) if why.contains("sessions.status")), "{slice:?}");
    assert!(matches!(&slice.pending, Err(Error::Unreadable(why)) if why.contains("interrupts.payload")), "{slice:?}");
    assert!(slice.turn.is_ok());
    let sessions =
        ask(&store, StoreQuestion::Sessions(SessionQuery { limit: 9, ..SessionQuery::default() })).await.unwrap();
    let ids = |items: &[TitledSession]| items.iter().map(|it| it.id).collect::<Vec<_>>();
    assert!(matches!(&sessions, Answer::Sessions(page) if ids(&page.items) == [session_id(2)]), "{sessions:?}");
}

#[tokio::test]
async fn a_search_goes_on_until_a_page_is_full() {
    let database = Database::new().await;
    let store = database.store().await;
    let interrupts = (1..=600_u128).map(|number| (approval(1, number, if number < 4 { "PAY" } else { "look" }), true));
    let changes =
        Changes { sessions: vec![new_session(session(1))], interrupts: interrupts.collect(), ..Changes::default() };
    commit(&store, changes).await;
    let says = Some(crate::domain::search::Needle::new("Pay"));
    let mut query = InterruptQuery { says, limit: 2, ..InterruptQuery::default() };
    let mut found = Vec::new();
    for _ in 0..2 {
        let Answer::Interrupts(page) = ask(&store, StoreQuestion::Interrupts(query.clone())).await.unwrap() else {
            panic!()
        };
        found.extend(page.items.into_iter().map(|interrupt| interrupt.interrupt_id));
        query.cursor = page.next;
    }
    assert_eq!(found, [interrupt_id(3), interrupt_id(2), interrupt_id(1)]);
    assert_eq!(query.cursor, None);
}

#[tokio::test]
async fn events_of_all_wait_for_what_is_open_and_those_of_a_session_do_not() {
    let database = Database::new().await;
    let store = database.patient(Duration::ZERO).await;
    let waiting = database.store().await;
    assert_eq!(number(&waiting, StoreQuestion::LastEvent).await, 0);
    let mut other = database.client().await;
    let open = other.transaction().await.unwrap();
    open.execute("UPDATE hitl.meta SET event_base = event_base", &[]).await.unwrap();
    store_session(&store, 1).await;
    let events = vec![(event(1, "a"), at(0)), (event(1, "b"), at(0))];
    let numbers =
        commit(&store, Changes { sessions: vec![touched(1, 1, RowChange::Kept)], events, ..Changes::default() }).await;
    assert_eq!(numbers.len(), 2);
    assert_eq!(numbers[1], numbers[0] + 1);
    let after = |session| StoreQuestion::EventsAfter { after: 0, session, limit: 9 };
    let all = async |store, session| match ask(store, after(session)).await.unwrap() {
        Answer::Events(events) => events.into_iter().map(|event| event.number).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(all(&store, Some(session_id(1))).await, numbers);
    assert_eq!(number(&store, StoreQuestion::LastEventOf(session_id(1))).await, numbers[1]);
    assert_eq!(all(&store, None).await, [0_u64; 0]);
    assert_eq!(number(&store, StoreQuestion::LastEvent).await, 0);
    open.rollback().await.unwrap();
    assert_eq!(all(&waiting, None).await, numbers);
    assert_eq!(number(&waiting, StoreQuestion::LastEvent).await, numbers[1]);
}

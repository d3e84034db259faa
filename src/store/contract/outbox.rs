//! Notices: kept in order, found when they are due, and outliving their session.

use serde_json::json;
use uuid::Uuid;

use super::fixture::*;
use crate::domain::Error;
use crate::domain::event::EventName;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::webhook::Webhook;
use crate::store::StoreExt;
use crate::store::outbox::OutboxFigures;
use crate::store::query::NoticeQuery;
use crate::store::record::Turn;
use crate::store::upkeep::{Receivers, Sweep};

super::for_each_store!(
    a_notice_reads_back_with_every_member,
    an_id_is_taken_once_and_reminders_have_their_own,
    a_notice_is_replaced_in_its_place,
    notices_come_newest_first_in_pages_and_by_filter,
    the_first_pending_of_a_session_and_address_is_the_head_of_their_lane,
    one_that_cannot_be_read_is_pending_and_in_nobodys_way_before_it,
    what_is_due_comes_earliest_first,
    the_first_of_a_lane_is_due_from_when_it_is_said_to_be,
    what_is_due_is_found_past_an_origin_and_of_one,
    leases_are_released_and_nothing_else_is,
    the_figures_are_of_what_is_pending,
    what_was_settled_long_ago_is_swept,
    no_more_notices_are_swept_at_once_than_it_is_told,
    notices_outlive_their_session,
    the_webhook_of_a_turn_is_that_of_its_message,
    a_session_reads_back_with_its_webhook,
);

fn id(number: u128, reminder: u32) -> NoticeId {
    NoticeId { event: Uuid::from_u128(number), reminder }
}

fn webhook() -> Webhook {
    Webhook {
        url: "https://example.com/hook".to_owned(),
        token: Some("t".to_owned()),
        include_messages: true,
        events: Some(vec![EventName::CREATED, EventName::Session(Status::Idle)]),
    }
}

pub(crate) fn notice(number: u128, session: u128) -> Notice {
    let event = EventName::Session(Status::Idle);
    let body = json!({"n": number as u64});
    Notice::new(Uuid::from_u128(number), session_id(session), None, event, &webhook(), &body, at(number as i64))
}

/// One whose time comes after so many milliseconds as its number says.
pub(crate) fn due(number: u128, session: u128) -> Notice {
    Notice { due_at: Some(at(number as i64)), ..notice(number, session) }
}

fn full() -> Notice {
    Notice {
        id: id(1, 3),
        interrupt_id: Some(interrupt_id(4)),
        is_of_client: true,
        event: EventName::CREATED,
        status: NoticeStatus::Failed,
        due_at: Some(at(5)),
        leased: true,
        attempts: 6,
        last_error: Some("it answered 500".to_owned()),
        settled_at: Some(at(7)),
        ..notice(1, 1)
    }
}

/// As it is in a list.
fn listed(notice: Notice) -> Notice {
    Notice { token: None, body: None, ..notice }
}

async fn insert(it: &Fixture, notices: impl IntoIterator<Item = Notice>) {
    let notices: Vec<Notice> = notices.into_iter().collect();
    it.write(move |tx| notices.iter().try_for_each(|notice| tx.insert_notice(notice))).await;
}

async fn a_notice_reads_back_with_every_member(it: Fixture) {
    insert(&it, [full(), Notice { token: None, body: None, ..notice(2, 1) }]).await;
    assert_eq!(it.read(|reader| reader.notice(id(1, 3))).await, Some(full()));
    let bare = it.read(|reader| reader.notice(id(2, 0))).await.unwrap();
    assert_eq!((bare.token, bare.body, bare.interrupt_id, bare.due_at), (None, None, None, None));
    assert_eq!(it.read(|reader| reader.notice(id(1, 0))).await, None);
}

async fn an_id_is_taken_once_and_reminders_have_their_own(it: Fixture) {
    insert(&it, [notice(1, 1), Notice { id: id(1, 1), ..notice(1, 1) }]).await;
    assert!(matches!(it.refuse(|tx| tx.insert_notice(&notice(1, 2))).await, Error::Internal(_)));
    assert!(it.write(|tx| tx.delete_notice(id(1, 1))).await);
    assert!(!it.write(|tx| tx.delete_notice(id(1, 1))).await);
    assert_eq!(it.read(|reader| reader.notice(id(1, 0))).await, Some(notice(1, 1)));
}

async fn a_notice_is_replaced_in_its_place(it: Fixture) {
    insert(&it, [notice(1, 1), notice(2, 1)]).await;
    let other = Notice { id: id(1, 0), ..full() };
    let stored = other.clone();
    it.write(move |tx| tx.update_notice(&stored)).await;
    let query = NoticeQuery { limit: 10, ..NoticeQuery::default() };
    let listed = [notice(2, 1), other].map(listed);
    assert_eq!(it.read(move |reader| reader.notices(&query)).await.items, listed);
    let unknown = it.refuse(|tx| tx.update_notice(&notice(3, 1))).await;
    assert_eq!(unknown, Error::UnknownNotice(id(3, 0).to_string()));
}

async fn notices_come_newest_first_in_pages_and_by_filter(it: Fixture) {
    let failed = |number| Notice { status: NoticeStatus::Failed, ..notice(number, number % 2) };
    insert(&it, [notice(5, 1), failed(4), notice(3, 1), failed(2), failed(1)]).await;
    let numbers = async |query: NoticeQuery| {
        let page = it.read(move |reader| reader.notices(&query)).await;
        (page.items.into_iter().map(|notice| notice.id.event.as_u128()).collect::<Vec<_>>(), page.next)
    };
    let all = NoticeQuery { limit: 2, ..NoticeQuery::default() };
    let (first, next) = numbers(all.clone()).await;
    assert_eq!(first, [1, 2]);
    assert_eq!(numbers(NoticeQuery { cursor: next, limit: 10, ..all.clone() }).await, (vec![3, 4, 5], None));
    let status = Some(NoticeStatus::Failed);
    assert_eq!(numbers(NoticeQuery { status, limit: 10, ..all.clone() }).await.0, [1, 2, 4]);
    let session_id = Some(session_id(1));
    assert_eq!(numbers(NoticeQuery { status, session_id, limit: 10, ..all }).await.0, [1]);
}

async fn the_first_pending_of_a_session_and_address_is_the_head_of_their_lane(it: Fixture) {
    let settled = Notice { status: NoticeStatus::Delivered, ..notice(1, 1) };
    let scheduled = Notice { status: NoticeStatus::Scheduled, ..notice(2, 1) };
    let elsewhere = Notice { url: "https://example.com/other".to_owned(), ..notice(3, 1) };
    insert(&it, [settled, scheduled, elsewhere.clone(), notice(4, 2), notice(6, 1), notice(5, 1)]).await;
    let head = async |session: u128, url: String| {
        let found = it.read(move |reader| reader.first_pending_notice(session_id(session), &url)).await;
        found.map(|notice| notice.id.event.as_u128())
    };
    let url = webhook().url;
    assert_eq!(head(1, url.clone()).await, Some(6));
    assert_eq!(head(2, url.clone()).await, Some(4));
    assert_eq!(head(1, elsewhere.url.clone()).await, Some(3));
    assert_eq!(head(2, elsewhere.url).await, None);
    assert_eq!(head(3, url.clone()).await, None);
    for (session, waits) in [(1, true), (2, true), (3, false)] {
        let url = url.clone();
        assert_eq!(it.read(move |reader| reader.has_pending_notice(session_id(session), &url)).await, waits);
    }
}

async fn one_that_cannot_be_read_is_pending_and_in_nobodys_way_before_it(it: Fixture) {
    insert(&it, [notice(1, 1), notice(2, 1), notice(3, 2), notice(4, 2)]).await;
    if !it.change_rows("outbox", "event = 'session.later' WHERE created_at % 1000 IN (2, 3)").await {
        return;
    }
    let url = webhook().url;
    for session in [1, 2, 3] {
        let url = url.clone();
        let waits = it.read(move |reader| reader.has_pending_notice(session_id(session), &url)).await;
        assert_eq!(waits, session < 3);
    }
    let head = async |session: u128| {
        let url = url.clone();
        it.store.query(move |reader| reader.first_pending_notice(session_id(session), &url)).await
    };
    assert_eq!(head(1).await, Ok(Some(notice(1, 1))));
    assert!(matches!(head(2).await, Err(Error::Unreadable(_))));
    // What is settled in a job is not the first any more in it, and what comes after it is as unreadable as before.
    let (place, settled) = (url.clone(), Notice { status: NoticeStatus::Delivered, ..notice(1, 1) });
    let next = change(it.store.as_ref(), move |tx| {
        tx.update_notice(&settled)?;
        Ok((tx.has_pending_notice(session_id(1), &place)?, tx.first_pending_notice(session_id(1), &place).is_err()))
    });
    assert_eq!(next.await, Ok((true, true)));
}

async fn what_is_due_comes_earliest_first(it: Fixture) {
    assert_eq!(it.upkeep().next_notice_at(Receivers::all()).await.unwrap(), None);
    let due = |number, millis| Notice { due_at: Some(at(millis)), ..notice(number, number) };
    insert(&it, [due(1, 30), notice(2, 2), due(3, 10), due(4, 20), due(5, 20), due(6, 31)]).await;
    assert_eq!(it.upkeep().next_notice_at(Receivers::all()).await.unwrap(), Some(at(10)));
    let numbers = async |millis, limit| {
        let found = it.upkeep().due_notices(at(millis), Receivers::all(), limit).await.unwrap();
        found.into_iter().map(|notice| notice.id.event.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(30, 10).await, [3, 4, 5, 1]);
    assert_eq!(numbers(30, 2).await, [3, 4]);
    assert_eq!(numbers(9, 2).await, [0_u128; 0]);
}

async fn the_first_of_a_lane_is_due_from_when_it_is_said_to_be(it: Fixture) {
    let settled = Notice { status: NoticeStatus::Delivered, ..notice(1, 1) };
    insert(&it, [settled, notice(2, 1), notice(3, 1), notice(4, 2), due(5, 3)]).await;
    // One that cannot be read too, for who can read it.
    let is_changed = it.change_rows("outbox", "event = 'session.later' WHERE created_at % 1000 = 4").await;
    let url = webhook().url;
    for session in 1..=4 {
        let url = url.clone();
        it.write(move |tx| tx.make_first_due(session_id(session), &url, at(9))).await;
    }
    if is_changed {
        it.change_rows("outbox", "event = 'session.idle' WHERE created_at % 1000 = 4").await;
    }
    for (number, when) in [(1, None), (2, Some(at(9))), (3, None), (4, Some(at(9))), (5, Some(at(5)))] {
        let found = it.read(move |reader| reader.notice(id(number, 0))).await.unwrap();
        assert_eq!(found.due_at, when, "{number}");
    }
}

async fn what_is_due_is_found_past_an_origin_and_of_one(it: Fixture) {
    let due =
        |number, millis, url: &str| Notice { due_at: Some(at(millis)), url: url.to_owned(), ..notice(number, number) };
    insert(
        &it,
        [
            due(1, 10, "http://a/1?x"),
            due(2, 20, "http://b:8/\"'"),
            due(3, 30, "http://c/"),
            due(4, 40, "http://a/2"),
            due(5, 50, "http://a/3").of_client(),
        ],
    )
    .await;
    let to = async |receivers: Receivers| {
        let notices = it.upkeep().due_notices(at(35), receivers.clone(), 10).await.unwrap();
        let numbers: Vec<u128> = notices.iter().map(|notice| notice.id.event.as_u128()).collect();
        (numbers, it.upkeep().next_notice_at(receivers).await.unwrap())
    };
    let named = |origins: &[&str]| origins.iter().map(ToString::to_string).collect();
    let found = async |except: &[&str]| to(Receivers::AllBut(named(except))).await;
    assert_eq!(found(&["http://a"]).await, (vec![2, 3], Some(at(20))));
    assert_eq!(found(&["http://a", "http://b:8"]).await, (vec![3], Some(at(30))));
    assert_eq!(found(&["http://b:8", "http://c", "http://d\"'"]).await, (vec![1], Some(at(10))));
    assert_eq!(found(&["http://a", "http://b:8", "http://c"]).await, (vec![], Some(at(50))));
    assert_eq!(found(&["http://a", "http://b:8", "http://c", "client http://a"]).await, (vec![], None));
    let found = async |only: &[&str]| to(Receivers::Only(named(only))).await;
    assert_eq!(found(&["http://c", "http://a", "http://d\"'"]).await, (vec![1, 3], Some(at(10))));
    assert_eq!(found(&["client http://a"]).await, (vec![], Some(at(50))));
    assert_eq!(found(&[]).await, (vec![], None));
}

async fn leases_are_released_and_nothing_else_is(it: Fixture) {
    let waits = Notice { due_at: Some(at(900)), attempts: 1, ..notice(1, 1) };
    let leased = notice(2, 2).leased(at(0));
    insert(&it, [waits.clone(), leased.clone(), notice(3, 1)]).await;
    it.upkeep().release_notices(at(5)).await.unwrap();
    assert_eq!(it.read(|reader| reader.notice(id(1, 0))).await, Some(waits));
    let released = Notice { leased: false, due_at: Some(at(5)), ..leased };
    assert_eq!(it.read(|reader| reader.notice(id(2, 0))).await, Some(released));
    assert_eq!(it.read(|reader| reader.notice(id(3, 0))).await, Some(notice(3, 1)));
}

async fn the_figures_are_of_what_is_pending(it: Fixture) {
    assert_eq!(it.upkeep().outbox_figures().await.unwrap(), OutboxFigures::default());
    let delivered = Notice { status: NoticeStatus::Delivered, ..notice(1, 1) };
    let scheduled = Notice { status: NoticeStatus::Scheduled, ..notice(2, 1) };
    insert(&it, [delivered, scheduled, notice(4, 1), notice(3, 1)]).await;
    let figures = it.upkeep().outbox_figures().await.unwrap();
    assert_eq!(figures, OutboxFigures { pending: 2, oldest: Some(at(4)), is_held: false });
}

async fn what_was_settled_long_ago_is_swept(it: Fixture) {
    let settled = |number, millis| Notice { settled_at: Some(at(millis)), ..notice(number, 1) };
    insert(&it, [settled(1, 9), settled(2, 10), notice(3, 1)]).await;
    assert_eq!(it.upkeep().sweep(Sweep::Notices, at(10), 10).await, Ok(1));
    let query = NoticeQuery { limit: 10, ..NoticeQuery::default() };
    assert_eq!(it.read(move |reader| reader.notices(&query)).await.items, [notice(3, 1), settled(2, 10)].map(listed));
}

async fn no_more_notices_are_swept_at_once_than_it_is_told(it: Fixture) {
    let settled = |number, millis| Notice { settled_at: Some(at(millis)), ..notice(number, 1) };
    insert(&it, [settled(1, 5), settled(2, 3), settled(3, 4), settled(4, 3), settled(5, 10), notice(6, 1)]).await;
    let sweep = async |limit| it.upkeep().sweep(Sweep::Notices, at(10), limit).await.unwrap();
    let kept = async || {
        let query = NoticeQuery { limit: 10, ..NoticeQuery::default() };
        it.read(move |reader| reader.notices(&query))
            .await
            .items
            .into_iter()
            .map(|notice| notice.id)
            .collect::<Vec<_>>()
    };
    let ids = |numbers: &[u128]| -> Vec<NoticeId> { numbers.iter().map(|number| id(*number, 0)).collect() };
    assert_eq!(sweep(0).await, 0);
    assert_eq!(sweep(3).await, 3);
    assert_eq!(kept().await, ids(&[6, 5, 1]));
    assert_eq!(sweep(3).await, 1);
    assert_eq!(kept().await, ids(&[6, 5]));
    assert_eq!(sweep(3).await, 0);
}

async fn notices_outlive_their_session(it: Fixture) {
    it.write(|tx| tx.insert_session(&session(1), &[])).await;
    insert(&it, [notice(1, 1)]).await;
    it.write(|tx| tx.delete_session(session_id(1))).await;
    assert_eq!(it.read(|reader| reader.notice(id(1, 0))).await, Some(notice(1, 1)));
}

async fn the_webhook_of_a_turn_is_that_of_its_message(it: Fixture) {
    it.write(|tx| {
        tx.insert_session(&session(1), &[])?;
        tx.insert_turn(&Turn { webhook: Some(webhook()), ..turn(session_id(1), 1) })?;
        tx.insert_turn(&turn(session_id(1), 2))
    })
    .await;
    assert_eq!(it.read(|reader| reader.webhook_of_turn(turn_id(1))).await, Some(webhook()));
    assert_eq!(it.read(|reader| reader.webhook_of_turn(turn_id(2))).await, None);
    assert_eq!(it.read(|reader| reader.webhook_of_turn(turn_id(3))).await, None);
}

async fn a_session_reads_back_with_its_webhook(it: Fixture) {
    let mut told = session(1);
    told.webhook = Some(webhook());
    let stored = told.clone();
    it.write(move |tx| tx.insert_session(&stored, &[])).await;
    assert_eq!(it.read(|reader| reader.session(session_id(1))).await, Some(told.clone()));
    told.webhook = None;
    let stored = told.clone();
    it.write(move |tx| tx.update_session(&stored)).await;
    assert_eq!(it.read(|reader| reader.session(session_id(1))).await, Some(told));
}

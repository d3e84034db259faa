use serde_json::json;

use super::*;
use crate::domain::TurnId;
use crate::domain::interrupt::{Ask, Opening};
use crate::domain::status::Status;

const IDLE: EventName = EventName::Session(Status::Idle);

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000).plus_seconds(seconds)
}

fn webhook(url: &str) -> Webhook {
    Webhook { url: url.to_owned(), token: Some("t0k".to_owned()), include_messages: false, events: None }
}

fn notice(event: EventName) -> Notice {
    let (id, session) = (Uuid::from_u128(7), SessionId(Uuid::from_u128(1)));
    Notice::new(id, session, None, event, &webhook("https://example.com/hook"), &json!({"n": 1}), at(0.0))
}

fn interrupt(expires_in: Option<f64>) -> Interrupt {
    let ask: Ask =
        serde_json::from_value(json!({"type": "free", "payload": {"n": 1}, "expires_in": expires_in})).unwrap();
    let opening = Opening {
        id: InterruptId(Uuid::from_u128(3)),
        session: SessionId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(2)),
        now: at(0.0),
        default_ttl: 0.0,
        max_payload: 1000,
    };
    Interrupt::opened(ask, opening).unwrap()
}

/// So many tries that failed, one after the other.
fn after_failures(tries: &Tries, failures: u32) -> Notice {
    let first = notice(IDLE).first_in_lane(at(0.0));
    (0..failures).fold(first, |notice, _| notice.leased(at(0.0)).failed("no", tries, at(0.0)))
}

#[test]
fn an_id_reads_back_in_its_one_spelling() {
    for reminder in [0, 1, 12] {
        let id = NoticeId { event: Uuid::from_u128(0xabc), reminder };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let text = "msg_00000000000000000000000000000abc";
    assert_eq!(NoticeId { event: Uuid::from_u128(0xabc), reminder: 2 }.to_string(), format!("{text}_r2"));
    for wrong in [
        "",
        "msg_",
        "msg_1",
        &text.to_uppercase(),
        &format!("{text}_r0"),
        &format!("{text}_r01"),
        &format!("{text}_r"),
        "msg_00000000-0000-0000-0000-000000000abc",
    ] {
        assert_eq!(wrong.parse::<NoticeId>(), Err(NotANoticeId), "{wrong}");
    }
}

#[test]
fn it_is_tried_again_after_longer_and_longer_pauses_and_then_given_up() {
    let tries = Tries::default();
    let pauses: Vec<f64> =
        (1..=9).map(|failures| after_failures(&tries, failures).due_at.unwrap().since(at(0.0)).as_secs_f64()).collect();
    assert_eq!(pauses, PAUSES);
    let given_up = after_failures(&tries, 10);
    assert_eq!((given_up.status, given_up.due_at), (NoticeStatus::Failed, None));
    assert_eq!(given_up.settled_at, Some(at(0.0)));
    assert_eq!(given_up.last_error.as_deref(), Some("no"));
    assert_eq!(given_up.body, notice(IDLE).body, "it can be retried");
}

#[test]
fn how_often_is_the_operators_to_say() {
    let never = Tries { retries: 0, ..Tries::default() };
    assert_eq!(after_failures(&never, 1).status, NoticeStatus::Failed);
    let often = Tries { retries: 20, ..Tries::default() };
    assert_eq!(often.pause_after(20), Some(300.0));
    assert_eq!(often.pause_after(21), None);
}

#[test]
fn a_try_is_leased_and_only_its_own_outcome_counts() {
    let leased = notice(IDLE).first_in_lane(at(0.0)).leased(at(5.0));
    assert_eq!((leased.attempts, leased.due_at), (1, Some(at(5.0 + LEASE))));
    assert!(leased.is_leased_for(1));
    let again = leased.clone().leased(at(100.0));
    assert!(again.is_leased_for(2) && !again.is_leased_for(1));
    assert!(!leased.clone().delivered(at(6.0)).is_leased_for(1));
    assert!(!leased.failed("no", &Tries::default(), at(6.0)).is_leased_for(1));
}

#[test]
fn what_is_delivered_is_settled_and_its_body_is_gone() {
    let delivered = after_failures(&Tries::default(), 1).leased(at(9.0)).delivered(at(10.0));
    assert_eq!(delivered.status, NoticeStatus::Delivered);
    assert_eq!((delivered.settled_at, delivered.attempts), (Some(at(10.0)), 2));
    assert_eq!((delivered.body, delivered.last_error, delivered.due_at), (None, None, None));
}

#[test]
fn what_was_given_up_can_be_retried_under_its_id_and_nothing_else_can() {
    let tries = Tries { retries: 0, ..Tries::default() };
    let given_up = after_failures(&tries, 1);
    let retried = given_up.clone().retried().unwrap();
    assert_eq!((retried.id, retried.status, retried.attempts), (given_up.id, NoticeStatus::Pending, 0));
    assert_eq!((retried.settled_at, retried.due_at), (None, None));
    for other in [notice(IDLE), notice(IDLE).leased(at(0.0)).delivered(at(0.0))] {
        assert_eq!(other.clone().retried(), Err(Error::NoticeNotFailed(other.status)));
    }
}

#[test]
fn what_is_first_tried_when_all_pauses_would_be_over_has_one_try() {
    let tried = |tries: &Tries, after: f64| notice(IDLE).leased(at(after)).failed("no", tries, at(after)).status;
    let (usual, pending, failed) = (Tries::default(), NoticeStatus::Pending, NoticeStatus::Failed);
    assert_eq!([tried(&usual, 618.0), tried(&usual, 618.1)], [pending, failed]);
    let often = Tries { retries: 11, ..usual };
    assert_eq!([tried(&often, 1218.0), tried(&often, 1218.1)], [pending, failed]);
    // Few retries are none that a store that is slow for a moment uses up.
    let once = Tries { retries: 1, ..usual };
    assert_eq!([tried(&once, LEASE), tried(&once, LEASE + 0.1)], [pending, failed]);
    let late =
        notice(IDLE).leased(at(0.0)).failed("no", &usual, at(1.0)).leased(at(9000.0)).failed("no", &usual, at(9000.0));
    assert_eq!(late.status, pending, "it was tried in time");
    let given_up = notice(IDLE).leased(at(9000.0)).failed("no", &usual, at(9000.0));
    let again = given_up.retried().unwrap().leased(at(9001.0)).failed("no", &usual, at(9001.0));
    assert_eq!(again.status, pending, "somebody has asked for it");
}

#[test]
fn a_long_error_is_cut() {
    let failed = notice(IDLE).leased(at(0.0)).failed(&"ä".repeat(1000), &Tries::default(), at(0.0));
    assert_eq!(failed.last_error.unwrap().chars().count(), LONGEST_ERROR);
}

#[test]
fn reminders_come_after_twice_as_long_each_time_up_to_a_day() {
    let mut last = notice(EventName::CREATED);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        last = last.reminder(3600.0, at(0.0));
        pauses.push(last.due_at.unwrap().since(at(0.0)).as_secs_f64() / 3600.0);
    }
    assert_eq!(pauses, [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 24.0]);
    assert_eq!(last.id.to_string(), format!("{}_r7", notice(EventName::CREATED).id));
    assert_eq!((last.status, last.attempts), (NoticeStatus::Scheduled, 0));
    // Whoever wants fewer than one a day gets fewer.
    let rare = notice(EventName::CREATED).reminder(2.0 * LONGEST_REMINDER, at(0.0));
    assert_eq!(rare.due_at, Some(at(2.0 * LONGEST_REMINDER)));
    let late = Notice { id: NoticeId { reminder: 5000, ..last.id }, ..last };
    assert_eq!(late.reminder(1.0, at(0.0)).due_at, Some(at(LONGEST_REMINDER)));
}

#[test]
fn a_reminder_says_the_same_again_and_that_it_is_one() {
    let asked = interrupt(None);
    let scheduled = notice(EventName::CREATED).reminder(60.0, at(0.0));
    let Reminded::Told(told) = scheduled.remind(Some(&asked), false, at(60.0)) else { panic!("nobody was told") };
    assert_eq!((told.status, told.due_at), (NoticeStatus::Pending, None));
    let body: Value = serde_json::from_str(told.body.as_deref().unwrap()).unwrap();
    let expected = json!({"type": "interrupt.created", "timestamp": at(60.0), "data": asked, "reminder": 1});
    assert_eq!(body, expected);
    assert!(interrupt_body(EventName::CREATED, &asked, 0, at(0.0)).get("reminder").is_none());
}

#[test]
fn what_is_put_off_is_not_told_again_before_that_is_over() {
    let scheduled = notice(EventName::CREATED).reminder(60.0, at(0.0));
    let snoozed = Interrupt { snoozed_until: Some(at(100.0)), ..interrupt(None) };
    let Reminded::Later(later) = scheduled.clone().remind(Some(&snoozed), false, at(60.0)) else {
        panic!("it was told")
    };
    assert_eq!(*later, Notice { due_at: Some(at(100.0)), ..scheduled });
    assert!(matches!(later.remind(Some(&snoozed), false, at(100.0)), Reminded::Told(_)));
}

#[test]
fn what_was_put_off_for_long_is_looked_at_again_before() {
    let scheduled = notice(EventName::CREATED).reminder(60.0, at(0.0));
    let snoozed = Interrupt { snoozed_until: Some(at(1e6)), ..interrupt(None) };
    let Reminded::Later(later) = scheduled.clone().remind(Some(&snoozed), false, at(60.0)) else {
        panic!("it was told")
    };
    assert_eq!(*later, Notice { due_at: Some(at(3660.0)), ..scheduled });
    assert!(matches!(later.remind(Some(&interrupt(None)), false, at(3660.0)), Reminded::Told(_)));
}

#[test]
fn nobody_is_reminded_of_what_cannot_be_answered_now() {
    let scheduled = notice(EventName::CREATED).reminder(60.0, at(0.0));
    let asked = interrupt(None);
    let Reminded::Later(later) = scheduled.remind(Some(&asked), true, at(60.0)) else { panic!("it was told") };
    assert!(matches!(later.remind(Some(&asked), false, at(3660.0)), Reminded::Told(_)));
}

#[test]
fn a_server_is_known_by_its_origin() {
    let origin = |url: &str| Notice { url: url.to_owned(), ..notice(IDLE) }.origin();
    let of_client = notice(IDLE).of_client().origin();
    assert_eq!(of_client, "client https://example.com");
    assert!(is_of_client(&of_client) && !is_of_client(&notice(IDLE).origin()));
    assert_eq!(origin("https://user:secret@EXAMPLE.com/a?b"), "https://example.com");
    assert_eq!(origin("http://example.com:8080"), "http://example.com:8080");
}

#[test]
fn nobody_is_reminded_of_what_is_settled_or_gone() {
    let scheduled = notice(EventName::CREATED).reminder(60.0, at(0.0));
    let cancelled = interrupt(None).cancel(at(1.0)).unwrap();
    let over = interrupt(Some(30.0));
    for interrupt in [None, Some(&cancelled), Some(&over)] {
        assert_eq!(scheduled.clone().remind(interrupt, false, at(60.0)), Reminded::Nothing);
    }
}

#[test]
fn what_may_be_secret_in_a_url_is_not_shown() {
    let shown = |url: &str| Notice { url: url.to_owned(), ..notice(IDLE) }.shown_url();
    assert_eq!(shown("https://user:secret@example.com:8443/a/b?key=secret#secret"), "https://example.com:8443/a/b");
    assert!(!format!("{:?}", notice(IDLE)).contains("t0k"));
}

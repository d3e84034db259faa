//! Sessions and what they remember.

use serde_json::json;

use super::fixture::*;
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::domain::message::{Attachment, ChatMessage, FunctionCall, Role, ToolCall, ToolCallKind};
use crate::domain::search::Needle;
use crate::domain::session::{Failure, Phase, Retry, Session};
use crate::domain::status::Status;
use crate::store::query::{Order, Page, SessionQuery, SessionSearch, TitledSession};

super::for_each_store!(
    a_session_reads_back_in_every_status,
    a_session_that_can_be_retried_reads_back,
    an_unknown_session_is_none,
    an_id_is_taken_once,
    updating_an_unknown_session_is_refused,
    messages_read_back_with_every_member,
    messages_are_replaced_wherever_they_differ,
    messages_are_replaced_from_one_on,
    a_page_of_messages_is_a_part_of_them,
    updating_a_session_keeps_its_messages,
    sessions_are_listed_oldest_first_whatever_their_ids,
    a_list_goes_on_at_its_cursor,
    a_cursor_skips_nobody_when_sessions_come_and_go,
    the_newest_come_first_where_that_is_asked_for,
    a_list_can_be_of_one_status,
    a_list_can_be_of_one_session,
    a_list_reads_nothing_of_a_session_that_may_be_long,
    a_session_is_called_by_the_first_message_that_was_sent_to_it,
    before_that_by_the_first_of_a_person_among_those_that_it_began_with,
    a_search_finds_what_the_title_or_the_id_says,
    a_page_of_a_search_looks_at_no_more_sessions_than_it_may,
    sessions_are_counted,
    deleting_takes_everything_of_the_session_but_its_events,
    deleting_an_unknown_session_says_so,
    sweeping_takes_old_idle_and_error_sessions_only,
    sweeping_takes_no_more_sessions_at_once_than_it_is_told,
);

const STATUSES: [Status; 4] = [Status::Idle, Status::Running, Status::Interrupted, Status::Error];

async fn a_session_reads_back_in_every_status(it: Fixture) {
    for (number, status) in (1..).zip(STATUSES) {
        let stored = Session { total_messages: 3, updated_at: at(7), ..session_in(number, status) };
        let expected = stored.clone();
        it.write(move |transaction| transaction.insert_session(&session(number), &[])).await;
        it.write(move |transaction| transaction.update_session(&stored)).await;
        assert_eq!(it.read(move |reader| reader.session(session_id(number))).await, Some(expected));
    }
}

async fn a_session_that_can_be_retried_reads_back(it: Fixture) {
    for pending in [vec![], vec![interrupt_id(2), interrupt_id(1)]] {
        let retry = Some(Retry { turn: turn_id(1), pending });
        let phase = Phase::Error { failure: Failure::timed_out(), retry };
        let stored = Session { phase, abandoned: Some(Box::new(abandoned())), ..session(1) };
        let expected = stored.clone();
        it.write(move |transaction| {
            transaction.delete_session(session_id(1))?;
            transaction.insert_session(&stored, &[])
        })
        .await;
        assert_eq!(it.read(|reader| reader.session(session_id(1))).await, Some(expected));
    }
}

async fn an_unknown_session_is_none(it: Fixture) {
    assert_eq!(it.read(|reader| reader.session(session_id(1))).await, None);
    assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, vec![]);
}

async fn an_id_is_taken_once(it: Fixture) {
    it.write(|transaction| transaction.insert_session(&session(1), &[message("first")])).await;
    let refused = it.refuse(|transaction| transaction.insert_session(&session(1), &[])).await;
    assert_eq!(refused, Error::SessionExists);
    assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, vec![message("first")]);
}

async fn updating_an_unknown_session_is_refused(it: Fixture) {
    let refused = it.refuse(|transaction| transaction.update_session(&session(1))).await;
    assert_eq!(refused, Error::SessionNotFound);
    let refused = it.refuse(|transaction| transaction.set_messages(session_id(1), &[])).await;
    assert_eq!(refused, Error::SessionNotFound);
}

async fn messages_read_back_with_every_member(it: Fixture) {
    let full = ChatMessage {
        role: Role::Assistant,
        content: Some("naïve \u{0} \u{1f600}".to_owned()),
        reasoning: Some(String::new()),
        reasoning_details: Some(vec![json!({"text": "hm"})]),
        tool_calls: Some(vec![ToolCall {
            id: "call_1".to_owned(),
            kind: ToolCallKind::Function,
            function: FunctionCall { name: "delete_file".to_owned(), arguments: "{broken".to_owned() },
        }]),
        tool_call_id: Some("call_0".to_owned()),
        name: Some("files".to_owned()),
        base64_image: Some("AAAA".to_owned()),
        attachments: Some(vec![Attachment {
            media_type: "application/pdf".to_owned(),
            data: None,
            url: Some("https://example.com/a.pdf".to_owned()),
            name: Some("a.pdf".to_owned()),
        }]),
        user_params: Some(object(json!({"nested": {"null": null, "tenth": 0.1}}))),
    };
    let stored = vec![full, ChatMessage::default()];
    let expected = stored.clone();
    it.write(move |transaction| transaction.insert_session(&session(1), &stored)).await;
    assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, expected);
}

async fn messages_are_replaced_wherever_they_differ(it: Fixture) {
    it.write(|transaction| transaction.insert_session(&session(1), &[])).await;
    for texts in [vec!["a", "b"], vec!["a", "b", "c"], vec!["a", "x", "c"], vec!["x"], vec![], vec!["a"]] {
        let messages: Vec<ChatMessage> = texts.into_iter().map(message).collect();
        let expected = messages.clone();
        it.write(move |transaction| transaction.set_messages(session_id(1), &messages)).await;
        assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, expected);
    }
}

async fn messages_are_replaced_from_one_on(it: Fixture) {
    let said = |texts: &[&str]| texts.iter().map(|text| message(text)).collect::<Vec<_>>();
    let before = said(&["a", "b", "c"]);
    it.write(move |transaction| transaction.insert_session(&session(1), &before)).await;
    for (first, texts, expected) in [
        (3, vec!["d"], vec!["a", "b", "c", "d"]),
        (1, vec!["b", "x", "d"], vec!["a", "b", "x", "d"]),
        (4, vec![], vec!["a", "b", "x", "d"]),
        (2, vec![], vec!["a", "b"]),
        (0, vec!["y"], vec!["y"]),
    ] {
        let new = said(&texts);
        it.write(move |transaction| transaction.set_messages_from(session_id(1), first, &new)).await;
        assert_eq!(
            it.read(|reader| reader.messages(session_id(1))).await,
            said(&expected),
            "{texts:?} from {first} on"
        );
    }
    let refused = it.refuse(|transaction| transaction.set_messages_from(session_id(1), 2, &[])).await;
    assert!(matches!(refused, Error::Internal(_)), "{refused:?}");
    assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, said(&["y"]));
    let refused = it.refuse(|transaction| transaction.set_messages_from(session_id(2), 0, &[])).await;
    assert_eq!(refused, Error::SessionNotFound);
}

async fn a_page_of_messages_is_a_part_of_them(it: Fixture) {
    let all: Vec<ChatMessage> = (0..5).map(|number| message(&number.to_string())).collect();
    let stored = all.clone();
    it.write(move |transaction| transaction.insert_session(&session(1), &stored)).await;
    for first in 0..=all.len() {
        for limit in [1, 2, all.len(), usize::MAX] {
            let page = it.read(move |reader| reader.messages_page(session_id(1), first, limit)).await;
            let end = first.saturating_add(limit).min(all.len());
            assert_eq!(page, all[first..end], "{limit} from {first} on");
        }
    }
    assert_eq!(it.read(|reader| reader.messages_page(session_id(1), usize::MAX, 1)).await, vec![]);
    assert_eq!(it.read(|reader| reader.messages_page(session_id(2), 0, 1)).await, vec![]);
    let within = it.write(|transaction| {
        transaction.set_messages_from(session_id(1), 4, &[message("x"), message("y")])?;
        transaction.messages_page(session_id(1), 3, 2)
    });
    assert_eq!(within.await, vec![message("3"), message("x")], "also of what the transaction has written");
}

async fn updating_a_session_keeps_its_messages(it: Fixture) {
    it.write(|transaction| transaction.insert_session(&session(1), &[message("kept")])).await;
    it.write(|transaction| transaction.update_session(&session_in(1, Status::Error))).await;
    assert_eq!(it.read(|reader| reader.messages(session_id(1))).await, vec![message("kept")]);
}

/// Sessions 1 to `count`, with statuses in turn.
async fn store_sessions(it: &Fixture, count: u128) {
    it.write(move |transaction| {
        for (number, status) in (1..=count).zip(STATUSES.into_iter().cycle()) {
            transaction.insert_session(&session_in(number, status), &[])?;
        }
        Ok(())
    })
    .await;
}

async fn list(
    it: &Fixture,
    status: Option<Status>,
    limit: usize,
    cursor: Option<u64>,
) -> (Vec<TitledSession>, Option<u64>) {
    let query = SessionQuery { status, limit, cursor, ..SessionQuery::default() };
    sessions(it, query).await
}

async fn list_back(it: &Fixture, status: Option<Status>, cursor: Option<u64>) -> (Vec<TitledSession>, Option<u64>) {
    let query = SessionQuery { status, limit: 2, cursor, order: Order::Newest, ..SessionQuery::default() };
    sessions(it, query).await
}

async fn sessions(it: &Fixture, query: SessionQuery) -> (Vec<TitledSession>, Option<u64>) {
    let Page { items, next } = it.read(move |reader| reader.sessions(&query)).await;
    (items, next)
}

fn ids(sessions: &[TitledSession]) -> Vec<crate::domain::SessionId> {
    sessions.iter().map(|session| session.id).collect()
}

async fn sessions_are_listed_oldest_first_whatever_their_ids(it: Fixture) {
    store_sessions(&it, 5).await;
    let (sessions, next) = list(&it, None, 100, None).await;
    assert_eq!(ids(&sessions), (1..=5).map(session_id).collect::<Vec<_>>());
    assert_eq!(next, None);
}

async fn a_list_goes_on_at_its_cursor(it: Fixture) {
    store_sessions(&it, 5).await;
    let (first, next) = list(&it, None, 2, None).await;
    let (second, next) = list(&it, None, 2, Some(next.unwrap())).await;
    let (third, end) = list(&it, None, 2, Some(next.unwrap())).await;
    assert_eq!(ids(&first), vec![session_id(1), session_id(2)]);
    assert_eq!(ids(&second), vec![session_id(3), session_id(4)]);
    assert_eq!(ids(&third), vec![session_id(5)]);
    assert_eq!(end, None);
    let (exact, end) = list(&it, None, 5, None).await;
    assert_eq!((exact.len(), end), (5, None));
}

async fn a_cursor_skips_nobody_when_sessions_come_and_go(it: Fixture) {
    store_sessions(&it, 3).await;
    let (_, next) = list(&it, None, 2, None).await;
    it.write(|transaction| {
        transaction.delete_session(session_id(2))?;
        transaction.delete_session(session_id(3))
    })
    .await;
    it.write(|transaction| transaction.insert_session(&session(4), &[])).await;
    let (rest, _) = list(&it, None, 2, next).await;
    assert_eq!(ids(&rest), vec![session_id(4)]);
}

async fn the_newest_come_first_where_that_is_asked_for(it: Fixture) {
    store_sessions(&it, 5).await;
    let (first, next) = list_back(&it, None, None).await;
    assert_eq!(ids(&first), vec![session_id(5), session_id(4)]);
    // What comes meanwhile is newer than the cursor and does not move the next page.
    it.write(|transaction| transaction.insert_session(&session(6), &[])).await;
    let (second, next) = list_back(&it, None, next).await;
    let (third, end) = list_back(&it, None, next).await;
    assert_eq!([ids(&second), ids(&third)], [vec![session_id(3), session_id(2)], vec![session_id(1)]]);
    assert_eq!(end, None);
    let (first, next) = list_back(&it, Some(Status::Idle), None).await;
    let (second, end) = list_back(&it, Some(Status::Idle), next).await;
    assert_eq!([ids(&first), ids(&second)], [vec![session_id(6), session_id(5)], vec![session_id(1)]]);
    assert_eq!(end, None);
}

async fn a_list_can_be_of_one_status(it: Fixture) {
    store_sessions(&it, 8).await;
    for (number, status) in (1..).zip(STATUSES) {
        let (first, next) = list(&it, Some(status), 1, None).await;
        assert_eq!(first, vec![TitledSession::of(&session_in(number, status), None)]);
        let (second, end) = list(&it, Some(status), 1, next).await;
        assert_eq!(second, vec![TitledSession::of(&session_in(number + 4, status), None)]);
        assert_eq!(end, None);
    }
}

async fn a_list_can_be_of_one_session(it: Fixture) {
    store_sessions(&it, 3).await;
    let one = |id| SessionQuery { id: Some(id), limit: 9, order: Order::Newest, ..SessionQuery::default() };
    assert_eq!(
        sessions(&it, one(session_id(2))).await,
        (vec![TitledSession::of(&session_in(2, Status::Running), None)], None)
    );
    assert_eq!(sessions(&it, one(session_id(9))).await, (vec![], None));
}

async fn a_list_reads_nothing_of_a_session_that_may_be_long(it: Fixture) {
    store_sessions(&it, 2).await;
    // It would be left out, were it read.
    for column in ["response", "rules", "grants", "webhook", "abandoned"] {
        it.change_rows("sessions", &format!("{column} = 'long' WHERE total_messages >= 0")).await;
    }
    let (listed, _) = list(&it, None, 10, None).await;
    assert_eq!(ids(&listed), [session_id(1), session_id(2)]);
}

async fn titles(it: &Fixture) -> Vec<Option<String>> {
    let query = SessionQuery { limit: 100, ..SessionQuery::default() };
    it.read(move |reader| reader.sessions(&query)).await.items.into_iter().map(|titled| titled.title).collect()
}

/// A turn of session `number` about a text.
fn turn_about(number: u128, turn: u128, text: &str) -> crate::store::record::Turn {
    crate::store::record::Turn::new(turn_id(turn), session_id(number), message(text), None, at(0))
}

async fn a_session_is_called_by_the_first_message_that_was_sent_to_it(it: Fixture) {
    let image = ChatMessage { base64_image: Some("A".repeat(20_000)), ..message("What is\n this?") };
    let attachment = Attachment {
        media_type: "application/pdf".to_owned(),
        name: Some("Q3 report.pdf".to_owned()),
        data: Some("A".repeat(20_000)),
        url: None,
    };
    let file = ChatMessage { attachments: Some(vec![attachment]), ..ChatMessage::default() };
    it.write(move |transaction| {
        for number in 1..=5 {
            transaction.insert_session(&session(number), &[])?;
        }
        transaction.insert_turn(&turn_about(1, 1, "Refund order 1042"))?;
        transaction.insert_turn(&turn_about(2, 2, &"word ".repeat(5_000)))?;
        for (number, message) in [(3, &image), (5, &file)] {
            let turn =
                crate::store::record::Turn::new(turn_id(number), session_id(number), message.clone(), None, at(0));
            transaction.insert_turn(&turn)?;
        }
        Ok(())
    })
    .await;
    let words = format!("{}…", ["word"; 16].join(" "));
    let text = |title: &str| Some(title.to_owned());
    let expected = [text("Refund order 1042"), Some(words), text("What is this?"), None, text("Q3 report.pdf")];
    assert_eq!(titles(&it).await, expected);
    // It stays, whatever comes, and whatever the agent makes of what it remembers.
    it.write(|transaction| {
        transaction.end_turn(turn_id(1), at(1))?;
        transaction.set_messages(session_id(1), &[message("A summary of what was said.")])?;
        transaction.insert_turn(&turn_about(1, 6, "thanks"))
    })
    .await;
    assert_eq!(titles(&it).await, expected);
}

async fn before_that_by_the_first_of_a_person_among_those_that_it_began_with(it: Fixture) {
    let said = |role, text: &str| ChatMessage { role, ..message(text) };
    let begun =
        [said(Role::System, "Be kind."), said(Role::User, "Hello, this is Ada."), said(Role::User, "Are you there?")];
    let mut late: Vec<ChatMessage> = (0..8).map(|_| said(Role::System, "Be kind.")).collect();
    late.push(said(Role::User, "Late."));
    it.write(move |transaction| {
        transaction.insert_session(&session(1), &begun)?;
        transaction.insert_session(&session(2), &late)
    })
    .await;
    assert_eq!(titles(&it).await, [Some("Hello, this is Ada.".to_owned()), None]);
    it.write(|transaction| transaction.insert_turn(&turn_about(1, 1, "Refund order 1042"))).await;
    assert_eq!(titles(&it).await, [Some("Refund order 1042".to_owned()), None]);
}

/// Sessions 1 to `count`, each with a message that says its number.
async fn store_talks(it: &Fixture, count: u128) {
    it.write(move |transaction| {
        for number in 1..=count {
            transaction.insert_session(&session(number), &[])?;
            transaction.insert_turn(&turn_about(number, number, &format!("Où est la commande {number}?")))?;
        }
        Ok(())
    })
    .await;
}

fn searched(text: &str, within: usize, limit: usize) -> SessionQuery {
    let search = Some(SessionSearch { needle: Needle::new(text), within });
    SessionQuery { search, limit, order: Order::Newest, ..SessionQuery::default() }
}

async fn a_search_finds_what_the_title_or_the_id_says(it: Fixture) {
    store_talks(&it, 12).await;
    let (found, next) = sessions(&it, searched("OÙ EST LA COMMANDE 1", 100, 100)).await;
    assert_eq!((ids(&found), next), ([12, 11, 10, 1].map(session_id).to_vec(), None));
    let (first, next) = sessions(&it, searched("commande 1", 100, 2)).await;
    assert_eq!(ids(&first), [12, 11].map(session_id));
    let (second, end) = sessions(&it, SessionQuery { cursor: next, ..searched("commande 1", 100, 2) }).await;
    assert_eq!((ids(&second), end), ([10, 1].map(session_id).to_vec(), None));
    let oldest = SessionQuery { order: Order::Oldest, ..searched("commande 1", 100, 3) };
    assert_eq!(ids(&sessions(&it, oldest).await.0), [1, 10, 11].map(session_id));
    let id = session_id(7).to_string().to_uppercase();
    let (found, _) = sessions(&it, searched(&id[id.len() - 8..], 100, 100)).await;
    assert_eq!(ids(&found), [session_id(7)]);
    let of_status = SessionQuery { status: Some(Status::Error), ..searched("commande", 100, 100) };
    assert_eq!(sessions(&it, of_status).await, (vec![], None));
}

async fn a_page_of_a_search_looks_at_no_more_sessions_than_it_may(it: Fixture) {
    store_talks(&it, 7).await;
    // The newest three, then three more, then the last one.
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let (found, next) = sessions(&it, SessionQuery { cursor, ..searched("commande 2", 3, 9) }).await;
        pages.push(ids(&found));
        cursor = next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![], vec![session_id(2)], vec![]]);
    // Whatever comes first ends a page: as many as were asked for, or the last that is looked at.
    let (found, next) = sessions(&it, searched("commande", 3, 2)).await;
    assert_eq!(ids(&found), [7, 6].map(session_id));
    let (found, _) = sessions(&it, SessionQuery { cursor: next, ..searched("commande", 3, 9) }).await;
    assert_eq!(ids(&found), [5, 4, 3].map(session_id));
    // One that looks at all of them is the last.
    let (found, next) = sessions(&it, searched("commande", 7, 9)).await;
    assert_eq!((found.len(), next), (7, None));
    let oldest = SessionQuery { order: Order::Oldest, ..searched("commande 5", 3, 9) };
    let (found, next) = sessions(&it, oldest.clone()).await;
    assert_eq!(found, vec![]);
    let (found, _) = sessions(&it, SessionQuery { cursor: next, ..oldest }).await;
    assert_eq!(ids(&found), [session_id(5)]);
}

async fn sessions_are_counted(it: Fixture) {
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 0);
    store_sessions(&it, 3).await;
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 3);
    it.write(|transaction| transaction.delete_session(session_id(1))).await;
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 2);
}

async fn deleting_takes_everything_of_the_session_but_its_events(it: Fixture) {
    it.open_turn().await;
    it.write(|transaction| {
        transaction.append_foreign(turn_id(1), &step("a", json!(1)), at(0))?;
        transaction.insert_interrupt(&approval(1, 1, "rm"))?;
        transaction.set_messages(session_id(1), &[message("hi")])?;
        transaction.append_event(&event(1, "session.running"), at(0))?;
        transaction.insert_session(&session(2), &[message("stays")])?;
        transaction.insert_interrupt(&custom(2, 2))
    })
    .await;
    assert!(it.write(|transaction| transaction.delete_session(session_id(1))).await);
    it.read(|reader| {
        assert_eq!(reader.session(session_id(1))?, None);
        assert_eq!(reader.messages(session_id(1))?, vec![]);
        assert_eq!(reader.turn(turn_id(1))?, None);
        assert_eq!(reader.journal(turn_id(1))?, vec![]);
        assert_eq!(reader.interrupt(interrupt_id(1))?, None);
        assert_eq!(reader.pending(session_id(1))?, vec![]);
        assert_eq!(reader.events_after(0, None, 10)?.len(), 1);
        assert_eq!(reader.messages(session_id(2))?, vec![message("stays")]);
        assert_eq!(reader.pending(session_id(2))?, vec![custom(2, 2)]);
        Ok(())
    })
    .await;
}

async fn deleting_an_unknown_session_says_so(it: Fixture) {
    assert!(!it.write(|transaction| transaction.delete_session(session_id(1))).await);
}

/// What a sweep of everything from before 100 takes.
async fn sweep(it: &Fixture, limit: usize) -> Vec<crate::domain::SessionId> {
    it.upkeep().sweep_sessions(at(100), limit, Deed::new(Action::SessionDeleted), at(101)).await.unwrap()
}

async fn sweeping_takes_old_idle_and_error_sessions_only(it: Fixture) {
    it.write(|transaction| {
        for (number, status) in (1..).zip(STATUSES) {
            let old = Session { updated_at: at(99), ..session_in(number, status) };
            transaction.insert_session(&old, &[])?;
            let fresh = Session { updated_at: at(100), ..session_in(number + 4, status) };
            transaction.insert_session(&fresh, &[])?;
        }
        transaction.insert_interrupt(&approval(1, 1, "rm"))
    })
    .await;
    let swept = sweep(&it, 10).await;
    assert_eq!(swept, vec![session_id(1), session_id(4)]);
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 6);
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(1))).await, None);
}

async fn sweeping_takes_no_more_sessions_at_once_than_it_is_told(it: Fixture) {
    it.write(|transaction| {
        for (number, updated) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            let old = Session { updated_at: at(updated), ..session_in(number, Status::Idle) };
            transaction.insert_session(&old, &[])?;
        }
        Ok(())
    })
    .await;
    assert_eq!(sweep(&it, 3).await, [session_id(2), session_id(3), session_id(4)]);
    assert_eq!(sweep(&it, 3).await, [session_id(1)]);
    assert_eq!(sweep(&it, 3).await, []);
}

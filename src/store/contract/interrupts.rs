//! Interrupts and their lists.

use serde_json::{Value, json};

use super::fixture::*;
use crate::domain::Error;
use crate::domain::interrupt::Interrupt;
use crate::domain::question;
use crate::domain::search::Needle;
use crate::domain::status::InterruptStatus;
use crate::store::query::InterruptQuery;
use crate::store::record::PendingCount;

super::for_each_store!(
    an_interrupt_reads_back_with_every_member,
    built_in_and_foreign_schemas_read_back_alike,
    null_is_an_answer_and_no_answer_is_none,
    an_interrupt_needs_its_session_and_an_id_of_its_own,
    an_update_replaces_the_record,
    updating_an_unknown_interrupt_is_refused,
    pending_ones_are_listed_in_order_of_arrival,
    interrupts_are_listed_newest_first_with_a_cursor,
    every_filter_keeps_what_it_names_and_all_of_it,
    filters_are_combined,
    what_is_said_is_found_in_payload_message_and_agent,
    claims_and_snoozes_are_listed_as_long_as_they_last,
    what_is_pending_is_counted_by_type_and_age,
    a_claim_and_a_snooze_are_kept_until_they_are_taken_back,
);

/// Sessions 1 and 2, and what is given.
async fn store(it: &Fixture, interrupts: Vec<Interrupt>) {
    it.write(move |transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_session(&session(2), &[])?;
        interrupts.iter().try_for_each(|interrupt| transaction.insert_interrupt(interrupt))
    })
    .await;
}

async fn list(it: &Fixture, query: InterruptQuery) -> Vec<Interrupt> {
    let query = InterruptQuery { limit: 100, ..query };
    it.read(move |reader| reader.interrupts(&query)).await.items
}

async fn an_interrupt_reads_back_with_every_member(it: Fixture) {
    store(&it, vec![custom(1, 1), approval(1, 2, "rm")]).await;
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(1))).await, Some(custom(1, 1)));
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(2))).await, Some(approval(1, 2, "rm")));
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(3))).await, None);
}

async fn built_in_and_foreign_schemas_read_back_alike(it: Fixture) {
    let asked = json!({"questions": [{
        "question": "Where?", "header": "Place",
        "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
    }]});
    let questions = question::read(&asked).unwrap();
    let user_input = Interrupt {
        kind: question::USER_INPUT.to_owned(),
        payload: object(question::payload(&questions)),
        response_schema: Some(question::response_schema(&questions).into()),
        ..approval(1, 1, "")
    };
    let all = vec![
        user_input,
        Interrupt { response_schema: Some(json!({"type": "null"}).into()), ..approval(1, 2, "rm") },
        Interrupt { response_schema: None, ..approval(1, 3, "rm") },
        Interrupt { response_schema: Some(json!(true).into()), ..custom(1, 4) },
        Interrupt { response_schema: None, ..custom(1, 5) },
    ];
    store(&it, all.clone()).await;
    assert_eq!(it.read(|reader| reader.pending(session_id(1))).await, all);
}

async fn null_is_an_answer_and_no_answer_is_none(it: Fixture) {
    let answers = [None, Some(Value::Null), Some(json!(false)), Some(json!(0)), Some(json!(""))];
    let all: Vec<Interrupt> =
        (1..).zip(answers).map(|(number, value)| Interrupt { value, ..custom(1, number) }).collect();
    store(&it, all.clone()).await;
    assert_eq!(it.read(|reader| reader.pending(session_id(1))).await, all);
}

async fn an_interrupt_needs_its_session_and_an_id_of_its_own(it: Fixture) {
    let refused = it.refuse(|transaction| transaction.insert_interrupt(&custom(1, 1))).await;
    assert_eq!(refused, Error::SessionNotFound);
    store(&it, vec![custom(1, 1)]).await;
    let refused = it.refuse(|transaction| transaction.insert_interrupt(&approval(1, 1, "rm"))).await;
    assert!(matches!(refused, Error::Internal(_)), "{refused}");
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(1))).await, Some(custom(1, 1)));
}

async fn an_update_replaces_the_record(it: Fixture) {
    store(&it, vec![approval(1, 1, "rm")]).await;
    let settled = Interrupt {
        status: InterruptStatus::Resolved,
        value: Some(json!({"approved": true})),
        resolved_by: Some("alice".to_owned()),
        resolved_at: Some(at(77)),
        ..approval(1, 1, "rm")
    };
    let expected = settled.clone();
    it.write(move |transaction| transaction.update_interrupt(&settled)).await;
    assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(1))).await, Some(expected));
    assert_eq!(it.read(|reader| reader.pending(session_id(1))).await, vec![]);
}

async fn updating_an_unknown_interrupt_is_refused(it: Fixture) {
    store(&it, vec![]).await;
    let refused = it.refuse(|transaction| transaction.update_interrupt(&custom(1, 1))).await;
    assert_eq!(refused, Error::UnknownInterrupt(interrupt_id(1).to_string()));
}

async fn pending_ones_are_listed_in_order_of_arrival(it: Fixture) {
    let expired = Interrupt { status: InterruptStatus::Expired, ..custom(1, 8) };
    store(&it, vec![custom(1, 9), expired, custom(2, 7), custom(1, 1)]).await;
    assert_eq!(it.read(|reader| reader.pending(session_id(1))).await, vec![custom(1, 9), custom(1, 1)]);
    assert_eq!(it.read(|reader| reader.pending(session_id(2))).await, vec![custom(2, 7)]);
    assert_eq!(it.read(|reader| reader.pending(session_id(3))).await, vec![]);
}

async fn interrupts_are_listed_newest_first_with_a_cursor(it: Fixture) {
    store(&it, vec![custom(1, 5), custom(2, 1), custom(1, 3)]).await;
    let page = |cursor| InterruptQuery { limit: 2, cursor, ..InterruptQuery::default() };
    let first = it.read(move |reader| reader.interrupts(&page(None))).await;
    assert_eq!(first.items, vec![custom(1, 3), custom(2, 1)]);
    // What arrives meanwhile is newer than the cursor and does not move the next page.
    it.write(|transaction| transaction.insert_interrupt(&custom(1, 4))).await;
    let second = it.read(move |reader| reader.interrupts(&page(first.next))).await;
    assert_eq!((second.items, second.next), (vec![custom(1, 5)], None));
}

async fn every_filter_keeps_what_it_names_and_all_of_it(it: Fixture) {
    let resolved = Interrupt { status: InterruptStatus::Resolved, ..approval(2, 2, "rm") };
    let expired = Interrupt { status: InterruptStatus::Expired, agent: None, ..custom(2, 4) };
    let all = vec![approval(1, 1, "rm"), resolved.clone(), approval(1, 3, "mv"), expired.clone()];
    store(&it, all).await;
    let none = InterruptQuery::default;

    let found = list(&it, InterruptQuery { status: Some(InterruptStatus::Pending), ..none() }).await;
    assert_eq!(found, vec![approval(1, 3, "mv"), approval(1, 1, "rm")]);
    let found = list(&it, InterruptQuery { status: Some(InterruptStatus::Resolved), ..none() }).await;
    assert_eq!(found, vec![resolved.clone()]);
    let found = list(&it, InterruptQuery { status: Some(InterruptStatus::Cancelled), ..none() }).await;
    assert_eq!(found, vec![]);
    let found = list(&it, InterruptQuery { kind: Some("color_picker".to_owned()), ..none() }).await;
    assert_eq!(found, vec![expired.clone()]);
    let found = list(&it, InterruptQuery { tool: Some("rm".to_owned()), ..none() }).await;
    assert_eq!(found, vec![resolved.clone(), approval(1, 1, "rm")]);
    // A custom interrupt that happens to have a member of that name is no approval.
    assert_eq!(list(&it, InterruptQuery { tool: Some("paint".to_owned()), ..none() }).await, vec![]);
    let found = list(&it, InterruptQuery { session_id: Some(session_id(2)), ..none() }).await;
    assert_eq!(found, vec![expired.clone(), resolved.clone()]);
    assert_eq!(list(&it, InterruptQuery { session_id: Some(session_id(7)), ..none() }).await, vec![]);
    let found = list(&it, InterruptQuery { agent: Some("files".to_owned()), ..none() }).await;
    assert_eq!(found, vec![approval(1, 3, "mv"), resolved, approval(1, 1, "rm")]);
    let found = list(&it, InterruptQuery { created_after: Some(at(3)), ..none() }).await;
    assert_eq!(found, vec![expired]);
}

async fn filters_are_combined(it: Fixture) {
    let all = vec![approval(1, 1, "rm"), approval(2, 2, "rm"), approval(2, 3, "mv"), approval(2, 4, "rm")];
    store(&it, all).await;
    let query = InterruptQuery {
        status: Some(InterruptStatus::Pending),
        kind: Some("tool_approval".to_owned()),
        tool: Some("rm".to_owned()),
        session_id: Some(session_id(2)),
        agent: Some("files".to_owned()),
        created_after: Some(at(1)),
        ..InterruptQuery::default()
    };
    assert_eq!(list(&it, query).await, vec![approval(2, 4, "rm"), approval(2, 2, "rm")]);
}

async fn what_is_said_is_found_in_payload_message_and_agent(it: Fixture) {
    let payload = object(json!({"type": "question", "asked": {"about": ["Über\"uns\"", 1234]}}));
    let asked = Interrupt { payload, message: None, agent: None, kind: "question".to_owned(), ..custom(1, 1) };
    store(&it, vec![asked.clone(), approval(1, 2, "rm"), custom(2, 3)]).await;
    let said = async |text: &str| {
        list(&it, InterruptQuery { says: Some(Needle::new(text)), ..InterruptQuery::default() }).await
    };
    assert_eq!(said("über\"UNS").await, vec![asked.clone()]);
    assert_eq!(said("23").await, vec![asked]);
    assert_eq!(said("a COLOUR").await, vec![custom(2, 3)], "the message");
    assert_eq!(said("FILES").await, vec![approval(1, 2, "rm")], "the agent");
    assert_eq!(said("/tmp/").await, vec![approval(1, 2, "rm")]);
    assert_eq!(said("%").await, vec![]);
    assert_eq!(said("tool_name").await, vec![], "what members are called says nothing");
    let of_session = InterruptQuery { session_id: Some(session_id(2)), ..InterruptQuery::default() };
    assert_eq!(list(&it, InterruptQuery { says: Some(Needle::new("rm")), ..of_session }).await, vec![]);
}

async fn claims_and_snoozes_are_listed_as_long_as_they_last(it: Fixture) {
    // Claimed until 900, snoozed until 800.
    store(&it, vec![custom(1, 1), approval(1, 2, "rm")]).await;
    let snoozed = async |snoozed, now| {
        list(&it, InterruptQuery { snoozed: Some((snoozed, at(now))), ..InterruptQuery::default() }).await
    };
    assert_eq!(snoozed(true, 799).await, vec![custom(1, 1)]);
    assert_eq!(snoozed(true, 800).await, vec![]);
    assert_eq!(snoozed(false, 799).await, vec![approval(1, 2, "rm")]);
    assert_eq!(snoozed(false, 800).await, vec![approval(1, 2, "rm"), custom(1, 1)]);
    let claimed = async |who: &str, now| {
        list(&it, InterruptQuery { claimed_by: Some((who.to_owned(), at(now))), ..InterruptQuery::default() }).await
    };
    assert_eq!(claimed("ada", 899).await, vec![custom(1, 1)]);
    assert_eq!(claimed("ada", 900).await, vec![]);
    assert_eq!(claimed("Ada", 899).await, vec![]);
}

async fn a_claim_and_a_snooze_are_kept_until_they_are_taken_back(it: Fixture) {
    store(&it, vec![approval(1, 1, "rm")]).await;
    let claimed = approval(1, 1, "rm").claim("ada", 60.0, at(0)).unwrap().snooze(None, 60.0, at(0)).unwrap();
    let change = async |next: Interrupt| {
        let stored = next.clone();
        it.write(move |transaction| transaction.update_interrupt(&stored)).await;
        assert_eq!(it.read(|reader| reader.interrupt(interrupt_id(1))).await, Some(next));
    };
    change(claimed).await;
    change(approval(1, 1, "rm")).await;
}

async fn what_is_pending_is_counted_by_type_and_age(it: Fixture) {
    assert_eq!(it.upkeep().count_pending(at(0)).await.unwrap(), []);
    let asked = |number, seconds: i64| Interrupt { created_at: at(-1000 * seconds), ..approval(1, number, "rm") };
    let settled = Interrupt { status: InterruptStatus::Resolved, ..approval(1, 9, "rm") };
    let other = Interrupt { created_at: at(0), ..custom(2, 8) };
    store(&it, vec![asked(1, 59), asked(2, 60), asked(3, 3599), asked(4, 3600), asked(5, 86_400), settled, other])
        .await;
    let expected = [
        PendingCount { kind: "color_picker".to_owned(), by_age: [1, 0, 0, 0] },
        PendingCount { kind: "tool_approval".to_owned(), by_age: [1, 2, 1, 1] },
    ];
    assert_eq!(it.upkeep().count_pending(at(0)).await.unwrap(), expected);
}

//! Turns, claims and journals.

use serde_json::json;

use super::fixture::*;
use crate::domain::Error;
use crate::domain::event::EventName;
use crate::domain::journal::{Ending, Entry, PendingTimer, RecordedEntry, StepIdentity, StepResult, Wake};
use crate::domain::status::{Status, TurnStatus};
use crate::domain::webhook::Webhook;
use crate::store::record::Turn;

super::for_each_store!(
    a_turn_reads_back_with_its_webhook,
    whoever_sent_the_message_of_a_turn_is_known,
    a_turn_needs_its_session_and_an_id_of_its_own,
    the_last_turn_of_a_session_is_its_newest,
    open_turns_are_listed_oldest_first,
    each_claim_has_a_higher_epoch,
    entries_are_numbered_from_zero_and_read_back_in_order,
    an_owner_that_was_replaced_writes_nothing,
    nothing_is_appended_before_a_claim_by_an_owner,
    answers_come_in_without_an_epoch,
    an_ended_turn_takes_nothing_more,
    an_unknown_turn_takes_nothing,
    journals_are_kept_apart,
);

async fn a_turn_reads_back_with_its_webhook(it: Fixture) {
    let webhook = Webhook {
        url: "https://example.com/hook".to_owned(),
        token: Some("secret".to_owned()),
        include_messages: true,
        events: Some(vec![EventName::Session(Status::Idle), EventName::CREATED]),
    };
    let stored = Turn { webhook: Some(webhook), ..turn(session_id(1), 1) };
    let expected = stored.clone();
    it.write(move |transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_turn(&stored)
    })
    .await;
    assert_eq!(it.read(|reader| reader.turn(turn_id(1))).await, Some(expected));
    assert_eq!(it.read(|reader| reader.turn(turn_id(2))).await, None);
}

async fn whoever_sent_the_message_of_a_turn_is_known(it: Fixture) {
    it.open_turn().await;
    it.write(|transaction| transaction.insert_turn(&Turn { sent_by: None, ..turn(session_id(1), 2) })).await;
    let sender = |number| it.read(move |reader| reader.sender_of_turn(turn_id(number)));
    assert_eq!((sender(1).await, sender(2).await, sender(3).await), (Some("key 1".to_owned()), None, None));
}

async fn a_turn_needs_its_session_and_an_id_of_its_own(it: Fixture) {
    let refused = it.refuse(|transaction| transaction.insert_turn(&turn(session_id(1), 1))).await;
    assert_eq!(refused, Error::SessionNotFound);
    it.open_turn().await;
    let refused = it.refuse(|transaction| transaction.insert_turn(&turn(session_id(1), 1))).await;
    assert!(matches!(refused, Error::Internal(_)), "{refused}");
}

async fn the_last_turn_of_a_session_is_its_newest(it: Fixture) {
    it.write(|transaction| {
        for number in [1, 2, 3] {
            transaction.insert_session(&session(number), &[])?;
        }
        // Ids are not in the order of arrival.
        for (of, number) in [(1, 9), (2, 5), (1, 4)] {
            transaction.insert_turn(&turn(session_id(of), number))?;
        }
        transaction.end_turn(turn_id(4), at(50))
    })
    .await;
    let last = |of| it.read(move |reader| Ok(reader.last_turn(session_id(of))?.map(|turn| turn.id)));
    assert_eq!(last(1).await, Some(turn_id(4)));
    assert_eq!(last(2).await, Some(turn_id(5)));
    assert_eq!(last(3).await, None);
    assert_eq!(last(4).await, None);
}

async fn open_turns_are_listed_oldest_first(it: Fixture) {
    it.write(|transaction| {
        for number in [1, 2, 3] {
            transaction.insert_session(&session(number), &[])?;
            transaction.insert_turn(&turn(session_id(number), 10 - number))?;
        }
        transaction.end_turn(turn_id(8), at(50))
    })
    .await;
    let open = it.orphans().await;
    assert_eq!(open, vec![turn_id(9), turn_id(7)]);
    let ended = it.read(|reader| reader.turn(turn_id(8))).await.unwrap();
    assert_eq!(ended.life.ended_at(), Some(at(50)));
}

async fn each_claim_has_a_higher_epoch(it: Fixture) {
    it.open_turn().await;
    assert_eq!(it.write(|transaction| transaction.claim_turn(turn_id(1), me(), 0)).await, 1);
    assert_eq!(it.write(|transaction| transaction.claim_turn(turn_id(1), me(), 0)).await, 2);
    assert_eq!(it.read(|reader| reader.life(turn_id(1))).await.unwrap().epoch, 2);
}

async fn entries_are_numbered_from_zero_and_read_back_in_order(it: Fixture) {
    it.open_turn().await;
    let step_identity = match step("pay", json!(null)) {
        Entry::Step { step, .. } => step,
        other => panic!("{other:?}"),
    };
    let entries = vec![
        Entry::Start {
            code: "0123456789abcdef".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: None,
            traceparent: None,
        },
        Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: true,
            abandoned: None,
            traceparent: None,
        },
        Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: Some(Box::new(abandoned())),
            traceparent: None,
        },
        Entry::Start {
            code: "c".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: None,
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        },
        Entry::Taken { code: "v2".to_owned(), python: "3.12".to_owned(), policy: None },
        Entry::Taken { code: "v2".to_owned(), python: "3.12".to_owned(), policy: Some(true) },
        Entry::Intent { step: step_identity.clone(), arguments: None },
        Entry::Intent { step: step_identity.clone(), arguments: Some(json!({"to": "ada"})) },
        step("pay", json!({"amount": 0.1, "large": 9_007_199_254_740_993_u64, "text": "ü"})),
        Entry::Step { step: step_identity.clone(), result: StepResult::Error(json!({"type": "ValueError"})) },
        Entry::Ask { step: step_identity.clone(), interrupt_id: interrupt_id(1) },
        Entry::Answer { interrupt_id: interrupt_id(1), value: json!(null) },
        Entry::Expire { interrupt_id: interrupt_id(2) },
        Entry::Withdraw { interrupt_id: interrupt_id(3) },
        Entry::Timer { path: "0@1".to_owned(), due: at(500) },
        Entry::Wakes {
            wakes: vec![Wake { after: 3, task: "0.1".to_owned(), location: Some("agent.py:7".to_owned()) }],
        },
        Entry::Pause { timers: vec![PendingTimer { path: "0@2".to_owned(), due: at(900) }], context: None },
        Entry::Pause { timers: Vec::new(), context: None },
        Entry::Pause { timers: Vec::new(), context: Some(serde_json::json!({"user": 3})) },
        Entry::Step {
            step: StepIdentity {
                location: None,
                arguments: object(json!({"to": "00".repeat(16), "amount": "11".repeat(16)})),
                tool_call_id: Some("call_1".to_owned()),
                ..step_identity
            },
            result: StepResult::Value(json!(null)),
        },
        Entry::Cancel {},
        Entry::End { ending: Ending::Failed("ValueError: no".to_owned()) },
        Entry::End { ending: Ending::Done },
    ];
    let expected = entries.clone();
    let indexes = it
        .write(move |transaction| {
            let epoch = transaction.claim_turn(turn_id(1), me(), 0)?;
            let numbered = (0..).zip(&entries);
            numbered
                .map(|(number, entry)| transaction.append(turn_id(1), epoch, entry, at(number)))
                .collect::<Result<Vec<_>, _>>()
        })
        .await;
    assert_eq!(indexes, (0..expected.len() as u64).collect::<Vec<_>>());
    let expected: Vec<RecordedEntry> =
        (0..).zip(expected).map(|(number, entry)| RecordedEntry { at: at(number), entry }).collect();
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await, expected);
    for index in 0..expected.len() {
        let after = it.read(move |reader| reader.journal_after(turn_id(1), Some(index as u64))).await;
        assert_eq!(after, expected[index + 1..]);
    }
    assert_eq!(it.read(|reader| reader.journal_after(turn_id(1), None)).await, expected);
    assert_eq!(it.read(|reader| reader.journal_after(turn_id(1), Some(u64::MAX))).await, vec![]);
    for first in 0..=expected.len() {
        for limit in [1, 2, expected.len(), usize::MAX] {
            let page = it.read(move |reader| reader.journal_page(turn_id(1), first as u64, limit)).await;
            let end = first.saturating_add(limit).min(expected.len());
            assert_eq!(page, expected[first..end], "{limit} from {first} on");
        }
    }
    assert_eq!(it.read(|reader| reader.journal_page(turn_id(1), u64::MAX, 1)).await, vec![]);
    assert_eq!(it.read(|reader| reader.journal_page(turn_id(2), 0, 1)).await, vec![]);
    let last = it.read(|reader| Ok((reader.last_entry(turn_id(1))?, reader.last_entry(turn_id(2))?))).await;
    assert_eq!(last, (expected.last().cloned(), None));
}

async fn an_owner_that_was_replaced_writes_nothing(it: Fixture) {
    it.open_turn().await;
    let old = it.write(|transaction| transaction.claim_turn(turn_id(1), me(), 0)).await;
    let new = it.write(|transaction| transaction.claim_turn(turn_id(1), me(), 0)).await;
    let refused =
        it.refuse(move |transaction| transaction.append(turn_id(1), old, &Entry::Cancel {}, at(0)).map(drop)).await;
    assert_eq!(refused, Error::StaleEpoch);
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await, vec![]);
    let index = it.write(move |transaction| transaction.append(turn_id(1), new, &Entry::Cancel {}, at(0))).await;
    assert_eq!(index, 0);
}

async fn nothing_is_appended_before_a_claim_by_an_owner(it: Fixture) {
    it.open_turn().await;
    let refused = it.refuse(|transaction| transaction.append(turn_id(1), 1, &Entry::Cancel {}, at(0)).map(drop)).await;
    assert_eq!(refused, Error::StaleEpoch);
}

async fn answers_come_in_without_an_epoch(it: Fixture) {
    it.open_turn().await;
    let answer = || Entry::Answer { interrupt_id: interrupt_id(1), value: json!(false) };
    let indexes = it
        .write(move |transaction| {
            let epoch = transaction.claim_turn(turn_id(1), me(), 0)?;
            Ok([
                transaction.append(turn_id(1), epoch, &step("a", json!(1)), at(0))?,
                transaction.append_foreign(turn_id(1), &answer(), at(0))?,
                transaction.append(turn_id(1), epoch, &step("b", json!(2)), at(0))?,
            ])
        })
        .await;
    assert_eq!(indexes, [0, 1, 2]);
    let expected = [step("a", json!(1)), answer(), step("b", json!(2))].map(recorded);
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await, expected);
}

async fn an_ended_turn_takes_nothing_more(it: Fixture) {
    it.open_turn().await;
    let epoch = it
        .write(|transaction| {
            let epoch = transaction.claim_turn(turn_id(1), me(), 0)?;
            transaction.append(turn_id(1), epoch, &Entry::End { ending: Ending::Done }, at(0))?;
            transaction.end_turn(turn_id(1), at(9))?;
            Ok(epoch)
        })
        .await;
    refuses_everything(&it, epoch, Some(TurnStatus::Ended)).await;
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await.len(), 1);
    assert_eq!(it.read(|reader| reader.life(turn_id(1))).await.unwrap().ended_at(), Some(at(9)));
}

async fn an_unknown_turn_takes_nothing(it: Fixture) {
    refuses_everything(&it, 0, None).await;
}

async fn refuses_everything(it: &Fixture, epoch: u64, stands: Option<TurnStatus>) {
    let id = turn_id(1);
    let refusals = [
        it.refuse(move |transaction| transaction.append(id, epoch, &Entry::Cancel {}, at(0)).map(drop)).await,
        it.refuse(move |transaction| transaction.append(id, epoch + 1, &Entry::Cancel {}, at(0)).map(drop)).await,
        it.refuse(move |transaction| transaction.append_foreign(id, &Entry::Cancel {}, at(0)).map(drop)).await,
        it.refuse(move |transaction| transaction.claim_turn(id, me(), 0).map(drop)).await,
        it.refuse(move |transaction| transaction.end_turn(id, at(10))).await,
    ];
    assert_eq!(vec![Error::TurnNotOpen(stands); 5], refusals);
}

async fn journals_are_kept_apart(it: Fixture) {
    it.open_turn().await;
    it.write(|transaction| {
        transaction.insert_turn(&turn(session_id(1), 2))?;
        transaction.append_foreign(turn_id(1), &step("one", json!(1)), at(0))?;
        assert_eq!(transaction.append_foreign(turn_id(2), &step("two", json!(2)), at(0))?, 0);
        Ok(())
    })
    .await;
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await, vec![recorded(step("one", json!(1)))]);
    assert_eq!(it.read(|reader| reader.journal(turn_id(2))).await, vec![recorded(step("two", json!(2)))]);
}

//! Events, and replies kept for idempotency keys.

use serde_json::json;

use super::fixture::*;
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::domain::event::{NumberedEvent, StoredEvent, Triage};
use crate::domain::interrupt::Interrupt;
use crate::domain::status::InterruptStatus;
use crate::store::query::AuditQuery;
use crate::store::record::EventNumber;
use crate::store::record::StoredReply;
use crate::store::upkeep::Sweep;

super::for_each_store!(
    events_are_numbered_in_order_and_read_back,
    an_interrupt_is_told_as_it_was_at_each_event,
    a_claim_is_told_with_the_record_as_it_is_now,
    an_event_outlives_the_interrupt_of_a_deleted_session,
    events_go_on_after_a_number,
    a_job_has_as_many_events_entries_that_are_told_and_deeds_as_it_likes,
    entries_that_are_told_are_events_among_the_others,
    what_is_told_of_an_entry_goes_with_its_journal,
    what_comes_before_the_first_event_that_is_left_is_told_no_more,
    what_a_refused_job_told_is_no_event,
    numbers_never_go_back_when_events_are_swept,
    a_reply_reads_back_under_its_scope_and_key,
    old_replies_are_swept,
    no_more_replies_are_swept_at_once_than_it_is_told,
    no_more_events_are_swept_at_once_than_it_is_told,
);

async fn events_are_numbered_in_order_and_read_back(it: Fixture) {
    assert_eq!(it.read(|reader| reader.last_event()).await, 0);
    let numbers = it
        .write(|transaction| {
            Ok([
                transaction.append_event(&event(1, "session.running"), at(0))?,
                transaction.append_event(&event(2, "session.idle"), at(0))?,
            ])
        })
        .await
        .map(|number| number.get());
    assert!(0 < numbers[0] && numbers[0] < numbers[1]);
    assert_eq!(it.read(|reader| reader.last_event()).await, numbers[1]);
    let expected = vec![
        NumberedEvent { number: numbers[0], event: event(1, "session.running").view(None) },
        NumberedEvent { number: numbers[1], event: event(2, "session.idle").view(None) },
    ];
    assert_eq!(it.read(|reader| reader.events_after(0, None, 10)).await, expected);
}

async fn an_interrupt_is_told_as_it_was_at_each_event(it: Fixture) {
    let asked = Interrupt { resolved_by: None, ..custom(1, 1) }.untriaged();
    let answered = Interrupt {
        status: InterruptStatus::Resolved,
        value: Some(json!({"approved": true})),
        resolved_by: Some("alice".to_owned()),
        resolved_at: Some(at(77)),
        ..asked.clone()
    };
    let (before, after) = (asked.clone(), answered.clone());
    it.write(move |transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_interrupt(&before)?;
        transaction.append_event(&StoredEvent::interrupt(&before), at(0))?;
        transaction.update_interrupt(&after)?;
        transaction.append_event(&StoredEvent::interrupt(&after), at(1)).map(drop)
    })
    .await;
    let told = it.read(|reader| reader.events_after(0, Some(session_id(1)), 10)).await;
    let told: Vec<_> = told.into_iter().map(|event| (event.event.name, event.event.data)).collect();
    let expected = [("interrupt.created", json!(asked)), ("interrupt.resolved", json!(answered))];
    assert_eq!(told, expected.map(|(name, record)| (name.to_owned(), object(record))));
}

async fn a_claim_is_told_with_the_record_as_it_is_now(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_interrupt(&custom(1, 1))?;
        for triage in [Triage::Claimed, Triage::Released, Triage::Snoozed, Triage::Unsnoozed] {
            transaction.append_event(&StoredEvent::triage(&custom(1, 1), triage), at(0))?;
        }
        Ok(())
    })
    .await;
    let told = it.read(|reader| reader.events_after(0, None, 10)).await;
    let names: Vec<_> = told.iter().map(|event| event.event.name.as_str()).collect();
    assert_eq!(names, ["interrupt.claimed", "interrupt.released", "interrupt.snoozed", "interrupt.unsnoozed"]);
    assert!(told.iter().all(|event| event.event.data == object(json!(custom(1, 1)))));
}

async fn an_event_outlives_the_interrupt_of_a_deleted_session(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_session(&session(1), &[])?;
        transaction.insert_interrupt(&custom(1, 1))?;
        transaction.append_event(&StoredEvent::interrupt(&custom(1, 1)), at(0))?;
        transaction.append_event(&event(1, "gone"), at(0))?;
        transaction.delete_session(session_id(1))
    })
    .await;
    let told = it.read(|reader| reader.events_after(0, Some(session_id(1)), 10)).await;
    assert_eq!(told[0].event.name, "interrupt.created");
    let ids = json!({"session_id": session_id(1), "interrupt_id": interrupt_id(1)});
    assert_eq!(told[0].event.data, object(ids));
    assert_eq!(told[1].event, event(1, "gone").view(None));
}

/// Two sessions, each with a turn that is claimed.
async fn two_turns(it: &Fixture) {
    it.write(|tx| {
        for number in [1, 2] {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.claim_turn(turn_id(number), me(), 0)?;
        }
        Ok(())
    })
    .await;
}

/// Steps of these turns, one job each; of which turn and with what result.
async fn told(it: &Fixture, steps: &[(u128, &str)]) {
    for (number, result) in steps {
        let (number, entry) = (*number, step("pay", json!(result)));
        it.write(move |tx| tx.append_told(turn_id(number), 1, &entry, at(0))).await;
    }
}

/// The events after a number: of each its number, and what the step came to or why the session failed.
async fn heard(it: &Fixture, after: u64, of: Option<u128>, limit: usize) -> Vec<(u64, String)> {
    let found = it.read(move |reader| reader.events_after(after, of.map(session_id), limit)).await;
    let what = |data: &crate::domain::JsonObject| data.get("result").or(data.get("error")).cloned().unwrap_or_default();
    found.iter().map(|it| (it.number, what(&it.event.data).as_str().unwrap_or_default().to_owned())).collect()
}

fn texts(heard: &[(u64, String)]) -> Vec<&str> {
    heard.iter().map(|(_, text)| text.as_str()).collect()
}

async fn entries_that_are_told_are_events_among_the_others(it: Fixture) {
    two_turns(&it).await;
    it.write(|tx| tx.append_event(&event(1, "one"), at(0))).await;
    told(&it, &[(1, "two"), (2, "three")]).await;
    it.write(|tx| {
        // Within a job, too, in the order in which it was told.
        tx.append_told(turn_id(1), 1, &step("pay", json!("four")), at(0))?;
        tx.append_event(&event(1, "five"), at(0))?;
        tx.append_told(turn_id(1), 1, &step("pay", json!("six")), at(0))?;
        // Nobody is told of these.
        tx.append(turn_id(1), 1, &step("pay", json!("silent")), at(0))?;
        let step = crate::domain::journal::Entry::Step {
            step: identity("0#9", "guardrail"),
            result: crate::domain::journal::StepResult::Value(json!("a password")),
        };
        tx.append_told(turn_id(1), 1, &step, at(0))
    })
    .await;
    let all = heard(&it, 0, None, 100).await;
    assert_eq!(texts(&all), ["one", "two", "three", "four", "five", "six"]);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "{all:?}");
    assert_eq!(it.read(|reader| reader.last_event()).await, all[5].0);
    assert_eq!(texts(&heard(&it, 0, Some(1), 100).await), ["one", "two", "four", "five", "six"]);
    assert_eq!(texts(&heard(&it, 0, Some(2), 100).await), ["three"]);
    for (place, (number, _)) in all.iter().enumerate() {
        for limit in [0, 1, 3, 100] {
            let rest = heard(&it, *number, None, limit).await;
            let end = all.len().min(place + 1 + limit);
            assert_eq!(rest, all[place + 1..end], "{limit} after {number}");
        }
    }
    // A listener's number is not what polls compare.
    assert_eq!(it.read(|reader| reader.last_event_of(session_id(1))).await, all[4].0);
    let whole = it.read(|reader| reader.events_after(0, Some(session_id(2)), 1)).await.remove(0).event;
    let expected = json!({
        "session_id": session_id(2), "turn_id": turn_id(2), "step_id": "0#1", "tool_call_id": null, "name": "pay",
        "result": "three",
    });
    assert_eq!((whole.name.as_str(), whole.session_id, whole.data), ("tool.finished", session_id(2), object(expected)));
}

/// A session with so many questions that are answered, or cancelled with it, at once.
const MANY: u128 = 5000;

async fn a_job_has_as_many_events_entries_that_are_told_and_deeds_as_it_likes(it: Fixture) {
    two_turns(&it).await;
    it.write(|tx| tx.append_event(&event(2, "before"), at(0))).await;
    let before = it.read(|reader| reader.last_event()).await;
    let numbers = it.write(|tx| {
        let each = |index: u128| {
            let of_one = tx.append_event(&event(1, &index.to_string()), at(0))?;
            tx.append_told(turn_id(1), 1, &step("pay", json!(index.to_string())), at(0))?;
            tx.append_audit(Deed::new(Action::Decided), at(i64::try_from(index).unwrap()))?;
            Ok(of_one)
        };
        (0..MANY).map(each).collect::<Result<Vec<_>, Error>>()
    });
    let numbers: Vec<u64> = numbers.await.iter().map(EventNumber::get).collect();
    it.write(|tx| tx.append_event(&event(2, "after"), at(0))).await;
    let mut all: Vec<(u64, String)> = Vec::new();
    loop {
        let page = heard(&it, all.last().map_or(before, |last| last.0), None, 1700).await;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let expected = (0..MANY).flat_map(|index| [index.to_string(), index.to_string()]).chain(["after".to_owned()]);
    assert!(all.iter().map(|(_, text)| text.clone()).eq(expected), "{} are told", all.len());
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(all.iter().step_by(2).map(|(number, _)| *number).take(numbers.len()).eq(numbers));
    let query = AuditQuery { limit: 10_000, ..AuditQuery::default() };
    let audit = it.read(move |reader| reader.audit(&query)).await.items;
    let times: Vec<i64> = audit.iter().map(|row| row.at.millis()).collect();
    assert_eq!((times.len(), times.is_sorted() || times.iter().rev().is_sorted()), (5000, true));
}

async fn what_is_told_of_an_entry_goes_with_its_journal(it: Fixture) {
    two_turns(&it).await;
    it.write(|tx| tx.append_event(&event(1, "one"), at(0))).await;
    told(&it, &[(1, "two"), (2, "three")]).await;
    let newest = heard(&it, 0, None, 100).await[2].0;
    it.write(|tx| tx.delete_session(session_id(2))).await;
    assert_eq!(texts(&heard(&it, 0, None, 100).await), ["one", "two"]);
    assert_eq!(texts(&heard(&it, 0, Some(2), 100).await), [""; 0]);
    // Nobody takes what comes next for what they have heard.
    it.write(|tx| tx.append_event(&event(1, "four"), at(0))).await;
    let after = heard(&it, newest, None, 100).await;
    assert_eq!(texts(&after), ["four"]);
    it.write(|tx| tx.end_turn(turn_id(1), at(1))).await;
    assert_eq!(it.upkeep().compact_journals(at(2), 10).await.unwrap(), 1);
    assert_eq!(texts(&heard(&it, 0, None, 100).await), ["one", "four"]);
}

async fn what_comes_before_the_first_event_that_is_left_is_told_no_more(it: Fixture) {
    two_turns(&it).await;
    told(&it, &[(1, "begun long ago")]).await;
    it.write(|tx| tx.append_event(&event(1, "one"), at(0))).await;
    told(&it, &[(1, "two")]).await;
    it.write(|tx| tx.append_event(&event(2, "three"), at(5))).await;
    told(&it, &[(1, "four")]).await;
    // As long as nothing was swept, there is nothing that is told no more: an entry may be there before any event is.
    assert_eq!(texts(&heard(&it, 0, None, 100).await), ["begun long ago", "one", "two", "three", "four"]);
    assert_eq!(sweep(&it, Sweep::Events, 1, 10).await, 1);
    assert_eq!(texts(&heard(&it, 0, None, 100).await), ["three", "four"]);
    assert_eq!(texts(&heard(&it, 0, Some(1), 100).await), ["four"]);
}

async fn what_a_refused_job_told_is_no_event(it: Fixture) {
    two_turns(&it).await;
    told(&it, &[(1, "one")]).await;
    let stale = it.refuse(|tx| tx.append_told(turn_id(1), 0, &step("pay", json!("two")), at(0)).map(drop)).await;
    assert_eq!(stale, Error::StaleEpoch);
    let refused = it.refuse(|tx| {
        tx.append_told(turn_id(1), 1, &step("pay", json!("two")), at(0))?;
        Err(Error::QueueFull)
    });
    assert_eq!(refused.await, Error::QueueFull);
    told(&it, &[(1, "three")]).await;
    assert_eq!(texts(&heard(&it, 0, None, 100).await), ["one", "three"]);
}

async fn events_go_on_after_a_number(it: Fixture) {
    let numbers = it
        .write(|transaction| {
            (0..6).map(|index| transaction.append_event(&event(index % 2, "x"), at(0))).collect::<Result<Vec<_>, _>>()
        })
        .await;
    let numbers: Vec<u64> = numbers.iter().map(EventNumber::get).collect();
    let read = async |after, session: Option<u128>, limit| {
        let found = it.read(move |reader| reader.events_after(after, session.map(session_id), limit)).await;
        found.into_iter().map(|event| event.number).collect::<Vec<_>>()
    };
    assert_eq!(read(numbers[1], None, 3).await, numbers[2..5]);
    assert_eq!(read(numbers[0], Some(0), 10).await, [numbers[2], numbers[4]]);
    assert_eq!(read(0, Some(1), 2).await, [numbers[1], numbers[3]]);
    let last_of = async |session| it.read(move |reader| reader.last_event_of(session_id(session))).await;
    assert_eq!((last_of(0).await, last_of(1).await, last_of(2).await), (numbers[4], numbers[5], 0));
    assert_eq!(read(numbers[5], None, 10).await, [0_u64; 0]);
    assert_eq!(read(u64::MAX, None, 10).await, [0_u64; 0]);
}

/// How many rows of that kind, from before that time, a sweep takes.
async fn sweep(it: &Fixture, kind: Sweep, before: i64, limit: usize) -> usize {
    it.upkeep().sweep(kind, at(before), limit).await.unwrap()
}

async fn numbers_never_go_back_when_events_are_swept(it: Fixture) {
    it.write(|transaction| {
        for millis in [0, 1, 2] {
            transaction.append_event(&event(1, "x"), at(millis))?;
        }
        Ok(())
    })
    .await;
    let last = it.read(|reader| reader.last_event()).await;
    assert_eq!(sweep(&it, Sweep::Events, 1, 10).await, 1);
    assert_eq!(it.read(|reader| reader.events_after(0, None, 10)).await.len(), 2);
    assert_eq!(sweep(&it, Sweep::Events, 1000, 10).await, 1);
    assert_eq!(it.read(|reader| reader.last_event()).await, last);
    let next = it.write(|transaction| transaction.append_event(&event(1, "x"), at(1000))).await;
    assert!(next.get() > last);
    assert_eq!(sweep(&it, Sweep::Events, 1000, 10).await, 1);
    assert_eq!(it.read(|reader| reader.events_after(0, None, 10)).await.len(), 1);
}

fn reply(text: &str, millis: i64) -> StoredReply {
    StoredReply { request_digest: format!("sha256:{text}"), body: json!({"said": text}), created_at: at(millis) }
}

async fn a_reply_reads_back_under_its_scope_and_key(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_reply("send/1", "k", &reply("one", 1))?;
        transaction.insert_reply("send/2", "k", &reply("two", 2))?;
        transaction.insert_reply("send/1", "k", &reply("later", 3))
    })
    .await;
    assert_eq!(it.read(|reader| reader.reply("send/1", "k")).await, Some(reply("later", 3)));
    assert_eq!(it.read(|reader| reader.reply("send/2", "k")).await, Some(reply("two", 2)));
    assert_eq!(it.read(|reader| reader.reply("send/1", "K")).await, None);
}

async fn old_replies_are_swept(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_reply("s", "old", &reply("old", 9))?;
        transaction.insert_reply("s", "new", &reply("new", 10))
    })
    .await;
    assert_eq!(sweep(&it, Sweep::Replies, 10, 10).await, 1);
    assert_eq!(it.read(|reader| reader.reply("s", "old")).await, None);
    assert_eq!(it.read(|reader| reader.reply("s", "new")).await, Some(reply("new", 10)));
}

async fn no_more_replies_are_swept_at_once_than_it_is_told(it: Fixture) {
    it.write(|transaction| {
        // The order of their names is not that of their ages.
        for (key, millis) in [("d", 0), ("c", 1), ("a", 2), ("b", 2), ("new", 10)] {
            transaction.insert_reply("s", key, &reply(key, millis))?;
        }
        Ok(())
    })
    .await;
    let sweep = async |limit| sweep(&it, Sweep::Replies, 10, limit).await;
    let kept = async || -> Vec<&str> {
        it.read(|reader| {
            let keys = ["a", "b", "c", "d", "new"].into_iter();
            let kept = keys.filter_map(|key| reader.reply("s", key).map(|reply| reply.map(|_| key)).transpose());
            kept.collect::<Result<Vec<_>, _>>()
        })
        .await
    };
    assert_eq!((sweep(0).await, kept().await.len()), (0, 5));
    assert_eq!(sweep(3).await, 3);
    assert_eq!(kept().await, ["b", "new"]);
    assert_eq!(sweep(3).await, 1);
    assert_eq!(kept().await, ["new"]);
    assert_eq!(sweep(3).await, 0);
}

async fn no_more_events_are_swept_at_once_than_it_is_told(it: Fixture) {
    it.write(|transaction| {
        for millis in [0, 1, 2, 3, 10, 4] {
            transaction.append_event(&event(1, "x"), at(millis))?;
        }
        Ok(())
    })
    .await;
    let sweep = async |before, limit| sweep(&it, Sweep::Events, before, limit).await;
    let kept = async || it.read(|reader| reader.events_after(0, None, 10)).await.len();
    assert_eq!((sweep(10, 0).await, kept().await), (0, 6));
    assert_eq!((sweep(10, 3).await, kept().await), (3, 3));
    // Not the one that is not old, nor what stands after it.
    assert_eq!((sweep(10, 3).await, kept().await), (1, 2));
    assert_eq!((sweep(10, 3).await, kept().await), (0, 2));
    // The newest stays, whatever its age.
    assert_eq!((sweep(1000, 1).await, kept().await), (1, 1));
    assert_eq!((sweep(1000, 1).await, kept().await), (0, 1));
}

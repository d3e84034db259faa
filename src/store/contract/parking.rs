//! Parked turns, suspended turns, and what is due.

use serde_json::json;

use super::fixture::*;
use crate::domain::audit::{Action, Deed};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Ending, Entry, PendingTimer};
use crate::domain::session::{Failure, Session};
use crate::domain::status::{InterruptStatus, Status, TurnStatus};
use crate::domain::turn::{Life, TurnState};
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::Transaction;
use crate::store::record::{Due, DueKind, RetriableTurn, Turn};
use crate::store::signals::{LeftTurn, OrphanedTurn};

super::for_each_store!(
    parking_a_turn_takes_it_from_its_owner,
    only_the_owner_parks,
    an_answer_to_a_parked_turn_leaves_it_parked,
    a_parked_turn_is_woken_for_whoever_claims_it_then,
    claiming_a_parked_turn_wakes_it,
    unparked_turns_are_listed_oldest_first,
    a_suspended_turn_is_closed_and_its_journal_kept,
    a_reopened_turn_goes_on,
    only_a_suspended_turn_is_reopened,
    a_suspended_turn_can_be_abandoned_for_good,
    turns_suspended_under_other_code_are_retriable,
    turns_that_nobody_has_are_told_as_they_stand,
    turns_suspended_for_long_are_found_in_that_order,
    lost_workers_are_counted_where_that_counts,
    notes_are_kept_and_added_to,
    interrupts_and_timers_are_due_in_order_of_time,
    nothing_settled_is_due,
    interrupts_of_a_suspended_turn_are_not_due,
    old_journals_are_compacted_once,
    sweeping_leaves_sessions_with_a_suspended_turn,
);

const TURN: u128 = 1;
const HAS_ENDED: Error = Error::TurnNotOpen(Some(TurnStatus::Ended));

fn id() -> TurnId {
    turn_id(TURN)
}

/// A parked turn: the epoch of its last owner.
async fn park(it: &Fixture) -> u64 {
    it.open_turn().await;
    it.write(|transaction| {
        let epoch = transaction.claim_turn(id(), me(), 0)?;
        transaction.append(id(), epoch, &Entry::Pause { timers: Vec::new(), context: None }, at(0))?;
        transaction.park_turn(id(), epoch, Some(at(500)), 42)?;
        Ok(epoch)
    })
    .await
}

async fn suspend(it: &Fixture) -> u64 {
    it.open_turn().await;
    it.write(|transaction| {
        let epoch = transaction.claim_turn(id(), me(), 0)?;
        transaction.append(id(), epoch, &step("a", json!(1)), at(0))?;
        transaction.lose_turn(id(), epoch, true, 42)?;
        transaction.suspend_turn(id(), at(7), "v1")?;
        Ok(epoch)
    })
    .await
}

async fn turn_of(it: &Fixture, number: u128) -> Turn {
    it.read(move |reader| reader.turn(turn_id(number))).await.unwrap()
}

async fn parking_a_turn_takes_it_from_its_owner(it: Fixture) {
    let epoch = park(&it).await;
    let parked = turn_of(&it, TURN).await;
    assert_eq!(parked.life.state, TurnState::Parked { wake_at: Some(at(500)) });
    assert_eq!(parked.life.worked_ms, 42);
    assert!(parked.life.epoch > epoch);
    let refused = it.refuse(move |tx| tx.append(id(), epoch, &Entry::Cancel {}, at(1)).map(drop)).await;
    assert_eq!(refused, Error::StaleEpoch);
    let refused = it.refuse(move |tx| tx.park_turn(id(), epoch, None, 1)).await;
    assert_eq!(refused, Error::StaleEpoch);
    assert_eq!(turn_of(&it, TURN).await, parked);
}

async fn only_the_owner_parks(it: Fixture) {
    it.open_turn().await;
    let old = it.write(|tx| tx.claim_turn(id(), me(), 0)).await;
    it.write(|tx| tx.claim_turn(id(), me(), 0)).await;
    assert_eq!(it.refuse(move |tx| tx.park_turn(id(), old, None, 0)).await, Error::StaleEpoch);
    assert!(!turn_of(&it, TURN).await.life.is_parked());
    assert_eq!(it.refuse(|tx| tx.park_turn(turn_id(9), 1, None, 0)).await, Error::TurnNotOpen(None));
    it.write(|tx| tx.end_turn(id(), at(3))).await;
    assert_eq!(it.refuse(|tx| tx.park_turn(id(), 2, None, 0)).await, HAS_ENDED);
}

async fn an_answer_to_a_parked_turn_leaves_it_parked(it: Fixture) {
    park(&it).await;
    let answer = Entry::Answer { interrupt_id: interrupt_id(1), value: json!(true) };
    it.write(move |tx| tx.append_foreign(id(), &answer, at(9))).await;
    assert!(turn_of(&it, TURN).await.life.is_parked());
    assert_eq!(it.read(|reader| reader.journal(id())).await.len(), 2);
}

async fn a_parked_turn_is_woken_for_whoever_claims_it_then(it: Fixture) {
    let old = park(&it).await;
    it.write(|tx| tx.wake_turn(id())).await;
    let ready = turn_of(&it, TURN).await.life;
    assert_eq!((ready.state, ready.worked_ms), (TurnState::UnderWay, 42));
    assert_eq!(it.upkeep().next_due().await.unwrap(), None);
    let refused = it.refuse(move |tx| tx.append(id(), old, &Entry::Cancel {}, at(1)).map(drop)).await;
    assert_eq!(refused, Error::StaleEpoch);
    let refused = it.refuse(|tx| tx.wake_turn(id())).await;
    assert_eq!(refused, Error::Internal("a turn that is under way cannot be woken".to_owned()));
    assert!(it.write(|tx| tx.claim_turn(id(), me(), 0)).await > ready.epoch);
}

async fn claiming_a_parked_turn_wakes_it(it: Fixture) {
    let old = park(&it).await;
    let epoch = it.write(|tx| tx.claim_turn(id(), me(), 0)).await;
    assert!(epoch > old + 1);
    let woken = turn_of(&it, TURN).await;
    assert_eq!(woken.life, Life { epoch, recoveries: 0, worked_ms: 42, claimed: Some(0), state: TurnState::UnderWay });
    assert_eq!(it.upkeep().next_due().await.unwrap(), None);
    it.write(move |tx| tx.append(id(), epoch, &step("b", json!(1)), at(1))).await;
}

async fn unparked_turns_are_listed_oldest_first(it: Fixture) {
    it.write(|tx| {
        for number in 1..=6 {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), 10 - number))?;
        }
        for number in [2, 3] {
            let epoch = tx.claim_turn(turn_id(10 - number), me(), 0)?;
            tx.park_turn(turn_id(10 - number), epoch, None, 0)?;
        }
        tx.claim_turn(turn_id(7), me(), 0)?;
        tx.end_turn(turn_id(5), at(50))?;
        tx.suspend_turn(turn_id(4), at(50), "v1")
    })
    .await;
    let ids = async || it.orphans().await;
    assert_eq!(ids().await, [turn_id(9), turn_id(7), turn_id(6)]);
    it.write(|tx| tx.reopen_turn(turn_id(4))).await;
    assert_eq!(ids().await, [turn_id(9), turn_id(7), turn_id(6), turn_id(4)]);
}

async fn a_suspended_turn_is_closed_and_its_journal_kept(it: Fixture) {
    let epoch = suspend(&it).await;
    let suspended = turn_of(&it, TURN).await;
    assert_eq!(suspended.life.state, TurnState::Suspended { at: at(7), code: "v1".to_owned() });
    assert_eq!(suspended.life.recoveries, 1);
    assert_eq!(it.read(|reader| reader.journal(id())).await, vec![recorded(step("a", json!(1)))]);
    let refusals = [
        it.refuse(move |tx| tx.append(id(), epoch, &Entry::Cancel {}, at(8)).map(drop)).await,
        it.refuse(move |tx| tx.append_foreign(id(), &Entry::Cancel {}, at(8)).map(drop)).await,
        it.refuse(move |tx| tx.claim_turn(id(), me(), 0).map(drop)).await,
        it.refuse(move |tx| tx.suspend_turn(id(), at(8), "v2")).await,
        it.refuse(move |tx| tx.lose_turn(id(), epoch, true, 42).map(drop)).await,
        it.refuse(move |tx| tx.wake_turn(id())).await,
        it.refuse(move |tx| tx.end_turn(id(), at(8))).await,
        it.refuse(move |tx| tx.note_turn(id(), None, vec!["x".to_owned()])).await,
    ];
    assert_eq!(refusals, [const { Error::TurnNotOpen(Some(TurnStatus::Suspended)) }; 8]);
    assert_eq!(turn_of(&it, TURN).await, suspended);
}

async fn a_reopened_turn_goes_on(it: Fixture) {
    let old = suspend(&it).await;
    it.write(|tx| tx.reopen_turn(id())).await;
    let reopened = turn_of(&it, TURN).await;
    assert_eq!((reopened.life.state, reopened.life.recoveries), (TurnState::UnderWay, 0));
    // Its owner from before is gone, although nobody has claimed it since.
    let refused = it.refuse(move |tx| tx.append(id(), old, &Entry::Cancel {}, at(8)).map(drop)).await;
    assert_eq!(refused, Error::StaleEpoch);
    let epoch = it.write(|tx| tx.claim_turn(id(), me(), 0)).await;
    assert_eq!(it.write(move |tx| tx.append(id(), epoch, &step("b", json!(2)), at(9))).await, 1);
}

async fn only_a_suspended_turn_is_reopened(it: Fixture) {
    it.open_turn().await;
    let open = it.refuse(|tx| tx.reopen_turn(id())).await;
    assert_eq!(open, Error::Internal("a turn that is under way cannot be reopened".to_owned()));
    let open = it.refuse(|tx| tx.abandon_turn(id(), at(1))).await;
    assert_eq!(open, Error::Internal("a turn that is under way cannot be abandoned".to_owned()));
    it.write(|tx| tx.end_turn(id(), at(1))).await;
    assert_eq!(it.refuse(|tx| tx.reopen_turn(id())).await, HAS_ENDED);
    assert_eq!(it.refuse(|tx| tx.abandon_turn(id(), at(2))).await, HAS_ENDED);
    assert_eq!(it.refuse(|tx| tx.reopen_turn(turn_id(9))).await, Error::TurnNotOpen(None));
}

async fn a_suspended_turn_can_be_abandoned_for_good(it: Fixture) {
    suspend(&it).await;
    it.write(|tx| tx.abandon_turn(id(), at(9))).await;
    let ended = turn_of(&it, TURN).await;
    assert_eq!(ended.life.state, TurnState::Ended { at: at(9) });
    assert_eq!(it.refuse(|tx| tx.reopen_turn(id())).await, HAS_ENDED);
    assert_eq!(it.refuse(|tx| tx.end_turn(id(), at(10))).await, HAS_ENDED);
}

async fn turns_suspended_under_other_code_are_retriable(it: Fixture) {
    it.write(|tx| {
        for (number, code) in (1..).zip(["v1", "v2", "v1", "v3", ""]) {
            tx.insert_session(&session_in(number, Status::Error), &[])?;
            tx.insert_turn(&turn(session_id(number), 10 - number))?;
            tx.suspend_turn(turn_id(10 - number), at(1), code)?;
        }
        Ok(())
    })
    .await;
    let page = async |code: &str, after, limit| {
        it.upkeep().retriable_turns(session(1).agent, code.to_owned(), after, limit).await.unwrap()
    };
    let turns = |page: &[RetriableTurn]| page.iter().map(|found| found.turn).collect::<Vec<_>>();
    let retriable = async |code: &str, limit| turns(&page(code, 0, limit).await);
    assert_eq!(retriable("v1", 10).await, [turn_id(8), turn_id(6), turn_id(5)]);
    let first = page("v4", 0, 2).await;
    assert_eq!(turns(&first), [turn_id(9), turn_id(8)]);
    assert_eq!(turns(&page("v4", first[1].place, 2).await), [turn_id(7), turn_id(6)], "the next ones");
    assert_eq!(
        (first[1].session, first[1].failure_code.as_deref()),
        (session_id(2), Some(Failure::timed_out().code.as_str()))
    );
    let others = it.upkeep().retriable_turns("other:agent".to_owned(), "v4".to_owned(), 0, 10).await;
    assert_eq!(others, Ok(Vec::new()));
    it.write(|tx| tx.reopen_turn(turn_id(8))).await;
    assert_eq!(retriable("v1", 10).await, [turn_id(6), turn_id(5)]);
}

/// What is said of a turn that is left: its session, and until when each of its timers waits, where it is paused.
type Said = (SessionId, Option<Vec<Timestamp>>);

async fn turns_that_nobody_has_are_told_as_they_stand(it: Fixture) {
    it.write(|tx| {
        for number in 1..=6 {
            tx.insert_session(&session_in(number, Status::Interrupted), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
        }
        for number in [2, 3] {
            let timers = [20, 10].map(|due| PendingTimer { path: "0#1".to_owned(), due: at(due) });
            let timers = if number == 2 { timers.to_vec() } else { Vec::new() };
            tx.append_foreign(turn_id(number), &Entry::Pause { timers, context: None }, at(0))?;
        }
        tx.append_foreign(turn_id(3), &step("a", json!(1)), at(0))?;
        tx.claim_turn(turn_id(4), me(), 0)?;
        tx.end_turn(turn_id(5), at(1))?;
        let epoch = tx.claim_turn(turn_id(6), me(), 0)?;
        tx.park_turn(turn_id(6), epoch, None, 0)
    })
    .await;
    let orphan = |number, epoch| OrphanedTurn { turn: turn_id(number), epoch };
    let left = async |orphans: Vec<OrphanedTurn>| {
        let left = it.upkeep().left_turns(orphans).await.unwrap();
        let said = |left: LeftTurn| -> Said {
            (left.session.id, left.paused.map(|timers| timers.iter().map(|timer| timer.due).collect()))
        };
        left.into_iter().map(|(orphan, left)| (orphan, left.map(said))).collect::<Vec<_>>()
    };
    // In the order in which they were asked for; what was claimed, parked or ended since, or is not there, is left out.
    let asked = [3, 1, 2, 4, 5, 6, 9].map(|number| orphan(number, Some(0)));
    let expected = [
        (orphan(3, Some(0)), Ok((session_id(3), None))),
        (orphan(1, Some(0)), Ok((session_id(1), None))),
        (orphan(2, Some(0)), Ok((session_id(2), Some(vec![at(20), at(10)])))),
    ];
    assert_eq!(left(asked.to_vec()).await, expected);
    let whichever = left(vec![orphan(4, None), orphan(5, None), orphan(6, None)]).await;
    assert_eq!(whichever, [(orphan(4, None), Ok((session_id(4), None)))], "where nobody knows at which epoch");
    assert!(left(Vec::new()).await.is_empty());
    if it.change_rows("sessions", "status = 'confused' WHERE agent <> ''").await {
        let read = left(vec![orphan(1, Some(0)), orphan(2, Some(0))]).await;
        let cannot = |read: &(OrphanedTurn, Result<Said, Error>)| matches!(read.1, Err(Error::Unreadable(_)));
        assert!(read.len() == 2 && read.iter().all(cannot), "{read:?}");
        let claimed = left(vec![orphan(4, Some(0))]).await;
        assert!(claimed.is_empty(), "somebody else's, whether or not it can be read: {claimed:?}");
    }
}

async fn turns_suspended_for_long_are_found_in_that_order(it: Fixture) {
    it.write(|tx| {
        for (number, suspended_at) in (1..).zip([30, 10, 20, 40]) {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.suspend_turn(turn_id(number), at(suspended_at), "v1")?;
        }
        Ok(())
    })
    .await;
    let old = async |before, limit| it.upkeep().suspended_turns(at(before), 0, limit).await.unwrap();
    assert_eq!(old(40, 10).await, [turn_id(2), turn_id(3), turn_id(1)]);
    assert_eq!(old(100, 2).await, [turn_id(2), turn_id(3)]);
    let rest = async |skip, limit| it.upkeep().suspended_turns(at(40), skip, limit).await.unwrap();
    assert_eq!((rest(1, 1).await, rest(2, 10).await), (vec![turn_id(3)], vec![turn_id(1)]));
    assert_eq!(rest(3, 10).await, []);
    it.write(|tx| tx.reopen_turn(turn_id(2))).await;
    it.write(|tx| tx.abandon_turn(turn_id(3), at(50))).await;
    assert_eq!(old(100, 10).await, [turn_id(1), turn_id(4)]);
}

async fn lost_workers_are_counted_where_that_counts(it: Fixture) {
    it.open_turn().await;
    for (counts, recoveries) in [(true, 1), (false, 1), (true, 2)] {
        let lost = it.write(move |tx| {
            let epoch = tx.claim_turn(id(), me(), 0)?;
            let recoveries = tx.lose_turn(id(), epoch, counts, epoch)?;
            Ok((epoch, recoveries))
        });
        let (epoch, counted) = lost.await;
        assert_eq!(counted, recoveries);
        assert_eq!(turn_of(&it, TURN).await.life.worked_ms, epoch, "as it is said");
        let refused = it.refuse(move |tx| tx.append(id(), epoch, &Entry::Cancel {}, at(1)).map(drop)).await;
        assert_eq!(refused, Error::StaleEpoch, "who lost its worker owns it no longer");
    }
    assert_eq!(turn_of(&it, TURN).await.life.recoveries, 2);
    assert_eq!(it.refuse(|tx| tx.lose_turn(turn_id(9), 1, true, 42).map(drop)).await, Error::TurnNotOpen(None));
}

async fn notes_are_kept_and_added_to(it: Fixture) {
    it.open_turn().await;
    let note = async |impure_at: Option<&'static str>, warnings: &[&str]| {
        let warnings: Vec<String> = warnings.iter().map(|warning| (*warning).to_owned()).collect();
        it.write(move |tx| tx.note_turn(id(), impure_at.map(str::to_owned), warnings.clone())).await;
        let turn = turn_of(&it, TURN).await;
        (turn.impure_at, turn.warnings)
    };
    assert_eq!(note(None, &[]).await, (None, vec![]));
    assert_eq!(note(None, &["one"]).await, (None, vec!["one".to_owned()]));
    assert_eq!(note(Some("agent.py:3"), &[]).await, (Some("agent.py:3".to_owned()), vec!["one".to_owned()]));
    let (impure_at, warnings) = note(Some("agent.py:9"), &["two", "one", "two"]).await;
    assert_eq!((impure_at.as_deref(), warnings.as_slice()), (Some("agent.py:3"), &["one".into(), "two".into()][..]));
}

/// Parks turn `number` of a session of its own.
fn park_until(tx: &mut dyn Transaction, number: u128, wake_at: i64) -> Result<(), Error> {
    tx.insert_session(&session(number), &[])?;
    tx.insert_turn(&turn(session_id(number), number))?;
    let epoch = tx.claim_turn(turn_id(number), me(), 0)?;
    tx.park_turn(turn_id(number), epoch, Some(at(wake_at)), 0)
}

/// An interrupt of turn and session `owner`.
fn expiring(owner: u128, number: u128, expires_at: Option<i64>) -> Interrupt {
    Interrupt { turn_id: turn_id(owner), expires_at: expires_at.map(at), ..custom(owner, number) }
}

fn interrupt_due(number: u128, millis: i64) -> Due {
    Due { at: at(millis), what: DueKind::Interrupt(interrupt_id(number)) }
}

fn timers_due(number: u128, millis: i64) -> Due {
    Due { at: at(millis), what: DueKind::Timers(turn_id(number)) }
}

async fn due(it: &Fixture, now: i64, limit: usize) -> Vec<Due> {
    it.upkeep().due(at(now), limit).await.unwrap()
}

async fn interrupts_and_timers_are_due_in_order_of_time(it: Fixture) {
    assert_eq!(it.upkeep().next_due().await.unwrap(), None);
    it.write(|tx| {
        park_until(tx, 1, 30)?;
        park_until(tx, 2, 10)?;
        for (number, expires_at) in [(1, Some(40)), (2, Some(20)), (3, None), (4, Some(30)), (5, Some(20))] {
            tx.insert_interrupt(&expiring(1, number, expires_at))?;
        }
        Ok(())
    })
    .await;
    assert_eq!(it.upkeep().next_due().await.unwrap(), Some(at(10)));
    assert_eq!(due(&it, 9, 10).await, []);
    let all = [
        timers_due(2, 10),
        interrupt_due(2, 20),
        interrupt_due(5, 20),
        interrupt_due(4, 30),
        timers_due(1, 30),
        interrupt_due(1, 40),
    ];
    assert_eq!(due(&it, 40, 10).await, all);
    assert_eq!(due(&it, 30, 10).await, all[..5]);
    assert_eq!(due(&it, 1000, 3).await, all[..3]);
}

async fn nothing_settled_is_due(it: Fixture) {
    it.write(|tx| {
        park_until(tx, 1, 10)?;
        park_until(tx, 2, 20)?;
        tx.insert_interrupt(&expiring(1, 1, Some(30)))?;
        tx.insert_interrupt(&expiring(1, 2, Some(40)))?;
        tx.end_turn(turn_id(1), at(1))?;
        tx.update_interrupt(&Interrupt { status: InterruptStatus::Resolved, ..expiring(1, 1, Some(30)) })
    })
    .await;
    assert_eq!(due(&it, 100, 10).await, [timers_due(2, 20), interrupt_due(2, 40)]);
    it.write(|tx| tx.delete_session(session_id(1))).await;
    assert_eq!(due(&it, 100, 10).await, [timers_due(2, 20)]);
    it.write(|tx| tx.claim_turn(turn_id(2), me(), 0)).await;
    assert_eq!(it.upkeep().next_due().await.unwrap(), None);
}

async fn interrupts_of_a_suspended_turn_are_not_due(it: Fixture) {
    it.open_turn().await;
    it.write(|tx| {
        tx.insert_interrupt(&expiring(1, 1, Some(10)))?;
        tx.suspend_turn(id(), at(1), "v1")?;
        tx.insert_interrupt(&expiring(1, 2, Some(20)))
    })
    .await;
    assert_eq!(due(&it, 100, 10).await, []);
    assert_eq!(it.upkeep().next_due().await.unwrap(), None);
    it.write(|tx| tx.reopen_turn(id())).await;
    assert_eq!(due(&it, 100, 10).await, [interrupt_due(1, 10), interrupt_due(2, 20)]);
    // Ended for good is not suspended any more either.
    it.write(|tx| {
        tx.suspend_turn(id(), at(1), "v1")?;
        tx.abandon_turn(id(), at(2))
    })
    .await;
    assert_eq!(due(&it, 100, 10).await, [interrupt_due(1, 10), interrupt_due(2, 20)]);
}

async fn old_journals_are_compacted_once(it: Fixture) {
    it.write(|tx| {
        for number in 1..=5 {
            tx.insert_session(&session(number), &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
            tx.append_foreign(turn_id(number), &Entry::End { ending: Ending::Done }, at(0))?;
            tx.insert_interrupt(&expiring(number, number, None))?;
        }
        for (number, ended_at) in [(1, 30), (2, 20), (3, 99)] {
            tx.end_turn(turn_id(number), at(ended_at))?;
        }
        tx.suspend_turn(turn_id(4), at(20), "v1")
    })
    .await;
    let compact = async |before, limit| it.upkeep().compact_journals(at(before), limit).await.unwrap();
    let lengths = async || -> Vec<usize> {
        it.read(|reader| (1..=5).map(|number| Ok(reader.journal(turn_id(number))?.len())).collect()).await
    };
    assert_eq!(compact(20, 10).await, 0);
    assert_eq!(compact(99, 1).await, 1);
    assert_eq!(lengths().await, [1, 0, 1, 1, 1]);
    assert_eq!(compact(99, 10).await, 1);
    assert_eq!(lengths().await, [0, 0, 1, 1, 1]);
    assert_eq!(compact(99, 10).await, 0);
    assert_eq!(turn_of(&it, 1).await.life.ended_at(), Some(at(30)));
    assert!(it.read(|reader| reader.interrupt(interrupt_id(1))).await.is_some());
}

async fn sweeping_leaves_sessions_with_a_suspended_turn(it: Fixture) {
    it.write(|tx| {
        for number in 1..=2 {
            tx.insert_session(&Session { updated_at: at(0), ..session_in(number, Status::Error) }, &[])?;
            tx.insert_turn(&turn(session_id(number), number))?;
        }
        tx.suspend_turn(turn_id(1), at(0), "v1")?;
        tx.end_turn(turn_id(2), at(0))
    })
    .await;
    let deed = Deed::new(Action::SessionDeleted);
    let sweep = async || it.upkeep().sweep_sessions(at(100), 10, deed.clone(), at(100)).await.unwrap();
    assert_eq!(sweep().await, [session_id(2)]);
    it.write(|tx| tx.abandon_turn(turn_id(1), at(1))).await;
    assert_eq!(sweep().await, [session_id(1)]);
}

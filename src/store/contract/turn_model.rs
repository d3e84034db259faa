//! What happens to a turn in any order comes out on every store as the domain says, and what a store finds turns by
//! (what is to be taken up, due, retriable, compacted) is where they stand.

use proptest::prelude::*;
use serde_json::json;

use super::fixture::*;
use crate::domain::interrupt::Interrupt;
use crate::domain::turn::{Life, TurnEvent, TurnState};
use crate::domain::{Error, Timestamp};
use crate::store::Transaction;
use crate::store::signals::TurnTaker;
use crate::store::upkeep::Upkeep;

/// When what the turn asks expires: after any timer.
const EXPIRES: i64 = 1_000;

/// An event; the number is how many epochs ago whoever says it was the owner.
fn any_event() -> impl Strategy<Value = (TurnEvent, u64)> {
    let time = || (0_i64..9).prop_map(at);
    let event = prop_oneof![
        4 => (0_u64..3).prop_map(|entries| TurnEvent::Claimed { entries }),
        3 => (prop::option::of(time()), 0_u64..9)
            .prop_map(|(wake_at, worked_ms)| TurnEvent::Parked { epoch: 0, wake_at, worked_ms }),
        2 => Just(TurnEvent::Woken),
        2 => (any::<bool>(), 0_u64..9)
            .prop_map(|(counts, worked_ms)| TurnEvent::WorkerLost { epoch: 0, counts, worked_ms }),
        2 => (time(), "[ab]").prop_map(|(at, code)| TurnEvent::Suspended { at, code }),
        3 => Just(TurnEvent::Reopened),
        1 => time().prop_map(|at| TurnEvent::Ended { at }),
        1 => time().prop_map(|at| TurnEvent::Abandoned { at }),
    ];
    (event, prop_oneof![4 => Just(0_u64), 1 => 1_u64..3])
}

/// The event, said by whoever was the owner so many epochs ago.
fn said(event: TurnEvent, epoch: u64) -> TurnEvent {
    match event {
        TurnEvent::Parked { wake_at, worked_ms, .. } => TurnEvent::Parked { epoch, wake_at, worked_ms },
        TurnEvent::WorkerLost { counts, worked_ms, .. } => TurnEvent::WorkerLost { epoch, counts, worked_ms },
        event => event,
    }
}

/// All that a store tells of where the turn stands.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    life: Option<Life>,
    of_row: Option<Life>,
    owner_appends: Result<(), Error>,
    others_append: Result<(), Error>,
}

/// All that upkeep finds of it.
#[derive(Debug, Clone, PartialEq)]
struct FoundByUpkeep {
    is_taken_up: bool,
    next_due: Option<Timestamp>,
    is_retriable: bool,
    suspended_before: bool,
}

async fn find(upkeep: &dyn Upkeep) -> Result<FoundByUpkeep, Error> {
    let id = turn_id(1);
    Ok(FoundByUpkeep {
        is_taken_up: upkeep.orphaned_turns(TurnTaker::default()).await?.iter().any(|orphan| orphan.turn == id),
        next_due: upkeep.next_due().await?,
        is_retriable: upkeep
            .retriable_turns(session(1).agent, "a".to_owned(), 0, 1)
            .await?
            .iter()
            .any(|found| found.turn == id),
        suspended_before: upkeep.suspended_turns(at(5), 0, 1).await?.contains(&id),
    })
}

fn see(tx: &mut dyn Transaction, epoch: u64) -> Result<Seen, Error> {
    let id = turn_id(1);
    Ok(Seen {
        life: tx.life(id)?,
        of_row: tx.turn(id)?.map(|turn| turn.life),
        owner_appends: tx.append(id, epoch, &step("a", json!(1)), at(0)).map(drop),
        others_append: tx.append_foreign(id, &step("b", json!(2)), at(0)).map(drop),
    })
}

/// What the domain makes of the same.
fn expected(life: &Life, epoch: u64) -> Seen {
    Seen {
        life: Some(life.clone()),
        of_row: Some(life.clone()),
        owner_appends: life.check_owner(epoch),
        others_append: life.check_open(),
    }
}

fn expected_of_upkeep(life: &Life) -> FoundByUpkeep {
    let asks_until = life.suspended().is_none().then(|| at(EXPIRES));
    FoundByUpkeep {
        is_taken_up: life.state == TurnState::UnderWay,
        next_due: life.wake_at().or(asks_until),
        is_retriable: life.suspended().is_some_and(|(_, code)| code != "a"),
        suspended_before: life.suspended().is_some_and(|(since, _)| since < at(5)),
    }
}

async fn asking() -> [Fixture; 2] {
    let stores = [Fixture::memory(), Fixture::sqlite()];
    for it in &stores {
        it.open_turn().await;
        let asked = Interrupt { turn_id: turn_id(1), expires_at: Some(at(EXPIRES)), ..custom(1, 1) };
        it.write(move |tx| tx.insert_interrupt(&asked)).await;
    }
    stores
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_store_does_with_a_turn_what_the_domain_says(events in prop::collection::vec(any_event(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let stores = asking().await;
            let mut life = Life::default();
            for (event, ago) in events {
                let epoch = life.epoch.saturating_sub(ago);
                let event = said(event, epoch);
                let outcome = life.transition(event.clone()).map(|(next, _)| next);
                let expected = outcome.clone().map(|next| (expected(&next, epoch), next));
                for it in &stores {
                    let event = event.clone();
                    let got = it.write(move |tx| {
                        // What is refused leaves nothing behind, without being taken back.
                        let before = tx.life(turn_id(1))?;
                        let changed = tx.change_turn(turn_id(1), event.clone());
                        if changed.is_err() {
                            assert_eq!(tx.life(turn_id(1))?, before);
                        }
                        changed.map_or_else(|error| Ok(Err(error)), |next| Ok(Ok((see(tx, epoch)?, next))))
                    });
                    prop_assert_eq!(got.await, expected.clone());
                }
                life = outcome.unwrap_or(life);
                for it in &stores {
                    prop_assert_eq!(find(it.upkeep()).await, Ok(expected_of_upkeep(&life)));
                }
            }
            for it in &stores {
                let compacted = it.upkeep().compact_journals(at(EXPIRES), 1).await.unwrap();
                prop_assert_eq!(compacted, usize::from(life.ended_at().is_some()));
            }
            Ok(())
        })?;
    }
}

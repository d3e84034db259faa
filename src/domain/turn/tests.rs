use proptest::prelude::*;

use super::stage::{self, Stage};
use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn suspended() -> TurnState {
    TurnState::Suspended { at: at(5), code: "v1".to_owned() }
}

/// A turn at epoch 3 that lost its worker twice, and that nobody has at work.
fn life(state: TurnState) -> Life {
    Life { epoch: 3, recoveries: 2, worked_ms: 40, claimed: None, state }
}

fn not_open(status: TurnStatus) -> Error {
    Error::TurnNotOpen(Some(status))
}

fn cannot(status: TurnStatus, done: &str) -> Error {
    Error::Internal(format!("a turn that {status} cannot be {done}"))
}

/// Every event, as the owner at epoch 3 would say it.
fn events() -> [TurnEvent; 8] {
    [
        TurnEvent::Claimed { entries: 7 },
        TurnEvent::Parked { epoch: 3, wake_at: Some(at(9)), worked_ms: 70 },
        TurnEvent::Woken,
        TurnEvent::WorkerLost { epoch: 3, counts: true, worked_ms: 60 },
        TurnEvent::Suspended { at: at(6), code: "v2".to_owned() },
        TurnEvent::Reopened,
        TurnEvent::Ended { at: at(7) },
        TurnEvent::Abandoned { at: at(8) },
    ]
}

/// What each event makes of a turn in `state`.
fn outcomes(state: TurnState) -> [Result<(Life, Vec<TurnEffect>), Error>; 8] {
    events().map(|event| life(state.clone()).transition(event))
}

fn next(epoch: u64, state: TurnState) -> Result<(Life, Vec<TurnEffect>), Error> {
    Ok((Life { epoch, ..life(state) }, Vec::new()))
}

fn claimed() -> Life {
    Life { epoch: 4, claimed: Some(7), ..life(TurnState::UnderWay) }
}

fn with(effect: TurnEffect, outcome: Result<(Life, Vec<TurnEffect>), Error>) -> Result<(Life, Vec<TurnEffect>), Error> {
    outcome.map(|(life, _)| (life, vec![effect]))
}

#[test]
fn a_turn_under_way_is_claimed_parked_lost_suspended_and_ended() {
    let parked = Life { epoch: 4, worked_ms: 70, ..life(TurnState::Parked { wake_at: Some(at(9)) }) };
    let lost = Life { epoch: 4, recoveries: 3, worked_ms: 60, ..life(TurnState::UnderWay) };
    let suspended = TurnState::Suspended { at: at(6), code: "v2".to_owned() };
    let expected = [
        Ok((claimed(), Vec::new())),
        Ok((parked, Vec::new())),
        Err(cannot(TurnStatus::UnderWay, "woken")),
        Ok((lost, Vec::new())),
        with(TurnEffect::StopExpiry, next(4, suspended)),
        Err(cannot(TurnStatus::UnderWay, "reopened")),
        next(3, TurnState::Ended { at: at(7) }),
        Err(cannot(TurnStatus::UnderWay, "abandoned")),
    ];
    assert_eq!(outcomes(TurnState::UnderWay), expected);
}

#[test]
fn a_parked_turn_is_claimed_woken_suspended_and_ended_and_has_no_owner() {
    let suspended = TurnState::Suspended { at: at(6), code: "v2".to_owned() };
    let expected = [
        Ok((claimed(), Vec::new())),
        Err(Error::StaleEpoch),
        next(4, TurnState::UnderWay),
        Err(Error::StaleEpoch),
        with(TurnEffect::StopExpiry, next(4, suspended)),
        Err(cannot(TurnStatus::Parked, "reopened")),
        next(3, TurnState::Ended { at: at(7) }),
        Err(cannot(TurnStatus::Parked, "abandoned")),
    ];
    assert_eq!(outcomes(TurnState::Parked { wake_at: None }), expected);
}

#[test]
fn a_suspended_turn_is_reopened_or_abandoned() {
    let reopened = Life { recoveries: 0, worked_ms: 0, ..life(TurnState::UnderWay) };
    let refused = || Err(not_open(TurnStatus::Suspended));
    let expected = [
        refused(),
        refused(),
        refused(),
        refused(),
        refused(),
        Ok((reopened, vec![TurnEffect::ResumeExpiry])),
        refused(),
        with(TurnEffect::ResumeExpiry, next(3, TurnState::Ended { at: at(8) })),
    ];
    assert_eq!(outcomes(suspended()), expected);
}

#[test]
fn an_ended_turn_takes_nothing() {
    let expected = vec![Err(not_open(TurnStatus::Ended)); 8];
    assert_eq!(expected, outcomes(TurnState::Ended { at: at(1) }));
}

#[test]
fn a_refusal_names_the_state() {
    let says = |state: TurnState, event: TurnEvent| life(state).transition(event).unwrap_err().to_string();
    assert_eq!(
        says(TurnState::Ended { at: at(1) }, TurnEvent::Claimed { entries: 0 }),
        "The turn is not open: it has ended"
    );
    assert_eq!(says(suspended(), TurnEvent::Ended { at: at(9) }), "The turn is not open: it is suspended");
    assert_eq!(
        says(TurnState::UnderWay, TurnEvent::Reopened),
        "Internal error: a turn that is under way cannot be reopened"
    );
    assert_eq!(Error::TurnNotOpen(None).to_string(), "The turn is not open");
}

#[test]
fn what_an_owner_before_says_is_stale() {
    for epoch in [0, 2, 4] {
        assert_eq!(life(TurnState::UnderWay).check_owner(epoch), Err(Error::StaleEpoch));
        let parked = TurnEvent::Parked { epoch, wake_at: None, worked_ms: 0 };
        assert_eq!(life(TurnState::UnderWay).transition(parked), Err(Error::StaleEpoch));
        let lost = TurnEvent::WorkerLost { epoch, counts: false, worked_ms: 0 };
        assert_eq!(life(TurnState::UnderWay).transition(lost), Err(Error::StaleEpoch));
    }
    assert_eq!(life(TurnState::UnderWay).check_owner(3), Ok(()));
}

#[test]
fn an_owner_who_is_gone_without_a_word_counts_where_the_turn_has_come_no_further() {
    let again = |from: &Life, entries| from.transition(TurnEvent::Claimed { entries }).unwrap().0;
    assert_eq!((claimed().recoveries_if_claimed(7), claimed().recoveries_if_claimed(8)), (3, 2));
    let same = again(&claimed(), 7);
    assert_eq!((same.epoch, same.recoveries, same.claimed), (5, 3, Some(7)));
    let further = again(&same, 8);
    assert_eq!((further.recoveries, further.claimed), (3, Some(8)));
    assert_eq!(again(&further, 8).recoveries, 4);
}

#[test]
fn an_owner_who_says_that_the_turn_is_at_work_no_more_does_not_count() {
    let says = [
        TurnEvent::Parked { epoch: 4, wake_at: None, worked_ms: 70 },
        TurnEvent::WorkerLost { epoch: 4, counts: false, worked_ms: 70 },
        TurnEvent::Suspended { at: at(6), code: "v2".to_owned() },
        TurnEvent::Ended { at: at(7) },
    ];
    for event in says {
        let (let_go, _) = claimed().transition(event.clone()).unwrap();
        assert_eq!((let_go.claimed, let_go.recoveries_if_claimed(7)), (None, 2), "{event:?}");
    }
}

#[test]
fn a_worker_whose_loss_does_not_count_is_lost_all_the_same() {
    let lost = life(TurnState::UnderWay).transition(TurnEvent::WorkerLost { epoch: 3, counts: false, worked_ms: 40 });
    assert_eq!(lost, next(4, TurnState::UnderWay));
}

/// An event that says the epoch which was given away so many times before.
fn any_event() -> impl Strategy<Value = (TurnEvent, u64)> {
    let event = prop_oneof![
        4 => (0_u64..3).prop_map(|entries| TurnEvent::Claimed { entries }),
        3 => (prop::option::of(0_i64..9), 0_u64..9)
            .prop_map(|(wake_at, worked_ms)| TurnEvent::Parked { epoch: 0, wake_at: wake_at.map(at), worked_ms }),
        3 => Just(TurnEvent::Woken),
        2 => (any::<bool>(), 0_u64..9)
            .prop_map(|(counts, worked_ms)| TurnEvent::WorkerLost { epoch: 0, counts, worked_ms }),
        2 => (0_i64..9, "[ab]").prop_map(|(millis, code)| TurnEvent::Suspended { at: at(millis), code }),
        3 => Just(TurnEvent::Reopened),
        1 => (0_i64..9).prop_map(|millis| TurnEvent::Ended { at: at(millis) }),
        1 => (0_i64..9).prop_map(|millis| TurnEvent::Abandoned { at: at(millis) }),
    ];
    (event, prop_oneof![3 => Just(0_u64), 1 => 1_u64..4])
}

fn said_at(event: TurnEvent, said: u64) -> TurnEvent {
    match event {
        TurnEvent::Parked { wake_at, worked_ms, .. } => TurnEvent::Parked { epoch: said, wake_at, worked_ms },
        TurnEvent::WorkerLost { counts, worked_ms, .. } => TurnEvent::WorkerLost { epoch: said, counts, worked_ms },
        event => event,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_events_keeps_the_invariants(events in prop::collection::vec(any_event(), 0..60)) {
        let mut life = Life::default();
        // Every epoch that somebody was given.
        let mut given = vec![];
        let mut held = 0;
        for (event, ago) in events {
            let event = said_at(event, life.epoch.saturating_sub(ago));
            let (next, effects) = match life.transition(event.clone()) {
                Ok(taken) => taken,
                Err(error) => {
                    let status = life.state.status();
                    let names_it = match &error {
                        Error::TurnNotOpen(named) => *named == Some(status) && life.check_open().is_err(),
                        Error::StaleEpoch => life.check_open().is_ok(),
                        Error::Internal(text) => text.contains(&status.to_string()),
                        _ => false,
                    };
                    prop_assert!(names_it, "{life:?} {event:?}: {error}");
                    continue;
                }
            };

            // An ended turn is final, and a suspended one goes two ways only.
            prop_assert!(life.ended_at().is_none());
            let leaves_suspension = matches!(event, TurnEvent::Reopened | TurnEvent::Abandoned { .. });
            prop_assert_eq!(life.suspended().is_some(), leaves_suspension);

            // There is one owner at most: who was given the newest epoch, until the turn is taken from them.
            prop_assert!(next.epoch >= life.epoch);
            let owner = match event {
                TurnEvent::Claimed { .. } => {
                    prop_assert!(!given.contains(&next.epoch), "two owners were given {}", next.epoch);
                    given.push(next.epoch);
                    Some(next.epoch)
                }
                _ => None,
            };
            for epoch in &given {
                prop_assert_eq!(next.check_owner(*epoch).is_ok(), owner == Some(*epoch));
            }

            for effect in effects {
                held += match effect {
                    TurnEffect::StopExpiry => 1,
                    TurnEffect::ResumeExpiry => -1,
                };
            }
            prop_assert_eq!(held, i32::from(next.suspended().is_some()));
            let expected = match event {
                TurnEvent::Reopened => 0,
                TurnEvent::WorkerLost { counts, .. } => life.recoveries + u32::from(counts),
                TurnEvent::Claimed { entries } => life.recoveries_if_claimed(entries),
                _ => life.recoveries,
            };
            prop_assert_eq!(next.recoveries, expected);
            // Nobody is taken for killed who had no turn, or said that it is at work no more.
            prop_assert_eq!(next.claimed.is_some(), owner.is_some());
            life = next;
        }
    }

    #[test]
    fn a_turn_at_a_worker_has_a_place_exactly_while_it_is_at_work(
        events in prop::collection::vec(
            prop::sample::select(vec![stage::StageEvent::Paused, stage::StageEvent::WentOn, stage::StageEvent::Left]), 0..40)
    ) {
        let (mut stage, mut places) = (Some(Stage::AtWork), 1);
        for event in events {
            let Some(before) = stage else { break };
            let (next, effect) = before.transition(event);
            places += match effect {
                Some(stage::StageEffect::TakePlace) => 1,
                Some(stage::StageEffect::LeavePlace) => -1,
                None => 0,
            };
            prop_assert_eq!(places, i32::from(next == Some(Stage::AtWork)));
            let expected = match event {
                stage::StageEvent::Paused => Some(Stage::Paused),
                stage::StageEvent::WentOn => Some(Stage::AtWork),
                stage::StageEvent::Left => None,
            };
            prop_assert_eq!(next, expected);
            stage = next;
        }
    }
}

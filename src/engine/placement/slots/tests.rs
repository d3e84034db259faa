//! Who has a slot, and who waits for one.

use super::*;
use crate::engine::clock;

const EPOCH: u64 = 1;

fn started(slots: &Slots) -> TurnId {
    let turn = clock::turn_id();
    assert_eq!(slots.reserve(), Ok(()));
    assert!(slots.admit(turn, EPOCH), "no slot is free");
    turn
}

fn queued(slots: &Slots) -> TurnId {
    let turn = clock::turn_id();
    assert_eq!(slots.reserve(), Ok(()));
    assert!(!slots.admit(turn, EPOCH), "a slot is free");
    turn
}

fn next(slots: &Slots) -> Option<TurnId> {
    slots.next().map(|next| match next {
        NextTurn::Claim(turn, _) => turn,
        NextTurn::Start(turn, _) => turn,
    })
}

#[test]
fn turns_beyond_the_workers_wait_in_order() {
    let slots = Slots::new(1, 2);
    let [first, second, third] = [started(&slots), queued(&slots), queued(&slots)];
    assert_eq!(next(&slots), None);
    assert_eq!(slots.reserve(), Err(Error::QueueFull));
    slots.leave(first, EPOCH);
    assert_eq!((next(&slots), next(&slots)), (Some(second), None));
    slots.leave(second, EPOCH);
    assert_eq!(next(&slots), Some(third));
}

#[test]
fn a_turn_answered_in_memory_goes_past_everybody() {
    let slots = Slots::new(1, 2);
    let asking = started(&slots);
    slots.leave(asking, EPOCH);
    let second = started(&slots);
    slots.rejoin(asking, EPOCH);
    assert_eq!(slots.count().0, 2);
    let third = queued(&slots);
    slots.leave(second, EPOCH);
    assert_eq!(next(&slots), None, "the answered turn fills the only slot");
    slots.leave(asking, EPOCH);
    assert_eq!(next(&slots), Some(third));
}

#[test]
fn turns_to_be_claimed_go_before_new_ones() {
    let slots = Slots::new(1, 2);
    let working = started(&slots);
    let new = queued(&slots);
    let (answered, again) = (clock::turn_id(), clock::turn_id());
    slots.put_first(answered, EPOCH);
    slots.put_first(again, EPOCH);
    slots.put_first(answered, 2);
    assert!(!slots.take(clock::turn_id()), "no slot is free");
    assert_eq!(slots.count().1, 3);
    slots.leave(working, EPOCH);
    assert!(!slots.take(clock::turn_id()), "others were first");
    assert!(matches!(slots.next(), Some(NextTurn::Claim(turn, 2)) if turn == answered));
    slots.not_claimed(answered);
    assert_eq!(next(&slots), Some(again));
    slots.claimed(again, 7);
    slots.leave(again, 7);
    assert_eq!(next(&slots), Some(new));
}

#[test]
fn what_an_older_epoch_leaves_is_not_the_place_of_the_newer() {
    let slots = Slots::new(2, 0);
    let turn = clock::turn_id();
    assert!(slots.take(turn));
    slots.claimed(turn, 1);
    assert!(slots.take(turn), "parked and answered before the first one is gone");
    slots.claimed(turn, 3);
    slots.leave(turn, 1);
    assert_eq!(slots.count().0, 1);
    slots.leave(turn, 3);
    assert_eq!(slots.count().0, 0);
}

#[test]
fn a_turn_that_has_come_to_be_at_work_since_it_was_read_is_not_claimed_again() {
    let slots = Slots::new(2, 0);
    let turn = clock::turn_id();
    slots.put_first(turn, 3);
    assert_eq!(next(&slots), Some(turn));
    slots.claimed(turn, 4);
    slots.put_first(turn, 3);
    assert_eq!(next(&slots), None);
    // What is read of it at work is newer.
    slots.put_first(turn, 4);
    assert!(slots.waits_at(turn, Some(4)));
}

#[test]
fn a_turn_that_is_over_never_starts() {
    let slots = Slots::new(1, 2);
    let (first, second) = (started(&slots), queued(&slots));
    let parked = clock::turn_id();
    slots.put_first(parked, EPOCH);
    slots.forget(second);
    slots.forget(parked);
    slots.forget(first);
    assert_eq!(next(&slots), None);
    assert_eq!(slots.count(), (0, 0));
}

#[test]
fn a_promise_counts_until_it_is_taken_back() {
    let slots = Slots::new(1, 0);
    assert_eq!(slots.reserve(), Ok(()));
    assert_eq!(slots.reserve(), Err(Error::QueueFull));
    slots.release_reservation();
    assert_eq!(slots.reserve(), Ok(()));
}

fn orphan(turn: TurnId, epoch: u64) -> OrphanedTurn {
    OrphanedTurn { turn, epoch: Some(epoch) }
}

fn left(slots: &Slots) -> TurnId {
    let turn = clock::turn_id();
    assert_eq!(slots.reserve_among_servers(turn), Ok(false), "a slot is free");
    slots.leave_unclaimed(turn);
    turn
}

#[test]
fn among_servers_a_new_turn_has_a_free_slot_or_waits_to_be_claimed_behind_the_others() {
    let slots = Slots::new(1, 2);
    let working = clock::turn_id();
    assert_eq!(slots.reserve_among_servers(working), Ok(true));
    slots.claimed(working, EPOCH);
    let [new, newer] = [left(&slots), left(&slots)];
    assert_eq!(slots.reserve_among_servers(clock::turn_id()), Err(Error::QueueFull));
    slots.put_unclaimed(new);
    slots.put_unclaimed(working);
    let answered = clock::turn_id();
    slots.put_first(answered, 3);
    assert_eq!(slots.count(), (1, 3));
    slots.leave(working, EPOCH);
    assert!(matches!(slots.next(), Some(NextTurn::Claim(turn, 3)) if turn == answered));
    slots.not_claimed(answered);
    assert!(matches!(slots.next(), Some(NextTurn::Claim(turn, 0)) if turn == new));
    slots.not_claimed(new);
    assert_eq!(next(&slots), Some(newer));
    slots.not_claimed(newer);
    assert_eq!(slots.reserve_among_servers(working), Ok(true));
    slots.not_claimed(working);
    assert_eq!(slots.count(), (0, 0));
}

#[test]
fn new_turns_that_other_servers_have_taken_wait_no_longer() {
    let slots = Slots::new(0, 9);
    assert_eq!(slots.look(), HashSet::new());
    let [begun, taken, waiting] = [(); 3].map(|()| clock::turn_id());
    for turn in [begun, taken, waiting] {
        slots.put_unclaimed(turn);
    }
    let before = slots.look();
    let since = clock::turn_id();
    slots.put_unclaimed(since);
    slots.looked(&before, &[orphan(begun, 2), orphan(waiting, 0)], WaitingElsewhere::default());
    assert_eq!([begun, taken, waiting, since].map(|turn| slots.waits_at(turn, Some(0))), [true, false, true, true]);
    // Somebody had begun it: it goes before the new ones.
    slots.put_first(begun, 2);
    slots.put_first(begun, 2);
    assert_eq!(slots.turns(), [begun, waiting, since]);
    slots.forget(begun);
    slots.forget(waiting);
    assert_eq!(slots.turns(), [since]);
}

#[test]
fn a_server_without_workers_takes_in_what_others_have_slots_for_and_the_queue_besides() {
    let slots = Slots::new(0, 1);
    let see =
        |new, free| slots.looked(&HashSet::new(), &[], WaitingElsewhere { new, free, ..WaitingElsewhere::default() });
    left(&slots);
    assert_eq!(slots.reserve_among_servers(clock::turn_id()), Err(Error::QueueFull));
    see(0, 1);
    left(&slots);
    left(&slots);
    assert_eq!(slots.reserve_among_servers(clock::turn_id()), Err(Error::QueueFull));
    see(0, 0);
    assert_eq!(slots.reserve_among_servers(clock::turn_id()), Ok(false));
    slots.release_reservation();
    see(1, 0);
    assert_eq!(slots.reserve_among_servers(clock::turn_id()), Err(Error::QueueFull));
    assert_eq!(slots.count(), (0, 0));
}

#[test]
fn new_turns_elsewhere_are_looked_for_once_a_slot_is_free() {
    let slots = Slots::new(1, 1);
    assert!(slots.has_slot() && !slots.misses_some());
    let working = clock::turn_id();
    assert!(slots.take(working));
    assert!(!slots.has_slot() && !slots.misses_some());
    let new = left(&slots);
    slots.not_claimed(working);
    assert!(!slots.misses_some(), "one waits that is known of");
    slots.forget(new);
    assert!(slots.misses_some() && !slots.misses_some());
    assert!(slots.take(working) && !slots.has_slot());
    slots.look();
    slots.not_claimed(working);
    assert!(!slots.misses_some(), "it was looked since");
}

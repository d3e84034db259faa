//! `--workers` and `--queue`: how many turns are at work, and how many may wait for a slot. Which of them is next is
//! [`super::turn_queue`]'s to say.
//!
//! A turn that awaits nothing but people and timers holds no slot. When it is answered in memory it is at work again
//! at once, even if that is one more than `--workers`. Parked turns that were answered, and turns taken up again, wait
//! for a slot, but before all new turns: nobody who was asked should wait behind those who were not.
//!
//! Where several servers share the store, a new turn for which no slot is free waits at none of them: whichever has a slot
//! first claims it. Each knows who waits from its looks at the store, and so `--queue` is as exact as they are recent.
//!
//! The lock is in here and nobody is handed it: whoever holds [`crate::engine::placement::live`]'s may come by, and
//! nobody can hold this one and wait for that.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Placement;
use super::turn_queue::{LocalQueue, NextTurn, QueueShare, TurnQueue};
use crate::domain::{Error, TurnId};
use crate::store::signals::OrphanedTurn;

/// The epoch of a turn that has a slot and is being claimed.
const UNCLAIMED: u64 = 0;

/// Slots for turns.
#[derive(Debug)]
pub struct Slots {
    workers: usize,
    queue_limit: usize,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    /// Promised to turns whose transaction is under way.
    reserved: usize,
    /// By the epoch at which they work: what is said of an older one must not free the slot of a newer one.
    at_work: HashMap<TurnId, u64>,
    /// Who waits.
    queue: Box<dyn TurnQueue>,
    /// What is at no server, as far as that is not in the queue.
    seen: WaitingElsewhere,
    /// Whether new turns have come elsewhere since it was looked, when no slot was free here.
    is_behind: bool,
}

/// What a look at a shared store found that is not in the queue here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingElsewhere {
    /// How many new turns wait at no server; those written here since are among them.
    pub new: usize,
    /// How many slots are free at the servers that can take them.
    pub free: usize,
    /// Which of those in the queue are this server's to take first.
    pub share: QueueShare,
}

impl Slots {
    /// `workers` slots, and a queue of `queue_limit` in front of them.
    pub fn new(workers: usize, queue_limit: usize) -> Self {
        let queue = Box::<LocalQueue>::default();
        let seen = WaitingElsewhere::default();
        let state = SlotState { reserved: 0, at_work: HashMap::new(), queue, seen, is_behind: false };
        Self { workers, queue_limit, state: Mutex::new(state) }
    }

    /// Promises a slot, or room in the queue, to a turn that is not written yet.
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub fn reserve(&self) -> Result<(), Error> {
        let mut state = self.lock();
        let waiting = state.queue.count();
        let free = self.workers.saturating_sub(state.at_work.len() + waiting.first);
        if waiting.new + state.reserved >= self.queue_limit.saturating_add(free) {
            return Err(Error::QueueFull);
        }
        state.reserved += 1;
        Ok(())
    }

    /// Where any server may take those that wait: gives a slot to a turn that is not written yet, if one is free and nobody
    /// waits, or promises it that it may wait. Whether it has a slot.
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub fn reserve_among_servers(&self, turn: TurnId) -> Result<bool, Error> {
        let mut state = self.lock();
        let here = state.queue.count();
        if here.total() == 0 && state.at_work.len() < self.workers {
            state.at_work.insert(turn, UNCLAIMED);
            return Ok(true);
        }
        let free = self.workers.saturating_sub(state.at_work.len() + here.first) + state.seen.free;
        let waiting = here.new.max(state.seen.new);
        if waiting + state.reserved >= self.queue_limit.saturating_add(free) {
            return Err(Error::QueueFull);
        }
        state.reserved += 1;
        Ok(false)
    }

    /// Redeems the promise that a turn may wait: it is written, and whichever server has a slot claims it.
    pub fn leave_unclaimed(&self, turn: TurnId) {
        let mut state = self.lock();
        state.reserved = state.reserved.saturating_sub(1);
        if self.workers == 0 {
            state.seen.new += 1;
        } else {
            state.put_unclaimed(turn);
        }
    }

    /// A look at the store begins: the new turns that wait here to be claimed, as they were found before.
    pub fn look(&self) -> HashSet<TurnId> {
        let mut state = self.lock();
        state.is_behind = false;
        state.queue.unclaimed()
    }

    /// A look that began with `before` has found all `orphans` there are, or the first of them, and that much else: what
    /// others have taken since does not wait here any more.
    pub fn looked(&self, before: &HashSet<TurnId>, orphans: &[OrphanedTurn], seen: WaitingElsewhere) {
        let found: HashSet<TurnId> = orphans.iter().map(|orphan| orphan.turn).collect();
        let mut state = self.lock();
        state.seen = seen;
        state.queue.divide(seen.share);
        before.difference(&found).for_each(|taken| state.queue.forget(*taken));
    }

    /// Whether to look for a new turn that has come elsewhere: not where no slot is free.
    pub fn wants_new(&self) -> bool {
        let mut state = self.lock();
        state.is_behind = state.at_work.len() >= self.workers;
        !state.is_behind
    }

    /// Whether there may be a turn for a free slot that is not known of here; once for each look.
    pub fn misses_some(&self) -> bool {
        let mut state = self.lock();
        let misses = state.is_behind && state.at_work.len() < self.workers && state.queue.count().total() == 0;
        state.is_behind &= !misses;
        misses
    }

    /// A new turn that no server has claimed is to be claimed and started, behind all others.
    pub fn put_unclaimed(&self, turn: TurnId) {
        self.lock().put_unclaimed(turn);
    }

    /// Takes a promise back: the turn was not written.
    pub fn release_reservation(&self) {
        let mut state = self.lock();
        state.reserved = state.reserved.saturating_sub(1);
    }

    /// Redeems a promise: the turn waits in the queue for [`Slots::next`], or has a slot at once, where it is free and
    /// nobody waits. Whether it has one.
    pub fn admit(&self, turn: TurnId, epoch: u64) -> bool {
        let mut state = self.lock();
        state.reserved = state.reserved.saturating_sub(1);
        let is_free = state.queue.count().total() == 0 && state.at_work.len() < self.workers;
        if is_free {
            state.at_work.insert(turn, epoch);
        } else {
            state.queue.put_last(turn, epoch);
        }
        is_free
    }

    /// Gives a free slot to a turn that is to be claimed, unless others were first; whether it has one.
    pub fn take(&self, turn: TurnId) -> bool {
        let mut state = self.lock();
        let is_free = state.queue.count().first == 0 && state.at_work.len() < self.workers;
        if is_free {
            state.at_work.insert(turn, UNCLAIMED);
        }
        is_free
    }

    /// The turn is to be claimed and started, before all new ones.
    pub fn put_first(&self, turn: TurnId, epoch: u64) {
        self.lock().queue.put_first(turn, epoch);
    }

    /// Whether the turn waits to be claimed at that epoch.
    pub fn waits_at(&self, turn: TurnId, epoch: Option<u64>) -> bool {
        epoch.is_some() && self.lock().queue.waits_at(turn) == epoch
    }

    /// The turn that has a slot was claimed.
    pub fn claimed(&self, turn: TurnId, epoch: u64) {
        if let Some(at_work) = self.lock().at_work.get_mut(&turn) {
            *at_work = epoch;
        }
    }

    /// The turn could not be claimed: its slot is free.
    pub fn not_claimed(&self, turn: TurnId) {
        self.leave(turn, UNCLAIMED);
    }

    /// The turn at `epoch` holds no slot any more.
    pub fn leave(&self, turn: TurnId, epoch: u64) {
        let mut state = self.lock();
        if state.at_work.get(&turn) == Some(&epoch) {
            state.at_work.remove(&turn);
        }
    }

    /// The turn is over, wherever it was.
    pub fn forget(&self, turn: TurnId) {
        let mut state = self.lock();
        if state.at_work.remove(&turn).is_none() {
            state.queue.forget(turn);
        }
    }

    /// The turn was answered in memory and is at work again, past everybody.
    pub fn rejoin(&self, turn: TurnId, epoch: u64) {
        self.lock().at_work.insert(turn, epoch);
    }

    /// How many are at work, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.at_work.len(), state.queue.count().total())
    }

    /// The turns that have a slot or wait for one.
    pub fn turns(&self) -> Vec<TurnId> {
        let state = self.lock();
        state.at_work.keys().copied().chain(state.queue.waiting()).collect()
    }

    /// Who may begin now; it has a slot from here on.
    pub fn next(&self) -> Option<NextTurn> {
        let mut state = self.lock();
        if state.at_work.len() >= self.workers {
            return None;
        }
        let next = state.queue.take_next()?;
        match next {
            NextTurn::Claim(turn, _) => state.at_work.insert(turn, UNCLAIMED),
            NextTurn::Start(turn, epoch) => state.at_work.insert(turn, epoch),
        };
        Some(next)
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // A panic elsewhere cannot leave them half changed: every method changes them in one go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    fn put_unclaimed(&mut self, turn: TurnId) {
        // One that is at work here was found before it was said.
        if !self.at_work.contains_key(&turn) {
            self.queue.put_unclaimed(turn);
        }
    }
}

/// What is promised to a new turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// A slot here, or room in the queue here.
    Here,
    /// This very slot.
    Slot,
    /// That it may wait for whichever server has a slot.
    Anywhere,
}

/// A promise to a turn that is not written yet; taken back when it is dropped unredeemed, as it is when the transaction
/// around it fails.
pub struct Reservation {
    placement: Arc<Placement>,
    turn: TurnId,
    promise: Option<Promise>,
}

impl Reservation {
    /// See [`Slots::reserve`] and, where servers share the store, [`Slots::reserve_among_servers`].
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub(super) fn take(placement: &Arc<Placement>, turn: TurnId) -> Result<Self, Error> {
        let promise = if !placement.is_shared() {
            placement.slots.reserve()?;
            Promise::Here
        } else if placement.slots.reserve_among_servers(turn)? {
            Promise::Slot
        } else {
            Promise::Anywhere
        };
        Ok(Self { placement: Arc::clone(placement), turn, promise: Some(promise) })
    }

    /// Whether the turn is to be claimed here as it is written.
    pub fn is_here(&self) -> bool {
        self.promise != Some(Promise::Anywhere)
    }

    /// The turn is written, and claimed at `epoch` if it is here; whether it begins now.
    pub fn redeem(mut self, epoch: u64) -> bool {
        let slots = &self.placement.slots;
        match self.promise.take() {
            Some(Promise::Here) => slots.admit(self.turn, epoch),
            Some(Promise::Slot) => {
                slots.claimed(self.turn, epoch);
                true
            }
            Some(Promise::Anywhere) => {
                slots.leave_unclaimed(self.turn);
                false
            }
            None => false,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.promise {
            Some(Promise::Here | Promise::Anywhere) => self.placement.slots.release_reservation(),
            Some(Promise::Slot) => {
                self.placement.slots.not_claimed(self.turn);
                // Possibly on the store's own thread, which starts nothing.
                self.placement.freed.notify_one();
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
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
        let see = |new, free| {
            slots.looked(&HashSet::new(), &[], WaitingElsewhere { new, free, ..WaitingElsewhere::default() })
        };
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
        assert!(slots.wants_new() && !slots.misses_some());
        let working = clock::turn_id();
        assert!(slots.take(working));
        assert!(!slots.wants_new() && !slots.misses_some());
        let new = left(&slots);
        slots.not_claimed(working);
        assert!(!slots.misses_some(), "one waits that is known of");
        slots.forget(new);
        assert!(slots.misses_some() && !slots.misses_some());
        assert!(slots.take(working) && !slots.wants_new());
        slots.look();
        slots.not_claimed(working);
        assert!(!slots.misses_some(), "it was looked since");
    }
}

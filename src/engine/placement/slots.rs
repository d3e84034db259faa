//! `--workers` and `--queue`: how many turns are at work, and how many may wait for a slot. Which of them is next is
//! [`super::turn_queue`]'s to say.
//!
//! A turn that awaits nothing but people and timers holds no slot. When it is answered in memory it is at work again
//! at once, even if that is one more than `--workers`. Parked turns that were answered, and turns taken up again, wait
//! for a slot, but before all new turns: nobody who was asked should wait behind those who were not.
//!
//! The lock is in here and nobody is handed it: whoever holds [`crate::engine::placement::live`]'s may come by, and
//! nobody can hold this one and wait for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Placement;
use super::turn_queue::{LocalQueue, NextTurn, TurnQueue};
use crate::domain::{Error, TurnId};

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
}

impl Slots {
    /// `workers` slots, and a queue of `queue_limit` in front of them.
    pub fn new(workers: usize, queue_limit: usize) -> Self {
        let queue = Box::<LocalQueue>::default();
        let state = SlotState { reserved: 0, at_work: HashMap::new(), queue };
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
    pub fn waits_first(&self, turn: TurnId, epoch: Option<u64>) -> bool {
        epoch.is_some() && self.lock().queue.waits_first(turn) == epoch
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

/// A promise of a slot; taken back when it is dropped unredeemed, as it is when the transaction around it fails.
pub struct Reservation {
    placement: Arc<Placement>,
    redeemed: bool,
}

impl Reservation {
    /// See [`Slots::reserve`].
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub(super) fn take(placement: &Arc<Placement>) -> Result<Self, Error> {
        placement.slots.reserve()?;
        Ok(Self { placement: Arc::clone(placement), redeemed: false })
    }

    /// See [`Slots::admit`].
    pub fn redeem(mut self, turn: TurnId, epoch: u64) -> bool {
        self.redeemed = true;
        self.placement.slots.admit(turn, epoch)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.redeemed {
            self.placement.slots.release_reservation();
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
}

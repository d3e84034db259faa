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

    /// Whether to look for a turn that can begin and was heard of elsewhere: not where no slot is free.
    pub fn has_slot(&self) -> bool {
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

    /// The turn is to be claimed and started, before all new ones; unless it has come to be at work since that was read.
    pub fn put_first(&self, turn: TurnId, epoch: u64) {
        let mut state = self.lock();
        if state.at_work.get(&turn).is_none_or(|at_work| *at_work <= epoch) {
            state.queue.put_first(turn, epoch);
        }
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
mod tests;

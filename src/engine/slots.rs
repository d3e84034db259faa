//! `--workers` and `--queue`: how many turns are at work, and which wait for a place.
//!
//! A turn that awaits nothing but people holds no place. When it is answered it is at work again at once, past the
//! queue, even if that is one more than `--workers`: nobody who was asked should wait behind those who were not.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dispatch::TurnOrder;
use crate::domain::{Error, TurnId};

/// Places for turns.
#[derive(Debug)]
pub struct Slots {
    workers: usize,
    queue_limit: usize,
    /// Promised to turns whose transaction is under way.
    reserved: usize,
    at_work: HashSet<TurnId>,
    queue: VecDeque<TurnOrder>,
}

impl Slots {
    /// `workers` places, and a queue of `queue_limit` in front of them.
    pub fn new(workers: usize, queue_limit: usize) -> Self {
        Self { workers, queue_limit, reserved: 0, at_work: HashSet::new(), queue: VecDeque::new() }
    }

    /// Promises a place at work or in the queue to a turn that is not written yet.
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub fn reserve(&mut self) -> Result<(), Error> {
        let taken = self.at_work.len() + self.queue.len() + self.reserved;
        if taken >= self.workers.saturating_add(self.queue_limit) {
            return Err(Error::QueueFull);
        }
        self.reserved += 1;
        Ok(())
    }

    /// Takes a promise back: the turn was not written.
    pub fn release_reservation(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Redeems a promise: the order to start now, or nothing where it waits in the queue.
    pub fn admit(&mut self, order: TurnOrder) -> Option<TurnOrder> {
        self.release_reservation();
        self.queue.push_back(order);
        self.next()
    }

    /// The turn holds no place any more (it waits for people, or is over): the order that may start instead.
    pub fn leave(&mut self, turn: TurnId) -> Option<TurnOrder> {
        if !self.at_work.remove(&turn) {
            self.queue.retain(|order| order.turn != turn);
        }
        self.next()
    }

    /// The turn was answered and is at work again, past the queue.
    pub fn rejoin(&mut self, turn: TurnId) {
        self.at_work.insert(turn);
    }

    /// How many are at work.
    pub fn at_work(&self) -> usize {
        self.at_work.len()
    }

    /// How many wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    fn next(&mut self) -> Option<TurnOrder> {
        if self.at_work.len() >= self.workers {
            return None;
        }
        let order = self.queue.pop_front()?;
        self.at_work.insert(order.turn);
        Some(order)
    }
}

/// Locks the places.
pub fn lock(slots: &Mutex<Slots>) -> MutexGuard<'_, Slots> {
    // A panic elsewhere cannot leave them half changed: every method changes them in one go.
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A promise of a place; taken back when it is dropped unredeemed, as it is when the transaction around it fails.
#[derive(Debug)]
pub struct Reservation {
    slots: Arc<Mutex<Slots>>,
    redeemed: bool,
}

impl Reservation {
    /// See [`Slots::reserve`].
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub fn take(slots: &Arc<Mutex<Slots>>) -> Result<Self, Error> {
        lock(slots).reserve()?;
        Ok(Self { slots: Arc::clone(slots), redeemed: false })
    }

    /// See [`Slots::admit`].
    pub fn redeem(mut self, order: TurnOrder) -> Option<TurnOrder> {
        self.redeemed = true;
        lock(&self.slots).admit(order)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.redeemed {
            lock(&self.slots).release_reservation();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::ChatMessage;
    use crate::engine::clock;

    fn order() -> TurnOrder {
        TurnOrder {
            turn: clock::turn_id(),
            epoch: 1,
            session: clock::session_id(),
            message: Arc::new(ChatMessage::default()),
            state: Vec::new(),
            journal: Vec::new(),
        }
    }

    fn admitted(slots: &mut Slots) -> (TurnId, bool) {
        let order = order();
        let turn = order.turn;
        assert_eq!(slots.reserve(), Ok(()));
        (turn, slots.admit(order).is_some())
    }

    #[test]
    fn turns_beyond_the_workers_wait_in_order() {
        let mut slots = Slots::new(1, 2);
        let (first, started) = admitted(&mut slots);
        assert!(started);
        let (second, started) = admitted(&mut slots);
        assert!(!started);
        let (third, _) = admitted(&mut slots);
        assert_eq!(slots.reserve(), Err(Error::QueueFull));
        assert_eq!(slots.leave(first).map(|order| order.turn), Some(second));
        assert_eq!(slots.leave(second).map(|order| order.turn), Some(third));
    }

    #[test]
    fn an_answered_turn_goes_past_the_queue() {
        let mut slots = Slots::new(1, 2);
        let (asking, _) = admitted(&mut slots);
        let (second, _) = admitted(&mut slots);
        assert_eq!(slots.leave(asking).map(|order| order.turn), Some(second));
        slots.rejoin(asking);
        assert_eq!(slots.at_work(), 2);
        let (third, started) = admitted(&mut slots);
        assert!(!started);
        assert!(slots.leave(second).is_none(), "the answered turn still fills the only place");
        assert_eq!(slots.leave(asking).map(|order| order.turn), Some(third));
    }

    #[test]
    fn a_queued_turn_that_is_cancelled_never_starts() {
        let mut slots = Slots::new(1, 2);
        let (first, _) = admitted(&mut slots);
        let (second, _) = admitted(&mut slots);
        assert!(slots.leave(second).is_none());
        assert!(slots.leave(first).is_none());
        assert_eq!((slots.at_work(), slots.queued()), (0, 0));
    }

    #[test]
    fn a_promise_counts_until_it_is_taken_back() {
        let mut slots = Slots::new(1, 0);
        assert_eq!(slots.reserve(), Ok(()));
        assert_eq!(slots.reserve(), Err(Error::QueueFull));
        slots.release_reservation();
        assert_eq!(slots.reserve(), Ok(()));
    }
}

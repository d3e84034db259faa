//! Deliveries reach a turn in the order of its journal.
//!
//! What follows a commit runs in many tasks, in any order. So a delivery is announced inside the transaction that appends
//! it, where the order is the journal's, and goes to the turn when it and all before it are known to be durable.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::domain::TurnId;
use crate::engine::placement::Placement;
use crate::engine::ports::dispatch::Delivery;

/// The deliveries announced to one turn.
#[derive(Debug, Default)]
pub struct Queue {
    announced: VecDeque<Announced>,
}

#[derive(Debug)]
struct Announced {
    epoch: u64,
    delivery: Delivery,
    durable: bool,
}

impl Queue {
    /// Adds one to the turn at `epoch`. A transaction that had this place in the journal, or a later one, came to
    /// nothing, unless it is known to be durable: then it is this one that will.
    pub fn announce(&mut self, epoch: u64, delivery: Delivery) {
        self.announced.retain(|earlier| earlier.durable || earlier.delivery.index() < delivery.index());
        self.announced.push_back(Announced { epoch, delivery, durable: false });
    }

    /// This one was found in the journal, where another process may have put it: what was announced for its place here is
    /// this one, or came to nothing.
    pub fn found(&mut self, epoch: u64, delivery: Delivery) {
        let index = delivery.index();
        self.announced.retain(|announced| announced.delivery.index() != index);
        let place = self.announced.partition_point(|announced| announced.delivery.index() < index);
        self.announced.insert(place, Announced { epoch, delivery, durable: true });
    }

    /// The transaction of that one is durable.
    pub fn is_durable(&mut self, epoch: u64, index: u64) {
        for announced in &mut self.announced {
            announced.durable |= announced.epoch == epoch && announced.delivery.index() == index;
        }
    }

    /// The transaction of that one came to nothing.
    pub fn withdraw(&mut self, epoch: u64, index: u64) {
        self.announced
            .retain(|announced| announced.durable || announced.epoch != epoch || announced.delivery.index() != index);
    }

    /// Entries of the turn itself are durable, from the first to the last of these: so is all before them.
    pub fn are_durable_before(&mut self, first: u64, last: u64) {
        self.announced.retain(|announced| !(first..=last).contains(&announced.delivery.index()));
        for announced in &mut self.announced {
            announced.durable |= announced.delivery.index() < first;
        }
    }

    /// The next one that may go to the turn, and for which epoch it is; none beyond index `known`, where that is given.
    pub fn next(&mut self, known: Option<u64>) -> Option<(u64, Delivery)> {
        let is_next = |first: &&Announced| first.durable && known.is_none_or(|known| first.delivery.index() <= known);
        self.announced.front().filter(is_next)?;
        self.announced.pop_front().map(|announced| (announced.epoch, announced.delivery))
    }

    /// Whether one could go to the turn but for what stands before it in the journal, and is not known here.
    pub fn has_gap(&self, known: u64) -> bool {
        self.announced.front().is_some_and(|first| first.durable && first.delivery.index() > known)
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.announced.is_empty()
    }
}

/// A delivery that was announced; withdrawn when it is dropped, as it is when the transaction around it fails.
pub struct Ticket {
    turn: TurnId,
    epoch: u64,
    index: u64,
    redeemed: bool,
    placement: Arc<Placement>,
}

impl Ticket {
    /// Announces a delivery to the turn at `epoch`, inside the transaction that appends it.
    pub(in crate::engine) fn announce(
        placement: &Arc<Placement>,
        turn: TurnId,
        epoch: u64,
        delivery: Delivery,
    ) -> Self {
        let index = delivery.index();
        placement.announce(turn, epoch, delivery);
        Self { turn, epoch, index, redeemed: false, placement: Arc::clone(placement) }
    }

    /// The transaction is durable: the delivery goes its way.
    pub fn redeem(mut self) {
        self.redeemed = true;
        self.placement.deliver(self.turn, |queue| queue.is_durable(self.epoch, self.index));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.redeemed {
            self.placement.withdraw(self.turn, self.epoch, self.index);
            // Possibly on the store's own thread, which delivers nothing.
            self.placement.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::engine::clock;
    use crate::store::clock::{Clock, WallClock};

    fn delivery(index: u64) -> Delivery {
        Delivery::Answer { index, at: WallClock.now(), interrupt: clock::interrupt_id(), value: Value::Null, by: None }
    }

    fn announced(indexes: &[u64]) -> Queue {
        let mut queue = Queue::default();
        indexes.iter().for_each(|index| queue.announce(1, delivery(*index)));
        queue
    }

    fn ready(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.next(None)).map(|(_, delivery)| delivery.index()).collect()
    }

    #[test]
    fn the_later_waits_for_the_earlier() {
        let mut queue = announced(&[3, 4, 6]);
        queue.is_durable(1, 6);
        queue.is_durable(1, 4);
        assert!(ready(&mut queue).is_empty());
        queue.is_durable(1, 3);
        assert_eq!(ready(&mut queue), [3, 4, 6]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_another_process_may_have_written_before_it_is_waited_for() {
        let mut queue = announced(&[4]);
        queue.is_durable(1, 4);
        assert_eq!(queue.next(Some(3)), None);
        assert!(queue.has_gap(3));
        queue.found(1, delivery(3));
        assert_eq!(queue.next(Some(3)).map(|(_, next)| next.index()), Some(3));
        assert_eq!(queue.next(Some(4)).map(|(_, next)| next.index()), Some(4));
    }

    #[test]
    fn what_came_to_nothing_keeps_nobody_waiting() {
        let mut queue = announced(&[3, 4]);
        queue.is_durable(1, 4);
        queue.withdraw(1, 3);
        assert_eq!(ready(&mut queue), [4]);
    }

    #[test]
    fn a_place_that_is_taken_anew_was_not_taken_before() {
        let mut queue = announced(&[3, 4, 5, 4]);
        queue.is_durable(1, 3);
        queue.is_durable(1, 4);
        assert_eq!(ready(&mut queue), [3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_another_process_wrote_is_delivered_in_its_place_and_once() {
        let mut queue = announced(&[3]);
        // Others were first at 3; what was announced for it is written after it, if at all.
        queue.found(1, delivery(3));
        queue.announce(1, delivery(3));
        queue.withdraw(1, 3);
        queue.announce(1, delivery(4));
        queue.found(1, delivery(3));
        queue.is_durable(1, 4);
        assert_eq!(ready(&mut queue), [3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_entry_of_the_turn_vouches_for_those_before_it() {
        let mut queue = announced(&[3, 5, 8]);
        queue.are_durable_before(4, 6);
        assert_eq!(ready(&mut queue), [3]);
        queue.withdraw(1, 8);
        assert!(queue.is_empty(), "5 was the turn's own");
    }
}

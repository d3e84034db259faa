//! What others write to the turns in memory, on its way to them: each of it once, in the order of the journal.

use super::{Claimed, Turns};
use crate::domain::TurnId;
use crate::engine::placement::Placement;
use crate::engine::placement::deliveries::Queue;
use crate::engine::placement::live_turn::LiveTurn;
use crate::engine::ports::dispatch::Delivery;
use crate::faults::{self, Point};

impl Placement {
    /// See [`crate::engine::placement::deliveries::Ticket`].
    pub fn announce(&self, turn: TurnId, epoch: u64, delivery: Delivery) {
        self.lock().queues.entry(turn).or_default().announce(epoch, delivery);
    }

    /// It came to nothing.
    pub fn withdraw(&self, turn: TurnId, epoch: u64, index: u64) {
        if let Some(queue) = self.lock().queues.get_mut(&turn) {
            queue.withdraw(epoch, index);
        }
    }

    /// Something was `learnt` about what is announced to the turn: what is durable goes to it. The turn takes its slot
    /// again and is at work. A turn that is yet to be claimed needs nothing: whoever claims it reads the journal.
    pub fn deliver(&self, turn: TurnId, learnt: impl FnOnce(&mut Queue)) {
        let mut turns = self.lock();
        if let Some(queue) = turns.queues.get_mut(&turn) {
            learnt(queue);
            turns.flush(self, turn);
        }
    }

    /// Entries of that run of the turn itself are durable, from the first to the last of these, and so is all before them: that
    /// goes to the turn before it hears of these. What of it others have written, and was not known here, was `found`.
    pub fn appended(&self, turn: TurnId, run: u64, (first, last): (u64, u64), found: Vec<Delivery>) {
        let mut turns = self.lock();
        if turns.at_workers.get(&turn).is_some_and(|live| live.run != run) {
            // It has begun anew, perhaps from another journal.
            return;
        }
        turns.found(turn, run, last + 1, found);
        if let Some(queue) = turns.queues.get_mut(&turn) {
            queue.are_durable_before(first, last);
            turns.flush(self, turn);
        }
    }

    /// Delivers what was kept waiting by what came to nothing.
    pub fn deliver_all(&self) {
        let mut turns = self.lock();
        for turn in turns.queues.keys().copied().collect::<Vec<_>>() {
            turns.flush(self, turn);
        }
    }

    /// These stand among the first `count` entries of the journal of that run of the turn, whoever wrote them: what has not
    /// reached it yet goes to it.
    pub fn found(&self, turn: TurnId, run: u64, count: u64, found: Vec<Delivery>) {
        let mut turns = self.lock();
        turns.found(turn, run, count, found);
        turns.flush(self, turn);
    }
}

impl Turns {
    /// See [`Placement::found`].
    fn found(&mut self, turn: TurnId, run: u64, count: u64, found: Vec<Delivery>) {
        let Some(live) = self.at_workers.get_mut(&turn).filter(|live| live.run == run) else { return };
        live.in_order = live.in_order.max(count);
        let (epoch, known) = (live.epoch, live.has_heard_of());
        for delivery in found.into_iter().filter(|delivery| known <= delivery.index()) {
            self.queues.entry(turn).or_default().found(epoch, delivery);
        }
    }

    /// Delivers what may go to the turn now.
    pub(super) fn flush(&mut self, placement: &Placement, turn: TurnId) {
        loop {
            // Where others share the store, the one before it may be theirs, and is read first.
            let known = self.at_workers.get(&turn).filter(|_| placement.is_shared()).map(|live| live.in_order);
            let Some(queue) = self.queues.get_mut(&turn) else { break };
            let Some((epoch, delivery)) = queue.next(known) else {
                if known.is_some_and(|known| queue.has_gap(known)) {
                    placement.gap.notify_one();
                }
                break;
            };
            if let Some(Claimed { kept, .. }) = self.claimed.get_mut(&turn) {
                kept.push(delivery);
            } else if self.at_workers.get(&turn).is_some_and(|live| live.epoch == epoch) {
                hand_over(self, placement, turn, delivery);
            }
        }
        if self.queues.get(&turn).is_some_and(Queue::is_empty) {
            self.queues.remove(&turn);
        }
    }
}

fn hand_over(turns: &mut Turns, placement: &Placement, turn: TurnId, delivery: Delivery) {
    // What its order brought along is not given to it again, nor what it was given since.
    let index = delivery.index();
    let is_new = |live: &&mut LiveTurn| live.has_heard_of() <= index;
    let Some(live) = turns.at_workers.get_mut(&turn).filter(is_new) else { return };
    live.delivered = live.delivered.max(Some(index));
    live.in_order = live.in_order.max(index + 1);
    live.go_on(placement, turn);
    if let Some(dispatch) = placement.dispatch.get() {
        faults::at(Point::EngineDeliver);
        dispatch.deliver(turn, delivery);
        faults::at(Point::EngineDelivered);
    }
}

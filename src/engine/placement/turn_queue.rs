//! Which turns wait for a slot, and who is next: those that were answered, fired or recovered before all new ones, each
//! in the order in which they came.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;

use crate::domain::TurnId;

/// A turn that may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTurn {
    /// A turn that has to be claimed, if it still is at this epoch.
    Claim(TurnId, u64),
    /// A new turn, claimed already at this epoch.
    Start(TurnId, u64),
}

/// The turns that wait for a slot. Slots are a fact of one machine; who waits need not be, where many take from one
/// queue.
pub trait TurnQueue: Debug + Send {
    /// The turn, at this epoch, is to be claimed and started, before all new ones. Once, however often it is said.
    fn put_first(&mut self, turn: TurnId, epoch: u64);

    /// At which epoch the turn is to be claimed, if it waits for that.
    fn waits_first(&self, turn: TurnId) -> Option<u64>;

    /// A new turn, claimed at `epoch`, waits behind all others.
    fn put_last(&mut self, turn: TurnId, epoch: u64);

    /// Who may begin where a slot is free; waits no longer from here on.
    fn take_next(&mut self) -> Option<NextTurn>;

    /// The turn is over, and begins no more if it waits.
    fn forget(&mut self, turn: TurnId);

    /// How many wait.
    fn count(&self) -> WaitingTurns;

    /// All who wait.
    fn waiting(&self) -> Vec<TurnId>;
}

/// How many turns wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingTurns {
    /// To be claimed, before the new ones.
    pub first: usize,
    /// New ones.
    pub new: usize,
}

impl WaitingTurns {
    /// All of them.
    pub fn total(self) -> usize {
        self.first + self.new
    }
}

/// The queue of a server that has its store for itself: in memory, since the next one finds in the store who waits.
#[derive(Debug, Default)]
pub struct LocalQueue {
    /// Turns to be claimed: answered, fired and recovered ones.
    first: VecDeque<TurnId>,
    /// The epochs at which they are to be claimed.
    epochs: HashMap<TurnId, u64>,
    /// New turns, claimed at an epoch. What their workers are given is in the store until then: it may be large.
    new: VecDeque<(TurnId, u64)>,
}

impl TurnQueue for LocalQueue {
    fn put_first(&mut self, turn: TurnId, epoch: u64) {
        match self.epochs.entry(turn) {
            // What was found out before may be said after.
            Entry::Occupied(mut known) => *known.get_mut() = epoch.max(*known.get()),
            Entry::Vacant(place) => {
                place.insert(epoch);
                self.first.push_back(turn);
            }
        }
    }

    fn waits_first(&self, turn: TurnId) -> Option<u64> {
        self.epochs.get(&turn).copied()
    }

    fn put_last(&mut self, turn: TurnId, epoch: u64) {
        self.new.push_back((turn, epoch));
    }

    fn take_next(&mut self) -> Option<NextTurn> {
        if let Some(turn) = self.first.pop_front() {
            let epoch = self.epochs.remove(&turn).unwrap_or_default();
            return Some(NextTurn::Claim(turn, epoch));
        }
        self.new.pop_front().map(|(turn, epoch)| NextTurn::Start(turn, epoch))
    }

    fn forget(&mut self, turn: TurnId) {
        if self.epochs.remove(&turn).is_some() {
            self.first.retain(|waiting| *waiting != turn);
        } else {
            self.new.retain(|(waiting, _)| *waiting != turn);
        }
    }

    fn count(&self) -> WaitingTurns {
        WaitingTurns { first: self.first.len(), new: self.new.len() }
    }

    fn waiting(&self) -> Vec<TurnId> {
        self.first.iter().chain(self.new.iter().map(|(turn, _)| turn)).copied().collect()
    }
}

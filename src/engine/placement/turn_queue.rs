//! Which turns wait for a slot, and who is next: those that were answered, fired or recovered before all new ones, each
//! in the order in which they came.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
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
    fn waits_at(&self, turn: TurnId) -> Option<u64>;

    /// A new turn, claimed at `epoch`, waits behind all others.
    fn put_last(&mut self, turn: TurnId, epoch: u64);

    /// A new turn that no server has claimed ([`NEVER_CLAIMED`]) waits behind all others. Once, however often it is said.
    fn put_open(&mut self, turn: TurnId);

    /// The new turns that no server had claimed when it was looked last.
    fn open(&self) -> HashSet<TurnId>;

    /// Who may begin where a slot is free; waits no longer from here on.
    fn take_next(&mut self) -> Option<NextTurn>;

    /// The turn is over, and begins no more if it waits.
    fn forget(&mut self, turn: TurnId);

    /// How many wait.
    fn count(&self) -> WaitingTurns;

    /// All who wait.
    fn waiting(&self) -> Vec<TurnId>;
}

/// The epoch of a turn that no server has claimed so far.
pub const NEVER_CLAIMED: u64 = 0;

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
    /// The epochs at which they are to be claimed, and new ones among them.
    epochs: HashMap<TurnId, u64>,
    /// New turns, claimed at an epoch or to be claimed. What their workers are given is in the store until then: it may be
    /// large.
    new: VecDeque<NextTurn>,
}

impl LocalQueue {
    fn leave_new(&mut self, turn: TurnId) {
        self.new.retain(|waiting| waiting.turn() != turn);
    }
}

impl NextTurn {
    /// Which.
    pub fn turn(self) -> TurnId {
        match self {
            Self::Claim(turn, _) | Self::Start(turn, _) => turn,
        }
    }
}

impl TurnQueue for LocalQueue {
    fn put_first(&mut self, turn: TurnId, epoch: u64) {
        match self.epochs.entry(turn) {
            // What was found out before may be said after.
            Entry::Occupied(mut known) => {
                let before = known.insert(epoch.max(*known.get()));
                // Somebody has begun it meanwhile.
                if before == NEVER_CLAIMED && !self.first.contains(&turn) {
                    self.leave_new(turn);
                    self.first.push_back(turn);
                }
            }
            Entry::Vacant(place) => {
                place.insert(epoch);
                self.first.push_back(turn);
            }
        }
    }

    fn waits_at(&self, turn: TurnId) -> Option<u64> {
        self.epochs.get(&turn).copied()
    }

    fn put_last(&mut self, turn: TurnId, epoch: u64) {
        self.new.push_back(NextTurn::Start(turn, epoch));
    }

    fn put_open(&mut self, turn: TurnId) {
        if let Entry::Vacant(place) = self.epochs.entry(turn) {
            place.insert(NEVER_CLAIMED);
            self.new.push_back(NextTurn::Claim(turn, NEVER_CLAIMED));
        }
    }

    fn open(&self) -> HashSet<TurnId> {
        self.new.iter().filter(|next| matches!(next, NextTurn::Claim(..))).map(|next| next.turn()).collect()
    }

    fn take_next(&mut self) -> Option<NextTurn> {
        if let Some(turn) = self.first.pop_front() {
            let epoch = self.epochs.remove(&turn).unwrap_or_default();
            return Some(NextTurn::Claim(turn, epoch));
        }
        let next = self.new.pop_front()?;
        self.epochs.remove(&next.turn());
        Some(next)
    }

    fn forget(&mut self, turn: TurnId) {
        if self.epochs.remove(&turn).is_some() {
            self.first.retain(|waiting| *waiting != turn);
        }
        self.leave_new(turn);
    }

    fn count(&self) -> WaitingTurns {
        WaitingTurns { first: self.first.len(), new: self.new.len() }
    }

    fn waiting(&self) -> Vec<TurnId> {
        self.first.iter().copied().chain(self.new.iter().map(|next| next.turn())).collect()
    }
}

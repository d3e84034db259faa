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
    fn put_unclaimed(&mut self, turn: TurnId);

    /// Which of those are this server's to take before the others', from now on.
    fn divide(&mut self, share: QueueShare);

    /// The new turns that no server had claimed when it was looked last.
    fn unclaimed(&self) -> HashSet<TurnId>;

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

/// For how many milliseconds longer than those of its own share a new turn may have waited before a server takes it.
const PATIENCE: u64 = 2000;

/// Which of the new turns that any server may take are one server's to take first, so that servers with free slots do not all
/// reach for the same one, of which one gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueShare {
    /// Which of the shares, from 0.
    pub place: usize,
    /// How many there are.
    pub of: usize,
}

impl Default for QueueShare {
    fn default() -> Self {
        Self { place: 0, of: 1 }
    }
}

impl QueueShare {
    fn has(self, turn: TurnId) -> bool {
        // What is drawn of the id.
        let (_, drawn) = turn.0.as_u64_pair();
        drawn % (self.of.max(1) as u64) == self.place as u64
    }
}

/// When a turn was made, in milliseconds, as its id has it.
fn made_at(turn: TurnId) -> u64 {
    turn.0.as_u64_pair().0 >> 16
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

/// The queue in a server's memory: the store knows who waits, and the next server, or another one that shares it, finds it there.
#[derive(Debug, Default)]
pub struct LocalQueue {
    /// Turns to be claimed: answered, fired and recovered ones.
    first: VecDeque<TurnId>,
    /// The epochs at which they are to be claimed, and new ones among them.
    epochs: HashMap<TurnId, u64>,
    /// New turns, claimed at an epoch or to be claimed. What their workers are given is in the store until then: it may be
    /// large.
    new: VecDeque<NextTurn>,
    share: QueueShare,
}

impl LocalQueue {
    /// The place of the new turn that is next: the first of this server's share, unless another has waited for much longer.
    fn next_new(&self) -> usize {
        let own = self.new.iter().enumerate().find(|(_, next)| self.share.has(next.turn()));
        match (self.new.front(), own) {
            (Some(first), Some((place, own))) if made_at(own.turn()) <= made_at(first.turn()) + PATIENCE => place,
            _ => 0,
        }
    }

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

    fn put_unclaimed(&mut self, turn: TurnId) {
        if let Entry::Vacant(place) = self.epochs.entry(turn) {
            place.insert(NEVER_CLAIMED);
            self.new.push_back(NextTurn::Claim(turn, NEVER_CLAIMED));
        }
    }

    fn divide(&mut self, share: QueueShare) {
        self.share = share;
    }

    fn unclaimed(&self) -> HashSet<TurnId> {
        self.new.iter().filter(|next| matches!(next, NextTurn::Claim(..))).map(|next| next.turn()).collect()
    }

    fn take_next(&mut self) -> Option<NextTurn> {
        if let Some(turn) = self.first.pop_front() {
            let epoch = self.epochs.remove(&turn).unwrap_or_default();
            return Some(NextTurn::Claim(turn, epoch));
        }
        let next = self.new.remove(self.next_new())?;
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A turn that was made then, with that drawn.
    fn turn(made_at: u128, drawn: u128) -> TurnId {
        TurnId(Uuid::from_u128((made_at << 80) | drawn))
    }

    #[test]
    fn servers_take_what_is_their_own_first_and_then_what_others_leave() {
        let mut queue = LocalQueue::default();
        queue.divide(QueueShare { place: 1, of: 2 });
        let all = [turn(0, 4), turn(1, 7), turn(2, 6), turn(2000, 9), turn(2001, 11)];
        all.iter().for_each(|turn| queue.put_unclaimed(*turn));
        let taken: Vec<TurnId> = std::iter::from_fn(|| queue.take_next()).map(NextTurn::turn).collect();
        // The fifth would leave one behind that has waited for more than two seconds longer.
        assert_eq!(taken, [1, 3, 0, 4, 2].map(|place: usize| all[place]));
    }

    #[test]
    fn a_server_by_itself_takes_them_in_the_order_in_which_they_came() {
        let mut queue = LocalQueue::default();
        let all = [turn(5, 1), turn(1, 0), turn(9, 3)];
        queue.put_last(all[0], 1);
        queue.put_unclaimed(all[1]);
        queue.put_last(all[2], 1);
        let taken: Vec<TurnId> = std::iter::from_fn(|| queue.take_next()).map(NextTurn::turn).collect();
        assert_eq!(taken, all);
    }
}

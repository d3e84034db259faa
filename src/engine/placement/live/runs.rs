//! The runs of the turns at workers. A turn can begin anew while somebody still speaks of its run before, at the same epoch too,
//! where a failover has taken back the claim of that one: each run has a number.

use crate::domain::TurnId;
use crate::engine::placement::Placement;
use crate::store::signals::KnownTurn;

impl Placement {
    /// Which run of the turn at `epoch` is at a worker. There can be two at one epoch, one after the other: where a failover has
    /// taken back the claim of the first one, and with it that the epoch was given.
    pub fn run_at(&self, turn: TurnId, epoch: u64) -> Option<u64> {
        self.lock().at_workers.get(&turn).filter(|live| live.epoch == epoch).map(|live| live.run)
    }

    /// At which epoch that run of the turn is at a worker.
    pub fn epoch_of(&self, turn: TurnId, run: u64) -> Option<u64> {
        self.lock().at_workers.get(&turn).filter(|live| live.run == run).map(|live| live.epoch)
    }

    /// Those of which it is not known that none of so many `promotions` has taken anything back, each with after how many it
    /// was so.
    pub fn known_before(&self, promotions: u64) -> Vec<(KnownTurn, u64)> {
        let turns = self.lock();
        let before = turns.at_workers.iter().filter(|(_, live)| live.promotions < promotions);
        before.map(|(turn, live)| (live.as_known(*turn), live.promotions)).collect()
    }

    /// Nothing that is known here of that run of the turn was taken back by any of so many `promotions`. Where a word of it was
    /// refused before that was known, its worker has left: it begins anew all the same.
    pub fn stands(&self, turn: TurnId, run: u64, promotions: u64) {
        let mut turns = self.lock();
        match turns.at_workers.get_mut(&turn).filter(|live| live.run == run) {
            Some(live) if live.is_refused => {
                drop(turns);
                self.drop_run(turn, run);
            }
            Some(live) => live.promotions = live.promotions.max(promotions),
            None => {}
        }
    }

    /// A word of that run of the turn is refused, where nothing has been found out since it was known to stand `after` so many
    /// promotions; else after how many it is known to: the word is said again.
    pub fn refuse(&self, turn: TurnId, run: u64, after: Option<u64>) -> Option<u64> {
        let mut turns = self.lock();
        let live = turns.at_workers.get_mut(&turn).filter(|live| live.run == run)?;
        live.is_refused = Some(live.promotions) <= after;
        (!live.is_refused).then_some(live.promotions)
    }

    /// After how many promotions what is known here of that run of the turn stands; `None` where it is not here.
    pub fn promotions_of(&self, turn: TurnId, run: u64) -> Option<u64> {
        self.lock().at_workers.get(&turn).filter(|live| live.run == run).map(|live| live.promotions)
    }

    /// Something that is known here of that run of the turn may have been taken back: its worker drops it, and whoever claims it
    /// begins anew from its journal.
    pub fn drop_run(&self, turn: TurnId, run: u64) {
        let mut turns = self.lock();
        if turns.remove_run(self, turn, run) {
            turns.queues.remove(&turn);
            self.dispatch.get().into_iter().for_each(|dispatch| dispatch.park(turn));
            // Others may wait for its slot, and nobody says whether the turn itself comes back.
            self.freed.notify_one();
        }
        drop(turns);
        self.rested.notify_waiters();
    }

    /// That run of the turn is another server's, or parked: its worker drops it.
    pub fn park_run(&self, turn: TurnId, run: u64) {
        let mut turns = self.lock();
        if turns.remove_run(self, turn, run)
            && let Some(dispatch) = self.dispatch.get()
        {
            dispatch.park(turn);
        }
        drop(turns);
        self.rested.notify_waiters();
    }

    /// That run of the turn was ended by somebody else; whether it was at a worker. One that has begun since, as after a retry,
    /// goes on.
    pub fn end_run(&self, turn: TurnId, run: u64) -> bool {
        let mut turns = self.lock();
        let was_here = turns.remove_run(self, turn, run);
        if was_here && !turns.claimed.contains_key(&turn) {
            turns.queues.remove(&turn);
        }
        drop(turns);
        self.rested.notify_waiters();
        was_here
    }

    /// Tells the worker of a settled turn to stop: not that of a run which has begun since, as after a retry.
    pub fn stop_worker(&self, turn: TurnId, message: &str) {
        let turns = self.lock();
        if let Some(dispatch) = self.dispatch.get().filter(|_| !turns.at_workers.contains_key(&turn)) {
            dispatch.stop(turn, message);
        }
    }
}

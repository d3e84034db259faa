//! The turns that this process has in memory: claimed ones on their way to a worker, and those at a worker, with how
//! long each was at work and what it was told.
//!
//! A turn is entered here inside the transaction that claims it, so that nothing that is committed later can miss it:
//! what is delivered before the turn is at its worker is kept. Everything that a worker is told about a turn (begin,
//! delivery, park) is told under the one lock, in the order in which it happened.

mod delivering;
mod runs;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::turn::stage::{self, Stage};
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::access::policy::OwnRules;
use crate::engine::placement::Placement;
use crate::engine::placement::deliveries::Queue;
use crate::engine::placement::live_turn::{LiveTurn, Pause, WarmPause, millis};
use crate::engine::ports::dispatch::{Delivery, TurnOrder};
use crate::engine::ports::held::{Held, HeldTurn, Holder};
use crate::faults::Rule;
use crate::store::Reader;
use crate::store::signals::KnownTurn;

/// A turn at a worker, as a batch of its words finds it.
#[derive(Debug, Clone)]
pub struct LiveSnapshot {
    /// See [`Placement::run_at`].
    pub run: u64,
    /// Whose.
    pub session: SessionId,
    /// How many entries its worker was given with the order.
    pub known: u64,
    /// How many entries of its journal it has heard of.
    pub heard: u64,
    /// How many entries of its journal are known here without a gap, where others may have written the next.
    pub in_order: Option<u64>,
    /// How often a standby had taken the database's place, and nothing that is known of the turn was taken back.
    pub promotions: u64,
    /// The rules of its session.
    pub rules: Arc<OwnRules>,
    /// Time at work so far.
    pub worked: Duration,
    /// How long its worker has had it.
    pub at_worker: Duration,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Whether it is held.
    pub is_held: bool,
}

impl LiveSnapshot {
    /// Milliseconds at work so far, as the store keeps them.
    pub fn worked_ms(&self) -> u64 {
        millis(self.worked)
    }

    /// What is known of it here was not taken back: nothing has changed since that the session knows of and this does not. A
    /// word that was said on what is gone has no place in the journal.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`].
    pub fn check_stands(&self, reader: &dyn Reader) -> Result<(), Error> {
        if reader.promotions() > self.promotions { Err(Error::StaleEpoch) } else { Ok(()) }
    }

    /// An entry that the turn says comes after all that it has heard of: the `index` of one that does not tells that something
    /// was taken back.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`].
    pub fn check_comes_after(&self, index: u64) -> Result<(), Error> {
        if index < self.heard { Err(Error::StaleEpoch) } else { Ok(()) }
    }

    /// Whether its worker was given more than the message, and so has to replay.
    pub fn is_replay(&self) -> bool {
        self.known > 1
    }
}

/// A paused turn that may be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub turn: TurnId,
    /// Its epoch.
    pub epoch: u64,
    /// See [`LiveSnapshot::promotions`].
    pub promotions: u64,
    /// Whose.
    pub session: SessionId,
    /// What it waits for.
    pub pause: Pause,
    /// Milliseconds at work.
    pub worked_ms: u64,
}

/// A turn that is claimed and not at its worker yet.
#[derive(Debug)]
struct Claimed {
    epoch: u64,
    /// See [`LiveSnapshot::promotions`].
    promotions: u64,
    rules: Arc<OwnRules>,
    /// What was delivered since.
    kept: Vec<Delivery>,
}

/// The turns that this process has in memory.
#[derive(Debug, Default)]
pub(super) struct Turns {
    at_workers: HashMap<TurnId, LiveTurn>,
    /// Claimed, and on their way to a worker.
    claimed: HashMap<TurnId, Claimed>,
    /// What was announced and has not been delivered.
    queues: HashMap<TurnId, Queue>,
    /// They have lost their workers, and are taken up again after a pause.
    recovering: HashSet<TurnId>,
    pauses: u64,
    /// How many were begun at workers.
    runs: u64,
}

impl Placement {
    /// A turn is being claimed at `epoch`, after so many `promotions`; see [`crate::engine::placement::turn_claims::TurnClaim`].
    /// `rules` are those of its session.
    pub fn claim(&self, turn: TurnId, epoch: u64, promotions: u64, rules: Arc<OwnRules>) {
        self.lock().claimed.insert(turn, Claimed { epoch, promotions, rules, kept: Vec::new() });
    }

    fn unclaim(&self, turn: TurnId, epoch: u64) {
        let mut turns = self.lock();
        if turns.claimed.get(&turn).is_some_and(|claimed| claimed.epoch == epoch) {
            turns.claimed.remove(&turn);
            self.rested.notify_waiters();
        }
    }

    /// It was claimed and is not started: its slot is free.
    pub fn drop_claim(&self, turn: TurnId, epoch: u64) {
        self.unclaim(turn, epoch);
        self.slots.leave(turn, epoch);
    }

    /// A claimed turn goes to a worker: it is at work from now on, and `--timeout` counts. Whether it does: not where it
    /// was settled meanwhile.
    pub fn begin(&self, order: TurnOrder, worked: Duration) -> bool {
        let Some(dispatch) = self.dispatch.get() else { return false };
        let (turn, epoch) = (order.turn, order.epoch);
        let mut turns = self.lock();
        let (rules, promotions, kept) = match turns.claimed.remove(&turn) {
            Some(claimed) if claimed.epoch == epoch => (claimed.rules, claimed.promotions, claimed.kept),
            Some(newer) => {
                turns.claimed.insert(turn, newer);
                return false;
            }
            None => return false,
        };
        // It was parked, and answered before its worker was told.
        if let Some(mut parked) = turns.at_workers.remove(&turn) {
            parked.leave(self, turn);
            dispatch.park(turn);
        }
        turns.runs += 1;
        let mut live = LiveTurn {
            session: order.session,
            epoch,
            run: turns.runs,
            started: Instant::now(),
            known: order.journal.len() as u64,
            promotions,
            is_refused: false,
            rules,
            worked,
            since: None,
            timer: None,
            delivered: None,
            seen: 0,
            in_order: order.journal.len() as u64,
            stage: Stage::AtWork,
            paused: None,
            held: None,
            is_replaying: order.journal.len() > 1 && self.time_left(worked) > Duration::ZERO,
        };
        live.work(turn, self);
        turns.at_workers.insert(turn, live);
        dispatch.start(order);
        let queue = turns.queues.entry(turn).or_default();
        kept.into_iter().for_each(|delivery| queue.found(epoch, delivery));
        turns.flush(self, turn);
        true
    }

    /// The turns at workers, and how much of their journals is known here.
    pub fn known_turns(&self) -> Vec<KnownTurn> {
        self.known_turns_that(|_| true)
    }

    /// Those of them that are meant: no other is copied under the lock.
    pub fn known_turns_that(&self, is_meant: impl Fn(&KnownTurn) -> bool) -> Vec<KnownTurn> {
        let turns = self.lock();
        turns.at_workers.iter().map(|(turn, live)| live.as_known(*turn)).filter(is_meant).collect()
    }

    /// The turns that this process knows of: in memory, with a slot or waiting for one, or resting before they are taken up
    /// again.
    pub fn known_here(&self) -> HashSet<TurnId> {
        let turns = self.lock();
        let here = turns.at_workers.keys().chain(turns.claimed.keys()).chain(&turns.recovering).copied();
        here.chain(self.slots.turns()).collect()
    }

    /// The turn has lost its worker, and is taken up again after a pause.
    pub fn rests(&self, turn: TurnId) {
        self.lock().recovering.insert(turn);
    }

    /// Its pause is over: it waits to be claimed, if it still is at this epoch.
    pub fn has_rested(&self, turn: TurnId, epoch: u64) {
        let mut turns = self.lock();
        turns.recovering.remove(&turn);
        self.slots.put_first(turn, epoch);
    }

    /// The turn at `epoch` has paused: its slot is free. Nothing happens where a delivery has come after the pause.
    pub fn pause(&self, turn: TurnId, epoch: u64, pause: Pause) {
        let mut turns = self.lock();
        turns.pauses += 1;
        let number = turns.pauses;
        let Some(live) = turns.at_workers.get_mut(&turn).filter(|live| live.epoch == epoch) else { return };
        if live.delivered > Some(pause.index) {
            return;
        }
        live.rest();
        live.held = None;
        live.seen = pause.index + 1;
        live.paused = Some(WarmPause { number, at: Instant::now(), pause });
        // Under the lock, so that a delivery at this moment cannot lose the slot it takes.
        live.step(self, turn, stage::StageEvent::Paused);
        drop(turns);
        self.rested.notify_waiters();
        self.paused.notify_one();
    }

    /// The turn at `epoch`, if it is at a worker.
    pub fn standing(&self, turn: TurnId, epoch: u64) -> Option<LiveSnapshot> {
        let is_at = |live: &&LiveTurn| live.epoch == epoch || Rule::Epoch.is_left_out();
        self.lock().at_workers.get(&turn).filter(is_at).map(|live| LiveSnapshot {
            run: live.run,
            session: live.session,
            known: live.known,
            heard: live.has_heard_of(),
            in_order: self.is_shared().then_some(live.in_order),
            promotions: live.promotions,
            rules: Arc::clone(&live.rules),
            worked: live.worked(),
            at_worker: live.started.elapsed(),
            is_paused: live.stage == Stage::Paused,
            is_held: live.held.is_some(),
        })
    }

    /// How long a turn at a worker has been at work, by this worker and those before.
    pub fn worked(&self, turn: TurnId) -> Option<Duration> {
        self.lock().at_workers.get(&turn).map(LiveTurn::worked)
    }

    /// The session of a turn at a worker.
    pub fn session_of(&self, turn: TurnId) -> Option<SessionId> {
        self.lock().at_workers.get(&turn).map(|live| live.session)
    }

    /// The turns to be parked now, least recently paused first: those beyond `warm`, and those that have been paused for
    /// `after`. And how long it is until there is another one, if nothing pauses before.
    pub fn to_park(&self, warm: usize, after: Duration) -> (Vec<Candidate>, Option<Duration>) {
        let turns = self.lock();
        let mut paused: Vec<(u64, Duration, Candidate)> = turns
            .at_workers
            .iter()
            .filter_map(|(turn, live)| {
                let WarmPause { number, at, pause } =
                    live.paused.as_ref().filter(|paused| paused.pause.can_be_parked)?;
                let candidate = Candidate {
                    turn: *turn,
                    epoch: live.epoch,
                    promotions: live.promotions,
                    session: live.session,
                    pause: *pause,
                    worked_ms: millis(live.worked()),
                };
                Some((*number, at.elapsed(), candidate))
            })
            .collect();
        paused.sort_unstable_by_key(|(number, ..)| *number);
        let beyond = paused.len().saturating_sub(warm);
        let due = paused.iter().enumerate().take_while(|(place, (_, age, _))| *place < beyond || *age >= after).count();
        let next = paused.get(due).map(|(_, age, _)| after.saturating_sub(*age));
        (paused.drain(..due).map(|(.., candidate)| candidate).collect(), next)
    }

    /// Resolves after a turn has paused.
    pub async fn some_paused(&self) {
        self.paused.notified().await;
    }

    /// The turn at `epoch` was parked in the store: its worker drops it.
    pub fn park(&self, turn: TurnId, epoch: u64) {
        let mut turns = self.lock();
        if turns.remove(self, turn, epoch)
            && let Some(dispatch) = self.dispatch.get()
        {
            dispatch.park(turn);
        }
        drop(turns);
        self.rested.notify_waiters();
    }

    /// The turn at `epoch` goes on by itself, as when one of its timers has fired: it takes its slot again.
    pub fn go_on(&self, turn: TurnId, epoch: u64) {
        let mut turns = self.lock();
        if let Some(live) = turns.at_workers.get_mut(&turn).filter(|live| live.epoch == epoch) {
            live.go_on(self, turn);
        }
    }

    /// That run of the turn is not at work, although it has its slot: it waits for the server itself.
    pub fn rest(&self, turn: TurnId, run: u64) {
        if let Some(live) = self.lock().at_workers.get_mut(&turn).filter(|live| live.run == run) {
            live.rest();
        }
        self.rested.notify_waiters();
    }

    /// It is at work again, unless it has paused.
    pub fn work_on(&self, turn: TurnId, run: u64) {
        if let Some(live) = self.lock().at_workers.get_mut(&turn).filter(|live| live.run == run)
            && live.stage == Stage::AtWork
        {
            live.work(turn, self);
        }
    }

    /// The turn at `epoch` is held. Where nothing of it is at work, a question is open and only people are waited for as
    /// far as anybody can tell: `--timeout` does not count until it goes on. It keeps its slot.
    pub fn hold(&self, turn: TurnId, epoch: u64, held: Held) {
        if let Some(live) = self.lock().at_workers.get_mut(&turn).filter(|live| live.epoch == epoch) {
            if !held.at_work && !held.replay {
                live.rest();
            }
            live.held = Some(held);
        }
    }

    /// The turns that are held.
    pub fn held(&self) -> Vec<HeldTurn> {
        let turns = self.lock();
        let held = turns.at_workers.values().filter_map(|live| {
            let Held { by, at_work, replay } = live.held.clone()?;
            Some(HeldTurn { session_id: live.session, replay, at_work, by })
        });
        held.collect()
    }

    /// What the turn's replay waits for; nothing where there is no replay, or it waits for nothing.
    pub fn replay_waits_for(&self, turn: TurnId) -> Vec<Holder> {
        let turns = self.lock();
        let held = turns.at_workers.get(&turn).and_then(|live| live.held.as_ref());
        held.filter(|held| held.replay).map(|held| held.by.clone()).unwrap_or_default()
    }

    /// Whether the turn at `epoch` has not come to where its journal ends yet.
    pub fn is_replaying(&self, turn: TurnId, epoch: u64) -> bool {
        self.lock().at_workers.get(&turn).is_some_and(|live| live.epoch == epoch && live.is_replaying)
    }

    /// The worker of the turn at `epoch` stands where its journal ends.
    pub fn replayed(&self, turn: TurnId, epoch: u64) {
        if let Some(live) = self.lock().at_workers.get_mut(&turn).filter(|live| live.epoch == epoch) {
            live.is_replaying = false;
            live.held = None;
        }
    }

    /// The turn at `epoch` is not to be parked at this pause: something was appended after it. It may have paused anew.
    pub fn keep(&self, turn: TurnId, epoch: u64, pause: Pause) {
        if let Some(live) = self.lock().at_workers.get_mut(&turn).filter(|live| live.epoch == epoch)
            && live.paused.as_ref().is_some_and(|paused| paused.pause == pause)
        {
            live.paused = None;
        }
    }

    /// The turn at `epoch` is at no worker any more.
    pub fn lose(&self, turn: TurnId, epoch: u64) {
        self.lock().remove(self, turn, epoch);
        self.rested.notify_waiters();
    }

    /// The turn is over, wherever it was.
    pub fn forget(&self, turn: TurnId) {
        let mut turns = self.lock();
        turns.claimed.remove(&turn);
        turns.queues.remove(&turn);
        if let Some(mut live) = turns.at_workers.remove(&turn) {
            live.rest();
        }
        self.slots.forget(turn);
        drop(turns);
        self.rested.notify_waiters();
    }

    /// Forgets every turn: what their workers still say is void.
    pub fn clear(&self) {
        let mut turns = self.lock();
        turns.claimed.clear();
        turns.queues.clear();
        turns.recovering.clear();
        for (_, mut live) in turns.at_workers.drain() {
            live.rest();
        }
    }

    /// Resolves when no turn is at work.
    pub async fn none_at_work(&self) {
        loop {
            let rested = self.rested.notified();
            tokio::pin!(rested);
            rested.as_mut().enable();
            if self.lock().at_workers.values().all(|live| live.since.is_none()) {
                return;
            }
            rested.await;
        }
    }

    /// Resolves when the turn is neither at a worker nor on its way there.
    pub async fn gone(&self, turn: TurnId) {
        loop {
            let rested = self.rested.notified();
            tokio::pin!(rested);
            rested.as_mut().enable();
            {
                let turns = self.lock();
                if !turns.at_workers.contains_key(&turn) && !turns.claimed.contains_key(&turn) {
                    return;
                }
            }
            rested.await;
        }
    }

    /// How many turns are at workers, and how many of those are paused.
    pub fn count(&self) -> (usize, usize) {
        let turns = self.lock();
        (turns.at_workers.len(), turns.at_workers.values().filter(|live| live.stage == Stage::Paused).count())
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        // A panic elsewhere cannot leave the maps half changed.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    fn remove(&mut self, placement: &Placement, turn: TurnId, epoch: u64) -> bool {
        self.remove_if(placement, turn, |live| live.epoch == epoch)
    }

    fn remove_run(&mut self, placement: &Placement, turn: TurnId, run: u64) -> bool {
        self.remove_if(placement, turn, |live| live.run == run)
    }

    fn remove_if(&mut self, placement: &Placement, turn: TurnId, is_meant: impl Fn(&LiveTurn) -> bool) -> bool {
        if !self.at_workers.get(&turn).is_some_and(is_meant) {
            return false;
        }
        if let Some(mut live) = self.at_workers.remove(&turn) {
            live.leave(placement, turn);
        }
        true
    }
}

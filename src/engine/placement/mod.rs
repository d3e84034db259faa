//! Where turns are: which are at work, which wait for a slot, which are in memory, and what their workers are told.
//!
//! Nothing here reads or writes the store: a slot and a turn in memory are this process's own, and what is decided about
//! them is decided in the journal.

pub(super) mod deliveries;
mod held_turns;
pub(super) mod live;
pub(super) mod live_turn;
mod overtime;
pub(super) mod slots;
pub(super) mod turn_claims;
pub(super) mod turn_queue;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::{Error, TurnId};
use crate::engine::ports::dispatch::{Dispatch, Runtime};
use crate::engine::settings::Settings;
use crate::store::signals::OrphanedTurn;
use live::Turns;
use overtime::Overtime;
use slots::{Reservation, Slots, WaitingElsewhere};
use turn_queue::NextTurn;

/// See the module.
pub(super) struct Placement {
    /// Set once, right after the start: supervisor and engine need each other.
    dispatch: OnceLock<Arc<dyn Dispatch>>,
    slots: Slots,
    turns: Mutex<Turns>,
    /// A turn is not at work any more.
    rested: Notify,
    /// A turn has paused.
    paused: Notify,
    /// A claim or a delivery came to nothing.
    freed: Notify,
    /// Whether other servers may write to the turns that are here.
    is_shared: AtomicBool,
    /// Something waits for what others have written: to a turn here, or a free slot for a turn.
    gap: Notify,
    /// How long a turn may be at work; `None` for no limit.
    timeout: Option<Duration>,
    overtime: Arc<Overtime>,
}

impl Placement {
    /// Slots as the operator set them, and no workers yet.
    pub(super) fn new(settings: &Settings) -> Arc<Self> {
        let timeout = (settings.timeout > 0.0).then(|| Duration::try_from_secs_f64(settings.timeout));
        Arc::new(Self {
            dispatch: OnceLock::new(),
            slots: Slots::new(settings.workers, settings.queue),
            turns: Mutex::default(),
            rested: Notify::new(),
            paused: Notify::new(),
            freed: Notify::new(),
            is_shared: AtomicBool::new(false),
            gap: Notify::new(),
            timeout: timeout.and_then(Result::ok),
            overtime: Arc::default(),
        })
    }

    /// How workers are reached from now on; whether this is the first call, which alone counts.
    pub(super) fn attach(&self, dispatch: Arc<dyn Dispatch>) -> bool {
        self.dispatch.set(dispatch).is_ok()
    }

    /// Other servers may write to the turns that are here, from now on.
    pub(super) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Resolves after something has come for a turn here that waits for what others may have written before it, or a slot
    /// is free and others may have written a turn for it.
    pub(super) async fn gap(&self) {
        self.gap.notified().await;
    }

    /// What turns that are started now run in.
    ///
    /// # Errors
    /// An internal one, before there are workers.
    pub(super) fn runtime(&self) -> Result<Runtime, Error> {
        let dispatch =
            self.dispatch.get().ok_or_else(|| Error::Internal("the engine has no workers yet".to_owned()))?;
        Ok(dispatch.runtime())
    }

    /// See [`Dispatch::has_workers`].
    pub(super) fn has_workers(&self) -> bool {
        self.dispatch.get().is_none_or(|dispatch| dispatch.has_workers())
    }

    /// Tells the worker of a turn that nobody waits for any more to drop it.
    pub(super) fn drop_at_worker(&self, turn: TurnId) {
        if let Some(dispatch) = self.dispatch.get() {
            dispatch.park(turn);
        }
    }

    /// Promises a slot, or that it may wait for one, to a turn that is not written yet.
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub(super) fn reserve(self: &Arc<Self>, turn: TurnId) -> Result<Reservation, Error> {
        Reservation::take(self, turn)
    }

    /// See [`Slots::take`].
    pub(super) fn take_place(&self, turn: TurnId) -> bool {
        self.slots.take(turn)
    }

    /// See [`Slots::put_first`].
    pub(super) fn put_first(&self, turn: TurnId, epoch: u64) {
        self.slots.put_first(turn, epoch);
    }

    /// See [`Slots::put_unclaimed`].
    pub(super) fn put_unclaimed(&self, turn: TurnId) {
        self.slots.put_unclaimed(turn);
    }

    /// Whether the turn waits here to be claimed at that epoch.
    pub(super) fn waits_at(&self, turn: TurnId, epoch: Option<u64>) -> bool {
        self.slots.waits_at(turn, epoch)
    }

    /// See [`Slots::look`].
    pub(super) fn look(&self) -> HashSet<TurnId> {
        self.slots.look()
    }

    /// See [`Slots::looked`].
    pub(super) fn looked(&self, before: &HashSet<TurnId>, orphans: &[OrphanedTurn], seen: WaitingElsewhere) {
        self.slots.looked(before, orphans, seen);
    }

    /// See [`Slots::has_slot`].
    pub(super) fn has_slot(&self) -> bool {
        self.slots.has_slot()
    }

    /// See [`Slots::claimed`].
    pub(super) fn claimed(&self, turn: TurnId, epoch: u64) {
        self.slots.claimed(turn, epoch);
    }

    /// See [`Slots::not_claimed`].
    pub(super) fn not_claimed(&self, turn: TurnId) {
        self.slots.not_claimed(turn);
    }

    /// Who may begin now, as soon as there are workers; it has a slot from here on.
    pub(super) fn next(&self) -> Option<NextTurn> {
        self.dispatch.get()?;
        let next = self.slots.next();
        if next.is_none() && self.slots.misses_some() {
            self.gap.notify_one();
        }
        next
    }

    /// How many are at work, and how many wait.
    pub(super) fn count_places(&self) -> (usize, usize) {
        self.slots.count()
    }

    /// Resolves after a claim or a delivery came to nothing: there may be a slot, or something to deliver.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// A turn that has been at work for all its time, and at which epoch.
    pub(super) async fn overdue(&self) -> (TurnId, u64) {
        loop {
            let (turn, run) = self.overtime.next().await;
            // One that is at no worker any more has left its time to no other.
            if let Some(epoch) = self.epoch_of(turn, run) {
                return (turn, epoch);
            }
        }
    }
}

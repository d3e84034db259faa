//! One turn at a worker: how long it was at work, whether it has a slot, what it was told. Everything here happens under
//! the lock of [`crate::engine::placement::live`].

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::domain::turn::stage::{self, Stage, StageEffect};
use crate::domain::{SessionId, Timestamp, TurnId};
use crate::engine::access::policy::OwnRules;
use crate::engine::placement::Placement;
use crate::engine::ports::held::Held;
use crate::store::signals::KnownTurn;

/// A turn at a worker.
#[derive(Debug)]
pub(super) struct LiveTurn {
    /// See [`Placement::run_at`].
    pub(super) run: u64,
    pub(super) session: SessionId,
    pub(super) epoch: u64,
    /// When its worker got it.
    pub(super) started: Instant,
    /// How many entries its worker was given with the order.
    pub(super) known: u64,
    /// See [`crate::engine::placement::live::LiveSnapshot::promotions`].
    pub(super) promotions: u64,
    /// A word of it was refused, since something may have been taken back: its worker leaves.
    pub(super) is_refused: bool,
    /// The rules of its session.
    pub(super) rules: Arc<OwnRules>,
    /// Time at work so far, without the current stretch.
    pub(super) worked: Duration,
    /// Since when it is at work; `None` while it is paused.
    pub(super) since: Option<Instant>,
    /// Ends the turn when its time is over.
    pub(super) timer: Option<AbortHandle>,
    /// The journal index of the newest delivery.
    pub(super) delivered: Option<u64>,
    /// How many entries of its journal it had seen when it paused last.
    pub(super) seen: u64,
    /// How many entries of its journal are known here without a gap: others may have written the next.
    pub(super) in_order: u64,
    /// Whether it is at work, or paused and without a slot.
    pub(super) stage: Stage,
    /// Its pause, while nothing has been appended since as far as anybody knows: there it may be parked.
    pub(super) paused: Option<WarmPause>,
    /// What keeps it, since it was told or said something last.
    pub(super) held: Option<Held>,
    /// It began with time left, and its worker has not said yet that it stands where its journal ends.
    pub(super) is_replaying: bool,
}

#[derive(Debug)]
pub(super) struct WarmPause {
    /// Counts pauses: a smaller one is longer ago.
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) pause: Pause,
}

/// What a turn waits for, as its `Pause` entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Where that stands in the journal.
    pub index: u64,
    /// When its earliest timer is due.
    pub wake_at: Option<Timestamp>,
    /// Whether it can be parked: something wakes it, and it can be replayed.
    pub can_be_parked: bool,
}

impl LiveTurn {
    /// How many entries of its journal it has: by its order, by what was delivered since, and as it said when it paused. An
    /// answer that it was given with its question is not counted before; it takes no harm from being given that again.
    pub(super) fn has_heard_of(&self) -> u64 {
        self.known.max(self.seen).max(self.delivered.map_or(0, |delivered| delivered + 1))
    }

    /// What others can ask of it.
    pub(super) fn as_known(&self, turn: TurnId) -> KnownTurn {
        KnownTurn { turn, session: self.session, epoch: self.epoch, run: self.run, known: self.has_heard_of() }
    }

    /// Something has happened to it that may cost or give it its slot.
    pub(super) fn step(&mut self, placement: &Placement, turn: TurnId, event: stage::StageEvent) {
        let (next, effect) = self.stage.transition(event);
        self.stage = next.unwrap_or(self.stage);
        match effect {
            Some(StageEffect::TakePlace) => placement.slots.rejoin(turn, self.epoch),
            Some(StageEffect::LeavePlace) => placement.slots.leave(turn, self.epoch),
            None => {}
        }
    }

    pub(super) fn go_on(&mut self, placement: &Placement, turn: TurnId) {
        self.paused = None;
        self.held = None;
        self.step(placement, turn, stage::StageEvent::WentOn);
        self.work(turn, placement);
    }

    pub(super) fn leave(&mut self, placement: &Placement, turn: TurnId) {
        self.rest();
        self.step(placement, turn, stage::StageEvent::Left);
    }

    pub(super) fn work(&mut self, turn: TurnId, placement: &Placement) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(Instant::now());
        if placement.timeout.is_some() {
            let left = placement.time_left(self.worked);
            self.timer = Some(placement.overtime.start(turn, self.run, left));
        }
    }

    pub(super) fn rest(&mut self) {
        if let Some(since) = self.since.take() {
            self.worked += since.elapsed();
        }
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }

    pub(super) fn worked(&self) -> Duration {
        self.worked + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Placement {
    /// What is left of `--timeout` to a turn that was at work for so long.
    pub(super) fn time_left(&self, worked: Duration) -> Duration {
        self.timeout.unwrap_or(Duration::MAX).saturating_sub(worked)
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

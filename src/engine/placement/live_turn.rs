//! One turn at a worker: how long it was at work, whether it has a place, what it was told. Everything here happens under
//! the lock of [`crate::engine::placement::live`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use crate::domain::turn::stage::{self, Stage, StageEffect};
use crate::domain::{SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::access::policy::OwnRules;
use crate::engine::ports::held::Held;

/// A turn at a worker.
#[derive(Debug)]
pub(super) struct LiveTurn {
    pub(super) session: SessionId,
    pub(super) epoch: u64,
    /// When its worker got it.
    pub(super) started: Instant,
    /// How many entries its worker was given with the order.
    pub(super) known: u64,
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
    /// Whether it is at work, or paused and without a place.
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
    /// Something has happened to it that may cost or give it its place.
    pub(super) fn step(&mut self, engine: &Engine, turn: TurnId, event: stage::StageEvent) {
        let (next, effect) = self.stage.transition(event);
        self.stage = next.unwrap_or(self.stage);
        match effect {
            Some(StageEffect::TakePlace) => engine.slots.rejoin(turn, self.epoch),
            Some(StageEffect::LeavePlace) => engine.slots.leave(turn, self.epoch),
            None => {}
        }
    }

    pub(super) fn go_on(&mut self, engine: &Arc<Engine>, turn: TurnId) {
        self.paused = None;
        self.held = None;
        self.step(engine, turn, stage::StageEvent::WentOn);
        self.work(turn, engine);
    }

    pub(super) fn leave(&mut self, engine: &Engine, turn: TurnId) {
        self.rest();
        self.step(engine, turn, stage::StageEvent::Left);
    }

    pub(super) fn work(&mut self, turn: TurnId, engine: &Arc<Engine>) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(Instant::now());
        if engine.settings.timeout > 0.0 {
            let left = time_left(engine, self.worked);
            let (engine, epoch) = (Arc::clone(engine), self.epoch);
            let timer = tokio::spawn(async move {
                tokio::time::sleep(left).await;
                engine.turn_timed_out(turn, epoch).await;
            });
            self.timer = Some(timer.abort_handle());
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

/// What is left of `--timeout` to a turn that was at work for so long.
pub(super) fn time_left(engine: &Engine, worked: Duration) -> Duration {
    let timeout = engine.settings.timeout;
    let whole = if timeout > 0.0 { Duration::try_from_secs_f64(timeout).ok() } else { None };
    whole.unwrap_or(Duration::MAX).saturating_sub(worked)
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

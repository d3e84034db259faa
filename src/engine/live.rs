//! The open turns of this process: how long each was at work, and which of its deliveries were made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Engine;
use super::dispatch::TurnOrder;
use crate::domain::session::Failure;
use crate::domain::{SessionId, TurnId};

#[derive(Debug)]
struct LiveTurn {
    session: SessionId,
    epoch: u64,
    /// Time at work so far, without the current stretch.
    worked: Duration,
    /// Since when it is at work; `None` while it is queued or waits for people.
    since: Option<Instant>,
    /// Ends the turn when its time is over.
    timer: Option<AbortHandle>,
    /// The journal index of the newest delivery.
    delivered: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LiveTurns {
    turns: Mutex<HashMap<TurnId, LiveTurn>>,
    stopped_working: Notify,
}

impl LiveTurns {
    /// A turn that was written; it does not work yet.
    pub fn insert(&self, turn: TurnId, session: SessionId, epoch: u64) {
        let live = LiveTurn { session, epoch, worked: Duration::ZERO, since: None, timer: None, delivered: None };
        self.lock().insert(turn, live);
    }

    /// The session of a turn, if `epoch` is the turn's.
    pub fn session(&self, turn: TurnId, epoch: u64) -> Option<SessionId> {
        self.lock().get(&turn).filter(|live| live.epoch == epoch).map(|live| live.session)
    }

    /// The session of a turn.
    pub fn session_of(&self, turn: TurnId) -> Option<SessionId> {
        self.lock().get(&turn).map(|live| live.session)
    }

    /// The turn is given to a worker: it is at work from now on, and `--timeout` counts.
    pub fn begin(&self, turn: TurnId, engine: &Arc<Engine>) {
        if let Some(live) = self.lock().get_mut(&turn) {
            live.work(turn, engine);
        }
    }

    /// Entry `index` goes to the turn, which takes its place again and is at work; whether it is still there.
    pub fn deliver(&self, turn: TurnId, index: u64, engine: &Arc<Engine>) -> bool {
        let mut turns = self.lock();
        let Some(live) = turns.get_mut(&turn) else { return false };
        live.delivered = live.delivered.max(Some(index));
        // Under this lock, so that a turn that ends at this moment cannot leave its place taken for ever.
        engine.slots().rejoin(turn);
        live.work(turn, engine);
        true
    }

    /// The turn says that it waits for people, having seen the journal up to `seen`: the order that may start in its
    /// place. Nothing happens where a delivery has overtaken what it said.
    pub fn wait(&self, turn: TurnId, epoch: u64, seen: Option<u64>, engine: &Engine) -> Option<TurnOrder> {
        let mut turns = self.lock();
        let live = turns.get_mut(&turn).filter(|live| live.epoch == epoch)?;
        if live.delivered > seen {
            return None;
        }
        live.rest();
        let next = engine.slots().leave(turn);
        drop(turns);
        self.stopped_working.notify_waiters();
        next
    }

    /// The turn is over; whether it was there.
    pub fn remove(&self, turn: TurnId) -> bool {
        let removed = self.lock().remove(&turn);
        let was_there = removed.is_some();
        if let Some(mut live) = removed {
            live.rest();
        }
        self.stopped_working.notify_waiters();
        was_there
    }

    /// Forgets every turn: they are settled, and what their workers still say is void.
    pub fn clear(&self) {
        for (_, mut live) in self.lock().drain() {
            live.rest();
        }
    }

    /// Resolves when no turn is at work or queued for work.
    pub async fn none_at_work(&self) {
        loop {
            let stopped = self.stopped_working.notified();
            tokio::pin!(stopped);
            stopped.as_mut().enable();
            if self.lock().values().all(|live| live.since.is_none()) {
                return;
            }
            stopped.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, LiveTurn>> {
        // A panic elsewhere cannot leave a map half changed.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveTurn {
    fn work(&mut self, turn: TurnId, engine: &Arc<Engine>) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(Instant::now());
        let timeout = engine.settings.timeout;
        if timeout > 0.0 {
            let left = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX).saturating_sub(self.worked);
            let (engine, epoch) = (Arc::clone(engine), self.epoch);
            let timer = tokio::spawn(async move {
                tokio::time::sleep(left).await;
                engine.turn_timed_out(turn, epoch).await;
            });
            self.timer = Some(timer.abort_handle());
        }
    }

    fn rest(&mut self) {
        if let Some(since) = self.since.take() {
            self.worked += since.elapsed();
        }
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

impl Engine {
    async fn turn_timed_out(self: &Arc<Self>, turn: TurnId, epoch: u64) {
        // The timer must not abort the task it runs in.
        if let Some(live) = self.live.lock().get_mut(&turn) {
            live.timer = None;
        }
        match self.turn_failed(turn, epoch, Failure::timed_out()).await {
            Ok(()) => self.stop_worker(turn, "Agent timed out"),
            Err(error) => tracing::error!(%turn, %error, "a turn's time is over, but it could not be ended"),
        }
    }

    /// Tells the worker of a settled turn to stop.
    pub(super) fn stop_worker(&self, turn: TurnId, message: &str) {
        if let Some(dispatch) = self.dispatch.get() {
            dispatch.stop(turn, message);
        }
    }
}

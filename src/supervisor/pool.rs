//! Which worker a turn gets: a ready one at once, else the next that is ready, first come first served.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::settings::MOST_ALONE;
use super::worker::Worker;

/// After so many failures in a row turns are not kept waiting for a worker, and the server is not ready for more.
const HOPELESS: u32 = 5;

/// The first pause before another attempt, doubled by each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A shared worker that dies younger than this has failed, whatever it did.
const YOUNG: Duration = Duration::from_secs(1);

/// Why a turn gets no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseError {
    /// None can be had.
    NoWorker,
    /// The supervisor stops.
    Stopping,
}

/// See the module.
pub struct Pool {
    state: Mutex<State>,
    /// Workers that are kept: idle ones for single turns, all of them where they are shared.
    kept: usize,
    /// See [`Pool::keeping`].
    most_alone: usize,
    shared: bool,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Idle workers, or all shared ones that take turns.
    ready: VecDeque<Arc<Worker>>,
    waiting: VecDeque<oneshot::Sender<Lease>>,
    /// Shared workers that have a turn alone each, and end after it.
    alone: Vec<Arc<Worker>>,
    waiting_alone: VecDeque<oneshot::Sender<Lease>>,
    /// Workers on their way.
    starting: usize,
    /// Every worker that has begun and has not ended.
    alive: Vec<Arc<Worker>>,
    failures: u32,
    /// How many starts have failed since a worker was ready.
    failed_starts: u32,
    refused: Option<LeaseError>,
    /// How many were starting, ready and waiting each time the lock was taken: what others could have seen.
    #[cfg(test)]
    seen: Vec<[usize; 3]>,
}

impl State {
    fn place_alone(&self, worker: &Arc<Worker>) -> Option<usize> {
        self.alone.iter().position(|other| Arc::ptr_eq(other, worker))
    }
}

fn least_loaded<'a>(workers: impl IntoIterator<Item = &'a Arc<Worker>>) -> Option<Arc<Worker>> {
    workers.into_iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed)).cloned()
}

/// A turn's hold on a worker. Dropped unused, it gives the worker back; dropped after use, a single worker ends.
pub struct Lease {
    worker: Option<Arc<Worker>>,
    used: bool,
    pool: Arc<Pool>,
}

/// What a turn gets when it asks for a worker.
pub enum LeaseRequest {
    /// A worker that was ready.
    Now(Lease),
    /// The next one.
    Later(oneshot::Receiver<Lease>),
}

impl Lease {
    /// The worker.
    pub fn worker(&self) -> Option<&Arc<Worker>> {
        self.worker.as_ref()
    }

    /// The worker knows of the turn from now on.
    pub fn mark_used(&mut self) {
        self.used = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.give_back(worker, self.used);
        }
    }
}

impl Pool {
    /// A pool that keeps `kept` workers. Where they are `shared`, up to [`MOST_ALONE`] more are started for turns that run
    /// alone; no more than are kept where each imports the agent for itself, and does not fork.
    pub fn keeping(kept: usize, shared: bool, forks: bool) -> Arc<Self> {
        let kept = kept.max(1);
        let most_alone = if forks { MOST_ALONE } else { MOST_ALONE.min(kept) };
        Arc::new(Self { state: Mutex::default(), kept, most_alone, shared, changed: Notify::new() })
    }

    /// How many workers turns that run alone wait for.
    fn wanted_alone(&self, state: &State) -> usize {
        state.waiting_alone.len().min(self.most_alone.saturating_sub(state.alone.len()))
    }

    /// A worker, or a place in the queue for one; dropping the claim gives both up. Where workers are shared, a turn may run
    /// `alone`.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn request(self: &Arc<Self>, alone: bool) -> Result<LeaseRequest, LeaseError> {
        let alone = alone && self.shared;
        let mut state = self.state();
        if let Some(refused) = state.refused {
            return Err(refused);
        }
        let picked = match alone {
            true if state.alone.len() < self.most_alone => None,
            true => least_loaded(&state.alone),
            false => self.pick(&mut state),
        };
        if let Some(worker) = picked {
            // Before another turn that leaves it ends it.
            return Ok(LeaseRequest::Now(self.lease(worker)));
        }
        let (sender, receiver) = oneshot::channel();
        if alone { &mut state.waiting_alone } else { &mut state.waiting }.push_back(sender);
        Ok(LeaseRequest::Later(receiver))
    }

    /// Waits for a claimed worker.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub async fn wait(&self, claim: LeaseRequest) -> Result<Lease, LeaseError> {
        match claim {
            LeaseRequest::Now(lease) => Ok(lease),
            LeaseRequest::Later(receiver) => match receiver.await {
                Ok(lease) => Ok(lease),
                Err(_) => Err(self.state().refused.unwrap_or(LeaseError::NoWorker)),
            },
        }
    }

    fn pick(&self, state: &mut State) -> Option<Arc<Worker>> {
        if !self.shared {
            return state.ready.pop_front();
        }
        least_loaded(&state.ready)
    }

    fn lease(self: &Arc<Self>, worker: Arc<Worker>) -> Lease {
        worker.load.fetch_add(1, Ordering::Relaxed);
        Lease { worker: Some(worker), used: false, pool: Arc::clone(self) }
    }

    /// How many workers it keeps.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// How many workers to start now. They count as starting.
    pub fn claim_starts(&self) -> usize {
        let mut state = self.state();
        if state.refused.is_some() {
            return 0;
        }
        state.waiting.retain(|waiting| !waiting.is_closed());
        state.waiting_alone.retain(|waiting| !waiting.is_closed());
        let more = if self.shared { self.wanted_alone(&state) } else { state.waiting.len() };
        let wanted = self.kept + more;
        let missing = wanted.saturating_sub(state.ready.len() + state.starting);
        state.starting += missing;
        missing
    }

    /// How long to wait before the next worker is started, because the last ones failed.
    pub fn pause(&self) -> Duration {
        match self.state().failures {
            0 => Duration::ZERO,
            failures => FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE),
        }
    }

    /// Whether turns get no worker, as far as was tried. While one is only replaced, they do.
    pub fn is_hopeless(&self) -> bool {
        let state = self.state();
        let failing = state.failed_starts >= HOPELESS && state.ready.is_empty();
        failing || state.refused == Some(LeaseError::NoWorker)
    }

    /// A worker has begun.
    pub fn begun(&self, worker: &Arc<Worker>) {
        let mut state = self.state();
        state.alive.push(Arc::clone(worker));
        if state.refused.is_some() {
            worker.kill();
        }
    }

    /// A worker has said hello: it takes turns.
    pub fn ready(self: &Arc<Self>, worker: &Arc<Worker>) {
        if self.shared {
            for (waiting, lease) in self.share(worker) {
                // Should the turn have gone meanwhile, the lease goes back.
                let _ = waiting.send(lease);
            }
        } else {
            self.offer(Arc::clone(worker), 1);
        }
    }

    /// Finds the turns that a shared worker is for. At once: in between it would be neither starting nor ready, and another one
    /// be started in its place.
    fn share(self: &Arc<Self>, worker: &Arc<Worker>) -> Vec<(oneshot::Sender<Lease>, Lease)> {
        let mut state = self.state();
        state.starting -= 1;
        state.failed_starts = 0;
        let missed = state.ready.is_empty() && !state.waiting.is_empty();
        if self.wanted_alone(&state) > 0 && !missed {
            // Those that are kept say nothing of it as long as they live.
            state.failures = 0;
            state.alone.push(Arc::clone(worker));
            // Once there are no more of them, who still waits is shared out.
            let most = if state.alone.len() < self.most_alone { 1 } else { usize::MAX };
            let mut leases = Vec::new();
            while leases.len() < most
                && let Some(waiting) = state.waiting_alone.pop_front()
                && let Some(worker) = least_loaded(&state.alone)
            {
                leases.push((waiting, self.lease(worker)));
            }
            return leases;
        }
        if state.ready.len() >= self.kept {
            // The turn that it was started for has gone meanwhile.
            drop(state);
            Arc::clone(worker).dismiss();
            return Vec::new();
        }
        state.ready.push_back(Arc::clone(worker));
        let waiting = std::mem::take(&mut state.waiting);
        waiting.into_iter().map(|waiting| (waiting, self.lease(Arc::clone(worker)))).collect()
    }

    /// A worker was not started.
    pub fn not_started(self: &Arc<Self>) {
        for (waiting, lease) in self.fail_start() {
            // Should the turn have gone meanwhile, the lease goes back.
            let _ = waiting.send(lease);
        }
    }

    fn fail_start(self: &Arc<Self>) -> Vec<(oneshot::Sender<Lease>, Lease)> {
        let mut state = self.state();
        state.starting -= 1;
        state.failures += 1;
        state.failed_starts += 1;
        self.changed.notify_waiters();
        if state.failures < HOPELESS {
            return Vec::new();
        }
        // Their turns fail; others may come and try again.
        state.waiting.clear();
        // Those that were to run alone run beside others rather than not at all.
        let waiting = std::mem::take(&mut state.waiting_alone);
        let beside = |state: &State| least_loaded(&state.alone).or_else(|| least_loaded(&state.ready));
        waiting.into_iter().filter_map(|waiting| Some((waiting, self.lease(beside(&state)?)))).collect()
    }

    /// A worker takes no turns any more.
    pub fn gone(&self, worker: &Arc<Worker>) {
        let mut state = self.state();
        let before = state.ready.len();
        state.ready.retain(|other| !Arc::ptr_eq(other, worker));
        state.alone.retain(|other| !Arc::ptr_eq(other, worker));
        let was_ready = state.ready.len() < before;
        // A single worker that dies under its turn says nothing about the next one.
        if was_ready && worker.age() < YOUNG {
            state.failures += 1;
        } else if worker.age() >= YOUNG || !self.shared {
            state.failures = 0;
        }
    }

    /// The process of a worker that had begun has ended.
    pub fn ended(&self, worker: &Arc<Worker>) {
        let mut state = self.state();
        state.alive.retain(|other| !Arc::ptr_eq(other, worker));
        self.changed.notify_waiters();
    }

    /// No turn gets a worker from now on. The workers that could have taken one.
    pub fn close(&self, why: LeaseError) -> Vec<Arc<Worker>> {
        let mut state = self.state();
        state.refused = Some(why);
        state.waiting.clear();
        state.waiting_alone.clear();
        self.changed.notify_waiters();
        state.ready.drain(..).collect()
    }

    /// Every worker that has not ended.
    pub fn alive(&self) -> Vec<Arc<Worker>> {
        self.state().alive.clone()
    }

    /// Waits until every worker has ended, those included that are still being started.
    pub async fn wait_empty(&self) {
        self.wait_until(|state| state.alive.is_empty() && state.starting == 0).await;
    }

    /// Waits until the pool is closed.
    pub async fn closed(&self) {
        self.wait_until(|state| state.refused.is_some()).await;
    }

    async fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// Takes a shared worker out of service: it ends when its other turns have.
    pub fn retire(&self, worker: &Arc<Worker>) {
        worker.retire();
        self.discard(worker);
    }

    /// Gives no more turns to a worker.
    pub fn discard(&self, worker: &Arc<Worker>) {
        let mut state = self.state();
        state.ready.retain(|other| !Arc::ptr_eq(other, worker));
        if let Some(place) = state.place_alone(worker) {
            state.alone.swap_remove(place);
            // Nobody else ends it.
            worker.retire();
        }
    }

    fn give_back(self: &Arc<Self>, worker: Arc<Worker>, used: bool) {
        let left = worker.load.fetch_sub(1, Ordering::Relaxed) - 1;
        if self.shared {
            if left == 0 && worker.is_retired() {
                worker.kill();
            } else if left == 0 && self.is_left(&worker) {
                worker.dismiss();
            }
        } else if used {
            worker.finish();
        } else {
            self.offer(worker, 0);
        }
    }

    /// Whether the turns have left a worker that was for such as run alone. It gets no more then.
    fn is_left(&self, worker: &Arc<Worker>) -> bool {
        let mut state = self.state();
        let Some(place) = state.place_alone(worker) else { return false };
        let left = worker.load.load(Ordering::Relaxed) == 0;
        if left {
            state.alone.swap_remove(place);
        }
        left
    }

    /// Gives a single worker to the first turn that waits, else keeps it. `started` is how many are not starting any more.
    fn offer(self: &Arc<Self>, worker: Arc<Worker>, started: usize) {
        let mut lease = self.lease(worker);
        let mut started = Some(started);
        loop {
            let waiting = {
                let mut state = self.state();
                if let Some(started @ 1..) = started.take() {
                    state.starting -= started;
                    state.failed_starts = 0;
                }
                if state.refused.is_some() {
                    lease.used = true;
                    None
                } else if let Some(waiting) = state.waiting.pop_front() {
                    Some(waiting)
                } else {
                    if let Some(worker) = lease.worker.take() {
                        worker.load.fetch_sub(1, Ordering::Relaxed);
                        state.ready.push_back(worker);
                    }
                    None
                }
            };
            let Some(waiting) = waiting else { return };
            match waiting.send(lease) {
                Ok(()) => return,
                Err(refused) => lease = refused,
            }
        }
    }

    #[cfg(not(test))]
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = [state.starting, state.ready.len(), state.waiting.len()];
        state.seen.push(now);
        state
    }
}

#[cfg(test)]
mod tests;

//! The end of all workers, when their server ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout, timeout_at};

use super::frames::ToWorker;
use super::pool::LeaseError;
use super::{KILL_GRACE, OpenTurn, Supervisor};
use crate::domain::TurnId;

/// How long all that is waited for at the end may take together, whatever hangs.
const END: Duration = Duration::from_secs(4);

impl Supervisor {
    /// Kills every worker that has a turn at work, and returns when they are gone: the store is given up next, and another server
    /// goes on with those turns. Those that the engine has parked or cancelled have time to close what they have open
    /// ([`Self::shutdown`]). A worker that is a thread goes on: what it says is refused.
    pub async fn end_work(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // What waits for a worker here waits for the next server.
        self.gives_turns.send_replace(false);
        let leaving: HashSet<TurnId> =
            self.turns().iter().filter(|(_, open)| open.leaving).map(|(turn, _)| *turn).collect();
        let mut working = self.pool.alive();
        working.retain(|worker| worker.works_beside(&leaving));
        working.iter().for_each(|worker| worker.kill());
        if timeout(KILL_GRACE, join_all(working.iter().map(|worker| worker.ended()))).await.is_err() {
            tracing::error!("workers with turns at work could not be ended before others take those up");
        }
    }

    /// Ends every worker, and returns when no process is left.
    ///
    /// Turns at work may end by themselves within `patience`; turns that wait for people are not waited for. What is
    /// left is [`Lost::Stopping`](crate::engine::ports::dispatch::Lost::Stopping), unless the engine has parked or
    /// settled it before.
    pub async fn shutdown(&self, patience: Duration) {
        self.stopping.store(true, Ordering::Relaxed);
        for idle in self.pool.close(LeaseError::Stopping) {
            idle.send(&ToWorker::Shutdown {});
            if !idle.shared {
                idle.finish();
            }
        }
        if timeout(patience, self.until(|turn| turn.waiting)).await.is_err() {
            tracing::warn!(turns = self.turns().len(), "turns were still at work at the end of the shutdown time");
        }
        // One end for all that follows: what hangs takes the time of what comes after it.
        let end = Instant::now() + END;
        let grace = || end.min(Instant::now() + KILL_GRACE);
        // What the engine has just parked or cancelled, so that a worker which runs nothing else can close what it has open.
        if timeout_at(grace(), self.until(|turn| !turn.leaving)).await.is_err() {
            tracing::warn!("turns did not leave their workers");
        }
        let (closing, others): (Vec<_>, Vec<_>) = self.pool.alive().into_iter().partition(|worker| worker.may_close());
        for worker in others {
            worker.kill();
        }
        for worker in &closing {
            Arc::clone(worker).finish();
        }
        // Where the store still takes them, their ends are stored.
        if timeout_at(grace(), self.until(|_| false)).await.is_err() {
            tracing::error!("turns could not be ended");
        }
        // Before the zygote ends, and its children with it. Those that take longer are killed.
        let _ = timeout_at(grace(), join_all(closing.iter().map(|worker| worker.ended()))).await;
        if let Some(spawner) = &self.spawner {
            spawner.stop().await;
        }
        if timeout(KILL_GRACE, self.pool.wait_empty()).await.is_err() {
            tracing::error!("workers could not be ended");
        }
    }

    /// Waits until no turn is left but such as `passes`.
    async fn until(&self, passes: impl Fn(&OpenTurn) -> bool) {
        loop {
            let mut eased = std::pin::pin!(self.eased.notified());
            eased.as_mut().enable();
            if self.turns().values().all(&passes) {
                return;
            }
            eased.await;
        }
    }
}

//! `--timeout`: the turns whose time is over. Timers note them here, and whoever settles turns takes them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::domain::TurnId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Overtime {
    /// Each with the run whose time it was.
    turns: Mutex<VecDeque<(TurnId, u64)>>,
    added: Notify,
}

impl Overtime {
    /// Notes that run of the turn once `left` is over, unless the timer is aborted before.
    pub(super) fn start(self: &Arc<Self>, turn: TurnId, run: u64, left: Duration) -> AbortHandle {
        let overtime = Arc::clone(self);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(left).await;
            overtime.lock().push_back((turn, run));
            overtime.added.notify_one();
        });
        timer.abort_handle()
    }

    /// The next one.
    pub(super) async fn next(&self) -> (TurnId, u64) {
        loop {
            let next = self.lock().pop_front();
            if let Some(next) = next {
                return next;
            }
            self.added.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(TurnId, u64)>> {
        // A panic elsewhere cannot leave the list half changed.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

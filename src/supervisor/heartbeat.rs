//! Workers that say nothing: a turn is at work, and not even a `ping` is answered.
//!
//! Time is counted in ticks that are seen, not by the clock: while this process itself is stopped, or too busy to
//! listen, no worker can be blamed for silence.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::frames::ToWorker;
use super::worker::Worker;

/// Ticks in a worker's timeout.
const TICKS: u32 = 12;

/// Silent ticks between two pings.
const PING: u32 = TICKS / 3;

/// Resolves when a worker has been silent for `timeout` although it should not; never where that is zero, or the worker
/// is a thread: that cannot be replaced, and is only complained of.
pub async fn watch(worker: &Worker, timeout: Duration) {
    if timeout.is_zero() {
        return std::future::pending().await;
    }
    let mut ticks = interval((timeout / TICKS).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut heard, mut silent) = (worker.heard(), 0);
    loop {
        ticks.tick().await;
        if worker.heard() != heard || worker.may_be_silent() {
            (heard, silent) = (worker.heard(), 0);
            continue;
        }
        silent += 1;
        if silent <= TICKS {
            if silent.is_multiple_of(PING) {
                worker.send(&ToWorker::Ping {});
            }
            continue;
        }
        let seconds = timeout.as_secs_f64();
        if !worker.can_be_killed() {
            tracing::error!(seconds, "the agent blocks the event loop of its worker: no turn makes progress");
            silent = 0;
            continue;
        }
        tracing::error!(worker = worker.number, seconds, "a worker is silent; its turns are taken over");
        return;
    }
}

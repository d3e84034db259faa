//! When interrupts expire: one sorted set and one task that sleeps until the first of them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock;
use crate::domain::{InterruptId, Timestamp};

/// The deadlines ahead.
#[derive(Debug, Default)]
pub struct Deadlines {
    ahead: Mutex<BTreeSet<(Timestamp, InterruptId)>>,
    changed: Notify,
}

impl Deadlines {
    /// Adds one.
    pub fn insert(&self, at: Timestamp, interrupt: InterruptId) {
        let is_first = {
            let mut ahead = self.lock();
            ahead.insert((at, interrupt));
            ahead.first() == Some(&(at, interrupt))
        };
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Forgets one: the interrupt is settled.
    pub fn remove(&self, at: Timestamp, interrupt: InterruptId) {
        self.lock().remove(&(at, interrupt));
    }

    /// Waits for the next deadline and takes it out.
    pub async fn next(&self) -> InterruptId {
        loop {
            let wait = {
                let mut ahead = self.lock();
                match ahead.first().copied() {
                    Some((at, interrupt)) if at <= clock::now() => {
                        ahead.remove(&(at, interrupt));
                        return interrupt;
                    }
                    Some((at, _)) => Some(at.since(clock::now())),
                    None => None,
                }
            };
            // The wall clock may jump: never sleep longer than this without looking again.
            const LONGEST: Duration = Duration::from_secs(60);
            match wait {
                Some(wait) => {
                    tokio::select! {
                        () = tokio::time::sleep(wait.min(LONGEST)) => {}
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, InterruptId)>> {
        // A panic elsewhere cannot leave a set half changed.
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! When a task looks again: at the time of what is next, and a little later where the store has failed it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::Timestamp;

/// How long until something is tried again that the store did not take.
pub(in crate::engine) const STORE_PAUSE: Duration = Duration::from_secs(1);
/// The wall clock may jump: never sleep longer than this without looking again.
const LONGEST: Duration = Duration::from_secs(60);

/// Until when the task sleeps.
#[derive(Debug, Default)]
pub struct Alarm {
    /// `None` while it is awake.
    asleep_until: Mutex<Option<Timestamp>>,
    earlier: Notify,
}

impl Alarm {
    /// Something new is due at that time, and on disk.
    pub fn set(&self, at: Timestamp) {
        if self.lock().is_none_or(|until| at < until) {
            self.earlier.notify_one();
        }
    }

    /// The task looks for what is due.
    pub fn awake(&self) {
        *self.lock() = None;
    }

    /// Sleeps from `now` until then, or until something earlier is set.
    pub async fn sleep(&self, next: Option<Timestamp>, now: Timestamp) {
        *self.lock() = Some(next.unwrap_or(Timestamp::from_millis(i64::MAX)));
        let wait = next.map_or(LONGEST, |next| next.since(now).min(LONGEST));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.earlier.notified() => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Timestamp>> {
        // A panic elsewhere cannot leave a time half changed.
        self.asleep_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

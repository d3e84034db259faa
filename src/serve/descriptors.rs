//! How many files this process may have open, and how many of them are for connections.
//!
//! What connections have, workers, the store and webhooks cannot have. So the rest is set aside first, and a server that
//! has too little to begin with does not start.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Config, IsolationName, ServerStartError};
use crate::server::door;
use crate::supervisor::settings::MOST_ALONE;

/// What is open besides connections and workers, at most: the runtime and the listener, the zygote, the store (a writer,
/// readers and a checkpoint, with a log each), files that are read again, tries of webhooks (64 at once, each with the
/// look-up of its name), and who is turned away at the door.
const RESERVE: u64 = 96 + 2 * 64 + door::PLACES as u64;
/// A worker's channel and its two outputs; and one more, since those of a worker that begins are open at both ends.
const OF_A_WORKER: u64 = 4;
/// Connections where nothing is set, if there are descriptors for them.
const USUAL_CONNECTIONS: u64 = 4096;
/// Fewer are no server.
const LEAST_CONNECTIONS: u64 = 16;
/// As far as the limit is raised, whatever is allowed: what Linux allows a process, where nobody set anything.
const HIGHEST: u64 = 1 << 20;
/// As far as macOS raises it where no highest limit is set.
const HIGHEST_ELSEWHERE: u64 = 10_240;

/// The limit of open files that this process was started with, before it was raised.
static STARTED_WITH: OnceLock<u64> = OnceLock::new();

/// The limit of open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// What this process was started with; workers get it back.
    pub started_with: u64,
    /// What it is now.
    pub limit: u64,
}

impl Descriptors {
    /// Raises the limit as far as this process may.
    pub fn raise() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let current = current.unwrap_or(HIGHEST);
        let started_with = *STARTED_WITH.get_or_init(|| current);
        let highest = maximum.unwrap_or(HIGHEST).min(HIGHEST);
        let limit = [highest, highest.min(HIGHEST_ELSEWHERE)].into_iter().find(|higher| {
            *higher > current && setrlimit(Resource::Nofile, Rlimit { current: Some(*higher), maximum }).is_ok()
        });
        Self { started_with, limit: limit.unwrap_or(current) }
    }

    /// How many connections there may be beside so many workers, where `wanted` is how many are asked for, or 0.
    ///
    /// # Errors
    /// [`ServerStartError::Descriptors`] where there are too few descriptors for them.
    pub fn connections(self, wanted: usize, workers: usize) -> Result<usize, ServerStartError> {
        let aside = (workers as u64).saturating_mul(OF_A_WORKER).saturating_add(RESERVE);
        let room = self.limit.saturating_sub(aside);
        let (wanted, least) = match wanted as u64 {
            0 => (USUAL_CONNECTIONS, LEAST_CONNECTIONS),
            wanted => (wanted, wanted),
        };
        if room < least {
            return Err(ServerStartError::Descriptors { limit: self.limit, needed: aside.saturating_add(least) });
        }
        Ok(usize::try_from(room.min(wanted)).unwrap_or(usize::MAX))
    }
}

/// So many of the processes that tasks share: those that turns could not be taken from stay beside new ones.
const MOST_SHARED: usize = 64;

/// How many workers there are at most; none but its own thread where turns run `in_process`.
pub fn workers(config: &Config, in_process: bool) -> usize {
    // As many wait for a turn as are at work.
    let kept = config.workers.saturating_mul(2);
    match config.isolation {
        _ if in_process => 0,
        IsolationName::Process => kept.saturating_add(config.max_warm),
        IsolationName::Task => kept.saturating_add(MOST_ALONE).min(MOST_SHARED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(limit: u64, wanted: usize, workers: usize) -> Option<usize> {
        Descriptors { started_with: limit, limit }.connections(wanted, workers).ok()
    }

    #[test]
    fn connections_get_what_the_rest_leaves() {
        assert_eq!(connections(1 << 20, 0, 70), Some(4096));
        assert_eq!(connections(1024, 0, 70), Some(1024 - RESERVE as usize - 280));
        assert_eq!(connections(RESERVE + LEAST_CONNECTIONS, 0, 0), Some(16));
        assert_eq!(connections(RESERVE + LEAST_CONNECTIONS - 1, 0, 0), None, "too few are no server");
    }

    #[test]
    fn what_is_asked_for_is_had_or_refused() {
        assert_eq!(connections(1 << 20, 10_000, 70), Some(10_000));
        assert_eq!(connections(1 << 20, 3, 70), Some(3));
        assert_eq!(connections(1024, 1000, 70), None);
        assert_eq!(connections(1024, usize::MAX, usize::MAX), None);
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be_and_what_there_was_is_known() {
        let before = getrlimit(Resource::Nofile);
        let raised = Descriptors::raise();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.current.unwrap_or(HIGHEST), raised.limit);
        assert_eq!(after.maximum, before.maximum);
        assert!(raised.limit >= before.current.unwrap_or(HIGHEST).min(HIGHEST));
        assert_eq!(Descriptors::raise(), raised, "there is no more to be had, and it remembers");
    }
}

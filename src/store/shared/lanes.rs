//! Lines: the jobs about one session run one after the other, in the order in which they were called; those about others
//! run beside them. What is known of a session is kept from one job to the next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::image::Image;
use super::question::StoreQuestion;
use crate::domain::{Error, SessionId};
use crate::store::WriteJob;

/// How many sessions are kept in mind while nobody works on them.
const KEPT: usize = 1024;

/// A job in line, and whom to tell.
pub struct QueuedJob {
    /// What to do.
    pub job: WriteJob,
    /// When it came, in the order of everything that this server reads and commits.
    pub at: u64,
    /// Whom to tell what came of it.
    pub reply: oneshot::Sender<Result<(), Error>>,
}

/// Which jobs wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneKey {
    /// Those about a session.
    Session(SessionId),
    /// Those about keys and sign-ins.
    Access,
}

impl LaneKey {
    /// What every job of the line asks.
    pub fn first_question(self) -> Option<StoreQuestion> {
        match self {
            Self::Session(session) => Some(StoreQuestion::Session(session)),
            Self::Access => None,
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Lanes {
    lanes: Mutex<LaneMap>,
}

#[derive(Default)]
struct LaneMap {
    lanes: HashMap<LaneKey, Lane>,
    /// Those at which nobody works, longest idle first; some are named again further on, or are at work by now.
    idle: VecDeque<(LaneKey, u64)>,
    /// Counts how often a lane became idle.
    rests: u64,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<QueuedJob>,
    /// Somebody works on it, and has the image.
    is_at_work: bool,
    image: Option<Image>,
    /// Which rest this is.
    rest: u64,
}

impl Lanes {
    /// Puts a job into its line. Whether nobody is at work there: then whoever called is to be.
    #[must_use]
    pub fn push(&self, line: LaneKey, job: QueuedJob) -> bool {
        let mut inner = self.lock();
        let lane = inner.lanes.entry(line).or_default();
        lane.queue.push_back(job);
        !std::mem::replace(&mut lane.is_at_work, true)
    }

    /// What was kept of the line when somebody worked on it last.
    pub fn take_image(&self, line: LaneKey) -> Option<Image> {
        self.lock().lanes.get_mut(&line)?.image.take()
    }

    /// The next job in line; where there is none, whoever works on it rests, and `image` is kept.
    pub fn next(&self, line: LaneKey, image: &mut Option<Image>) -> Option<QueuedJob> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let lane = inner.lanes.get_mut(&line)?;
        if let Some(job) = lane.queue.pop_front() {
            return Some(job);
        }
        lane.is_at_work = false;
        lane.image = image.take();
        if lane.image.is_none() {
            drop(inner.lanes.remove(&line));
            return None;
        }
        inner.rests += 1;
        lane.rest = inner.rests;
        inner.idle.push_back((line, inner.rests));
        inner.forget_the_longest_idle();
        None
    }

    fn lock(&self) -> MutexGuard<'_, LaneMap> {
        // A panic elsewhere cannot leave a map half changed.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneMap {
    fn forget_the_longest_idle(&mut self) {
        while self.idle.len() > KEPT {
            let Some((line, rest)) = self.idle.pop_front() else { return };
            let is_that_rest = self.lanes.get(&line).is_some_and(|lane| !lane.is_at_work && lane.rest == rest);
            if is_that_rest {
                drop(self.lanes.remove(&line));
            }
        }
    }
}

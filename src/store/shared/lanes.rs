//! Lines: the jobs about one session run one after the other, in the order in which they were called; those about others
//! run beside them. What is known of a session is kept from one job to the next.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::image::Image;
use super::question::StoreQuestion;
use crate::domain::{Error, SessionId};
use crate::store::WriteJob;

/// How many sessions are kept in mind while nobody works on them.
const KEPT: usize = 1024;

/// About how many bytes of them are kept at most: those that nobody worked on for longest are forgotten first.
const MOST_BYTES: usize = 64 * 1024 * 1024;

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
    /// Those at which nobody works, by their rest: longest idle first.
    idle: BTreeMap<u64, LaneKey>,
    /// About how many bytes their images hold.
    idle_bytes: usize,
    /// Counts how often a lane became idle.
    rests: u64,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<QueuedJob>,
    /// Somebody works on it, and has the image.
    is_at_work: bool,
    image: Option<Image>,
    /// About how many bytes its image holds, while nobody works on it.
    size: usize,
    /// Which rest this is.
    rest: u64,
}

/// Whoever has this works on a line, and nobody else does. Where it ends in a panic, the line begins anew: those who stood
/// in it are told that nothing came of it, and those who come later find nobody at work.
pub struct LaneShift {
    lanes: Arc<Lanes>,
    line: LaneKey,
    is_over: bool,
}

impl Lanes {
    /// Puts a job into its line. Where nobody is at work there, whoever called is to be.
    #[must_use]
    pub fn push(self: &Arc<Self>, line: LaneKey, job: QueuedJob) -> Option<LaneShift> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let lane = inner.lanes.entry(line).or_default();
        lane.queue.push_back(job);
        if std::mem::replace(&mut lane.is_at_work, true) {
            return None;
        }
        if inner.idle.remove(&lane.rest).is_some() {
            inner.idle_bytes -= std::mem::take(&mut lane.size);
        }
        Some(LaneShift { lanes: Arc::clone(self), line, is_over: false })
    }

    fn lock(&self) -> MutexGuard<'_, LaneMap> {
        // A panic elsewhere cannot leave a map half changed.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneShift {
    /// The line.
    pub fn line(&self) -> LaneKey {
        self.line
    }

    /// What was kept of the line when somebody worked on it last.
    pub fn take_image(&self) -> Option<Image> {
        self.lanes.lock().lanes.get_mut(&self.line)?.image.take()
    }

    /// The next job in line; where there is none, this is over, and `image` is kept.
    pub fn next(&mut self, image: &mut Option<Image>) -> Option<QueuedJob> {
        let mut inner = self.lanes.lock();
        let inner = &mut *inner;
        let lane = inner.lanes.get_mut(&self.line)?;
        if let Some(job) = lane.queue.pop_front() {
            return Some(job);
        }
        self.is_over = true;
        lane.is_at_work = false;
        lane.image = image.take();
        let Some(size) = lane.image.as_ref().map(Image::size) else {
            drop(inner.lanes.remove(&self.line));
            return None;
        };
        lane.size = size;
        inner.idle_bytes += size;
        inner.rests += 1;
        lane.rest = inner.rests;
        inner.idle.insert(inner.rests, self.line);
        inner.forget_the_longest_idle();
        None
    }
}

impl Drop for LaneShift {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = self.lanes.lock().lanes.remove(&self.line);
        for job in left.into_iter().flat_map(|lane| lane.queue) {
            // Whoever wanted it may be gone.
            drop(job.reply.send(Err(Error::Internal("a job before it in line has panicked".to_owned()))));
        }
    }
}

impl LaneMap {
    fn forget_the_longest_idle(&mut self) {
        while self.idle.len() > KEPT || self.idle_bytes > MOST_BYTES {
            let Some((_, line)) = self.idle.pop_first() else { return };
            let size = self.lanes.remove(&line).map_or(0, |lane| lane.size);
            self.idle_bytes = self.idle_bytes.saturating_sub(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::Timestamp;
    use crate::domain::message::ChatMessage;
    use crate::domain::session::Session;
    use crate::store::memory::state::SessionRow;

    fn job() -> (QueuedJob, oneshot::Receiver<Result<(), Error>>) {
        let (reply, outcome) = oneshot::channel();
        (QueuedJob { job: Box::new(|_| Ok(())), at: 0, reply }, outcome)
    }

    #[test]
    fn a_line_whose_worker_has_panicked_begins_anew() {
        let lanes = Arc::new(Lanes::default());
        let (first, _told) = job();
        let mut shift = lanes.push(LaneKey::Access, first).expect("nobody is at work");
        let (second, mut told) = job();
        assert!(lanes.push(LaneKey::Access, second).is_none(), "somebody is at work");
        let taken = shift.next(&mut None);
        assert!(taken.is_some());
        drop(shift);
        assert!(matches!(told.try_recv(), Ok(Err(Error::Internal(_)))));
        let (third, _told) = job();
        assert!(lanes.push(LaneKey::Access, third).is_some());
    }

    #[test]
    fn a_line_that_rests_often_takes_nobody_elses_place() {
        let lanes = Arc::new(Lanes::default());
        let session = |number: u128| LaneKey::Session(SessionId(uuid::Uuid::from_u128(number)));
        let rest = |line: LaneKey| {
            let mut shift = lanes.push(line, job().0).expect("nobody is at work");
            let kept = shift.take_image();
            let clock: Arc<dyn crate::store::clock::Clock> = Arc::new(crate::store::clock::WallClock);
            let mut image = Some(Image::new(clock, 0));
            while shift.next(&mut image).is_some() {}
            kept.is_some()
        };
        assert!(!rest(session(1)), "nothing is known yet");
        for _ in 0..2 * KEPT {
            rest(session(2));
        }
        assert!(rest(session(1)), "it is kept");
        for number in 3..KEPT as u128 + 3 {
            rest(session(number));
        }
        assert!(!rest(session(1)), "so many others are kept by now");
    }

    #[test]
    fn what_is_kept_of_idle_lines_is_bounded_in_bytes() {
        let lanes = Arc::new(Lanes::default());
        let session = |number: u128| SessionId(uuid::Uuid::from_u128(number));
        for number in 1..=100 {
            let mut shift = lanes.push(LaneKey::Session(session(number)), job().0).expect("nobody is at work");
            let mut image = Image::new(Arc::new(crate::store::clock::WallClock), 0);
            let said = ChatMessage { content: Some("x".repeat(MOST_BYTES / 50)), ..ChatMessage::default() };
            let row = Session::new(session(number), "agents:main", 0, Timestamp::from_millis(0));
            image.state.sessions.push(session(number), SessionRow { session: row, messages: vec![said] });
            let mut image = Some(image);
            while shift.next(&mut image).is_some() {}
        }
        let kept = lanes.lock();
        assert!(kept.idle_bytes <= MOST_BYTES);
        assert_eq!((kept.lanes.len(), kept.idle.len()), (49, 49), "the last of them");
    }
}

//! The line of jobs that are to be written, and the writer, which one thread has at a time.
//!
//! As a rule that is the writing thread. But to wake it, and to be woken by it, takes as long as a commit. So a job that
//! comes while nobody waits and nobody writes is left to whoever asked for it, who commits it on a thread of their own as
//! soon as they wait for it: when its future is first polled. Jobs leave the line in its order, and only for whoever has
//! the writer, so that nobody overtakes, whoever writes. At most one is left in this way; with a second one in line, both
//! are the thread's.
//!
//! Where many write, the thread does it ([`Crowd`]): it lets more jobs share a sync, and nobody's thread waits for the disk.
//! Meanwhile it looks, now and then, that no other thread waits for that too long ([`Loan`]).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::checkpoint::Checkpoints;
use super::file::StoreFile;
use super::queue::{JobResult, Queued, WriterJob};
use super::writer::{Limits, Writer, WrittenBy};
use crate::store::kept::KeptForms;

/// Starts the writing thread: the line for it. It ends when that is closed and empty: then it waits for the other threads,
/// closes the file, gives up the right to it and reports through `closing`.
pub(super) fn start(
    file: StoreFile,
    limits: Limits,
    forms: Arc<KeptForms>,
    readers: Vec<JoinHandle<()>>,
    checkpoints: Checkpoints,
    closing: watch::Sender<Option<JobResult>>,
) -> std::io::Result<Arc<WriteLine>> {
    let (connection, lock) = file.into_parts();
    let writer = Writer::new(connection, &lock, forms, checkpoints).map_err(std::io::Error::other)?;
    let line = WriteLine::new(writer, limits);
    let served = Arc::clone(&line);
    Builder::new().name("hitl-store-write".to_owned()).spawn(move || {
        let outcome = served.serve().map(|writer| writer.close(readers));
        drop(lock);
        // Without the writer nothing is known of how the file was left: whoever closes hears that.
        if outcome.is_some() {
            closing.send_replace(outcome);
        }
    })?;
    Ok(line)
}

/// How often the thread looks after whoever has the writer, as long as somebody has now and then.
const LOOK: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct WriteLine {
    state: Mutex<LineState>,
    /// There is something to do for the thread.
    work: Condvar,
    limits: Limits,
}

struct LineState {
    jobs: VecDeque<Queued<WriterJob>>,
    /// `None` while somebody writes, and once nobody can any more.
    writer: Option<Writer>,
    /// Who has the writer, if it is not the thread.
    loan: Option<Loan>,
    /// The thread looks after loans: there was one since it has looked last.
    is_watched: bool,
    /// How many jobs have come.
    count: u64,
    /// The one job in line is left to whoever asked for it: its number.
    left: Option<u64>,
    crowd: Crowd,
    /// No more jobs come.
    is_closed: bool,
    /// Whoever wrote has panicked, and the writer is gone.
    is_lost: bool,
    /// The thread waits to be woken.
    is_asleep: bool,
}

impl WriteLine {
    /// A line in which nobody is.
    fn new(writer: Writer, limits: Limits) -> Arc<Self> {
        let state = LineState {
            jobs: VecDeque::new(),
            writer: Some(writer),
            loan: None,
            is_watched: false,
            count: 0,
            left: None,
            crowd: Crowd::default(),
            is_closed: false,
            is_lost: false,
            is_asleep: false,
        };
        Arc::new(Self { state: Mutex::new(state), work: Condvar::new(), limits })
    }

    /// Puts a job into the line. What is returned, if anything, is to be committed by whoever waits for it.
    pub(super) fn put(self: &Arc<Self>, queued: Queued<WriterJob>) -> Option<LeftJob> {
        let mut state = self.state();
        if state.is_lost {
            drop(state);
            // With it goes `reply`, which tells.
            drop(queued);
            return None;
        }
        // Upkeep may take its time.
        let is_short = matches!(queued.job, WriterJob::Write(_));
        let writer = state.writer.as_ref().filter(|_| state.jobs.is_empty());
        let (is_alone, is_at_hand) = (writer.is_some(), writer.is_some_and(Writer::is_at_hand));
        state.crowd.came(is_alone);
        state.jobs.push_back(queued);
        state.count += 1;
        let number = state.count;
        state.left = (is_alone && is_at_hand && is_short && state.crowd.is_gone()).then_some(number);
        if state.left.is_some() {
            return Some(LeftJob { line: Arc::clone(self), number });
        }
        self.wake(state);
        None
    }

    /// The first in line, for whoever has the writer.
    fn next(&self) -> Option<Queued<WriterJob>> {
        self.state().jobs.pop_front()
    }

    /// What the writing thread does: writes whatever is in line and not left to anybody. The writer, once the line is
    /// closed and empty; `None` if it was lost.
    fn serve(&self) -> Option<Writer> {
        while let Some((writer, is_over)) = self.wait() {
            if is_over {
                return Some(writer);
            }
            self.write(writer, WrittenBy::Thread);
        }
        None
    }

    /// No more jobs come; those in line are written.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.left = None;
        self.wake(state);
    }

    /// Waits until there is something to write, or nothing will be any more.
    fn wait(&self) -> Option<(Writer, bool)> {
        let mut state = self.state();
        loop {
            if state.is_lost {
                return None;
            }
            let is_over = state.is_closed && state.jobs.is_empty();
            if (is_over || !state.jobs.is_empty() && state.left.is_none())
                && let Some(writer) = state.writer.take()
            {
                return Some((writer, is_over));
            }
            state.is_asleep = true;
            if state.is_watched {
                let (woken, waited) = self.work.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if waited.timed_out() {
                    state.look_after();
                }
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_asleep = false;
        }
    }

    /// Has the writer write what is in line, and gives it back.
    fn write(&self, mut writer: Writer, by: WrittenBy) {
        let (began, limits) = (Instant::now(), self.limits);
        let limits = match by {
            WrittenBy::Thread => limits,
            WrittenBy::Caller => Limits { time: limits.time.min(limits.quick), ..limits },
        };
        // A job's panic is the job's own. This one would be the store's, and is its end, but not that of whoever asked.
        let written = catch_unwind(AssertUnwindSafe(|| writer.batch(|| self.next(), limits, by)));
        if written.is_err() {
            drop(writer);
            let mut state = self.state();
            (state.is_lost, state.loan) = (true, None);
            let jobs = std::mem::take(&mut state.jobs);
            drop(state);
            // With each goes its `reply`, which tells.
            drop(jobs);
            return self.work.notify_one();
        }
        let mut state = self.state();
        if began.elapsed() > limits.quick {
            state.crowd.was_slow();
        }
        (state.writer, state.loan) = (Some(writer), None);
        self.wake(state);
    }

    /// Wakes the thread if there is something to do for it. While somebody writes there is not: they take in whoever
    /// comes, or call this at the end.
    fn wake(&self, mut state: MutexGuard<'_, LineState>) {
        let has_work = state.is_closed || !state.jobs.is_empty() && state.left.is_none();
        if state.is_asleep && state.writer.is_some() && has_work {
            state.is_asleep = false;
            drop(state);
            self.work.notify_one();
        }
    }

    /// Whether nobody waits, and nobody writes.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.jobs.is_empty() && state.writer.is_some()
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineState {
    /// What the thread does while the writer may be in other hands.
    fn look_after(&mut self) {
        self.is_watched = self.loan.is_some();
        if let Some(loan) = &self.loan
            && loan.since.elapsed() >= LOOK
        {
            drop(loan.runtime.spawn(std::future::ready(())));
        }
    }
}

/// The writer in the hands of a thread of a runtime. One thread of a runtime hears of its sockets and timers for all of
/// them. If that is the one which waits for the disk, the others sleep, until something is given to them to do.
struct Loan {
    since: Instant,
    runtime: Handle,
}

/// The one job in line, left to whoever asked for it. Dropped, it is the thread's.
pub(super) struct LeftJob {
    line: Arc<WriteLine>,
    number: u64,
}

impl LeftJob {
    /// Commits it here and now, unless it is somebody else's by now.
    pub(super) fn commit(self) {
        // If the disk hangs, so does this thread, and another one has to go on.
        if let Ok(runtime) = Handle::try_current()
            && runtime.metrics().num_workers() >= self.line.limits.runtime_threads
            && let Some(writer) = self.borrow(runtime)
        {
            self.line.write(writer, WrittenBy::Caller);
        }
    }

    fn borrow(&self, runtime: Handle) -> Option<Writer> {
        let mut state = self.line.state();
        if state.left != Some(self.number) {
            return None;
        }
        state.left = None;
        state.loan = Some(Loan { since: Instant::now(), runtime });
        let writer = state.writer.take();
        if !state.is_watched {
            state.is_watched = true;
            // It sleeps until there is work, and from now on no longer than until its next look.
            if std::mem::take(&mut state.is_asleep) {
                drop(state);
                self.line.work.notify_one();
            }
        }
        writer
    }
}

impl Drop for LeftJob {
    fn drop(&mut self) {
        let mut state = self.line.state();
        if state.left == Some(self.number) {
            state.left = None;
            self.line.wake(state);
        }
    }
}

/// How many write, or how slowly: as long as there is something of it, no job is left to whoever asked for it.
///
/// A job that meets another one weighs as much as four that meet nobody. So who is met now and then has hardly anything
/// of it, and where more than every fifth job meets another one, it fills up.
#[derive(Debug, Default)]
struct Crowd(u32);

impl Crowd {
    const MEETING: u32 = 4;
    const MOST: u32 = 32;

    /// A job has come.
    fn came(&mut self, is_alone: bool) {
        self.0 = if is_alone { self.0.saturating_sub(1) } else { (self.0 + Self::MEETING).min(Self::MOST) };
    }

    /// A commit has taken longer than a thread of the runtime may be kept waiting.
    fn was_slow(&mut self) {
        self.0 = Self::MOST;
    }

    fn is_gone(&self) -> bool {
        self.0 == 0
    }
}

//! A store that many servers share: jobs over a database that is elsewhere.
//!
//! The session is the unit. A job about one runs in memory, on what was read of it; what it has written is committed in one
//! round trip, if the session is still of the version that was read, and else the job runs again on what is there now. No
//! transaction of the database is open while a job runs: a server that stops in the middle of one holds nobody up. Whoever
//! wrote a session last knows it still, and commits without reading it first.
//!
//! What comes to nothing (a refusal, or nothing written) is compared with nothing by the database: it counts only where the
//! session was read, or written, after the job was called.

pub mod backend;
pub mod changes;
mod committing;
pub mod database_clock;
pub mod doorbell;
mod grouping;
mod image;
mod job;
mod knowledge_reader;
mod lanes;
pub mod membership;
mod notes;
pub mod options;
pub mod question;
pub mod servers;
mod whose;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::backend::{Backend, Committed};
use self::doorbell::Doorbell;
use self::grouping::CommitQueue;
use self::image::Image;
use self::job::JobOutcome;
use self::lanes::{LaneKey, LaneShift, Lanes, QueuedJob};
use self::membership::Membership;
use self::question::{Answer, StoreQuestion};
use self::whose::{Direction, OwnedRow, SessionIndex};
use super::about::About;
use super::clock::Clock;
use super::owner::TurnOwner;
use super::presence::Presence;
use super::record::EventNumber;
use super::signals::Signal;
use super::upkeep::Upkeep;
use super::{BoxFuture, ReadJob, Store, WriteJob, guard};
use crate::domain::{Error, SessionId};
use crate::faults;

/// How often a job runs again because others were first, before it is given up.
const MOST_CONFLICTS: u32 = 100;
/// How often a job may ask for more than it was given.
const MOST_ROUNDS: u32 = 1000;

/// How long what is at work may take when the store is closed: the database may hang.
const CLOSING: Duration = Duration::from_secs(5);

/// Who uses the store, and what for.
pub enum StoreAccess {
    /// Somebody who has joined those that change it.
    Member(Arc<Membership>),
    /// Somebody who only reads, and is nobody's concern.
    Reader,
    /// Somebody who knows that nobody else is there.
    Alone,
}

impl StoreAccess {
    fn may_read(&self) -> Result<(), Error> {
        match self {
            Self::Member(membership) => membership.may_act(),
            Self::Reader | Self::Alone => Ok(()),
        }
    }

    fn may_write(&self) -> Result<(), Error> {
        match self {
            Self::Member(membership) => membership.may_act(),
            Self::Reader => Err(Error::StoreUnavailable("it was opened for reading".to_owned())),
            Self::Alone => Ok(()),
        }
    }
}

/// See the module.
pub struct SharedStore<B> {
    inner: Arc<JobRunner<B>>,
}

struct JobRunner<B> {
    backend: B,
    commits: Arc<CommitQueue>,
    access: StoreAccess,
    bell: Option<Arc<dyn Doorbell>>,
    clock: Arc<dyn Clock>,
    lanes: Arc<Lanes>,
    whose: Arc<SessionIndex>,
    /// Counts what this server reads, commits and is called for: what began after what.
    order: AtomicU64,
    is_closed: AtomicBool,
    runtime: Handle,
    /// Everything that is at work.
    tasks: TaskTracker,
}

impl<B: Backend> SharedStore<B> {
    /// A store over `backend`, in which it is as late as `clock` says, and whose work `runtime` does.
    pub fn new(backend: B, access: StoreAccess, clock: Arc<dyn Clock>, runtime: Handle) -> Self {
        Self::ringing(backend, access, None, clock, runtime)
    }

    /// The same, which rings `bell` for what it commits.
    pub fn ringing(
        backend: B,
        access: StoreAccess,
        bell: Option<Arc<dyn Doorbell>>,
        clock: Arc<dyn Clock>,
        runtime: Handle,
    ) -> Self {
        let inner = JobRunner {
            commits: CommitQueue::new(backend.commits_at_once()),
            backend,
            access,
            bell,
            clock,
            lanes: Arc::default(),
            whose: Arc::default(),
            order: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            runtime,
            tasks: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl<B: Backend> Store for SharedStore<B> {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        // What was called before the store was closed is done.
        if self.inner.is_closed.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(closed())));
        }
        let (reply, outcome) = oneshot::channel();
        let queued = QueuedJob { job, at: self.inner.tick(), reply };
        self.inner.start(about, queued);
        told(outcome)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.inner.is_closed.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(closed())));
        }
        let (reply, outcome) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        self.inner.spawn(async move {
            // Whoever wanted it may be gone.
            drop(reply.send(inner.read(job).await));
        });
        told(outcome)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        &self.inner.backend
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    fn owner(&self) -> TurnOwner {
        match &self.inner.access {
            StoreAccess::Member(membership) => TurnOwner(membership.id().0),
            StoreAccess::Reader | StoreAccess::Alone => TurnOwner::this_process(),
        }
    }

    fn presence(&self) -> Option<watch::Receiver<Presence>> {
        match &self.inner.access {
            StoreAccess::Member(membership) => Some(membership.presence()),
            StoreAccess::Reader | StoreAccess::Alone => None,
        }
    }

    fn membership(&self) -> Option<Arc<Membership>> {
        match &self.inner.access {
            StoreAccess::Member(membership) => Some(Arc::clone(membership)),
            StoreAccess::Reader | StoreAccess::Alone => None,
        }
    }

    fn signals(&self) -> Option<broadcast::Receiver<Signal>> {
        match &self.inner.access {
            StoreAccess::Member(membership) if self.inner.bell.is_some() => Some(membership.signals()),
            StoreAccess::Member(_) | StoreAccess::Reader | StoreAccess::Alone => None,
        }
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.inner.is_closed.store(true, Ordering::SeqCst);
        self.inner.tasks.close();
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let done = async {
                inner.tasks.wait().await;
                inner.backend.close().await
            };
            // What takes longer counts no more once the row is gone, where there is one: each commit looks for it.
            let closed = match &inner.access {
                StoreAccess::Member(_) => timeout(CLOSING, done).await.unwrap_or_else(|_| {
                    tracing::error!("what the store was at is not done in time, and counts no more");
                    Ok(())
                }),
                StoreAccess::Reader | StoreAccess::Alone => done.await,
            };
            if let StoreAccess::Member(membership) = &inner.access {
                membership.leave().await;
            }
            closed
        })
    }
}

fn told(outcome: oneshot::Receiver<Result<(), Error>>) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move { outcome.await.unwrap_or_else(|_| Err(closed())) })
}

fn closed() -> Error {
    Error::StoreUnavailable("the store is closed".to_owned())
}

/// What came of one attempt to run a job and to commit it.
enum Attempt {
    Done,
    /// Others were first.
    Moved,
    /// It came to nothing on what may be out of date.
    Stale,
}

impl<B: Backend> JobRunner<B> {
    /// The next moment in the order of everything.
    fn tick(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn_on(task, &self.runtime));
    }

    /// Puts a job into its line.
    fn start(self: &Arc<Self>, about: About, queued: QueuedJob) {
        let inner = Arc::clone(self);
        match about {
            About::Session(session) => self.enqueue(LaneKey::Session(session), queued),
            About::Access => self.enqueue(LaneKey::Access, queued),
            About::Nothing => self.spawn(async move { inner.run_alone(queued).await }),
            About::Turn(turn) => self.start_of(OwnedRow::Turn(turn), queued),
            About::Interrupt(interrupt) => self.start_of(OwnedRow::Interrupt(interrupt), queued),
        }
    }

    /// Puts a job into the line of the session whose `row` is.
    fn start_of(self: &Arc<Self>, row: OwnedRow, queued: QueuedJob) {
        match self.whose.direct(row, queued) {
            Direction::To(session, queued) => self.enqueue(LaneKey::Session(session), queued),
            Direction::Waits => {}
            Direction::Ask(mut look_up) => {
                let inner = Arc::clone(self);
                self.spawn(async move {
                    let told = inner.session_of(row.question()).await;
                    let session = told.as_ref().ok().copied().flatten();
                    look_up.found(session, |queued| inner.start_found(told.clone(), queued));
                });
            }
        }
    }

    fn start_found(self: &Arc<Self>, session: Result<Option<SessionId>, Error>, queued: QueuedJob) {
        match session {
            Ok(Some(session)) => self.enqueue(LaneKey::Session(session), queued),
            // The job finds out for itself that there is nothing.
            Ok(None) => {
                let inner = Arc::clone(self);
                self.spawn(async move { inner.run_alone(queued).await });
            }
            Err(error) => drop(queued.reply.send(Err(error))),
        }
    }

    async fn session_of(&self, question: StoreQuestion) -> Result<Option<SessionId>, Error> {
        match self.backend.answer(vec![question]).await?.pop() {
            Some(Ok(Answer::Whose(session))) => Ok(session),
            Some(Err(error)) => Err(error),
            _ => Err(Error::Internal("whose a row is was not answered".to_owned())),
        }
    }

    fn enqueue(self: &Arc<Self>, line: LaneKey, queued: QueuedJob) {
        if let Some(shift) = self.lanes.push(line, queued) {
            let inner = Arc::clone(self);
            self.spawn(async move { inner.work_on(shift).await });
        }
    }

    /// Runs the jobs of a line until there is none.
    async fn work_on(&self, mut shift: LaneShift) {
        let line = shift.line();
        let mut image = shift.take_image();
        while let Some(mut queued) = shift.next(&mut image) {
            let outcome = self.write(&mut queued.job, queued.at, &mut image, line.first_question()).await;
            image = match line {
                LaneKey::Session(session) => image.and_then(|image| image.keep_only(session)),
                LaneKey::Access => None,
            };
            drop(queued.reply.send(outcome));
        }
    }

    async fn run_alone(&self, mut queued: QueuedJob) {
        let outcome = self.write(&mut queued.job, queued.at, &mut None, None).await;
        drop(queued.reply.send(outcome));
    }

    /// Runs a job that was called at `at` until it is committed or comes to nothing. `image` is what is known beforehand,
    /// and afterwards, `first` what the job will surely ask.
    async fn write(
        &self,
        job: &mut WriteJob,
        at: u64,
        image: &mut Option<Image>,
        first: Option<StoreQuestion>,
    ) -> Result<(), Error> {
        let mut asked: Vec<StoreQuestion> = first.into_iter().collect();
        let mut is_refused_once = faults::refuses_once();
        for _ in 0..MOST_CONFLICTS {
            self.access.may_write()?;
            if image.as_ref().is_none_or(Image::is_outdated) {
                let fresh = self.load(&asked).await?;
                *image = Some(match image.take() {
                    Some(before) => fresh.after(&before),
                    None => fresh,
                });
            }
            let Some(known) = image.as_mut() else { continue };
            match self.attempt(job, at, known, &mut asked, &mut is_refused_once).await {
                Ok(Attempt::Done) => return Ok(()),
                // Others were first, or what is known was read for this job.
                Ok(Attempt::Moved | Attempt::Stale) => known.outdate(&[]),
                Err(error) => {
                    known.outdate(&[]);
                    return Err(error);
                }
            }
        }
        Err(Error::StoreUnavailable("others were first each time".to_owned()))
    }

    /// Runs a job once on what is known, and commits it. What it asks for besides is fetched, and it begins again.
    async fn attempt(
        &self,
        job: &mut WriteJob,
        at: u64,
        known: &mut Image,
        asked: &mut Vec<StoreQuestion>,
        is_refused_once: &mut bool,
    ) -> Result<Attempt, Error> {
        for _ in 0..MOST_ROUNDS {
            let JobOutcome { written, outcome, missing } = job::run(job, known);
            merge(asked, missing.clone());
            match (missing.is_empty(), written) {
                (false, None) => self.add(known, missing, asked).await?,
                // It went on without what it asked for, and has written to the image.
                (false, Some(_)) => self.reload(known, asked).await?,
                (true, _) if std::mem::take(is_refused_once) => return Ok(Attempt::Moved),
                (true, None) if known.as_of() < at => return Ok(Attempt::Stale),
                (true, None) => return outcome.map(|()| Attempt::Done),
                (true, Some((changes, numbers))) if changes.is_empty() => {
                    drop(numbers);
                    return Ok(if known.as_of() < at { Attempt::Stale } else { Attempt::Done });
                }
                (true, Some((changes, numbers))) => return self.commit(changes, numbers, known, asked).await,
            }
        }
        Err(Error::Internal("a job asks for ever more".to_owned()))
    }

    async fn commit(
        &self,
        changes: changes::Changes,
        numbers: Vec<EventNumber>,
        known: &mut Image,
        asked: &mut Vec<StoreQuestion>,
    ) -> Result<Attempt, Error> {
        // What was read may be from long ago, where the process was stopped meanwhile.
        self.access.may_write()?;
        let began = self.tick();
        let versions: Vec<_> = changes.sessions.iter().map(changes::SessionChange::left).collect();
        let new = changes.new_rows();
        self.whose.remember(&changes);
        let bell = self.bell.as_ref().map(|bell| (bell, changes.signals()));
        let committed = committing::commit(&self.backend, &self.commits, changes).await;
        match committed.inspect_err(|_| known.outdate(&versions))? {
            Committed::Yes { events } => {
                for (handle, number) in numbers.iter().zip(events) {
                    handle.set(number);
                }
                known.committed(&versions, began);
                if let Some((bell, signals)) = bell.filter(|(_, signals)| !signals.is_empty()) {
                    bell.ring(signals);
                }
                // Where the process was stopped meanwhile, others may have gone on from this: whoever is told of it here would go
                // on from it a second time. It is as though the reply had been lost.
                self.access.may_write()?;
                Ok(Attempt::Done)
            }
            Committed::Moved => {
                // One of them may be there already: the job is to see that.
                merge(asked, new);
                Ok(Attempt::Moved)
            }
        }
    }

    /// Fetches all of `asked` at one moment.
    async fn load(&self, asked: &[StoreQuestion]) -> Result<Image, Error> {
        let mut image = Image::new(Arc::clone(&self.clock), self.tick());
        if !asked.is_empty() {
            let answers = self.backend.answer(asked.to_vec()).await?;
            image.install_all(asked, answers)?;
        }
        Ok(image)
    }

    /// Fetches all of `asked` anew.
    async fn reload(&self, known: &mut Image, asked: &[StoreQuestion]) -> Result<(), Error> {
        *known = self.load(asked).await?.after(known);
        Ok(())
    }

    /// Fetches what is `missing`. Where the sessions of which something is known have moved since, all of it is fetched
    /// anew, so that what a job sees is of one moment.
    async fn add(&self, known: &mut Image, missing: Vec<StoreQuestion>, asked: &[StoreQuestion]) -> Result<(), Error> {
        let sessions = known.sessions();
        let is_new = |question: &StoreQuestion| matches!(question, StoreQuestion::Session(_));
        if sessions.is_empty() || missing.iter().any(is_new) {
            // Nothing tells whether what is known is of the same moment.
            return self.reload(known, asked).await;
        }
        let again = sessions.into_iter().map(StoreQuestion::Session).filter(|again| !missing.contains(again));
        let again: Vec<StoreQuestion> = again.collect();
        let questions: Vec<StoreQuestion> = missing.into_iter().chain(again).collect();
        let answers = self.backend.answer(questions.clone()).await?;
        if known.has_moved(questions.iter().zip(&answers)) {
            return self.reload(known, asked).await;
        }
        known.install_all(&questions, answers)
    }

    /// Runs a reading job on one snapshot that has all that it asks for.
    async fn read(&self, job: ReadJob) -> Result<(), Error> {
        let mut asked = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let image = self.load(&asked).await?;
            self.access.may_read()?;
            let outcome = guard(|| job(&image.look()));
            let missing = image.take_missing();
            if missing.is_empty() {
                return outcome;
            }
            merge(&mut asked, missing);
        }
        Err(Error::Internal("a job asks for ever more".to_owned()))
    }
}

fn merge(asked: &mut Vec<StoreQuestion>, missing: Vec<StoreQuestion>) {
    for question in missing {
        if !asked.contains(&question) {
            asked.push(question);
        }
    }
}

#[cfg(test)]
mod tests;

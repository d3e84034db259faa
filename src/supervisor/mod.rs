//! Workers: Python processes that run turns.
//!
//! [`Supervisor`] is the engine's [`Dispatch`]. A turn is a task ([`turn`]) that takes a worker from the [`pool`], gives
//! it the turn, and carries words between it and the engine. A worker ([`worker`]) is a process behind a [`channel`] of
//! frames ([`frames`]), forked by a zygote that has the agent imported, or started alone where forking is not safe
//! ([`spawner`]). Whatever goes wrong with a worker ends its turns and nothing else.

pub(crate) mod batch;
pub mod channel;
pub(crate) mod control;
mod ending;
pub(crate) mod frames;
mod heartbeat;
mod log;
mod pool;
mod process;
pub(crate) mod runtime;
mod seat;
mod seats;
pub mod settings;
mod spawner;
mod take;
mod turn;
mod worker;

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::channel::{Channel, FrameReader};
use self::control::Mode;
use self::pool::{Lease, LeaseError, LeaseRequest, Pool};
use self::runtime::KnownRuntime;
use self::settings::{Isolation, START_TIMEOUT, STOP_GRACE, SupervisorSettings, SupervisorStartError, WORKER_TIMEOUT};
use self::spawner::{Body, Spawner};
use self::turn::{Leave, TurnCommand, TurnTask};
use self::worker::Worker;
use crate::domain::TurnId;
use crate::engine::ports::dispatch::{Delivery, Dispatch, Runtime, TurnInbox, TurnOrder};

/// Idle children that wait with process isolation, where `--workers` is not smaller.
const MOST_AHEAD: usize = 4;

/// How long what was killed may take to disappear.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// See the module. It has to be shut down; dropping it does not end its workers.
pub struct Supervisor {
    runtime: tokio::runtime::Handle,
    inbox: OnceLock<Weak<dyn TurnInbox>>,
    /// None where the worker is a thread of this process.
    spawner: Option<Spawner>,
    pool: Arc<Pool>,
    mode: Mode,
    turns: Mutex<HashMap<TurnId, OpenTurn>>,
    /// A turn has ended or waits.
    eased: Notify,
    numbers: AtomicU64,
    stopping: AtomicBool,
    /// Whether workers are given turns.
    gives_turns: watch::Sender<bool>,
    known: Arc<KnownRuntime>,
    limits: Limits,
}

/// What all turns and workers have in common; see [`SupervisorSettings`].
struct Limits {
    max_payload: usize,
    hold: f64,
    stop_grace: Duration,
    worker_timeout: Duration,
    spare_silent: bool,
    start_timeout: Duration,
}

struct OpenTurn {
    epoch: u64,
    orders: mpsc::UnboundedSender<TurnCommand>,
    waiting: bool,
    /// The engine has told it to leave its worker.
    leaving: bool,
    /// Told when the turn is in no worker any more.
    freed: CancellationToken,
}

impl Supervisor {
    /// Workers for `settings.agent`. Returns when the agent is imported, before a worker is ready.
    ///
    /// # Errors
    /// See [`SupervisorStartError`]. Nothing is left behind then.
    pub async fn start(settings: SupervisorSettings) -> Result<Arc<Self>, SupervisorStartError> {
        Self::start_until(settings, &CancellationToken::new()).await
    }

    /// As [`Supervisor::start`], and given up when `stop` is cancelled.
    ///
    /// # Errors
    /// [`SupervisorStartError::Stopped`] besides.
    pub async fn start_until(
        settings: SupervisorSettings,
        stop: &CancellationToken,
    ) -> Result<Arc<Self>, SupervisorStartError> {
        let (mode, kept) = match settings.isolation {
            Isolation::Process => (Mode::Turn, settings.workers.min(MOST_AHEAD)),
            Isolation::Task { processes } => (Mode::Pool, processes),
        };
        let limits = Limits {
            max_payload: settings.max_payload,
            hold: settings.hold,
            stop_grace: settings.stop_grace,
            worker_timeout: settings.worker_timeout,
            spare_silent: settings.spare_silent,
            start_timeout: settings.start_timeout,
        };
        let known = Arc::new(KnownRuntime::new());
        let spawner = Spawner::start(settings, tokio::runtime::Handle::current(), Arc::clone(&known), stop).await?;
        let forks = spawner.forks();
        let supervisor = Self::new(Some(spawner), mode, kept, known, limits);
        if !forks {
            // Each worker imports the agent itself; the first one tells whether it can be imported.
            supervisor.pool.claim_starts();
            for _ in 1..supervisor.pool.kept() {
                supervisor.runtime.spawn(Arc::clone(&supervisor).start_worker());
            }
            let begun = tokio::select! {
                begun = supervisor.first_worker() => begun,
                () = stop.cancelled() => Err(SupervisorStartError::Stopped),
            };
            if let Err(error) = begun {
                // The others end too, and no more of them are started.
                supervisor.shutdown(Duration::ZERO).await;
                return Err(error);
            }
        }
        supervisor.refill();
        Ok(supervisor)
    }

    /// Starts a worker and returns when it is ready. It is seen to its end even if nobody waits for this any more.
    async fn first_worker(self: &Arc<Self>) -> Result<(), SupervisorStartError> {
        let (told, begun) = oneshot::channel();
        let supervisor = Arc::clone(self);
        self.runtime.spawn(async move {
            match supervisor.begin_worker().await {
                Ok((worker, reader)) => {
                    let _ = told.send(Ok(()));
                    supervisor.keep(worker, reader).await;
                }
                Err(error) => drop(told.send(Err(error))),
            }
        });
        begun.await.unwrap_or(Err(SupervisorStartError::Stopped))
    }

    /// One worker, which is a thread of this process at the other end of `stream`. Returns when it has said hello.
    ///
    /// # Errors
    /// [`SupervisorStartError::Protocol`].
    pub async fn in_process(
        stream: UnixStream,
        max_payload: usize,
        hold: f64,
    ) -> Result<Arc<Self>, SupervisorStartError> {
        let broken = |error: std::io::Error| SupervisorStartError::Protocol(error.to_string());
        stream.set_nonblocking(true).map_err(broken)?;
        let stream = tokio::net::UnixStream::from_std(stream).map_err(broken)?;
        let limits = Limits {
            max_payload,
            hold,
            stop_grace: STOP_GRACE,
            worker_timeout: WORKER_TIMEOUT,
            spare_silent: false,
            start_timeout: START_TIMEOUT,
        };
        let supervisor = Self::new(None, Mode::Pool, 1, Arc::new(KnownRuntime::new()), limits);
        let (lives, exit) = watch::channel(None);
        let (worker, mut reader) = Worker::over(0, true, Channel::new(stream), Body::InProcess(lives), exit);
        let hello = worker.greet(&mut reader, "the agent", START_TIMEOUT).await?;
        supervisor.known.learn(hello.runtime());
        supervisor.pool.claim_starts();
        supervisor.pool.begun(&worker);
        supervisor.pool.ready(&worker);
        supervisor.runtime.spawn(Arc::clone(&supervisor).keep(worker, reader));
        Ok(supervisor)
    }

    fn new(spawner: Option<Spawner>, mode: Mode, kept: usize, known: Arc<KnownRuntime>, limits: Limits) -> Arc<Self> {
        let forks = spawner.as_ref().is_some_and(Spawner::forks);
        Arc::new(Self {
            runtime: tokio::runtime::Handle::current(),
            inbox: OnceLock::new(),
            spawner,
            pool: Pool::keeping(kept, mode == Mode::Pool, forks),
            mode,
            turns: Mutex::default(),
            eased: Notify::new(),
            numbers: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            gives_turns: watch::Sender::new(true),
            known,
            limits,
        })
    }

    /// Says where words about turns go; once, before the first turn.
    pub fn attach<I: TurnInbox>(&self, inbox: &Arc<I>) {
        let inbox: Weak<I> = Arc::downgrade(inbox);
        let _ = self.inbox.set(inbox);
    }

    /// Kills every worker process at once; others take their place, and get no turn before [`Self::go_on`]. One that is a
    /// thread goes on: what it says is refused, once somebody else has its turns.
    pub fn kill_workers(&self) {
        self.gives_turns.send_replace(false);
        for worker in self.pool.alive().iter().filter(|worker| worker.can_be_killed()) {
            worker.cut_off();
        }
    }

    /// Workers get turns again.
    pub fn go_on(&self) {
        self.gives_turns.send_replace(true);
    }

    /// Waits until a worker may get a turn; false where none will any more.
    async fn may_begin(&self) -> bool {
        if *self.gives_turns.borrow() {
            return true;
        }
        let mut gives_turns = self.gives_turns.subscribe();
        tokio::select! {
            gives = gives_turns.wait_for(|gives| *gives) => gives.is_ok(),
            () = self.pool.closed() => false,
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn set_waiting(&self, turn: TurnId, epoch: u64, waiting: bool) {
        if let Some(open) = self.turns().get_mut(&turn).filter(|open| open.epoch == epoch) {
            open.waiting = waiting;
        }
        if waiting {
            self.eased.notify_waiters();
        }
    }

    /// A worker for one turn, which is to run alone where workers can be started.
    async fn lease(self: &Arc<Self>, alone: bool) -> Result<Lease, LeaseError> {
        let claim = self.pool.request(alone && self.spawner.is_some())?;
        if matches!(claim, LeaseRequest::Later(_)) {
            self.refill();
        }
        self.pool.wait(claim).await
    }

    /// A worker that was leased has gone before the turn began.
    fn discard(&self, mut lease: Lease) {
        if let Some(worker) = lease.worker() {
            self.pool.discard(worker);
        }
        lease.mark_used();
    }

    /// A worker that was leased has imported the agent before its code was changed; another one takes its place.
    fn replace(self: &Arc<Self>, mut lease: Lease) {
        if let Some(worker) = lease.worker() {
            self.pool.retire(worker);
        }
        lease.mark_used();
        drop(lease);
        self.refill();
    }

    /// See [`Pool::retire`]; another one takes its place.
    fn retire(self: &Arc<Self>, worker: &Arc<Worker>) {
        self.pool.retire(worker);
        self.refill();
    }

    /// Starts the workers that are missing.
    fn refill(self: &Arc<Self>) {
        if self.spawner.is_some() {
            for _ in 0..self.pool.claim_starts() {
                self.runtime.spawn(Arc::clone(self).start_worker());
            }
        }
    }

    async fn start_worker(self: Arc<Self>) {
        let pause = self.pool.pause();
        if !pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.pool.closed() => {}
            }
        }
        if let Ok((worker, reader)) = self.begin_worker().await {
            self.keep(worker, reader).await;
        }
    }

    /// Starts a worker and waits until it is ready.
    async fn begin_worker(self: &Arc<Self>) -> Result<(Arc<Worker>, FrameReader), SupervisorStartError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let begun = match &self.spawner {
            Some(spawner) if !self.is_stopping() => match spawner.spawn(number, self.mode).await {
                Ok(spawned) => {
                    let (worker, mut reader) = Worker::new(number, self.mode == Mode::Pool, spawned);
                    self.pool.begun(&worker);
                    match worker.greet(&mut reader, spawner.agent(), self.limits.start_timeout).await {
                        Ok(hello) => {
                            self.known.learn(hello.runtime());
                            Ok((worker, reader))
                        }
                        Err(error) => {
                            self.forget(worker);
                            Err(error)
                        }
                    }
                }
                Err(error) => Err(error),
            },
            _ => Err(SupervisorStartError::Stopped),
        };
        match &begun {
            Ok((worker, _)) => self.pool.ready(worker),
            Err(error) => {
                self.pool.not_started();
                if !self.is_stopping() {
                    tracing::error!(%error, "a worker could not be started");
                }
                self.refill();
            }
        }
        begun
    }

    /// Stays with a ready worker until its process has ended.
    async fn keep(self: Arc<Self>, worker: Arc<Worker>, mut reader: FrameReader) {
        let attending = self.runtime.spawn({
            let worker = Arc::clone(&worker);
            async move { worker.attend().await }
        });
        let watching = self.runtime.spawn(Arc::clone(&self).watch(Arc::clone(&worker)));
        worker.listen(&mut reader).await;
        watching.abort();
        self.pool.gone(&worker);
        if self.spawner.is_none() {
            // The thread itself says nothing of what it takes for the end of the server.
            if !self.is_stopping() {
                tracing::error!("the thread that runs the agent's turns is gone for good: start the program again");
            }
            self.pool.close(LeaseError::NoWorker);
        }
        self.refill();
        let exit = worker.ended().await;
        tracing::debug!(worker = worker.number, %exit, "a worker has ended");
        self.pool.ended(&worker);
        attending.abort();
    }

    /// Watches a ready worker for as long as it says something when it should.
    async fn watch(self: Arc<Self>, worker: Arc<Worker>) {
        heartbeat::watch(&worker, self.limits.worker_timeout).await;
        self.pool.discard(&worker);
        worker.fell_silent(self.limits.spare_silent);
        self.refill();
    }

    /// Sees a worker that never was ready to its end.
    fn forget(self: &Arc<Self>, worker: Arc<Worker>) {
        let supervisor = Arc::clone(self);
        self.runtime.spawn(async move {
            worker.ended().await;
            supervisor.pool.ended(&worker);
        });
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<TurnId, OpenTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, turn: TurnId, order: TurnCommand) {
        if let Some(open) = self.turns().get_mut(&turn) {
            open.leaving |= matches!(order, TurnCommand::Leave(_));
            // A turn that has just ended needs it no more.
            let _ = open.orders.send(order);
        }
    }
}

/// An `Arc` of it is what the engine holds: turns outlive the call that starts them.
impl Dispatch for Arc<Supervisor> {
    fn start(&self, order: TurnOrder) {
        let Some(inbox) = self.inbox.get().and_then(Weak::upgrade) else {
            tracing::error!(turn = %order.turn, "a turn was started without an engine");
            return;
        };
        let (turn, epoch) = (order.turn, order.epoch);
        let (orders, receiver) = mpsc::unbounded_channel();
        let own = orders.downgrade();
        let freed = CancellationToken::new();
        let open = OpenTurn { epoch, orders, waiting: false, leaving: false, freed: freed.clone() };
        let before = self.turns().insert(turn, open).map(|before| {
            // Where it does not know yet that the turn was claimed anew.
            let _ = before.orders.send(TurnCommand::Leave(Leave::Parked));
            before.freed
        });
        let supervisor = Self::clone(self);
        self.runtime.spawn(async move {
            let running = TurnTask::new(Arc::clone(&supervisor), inbox, &order, receiver, freed);
            running.run(order, before).await;
            let mut turns = supervisor.turns();
            // Not what has begun since: after a failover that may be at the same epoch.
            let is_own = |open: &OpenTurn| own.upgrade().is_some_and(|own| own.same_channel(&open.orders));
            if turns.get(&turn).is_some_and(is_own) {
                turns.remove(&turn);
            }
            drop(turns);
            supervisor.eased.notify_waiters();
        });
    }

    fn deliver(&self, turn: TurnId, delivery: Delivery) {
        self.order(turn, TurnCommand::Deliver(delivery));
    }

    fn stop(&self, turn: TurnId, message: &str) {
        self.order(turn, TurnCommand::Leave(Leave::Over(message.to_owned())));
    }

    fn park(&self, turn: TurnId) {
        self.order(turn, TurnCommand::Leave(Leave::Parked));
    }

    fn runtime(&self) -> Runtime {
        self.known.get()
    }

    fn has_workers(&self) -> bool {
        !self.pool.is_hopeless()
    }
}

/// What `work` comes to within `limit`; as long as it takes where that is zero.
async fn no_longer_than<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    if limit.is_zero() { Some(work.await) } else { timeout(limit, work).await.ok() }
}

//! Runs without a server: one worker, which is the event loop of whoever calls, and an engine for each run.
//!
//! A [`Desk`] stands between them: the worker knows a run by a number of its own ([`Desk::run`]), so that one loop can
//! run the same turn twice at once, from two copies of a state.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::domain::event::EventView;
use crate::domain::message::ChatMessage;
use crate::domain::payload::MAX_PAYLOAD;
use crate::domain::session::Failure;
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::dispatch::{Batch, Delivery, Dispatch, Lost, Record, Runtime, TurnInbox, TurnOrder};
use crate::engine::runs::{Begin, RunOutcome};
use crate::engine::view::{Heard, Subscription};
use crate::engine::{Engine, StartError};
use crate::store::Store;
use crate::supervisor::Supervisor;

/// See the module.
pub struct Desk {
    supervisor: OnceCell<Arc<Supervisor>>,
    stream: Mutex<Option<UnixStream>>,
    runs: Arc<Runs>,
}

/// What a run is given.
pub struct Run {
    /// What the worker calls it.
    pub alias: TurnId,
    /// The agent's name.
    pub agent: String,
    /// What it runs in.
    pub runtime: Runtime,
    /// Where its records go.
    pub store: Arc<dyn Store>,
    /// What it begins with.
    pub begin: Begin,
    /// To let go of it: its journal stays as it is, and [`Desk::run`] returns.
    pub stop: CancellationToken,
    /// Who hears of it while it runs.
    pub listener: Option<Box<dyn Fn(EventView) + Send>>,
}

impl Desk {
    /// A desk for the worker at the other end of `stream`.
    pub fn new(stream: UnixStream) -> Self {
        Self { supervisor: OnceCell::new(), stream: Mutex::new(Some(stream)), runs: Arc::default() }
    }

    /// Runs a turn until it is over, or waits for people.
    ///
    /// # Errors
    /// Those of [`Engine::run`].
    pub async fn run(&self, run: Run) -> Result<RunOutcome, Error> {
        let Run { alias, agent, runtime, store, begin, stop, listener } = run;
        let supervisor = Arc::clone(self.supervisor().await?);
        let line = Arc::new(Line { alias, supervisor, runs: Arc::clone(&self.runs), runtime });
        let engine = Engine::for_run(agent, store, line).await.map_err(|error| match error {
            StartError::Store(error) => error,
            other @ StartError::Webhooks(_) => Error::Internal(other.to_string()),
        })?;
        let heard = match listener {
            Some(listener) => Some(tokio::spawn(listen(engine.subscribe(None, None).await?, begin.ids().0, listener))),
            None => None,
        };
        self.runs.open(alias, &engine);
        let outcome = engine.run(begin, stop).await;
        self.runs.close(alias);
        let told = match heard {
            Some(heard) => {
                let told = engine.finish_events().await;
                if told.is_ok() {
                    // It ends with what it has told of the last event.
                    drop(heard.await);
                }
                told
            }
            None => Ok(()),
        };
        engine.end_run();
        outcome.and_then(|outcome| told.map(|()| outcome))
    }

    /// The engine of a run that is under way.
    pub fn engine(&self, alias: TurnId) -> Option<Arc<Engine>> {
        self.runs.lock().get(&alias).map(|open| Arc::clone(&open.engine))
    }

    async fn supervisor(&self) -> Result<&Arc<Supervisor>, Error> {
        let start = || async {
            let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
            let stream = stream.ok_or_else(|| Error::Internal("a desk has lost its worker".to_owned()))?;
            let started = Supervisor::in_process(stream, MAX_PAYLOAD).await;
            let supervisor = started.map_err(|error| Error::Internal(error.to_string()))?;
            supervisor.attach(&self.runs);
            Ok(supervisor)
        };
        self.supervisor.get_or_try_init(start).await
    }
}

/// Passes on what is told of `session`, up to the end of the subscription.
async fn listen(mut events: Subscription, session: SessionId, listener: Box<dyn Fn(EventView) + Send>) {
    while let Some(heard) = events.events.recv().await {
        let event = match heard {
            Heard::Stored(numbered) => numbered.event.clone(),
            Heard::Passing(event) => (*event).clone(),
        };
        if event.session_id == session {
            listener(event);
        }
    }
}

/// The runs that are under way, by what the worker calls them.
#[derive(Default)]
struct Runs(Mutex<HashMap<TurnId, OpenRun>>);

struct OpenRun {
    engine: Arc<Engine>,
    /// The turn's own id, once it is at the worker.
    turn: Option<TurnId>,
}

impl Runs {
    fn open(&self, alias: TurnId, engine: &Arc<Engine>) {
        self.lock().insert(alias, OpenRun { engine: Arc::clone(engine), turn: None });
    }

    fn close(&self, alias: TurnId) {
        self.lock().remove(&alias);
    }

    fn started(&self, alias: TurnId, turn: TurnId) {
        if let Some(open) = self.lock().get_mut(&alias) {
            open.turn = Some(turn);
        }
    }

    fn find(&self, alias: TurnId) -> Option<(Arc<Engine>, TurnId)> {
        self.lock().get(&alias).and_then(|open| Some((Arc::clone(&open.engine), open.turn?)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, OpenRun>> {
        // A panic elsewhere cannot leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something to the engine of a run. Where the turn is another run's by now, this one is over.
    async fn say<T, F: Future<Output = Result<T, Error>>>(
        &self,
        alias: TurnId,
        epoch: u64,
        word: impl FnOnce(Arc<Engine>, TurnId) -> F,
    ) -> Result<T, Error> {
        let (engine, turn) = self.find(alias).ok_or(Error::TurnNotOpen)?;
        let said = word(Arc::clone(&engine), turn).await;
        if let Err(Error::StaleEpoch | Error::TurnNotOpen) = &said {
            engine.lost_to_another(turn, epoch);
        }
        said
    }
}

impl TurnInbox for Runs {
    fn turn_append(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> BoxFuture<'static, Result<Batch, Error>> {
        Box::pin(async move {
            self.say(turn, epoch, |engine, turn| async move { engine.turn_append(turn, epoch, records).await }).await
        })
    }

    fn turn_replayed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        warnings: Vec<String>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.say(turn, epoch, |engine, turn| async move { engine.turn_replayed(turn, epoch, warnings).await }).await
        })
    }

    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        if let Some((engine, turn)) = self.find(turn) {
            engine.turn_delta(turn, step_id, attempt, delta);
        }
    }

    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: Vec<ChatMessage>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.say(turn, epoch, |engine, turn| async move { engine.turn_ended(turn, epoch, response, state).await })
                .await
        })
    }

    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.say(turn, epoch, |engine, turn| async move { engine.turn_failed(turn, epoch, failure).await }).await
        })
    }

    fn turn_lost(self: Arc<Self>, turn: TurnId, epoch: u64, lost: Lost) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.say(turn, epoch, |engine, turn| async move { engine.turn_lost(turn, epoch, lost).await }).await
        })
    }
}

/// How one engine reaches the worker.
struct Line {
    alias: TurnId,
    supervisor: Arc<Supervisor>,
    runs: Arc<Runs>,
    runtime: Runtime,
}

impl Dispatch for Line {
    fn start(&self, order: TurnOrder) {
        self.runs.started(self.alias, order.turn);
        self.supervisor.start(TurnOrder { turn: self.alias, ..order });
    }

    fn deliver(&self, _turn: TurnId, delivery: Delivery) {
        self.supervisor.deliver(self.alias, delivery);
    }

    fn stop(&self, _turn: TurnId, message: &str) {
        self.supervisor.stop(self.alias, message);
    }

    fn park(&self, _turn: TurnId) {
        self.supervisor.park(self.alias);
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }
}

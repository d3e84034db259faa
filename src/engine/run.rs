//! Runs without a server: an engine for one turn, and somebody who waits for it.
//!
//! It touches nothing but the turn that it was given: no recovery, no due work, no sweeping; the file may be another
//! process's at the same time. A turn that waits for somebody is parked at once, and the run is over.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::domain::{Error, SessionId, TurnId};
use crate::engine::Engine;
use crate::engine::access::keyring::Keyring;
use crate::engine::journal::host::{AfterPause, RunOver, TurnHost};
use crate::engine::journal::runs::{Begin, RunOutcome, read_outcome};
use crate::engine::ports::dispatch::{Dispatch, Lost};
use crate::engine::settings::Settings;
use crate::engine::telling::feed::Feed;
use crate::store::{Reader, Store, StoreExt};

/// See the module.
pub struct OneRun {
    engine: Arc<Engine>,
    host: Arc<RunHost>,
}

impl OneRun {
    /// An engine of a few maps, so that each run can have its own. `is_heard`: somebody will subscribe to it.
    ///
    /// # Errors
    /// The store's.
    pub async fn new(
        agent: String,
        store: Arc<dyn Store>,
        dispatch: Arc<dyn Dispatch>,
        is_heard: bool,
    ) -> Result<Self, Error> {
        let code = dispatch.runtime().code;
        let host = RunHost { agent: agent.clone(), code, over: OnceLock::new(), outcome: Mutex::default() };
        let settings = Settings { agent, workers: usize::MAX, ..Settings::default() };
        let stopping = CancellationToken::new();
        let feed = if is_heard {
            let last_event = store.query(|reader| reader.last_event()).await?;
            Feed::start(Arc::clone(&store), last_event, stopping.clone())
        } else {
            Feed::silent(Arc::clone(&store), stopping.clone())
        };
        let host = Arc::new(host);
        let for_run: Arc<dyn TurnHost> = Arc::clone(&host) as _;
        let engine = Engine::of(settings, store, stopping, feed, Keyring::default(), None, for_run);
        engine.placement.attach(dispatch);
        Ok(Self { engine, host })
    }

    /// What runs it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs a turn until it is over, waits for people, or is to `stop`: then it is let go of, its journal as it is.
    ///
    /// # Errors
    /// [`Error::RunInterrupted`] for a message to a session whose turn is not over, [`Error::AlreadyResumed`] for a state
    /// whose turn has gone on since, [`Error::StoreUnavailable`], also where it was stopped.
    pub async fn run(&self, begin: Begin, stop: CancellationToken) -> Result<RunOutcome, Error> {
        let (session, turn) = begin.ids();
        if self.engine.begin_run(begin).await? {
            tokio::select! {
                () = self.engine.placement.gone(turn) => {}
                () = stop.cancelled() => {
                    self.host.is_over(RunOver::Stopped);
                    self.engine.forget(turn);
                    self.engine.placement.drop_at_worker(turn);
                }
            }
        }
        match self.host.over.get() {
            None | Some(RunOver::ParkedOrEnded) => {
                let outcome = self.host.kept().take();
                match outcome {
                    Some(outcome) => Ok(outcome),
                    None => self.read_outcome(session, turn).await,
                }
            }
            Some(RunOver::Elsewhere) => Err(Error::AlreadyResumed),
            Some(RunOver::Lost(Lost::Unstored { message })) => Err(Error::StoreUnavailable(message.clone())),
            Some(RunOver::Stopped | RunOver::Lost(_)) => Err(Error::RunStopped),
        }
    }

    /// Ends what listens to the run, once it has heard everything.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish_events(&self) -> Result<(), Error> {
        self.engine.telling.finish_events().await
    }

    /// Ends everything of the run; the store stays open.
    pub fn end(&self) {
        self.engine.stopping.cancel();
        self.engine.stopped.cancel();
        self.engine.placement.clear();
    }

    async fn read_outcome(&self, id: SessionId, turn: TurnId) -> Result<RunOutcome, Error> {
        let host = Arc::clone(&self.host);
        self.engine.store.query(move |reader| read_outcome(reader, id, turn, &host.agent, &host.code)).await
    }
}

/// Somebody who waits for one turn.
struct RunHost {
    agent: String,
    /// The digest of what runs it.
    code: String,
    /// Why its turn is at no worker any more.
    over: OnceLock<RunOver>,
    /// How it came out, once that is durable.
    outcome: Mutex<Option<RunOutcome>>,
}

impl RunHost {
    fn kept(&self) -> MutexGuard<'_, Option<RunOutcome>> {
        // A panic elsewhere cannot leave half an outcome.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnHost for RunHost {
    /// Whoever runs a session without a server names session and agent together.
    fn serves(&self, _: &str) -> bool {
        true
    }

    /// A run that only waits for its own timers is waited for.
    fn after_pause(&self, asks: bool, can_replay: bool) -> AfterPause {
        match (asks, can_replay) {
            (true, true) => AfterPause::IsParked,
            (true, false) => AfterPause::Fails,
            (false, _) => AfterPause::Stays,
        }
    }

    /// There is somebody who can be told at once.
    fn outlasts_outages(&self) -> bool {
        false
    }

    fn take_up(&self, lost: Lost) -> Option<Lost> {
        self.is_over(RunOver::Lost(lost));
        None
    }

    fn outcome(&self, reader: &dyn Reader, session: SessionId, turn: TurnId) -> Result<Option<RunOutcome>, Error> {
        read_outcome(reader, session, turn, &self.agent, &self.code).map(Some)
    }

    fn came_out(&self, outcome: Option<RunOutcome>) {
        if outcome.is_some() {
            *self.kept() = outcome;
        }
    }

    /// The first of what ended it counts.
    fn is_over(&self, over: RunOver) {
        drop(self.over.set(over));
    }
}

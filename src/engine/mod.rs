//! The engine: load, let the domain decide, persist, then do what is owed.
//!
//! Clients come in through [`sessions`], [`messages`] and [`answers`], workers through [`turns`]; all of them change a
//! session only inside one store transaction. Whatever others are told (pollers, listeners, workers, webhooks), they
//! are told after the commit.

pub mod answers;
mod bells;
mod clock;
mod deadlines;
pub mod dispatch;
mod feed;
mod inbox;
mod live;
pub mod messages;
pub mod metrics;
mod owed;
pub mod sessions;
pub mod settings;
mod slots;
mod sweeper;
pub mod turns;
pub mod view;
pub mod webhooks;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::Error;
use crate::domain::journal::{Ending, Entry};
use crate::domain::session::{self, Failure};
use crate::store::{Store, StoreExt};
use bells::Bells;
use deadlines::Deadlines;
use dispatch::{Dispatch, TurnOrder};
use feed::Feed;
use live::LiveTurns;
use metrics::Counters;
use owed::Owed;
use settings::Settings;
use slots::Slots;
use webhooks::{Webhooks, WebhooksError};

/// See the module.
pub struct Engine {
    settings: Settings,
    store: Arc<dyn Store>,
    /// Set once, right after the start: supervisor and engine need each other.
    dispatch: OnceLock<Arc<dyn Dispatch>>,
    slots: Arc<Mutex<Slots>>,
    live: LiveTurns,
    bells: Bells,
    deadlines: Deadlines,
    feed: Feed,
    webhooks: Arc<Webhooks>,
    counters: Counters,
    /// The server stops: nothing new is taken, pollers and listeners go home.
    stopping: CancellationToken,
    /// The engine is over: its tasks end.
    stopped: CancellationToken,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The webhook settings are wrong.
    #[error(transparent)]
    Webhooks(#[from] WebhooksError),
}

impl Engine {
    /// Settles the turns that the last server left open, then starts.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(settings: Settings, store: Arc<dyn Store>) -> Result<Arc<Self>, StartError> {
        let stopping = CancellationToken::new();
        fail_open_turns(&store).await?;
        let last_event = store.query(|reader| reader.last_event()).await?;
        let webhooks =
            Webhooks::new(settings.webhook_secret.as_deref(), settings.webhook_allow_private, stopping.clone())?;
        let engine = Arc::new(Self {
            slots: Arc::new(Mutex::new(Slots::new(settings.workers, settings.queue))),
            feed: Feed::start(Arc::clone(&store), last_event, stopping.clone()),
            settings,
            store,
            dispatch: OnceLock::new(),
            live: LiveTurns::default(),
            bells: Bells::default(),
            deadlines: Deadlines::default(),
            webhooks: Arc::new(webhooks),
            counters: Counters::default(),
            stopping,
            stopped: CancellationToken::new(),
        });
        engine.spawn_expiry();
        engine.spawn_sweeper();
        Ok(engine)
    }

    /// Tells the engine how to reach workers. Only the first call counts.
    pub fn attach(&self, dispatch: Arc<dyn Dispatch>) {
        drop(self.dispatch.set(dispatch));
    }

    /// What the operator set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Resolves when the server begins to stop.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// Stops: nothing new is taken and pollers go home at once; turns at work may finish within `patience`; what is
    /// open then ends as an error that says so. Workers are the supervisor's to stop, after this.
    ///
    /// # Errors
    /// The store's.
    pub async fn shut_down(&self, patience: Duration) -> Result<(), Error> {
        self.stopping.cancel();
        let finished = tokio::time::timeout(patience, self.live.none_at_work()).await.is_ok();
        if !finished {
            tracing::warn!("turns were still at work at the end of the shutdown time; they end as errors");
        }
        self.stopped.cancel();
        fail_open_turns(&self.store).await?;
        self.live.clear();
        self.store.close().await
    }

    /// Does what is owed after a commit.
    fn settle(&self, owed: Owed) {
        for interrupt in owed.withdrawn {
            if let Some(due) = interrupt.expires_at {
                self.deadlines.remove(due, interrupt.interrupt_id);
            }
        }
        for session in owed.woken {
            self.bells.ring(session);
        }
        if owed.last_event > 0 {
            self.feed.ring(owed.last_event);
        }
        for notice in owed.notices {
            self.webhooks.send(notice);
        }
    }

    /// Gives a turn to a worker, and begins to count its time.
    fn begin(self: &Arc<Self>, order: TurnOrder) {
        self.live.begin(order.turn, self);
        if let Some(dispatch) = self.dispatch.get() {
            dispatch.start(order);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        slots::lock(&self.slots)
    }
}

/// Runs to its end even if the caller goes away: what follows a commit must happen.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Ends every open turn as an error: in this release nothing replays its journal.
async fn fail_open_turns(store: &Arc<dyn Store>) -> Result<(), Error> {
    store
        .transact(|tx| {
            let now = clock::now();
            for turn in tx.unparked_turns()? {
                let Some(session) = tx.session(turn.session_id)? else { continue };
                let failure = Failure::server_restarted();
                let end = Entry::End { ending: Ending::Failed(failure.message.clone()) };
                tx.append_foreign(turn.id, &end, now)?;
                tx.end_turn(turn.id, now)?;
                // Whom it concerns has left: what is owed to pollers is void, events are stored all the same.
                Owed::default().change(tx, &session, session::Event::TurnFailed { turn: turn.id, failure }, now)?;
            }
            Ok(())
        })
        .await
}

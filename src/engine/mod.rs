//! The engine: load, let the domain decide, persist, then do what is owed.
//!
//! Clients come in through [`journal::sessions`], [`journal::messages`], [`journal::answers`] and [`journal::retry`],
//! workers through [`journal::append`] and [`journal::turns`]; all of them change a session only inside one store
//! transaction. Whatever others are told (pollers, listeners, workers, webhooks), they are told after the commit.
//!
//! A turn is new ([`journal::messages`]), or it has a journal and is claimed ([`journal::turn_claims`]): because it was
//! answered or its time has come ([`journal::due`]) after it was parked ([`journal::parking`]), because its worker or
//! server was lost ([`journal::recovery`]), or because it is retried ([`journal::retry`]). What other servers do to a shared
//! store is followed in [`journal::others`]. Which of them are at work is
//! [`placement::slots`]' to say, which are in memory [`placement::live`]'s.

pub mod access;
mod alarm;
mod clock;
mod inbox;
pub mod journal;
pub mod placement;
pub mod ports;
pub mod run;
pub mod settings;
pub mod telling;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::{Error, TurnId};
use crate::faults::{self, Point};
use crate::store::signals::KnownTurn;
use crate::store::{Store, StoreExt};
use access::AccessControl;
use access::keyring::Keyring;
use journal::JournalState;
use journal::host::{ServerHost, TurnHost};
use placement::Placement;
use placement::live::LiveSnapshot;
use ports::deliver::Deliver;
use ports::dispatch::Dispatch;
use ports::held::Held;
use settings::Settings;
use telling::Notifier;
use telling::feed::Feed;

/// How long all else may take that a server does when it stops, once the time is over that turns at work get: to park paused
/// turns, and to send what is due.
const LAST: Duration = Duration::from_secs(5);

/// See the module.
pub struct Engine {
    settings: Settings,
    store: Arc<dyn Store>,
    access: Arc<AccessControl>,
    telling: Arc<Notifier>,
    placement: Arc<Placement>,
    journal: JournalState,
    host: Arc<dyn TurnHost>,
    /// The server stops: nothing new is taken, pollers and listeners go home.
    stopping: CancellationToken,
    /// The engine is over: its tasks end.
    stopped: CancellationToken,
}

impl Engine {
    /// An engine that runs nothing yet: see [`Engine::attach`]. Webhooks are told through `deliver`.
    ///
    /// # Errors
    /// The store's.
    pub async fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Arc<Self>, Error> {
        let stopping = CancellationToken::new();
        let last_event = store.query(|reader| reader.last_event()).await?;
        let keyring = Keyring::load(store.as_ref()).await?;
        let feed = Feed::start(Arc::clone(&store), last_event, stopping.clone());
        let host = Arc::new(ServerHost::new(&settings));
        Ok(Self::of(settings, store, stopping, feed, keyring, Some(deliver), host))
    }

    fn of(
        settings: Settings,
        store: Arc<dyn Store>,
        stopping: CancellationToken,
        feed: Feed,
        keyring: Keyring,
        deliver: Option<Arc<dyn Deliver>>,
        host: Arc<dyn TurnHost>,
    ) -> Arc<Self> {
        let stopped = CancellationToken::new();
        let access = AccessControl::new(Arc::clone(&store), keyring, stopped.clone());
        let stops = (stopping.clone(), stopped.clone());
        let telling = Notifier::new(Arc::clone(&store), &settings, feed, deliver, stops);
        Arc::new(Self {
            placement: Placement::new(&settings),
            settings,
            store,
            journal: JournalState::default(),
            access,
            telling,
            host,
            stopping,
            stopped,
        })
    }

    /// Tells the engine how to reach workers, settles what the last server left open, and begins. Only the first call
    /// counts.
    ///
    /// # Errors
    /// The store's.
    pub async fn attach(self: &Arc<Self>, dispatch: Arc<dyn Dispatch>) -> Result<(), Error> {
        if !self.placement.attach(dispatch) {
            return Ok(());
        }
        let (signals, of_access) = (self.store.signals(), self.store.signals());
        if signals.is_some() {
            self.placement.share();
        }
        self.recover().await?;
        self.spawn_retry_under_new_code();
        self.spawn_pump();
        self.spawn_overtime();
        self.spawn_due();
        self.telling.spawn_outbox();
        self.spawn_parking();
        self.spawn_sweeper();
        if let Some(signals) = signals {
            self.follow_others(signals);
        }
        if let Some(signals) = of_access {
            self.follow_access(signals);
        }
        self.pump();
        Ok(())
    }

    /// What the operator set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Keys, sign-ins and rules.
    pub fn access(&self) -> &Arc<AccessControl> {
        &self.access
    }

    /// What others are told after a commit, and the notices of webhooks that wait or failed.
    pub fn telling(&self) -> &Arc<Notifier> {
        &self.telling
    }

    /// See [`ports::dispatch::TurnInbox::turn_held`].
    pub fn turn_held(&self, turn: TurnId, epoch: u64, held: Held) {
        self.placement.turn_held(turn, epoch, held);
    }

    /// Resolves when the server begins to stop.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// Stops: see [`Engine::come_to_rest`] and [`Engine::close`].
    ///
    /// # Errors
    /// The store's.
    #[cfg(test)]
    pub async fn shut_down(self: &Arc<Self>, patience: Duration) -> Result<(), Error> {
        let rested = self.come_to_rest(patience).await;
        self.close().await.and(rested)
    }

    /// Nothing new is taken and begun, pollers go home at once, and paused turns are parked; turns at work may finish or pause
    /// within `patience`, and all else ends soon after that. What is open then is taken up by the next server, once the store is
    /// closed ([`Engine::close`]): what still runs of it is the supervisor's to end before that.
    ///
    /// # Errors
    /// The store's.
    pub async fn come_to_rest(self: &Arc<Self>, patience: Duration) -> Result<(), Error> {
        // One end for all of it: whatever hangs takes the time of what comes after it.
        let begun = Instant::now();
        let due = begun.checked_add(patience);
        let last = due.and_then(|due| due.checked_add(LAST));
        self.stopping.cancel();
        if let Some(membership) = self.store.membership() {
            membership.drain();
        }
        faults::at(Point::EngineShutDown);
        // Those that pause from now on are parked as they do.
        let parked = self.park_until(due.map(|due| due.max(begun + LAST))).await;
        faults::at(Point::EngineShutDownParked);
        if until(due, self.placement.none_at_work()).await.is_none() {
            tracing::warn!(
                "turns were still at work at the end of the shutdown time; the next server goes on with them"
            );
        }
        let parked = parked.and(self.park_until(last).await);
        let _ = until(last, self.telling.finish_outbox(patience)).await;
        self.stopped.cancel();
        let left = self.all_standing();
        self.placement.clear();
        let _ = until(last, self.give_back(left)).await;
        parked
    }

    /// Closes the store, which others may have from then on.
    ///
    /// # Errors
    /// The store's.
    pub async fn close(&self) -> Result<(), Error> {
        // A turn that could not be parked is taken up by the next server all the same.
        self.store.close().await
    }

    /// Whether turns are run here: else they are written for whichever server runs them.
    fn runs_turns(&self) -> bool {
        self.settings.workers > 0
    }

    /// What is known of a turn that is at a worker.
    ///
    /// # Errors
    /// [`Error::TurnNotOpen`] where it is not. Of a server that has let go of all of them nobody can say that: they go on
    /// elsewhere, and are told [`Error::StaleEpoch`].
    fn standing(&self, turn: TurnId, epoch: u64) -> Result<LiveSnapshot, Error> {
        let none = || if self.stopped.is_cancelled() { Error::StaleEpoch } else { Error::TurnNotOpen(None) };
        self.placement.standing(turn, epoch).ok_or_else(none)
    }

    /// All that are at a worker, and what is known of each.
    fn all_standing(&self) -> Vec<(KnownTurn, LiveSnapshot)> {
        let known = self.placement.known_turns().into_iter();
        known
            .filter_map(|turn| self.placement.standing(turn.turn, turn.epoch).map(|standing| (turn, standing)))
            .collect()
    }

    /// The same of that run of it.
    ///
    /// # Errors
    /// As well [`Error::StaleEpoch`], where the turn has begun anew since.
    fn standing_of(&self, turn: TurnId, epoch: u64, run: u64) -> Result<LiveSnapshot, Error> {
        let standing = self.standing(turn, epoch)?;
        if standing.run == run { Ok(standing) } else { Err(Error::StaleEpoch) }
    }

    /// Whether it is being shut down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }
}

/// What `work` comes to by `end`, where there is one.
async fn until<T>(end: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => tokio::time::timeout_at(end, work).await.ok(),
        None => Some(work.await),
    }
}

/// Runs to its end even if the caller goes away: what follows a commit must happen.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

#[cfg(test)]
mod tests;

//! A whole server: listener, workers, store, engine and HTTP, put together and taken apart in the right order.

mod config;
mod descriptors;
mod lease_page;
pub mod log_lines;
pub mod log_queue;
mod no_workers;
mod presence;
mod start_error;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::config::{Config, IsolationName};
use self::config::{seconds, share};
use self::descriptors::Descriptors;
use self::no_workers::NoWorkers;
pub use self::start_error::ServerStartError;
use crate::adapters::policy_file::{self, WatchedFile};
use crate::adapters::webhooks::Webhooks;
use crate::domain::access::digest;
use crate::engine::Engine;
use crate::engine::ports::dispatch::Dispatch;
use crate::engine::settings::Settings;
use crate::server::hosts::is_loopback_name;
use crate::server::{self, ApiKey, HttpSettings};
use crate::store::Store;
use crate::store::open::{self, Address};
use crate::store::presence::Presence;
use crate::store::shared::membership::Membership;
use crate::supervisor::Supervisor;
use crate::supervisor::settings;

/// A server that runs.
pub struct Running {
    address: SocketAddr,
    engine: Arc<Engine>,
    /// None where turns are left to others.
    supervisor: Option<Arc<Supervisor>>,
    stop_http: CancellationToken,
    http: tokio::sync::Mutex<Option<JoinHandle<Result<(), server::ServeError>>>>,
    over: CancellationToken,
    /// This server among others, where there can be any.
    membership: Option<Arc<Membership>>,
    /// It has ended because somebody asked it to, by its row.
    is_drained: AtomicBool,
}

impl Running {
    /// Listens first and opens the store when there are workers, so that most of what is wrong is told before a file is
    /// created. Turns run in worker processes, or, with a `channel`, in the thread of this process at its other end. The
    /// start is given up when `stop` is cancelled.
    ///
    /// # Errors
    /// [`ServerStartError`]. No process, task or lock is left behind then.
    pub async fn start(
        mut config: Config,
        channel: Option<UnixStream>,
        stop: &CancellationToken,
    ) -> Result<Self, ServerStartError> {
        if (config.no_workers || !config.takes_requests)
            && !matches!(Address::parse(&config.store)?, Address::Postgres(_))
        {
            return Err(if config.no_workers { ServerStartError::Workless } else { ServerStartError::OnlyWorks });
        }
        if config.no_workers {
            config.workers = 0;
        }
        let (settings, allowed_hosts) = (config.engine_settings()?, config.allowed_hosts()?);
        let webhooks = Arc::new(Webhooks::new(&settings)?);
        let policy = match &config.policy {
            Some(path) => Some((path.clone(), policy_file::load(path)?)),
            None => None,
        };
        let descriptors = Descriptors::raise();
        let workers = descriptors::workers(&config, channel.is_some());
        let connections = descriptors.connections(config.max_connections, workers)?;
        // What agents and their tools may open is not what the server may.
        config.environment.insert("HITL_OPEN_FILES".to_owned(), descriptors.started_with.to_string());
        let lease_page = lease_page::for_workers(&Address::parse(&config.store)?)?;
        if let Some(page) = &lease_page {
            config.environment.insert(lease_page::VARIABLE.to_owned(), page.descriptor().to_string());
        }
        let patience = seconds(config.shutdown_timeout);
        let listener = listen(&config.host, config.port).await?;
        let address = listener.local_addr().map_err(|source| listen_error(&config.host, config.port, source))?;
        let supervisor = match config.no_workers {
            true => None,
            false => Some(start_workers(&config, channel, stop).await?),
        };
        let role = config.role(supervisor.as_ref().map(Dispatch::runtime));
        let opened = tokio::select! {
            opened = open::serve(&config.store, role) => opened.map_err(ServerStartError::from),
            never = presence::stand_by(&listener) => match never {},
            () = stop.cancelled() => Err(settings::SupervisorStartError::Stopped.into()),
        };
        let started = match opened {
            Ok(store) => start_engine(store, settings, webhooks).await,
            Err(error) => Err(error),
        };
        let (engine, presence, membership) = match started {
            Ok(started) => started,
            Err(error) => {
                if let Some(supervisor) = supervisor {
                    supervisor.shutdown(Duration::ZERO).await;
                }
                return Err(error);
            }
        };
        if let (Some(page), Some(membership)) = (lease_page, &membership) {
            // Its workers find it as long as the membership lasts.
            tokio::spawn(lease_page::follow(page, membership.lease_ends()));
        }
        let ready = async {
            if let Some(key) = &config.api_key
                && let Some(name) = engine.access().known().name_of(&digest(key.as_bytes()))
            {
                return Err(ServerStartError::KeyOfStore(name.to_owned()));
            }
            if config.prevent_self_approval && config.api_key.is_none() && !engine.access().known().has_any() {
                return Err(ServerStartError::Nameless);
            }
            // Without requests nobody can answer for others; what figures tell is shown to a key, where there is one.
            let is_open = config.insecure || !config.takes_requests;
            let is_guarded = is_open || config.api_key.is_some() || engine.access().known().has_any();
            if !is_guarded && !address.ip().to_canonical().is_loopback() {
                return Err(ServerStartError::Exposed(address.ip()));
            }
            // A proxy leads to loopback whoever reaches the name.
            if let Some(name) = config.allowed_hosts.iter().find(|name| !is_guarded && !is_loopback_name(name)) {
                return Err(ServerStartError::ExposedByName(name.clone()));
            }
            engine.access().begin_with_pushed(config.policy).await?;
            if let Some((path, file)) = policy {
                engine.access().follow_policy(file, WatchedFile::new(path)).await?;
            }
            let workers: Arc<dyn Dispatch> = match &supervisor {
                Some(supervisor) => {
                    supervisor.attach(&engine);
                    Arc::new(Arc::clone(supervisor))
                }
                None => Arc::new(NoWorkers),
            };
            engine.attach(workers).await?;
            Ok::<_, ServerStartError>(())
        };
        // Whoever was stopped first has not started, also where both are there at once.
        let ready = tokio::select! {
            biased;
            () = stop.cancelled() => Err(settings::SupervisorStartError::Stopped.into()),
            ready = ready => ready,
        };
        if let Err(error) = ready {
            if let Err(error) = end(&engine, supervisor.as_deref(), Duration::ZERO).await {
                tracing::error!(%error, "the store of a server that did not start could not be closed");
            }
            return Err(error);
        }
        let stop_http = CancellationToken::new();
        let settings = HttpSettings {
            api_keys: config.api_key.map(|key| ApiKey { name: "api-key".to_owned(), key }).into_iter().collect(),
            rate_limit: Some(config.rate_limit).filter(|rate| *rate > 0.0),
            allowed_hosts,
            takes_requests: config.takes_requests,
            ui: config.ui,
            max_body: config.max_body,
            max_connections: connections,
            max_connections_per_address: share(config.max_connections_per_address, connections),
            max_requests_per_key: share(config.max_requests_per_key, connections),
            shutdown_timeout: patience,
            ..HttpSettings::default()
        };
        let over = CancellationToken::new();
        if let Some(presence) = presence {
            tokio::spawn(presence::obey(presence, supervisor.clone(), over.clone()));
        }
        let http = {
            let (engine, stop, over) = (Arc::clone(&engine), stop_http.clone(), over.clone());
            tokio::spawn(async move {
                let ended = server::run(listener, engine, settings, stop.cancelled_owned()).await;
                if let Err(error) = &ended {
                    tracing::error!(%error, "HTTP ended");
                }
                over.cancel();
                ended
            })
        };
        let http = tokio::sync::Mutex::new(Some(http));
        Ok(Self { address, engine, supervisor, stop_http, http, over, membership, is_drained: AtomicBool::new(false) })
    }

    /// `http://host:port`, with the real port.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Resolves when the server does not serve any more.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Whether it ends, or has ended, because it was asked to (`hitl servers drain`): [`Self::stop`] waits for that end.
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::SeqCst)
    }

    /// Ends as [`Self::stop`] does within `patience` once somebody asks so by its row; until `over`, if nobody does.
    pub async fn obey_drain(&self, patience: Duration) {
        let Some(membership) = &self.membership else { return };
        tokio::select! {
            () = membership.draining() => {}
            () = self.over() => return,
        }
        // A server that is being stopped is draining too.
        if self.http.lock().await.is_none() {
            return;
        }
        // Before HTTP ends, with which the server is over for whoever waits for it.
        self.is_drained.store(true, Ordering::SeqCst);
        if let Err(error) = self.stop(patience).await {
            tracing::error!(%error, "a server that was asked to end did so with an error");
        }
    }

    /// Stops: nothing new, pollers go home, waiting turns are parked, turns at work finish within `patience` or go on with
    /// the next server, workers go, the store is closed. The second call does nothing.
    ///
    /// # Errors
    /// The store's; everything else has ended all the same.
    pub async fn stop(&self, patience: Duration) -> Result<(), crate::domain::Error> {
        // Held to the end: whoever stops it too waits for that.
        let mut running = self.http.lock().await;
        let Some(http) = running.take() else { return Ok(()) };
        self.stop_http.cancel();
        let settled = end(&self.engine, self.supervisor.as_deref(), patience).await;
        if let Err(error) = http.await {
            tracing::error!(%error, "HTTP ended badly");
        }
        settled
    }
}

/// Ends what serves: the engine first, which parks what waits. What still runs ends before the store is closed: another server
/// takes it up from then on, and no step is to run at both.
async fn end(
    engine: &Arc<Engine>,
    supervisor: Option<&Supervisor>,
    patience: Duration,
) -> Result<(), crate::domain::Error> {
    let rested = engine.come_to_rest(patience).await;
    if let Some(supervisor) = supervisor {
        supervisor.end_work().await;
    }
    let closed = engine.close().await;
    if let Some(supervisor) = supervisor {
        supervisor.shutdown(Duration::ZERO).await;
    }
    closed.and(rested)
}

/// An engine on the store, and where this process stands with others that use it, if there can be any.
async fn start_engine(
    store: Arc<dyn Store>,
    settings: Settings,
    webhooks: Arc<Webhooks>,
) -> Result<(Arc<Engine>, Option<watch::Receiver<Presence>>, Option<Arc<Membership>>), ServerStartError> {
    match Engine::start(settings, Arc::clone(&store), webhooks).await {
        Ok(engine) => Ok((engine, store.presence(), store.membership())),
        Err(error) => {
            if let Err(error) = store.close().await {
                tracing::error!(%error, "the store of a server that did not start could not be closed");
            }
            Err(error.into())
        }
    }
}

async fn listen(host: &str, port: u16) -> Result<TcpListener, ServerStartError> {
    TcpListener::bind((host, port)).await.map_err(|source| listen_error(host, port, source))
}

fn listen_error(host: &str, port: u16, source: io::Error) -> ServerStartError {
    ServerStartError::Listen { host: host.to_owned(), port, source }
}

async fn start_workers(
    config: &Config,
    channel: Option<UnixStream>,
    stop: &CancellationToken,
) -> Result<Arc<Supervisor>, ServerStartError> {
    if let Some(channel) = channel {
        return tokio::select! {
            started = Supervisor::in_process(channel, config.max_payload, config.hold) => Ok(started?),
            () = stop.cancelled() => Err(settings::SupervisorStartError::Stopped.into()),
        };
    }
    Ok(Supervisor::start_until(config.supervisor_settings(), stop).await?)
}

//! A whole server: listener, workers, store, engine and HTTP, put together and taken apart in the right order.

mod descriptors;
mod no_workers;
mod presence;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::descriptors::Descriptors;
use self::no_workers::NoWorkers;
use crate::adapters::policy_file::{self, WatchedFile};
use crate::adapters::webhooks::{Webhooks, WebhooksError};
use crate::domain::notice::Tries;
use crate::domain::webhook::Webhook;
use crate::engine::Engine;
use crate::engine::access::policy_file::PolicyError;
use crate::engine::access::pushed_policy::PushedPolicyError;
use crate::engine::ports::dispatch::Dispatch;
use crate::engine::settings::Settings;
use crate::faults;
use crate::server::{self, ApiKey, HttpSettings};
use crate::store::Store;
use crate::store::open::{self, Address};
use crate::store::open_error::OpenError;
use crate::store::presence::Presence;
use crate::store::shared::membership::Membership;
use crate::store::shared::servers::ServerRole;
use crate::supervisor::Supervisor;
use crate::supervisor::settings::{self, Isolation, SupervisorSettings};

/// Everything `hitl serve` can be told; times in seconds, sizes in bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `MODULE:ATTR`, or what sessions record of a live agent.
    pub agent: String,
    /// The interpreter of workers.
    pub python: PathBuf,
    /// Where workers run, and import from.
    pub working_dir: PathBuf,
    /// The environment of workers, without the server's secrets.
    pub environment: HashMap<String, String>,
    /// `process` or `task`.
    pub isolation: IsolationName,
    /// Address to listen on.
    pub host: String,
    /// Port; 0 for a free one.
    pub port: u16,
    /// Address of the store.
    pub store: String,
    /// The policy file.
    pub policy: Option<PathBuf>,
    /// See [`Settings::workers`].
    pub workers: usize,
    /// Run no turns, and leave them to the servers on the same store that do.
    pub no_workers: bool,
    /// See [`Settings::queue`].
    pub queue: usize,
    /// See [`Settings::max_sessions`]; 0 for no limit.
    pub max_sessions: usize,
    /// See [`Settings::allow_custom_ids`].
    pub allow_custom_ids: bool,
    /// See [`Settings::ttl`].
    pub ttl: f64,
    /// See [`Settings::timeout`].
    pub timeout: f64,
    /// See [`Settings::interrupt_ttl`].
    pub interrupt_ttl: f64,
    /// See [`Settings::suspended_ttl`].
    pub suspended_ttl: f64,
    /// See [`Settings::park_after`].
    pub park_after: f64,
    /// See [`SupervisorSettings::hold`].
    pub hold: f64,
    /// See [`Settings::max_warm`].
    pub max_warm: usize,
    /// See [`SupervisorSettings::start_timeout`].
    pub start_timeout: f64,
    /// See [`SupervisorSettings::worker_timeout`].
    pub worker_timeout: f64,
    /// See [`Settings::max_recoveries`].
    pub max_recoveries: u32,
    /// See [`Settings::keep_journal`].
    pub keep_journal: f64,
    /// See [`Settings::max_payload`].
    pub max_payload: usize,
    /// See [`Settings::max_value`].
    pub max_value: usize,
    /// See [`HttpSettings::max_body`].
    pub max_body: usize,
    /// See [`HttpSettings::max_connections`]; 0 for as many as there are file descriptors for, 4096 at most.
    pub max_connections: usize,
    /// See [`HttpSettings::max_connections_per_address`]; 0 for half of all.
    pub max_connections_per_address: usize,
    /// See [`HttpSettings::max_requests_per_key`]; 0 for half of all connections.
    pub max_requests_per_key: usize,
    /// How long turns at work may take to finish at the end.
    pub shutdown_timeout: f64,
    /// See [`HttpSettings::allowed_hosts`].
    pub allowed_hosts: Vec<String>,
    /// Allow an address that others can reach without any key.
    pub insecure: bool,
    /// See [`Settings::prevent_self_approval`].
    pub prevent_self_approval: bool,
    /// See [`HttpSettings::rate_limit`]; 0 for no limit.
    pub rate_limit: f64,
    /// See [`HttpSettings::ui`].
    pub ui: bool,
    /// A key with all scopes, besides those of the store.
    pub api_key: Option<String>,
    /// See [`Settings::webhook_secret`].
    pub webhook_secret: Option<String>,
    /// See [`Settings::allow_import`].
    pub allow_import: bool,
    /// See [`Settings::state_key`].
    pub state_key: Option<String>,
    /// See [`Settings::webhook_allow_private`].
    pub webhook_allow_private: bool,
    /// The server's own webhooks, each `URL[,event...]`.
    pub webhooks: Vec<String>,
    /// How often a webhook is tried again.
    pub webhook_retries: u32,
    /// See [`Settings::remind_after`].
    pub remind_after: f64,
}

/// How turns are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IsolationName {
    /// A process for each.
    Process,
    /// Tasks in a few processes.
    Task,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// It cannot listen.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Where.
        host: String,
        /// Where.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There are too few file descriptors.
    #[error("up to {needed} files and connections may have to be open at once, and this process may have {limit}")]
    Descriptors {
        /// How many it may have.
        limit: u64,
        /// How many there may be.
        needed: u64,
    },
    /// Anybody could answer.
    #[error(
        "--host: {0} can be reached from other machines, and anybody there could answer for you: the store has no key"
    )]
    Exposed(IpAddr),
    /// Nobody would run turns.
    #[error("--no-workers: no other server can run the turns of this store, which one server has for itself")]
    Workless,
    /// Nobody could tell who sends and who answers.
    #[error("--prevent-self-approval: without keys nobody can tell who sends and who answers")]
    Nameless,
    /// There are no workers.
    #[error(transparent)]
    Workers(#[from] settings::SupervisorStartError),
    /// There is no store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The policy file cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy that was pushed cannot be used.
    #[error(transparent)]
    PushedPolicy(#[from] PushedPolicyError),
    /// One of the server's own webhooks is none.
    #[error("--webhook {0}")]
    Webhook(String),
    /// Webhooks cannot be sent.
    #[error(transparent)]
    Webhooks(#[from] WebhooksError),
    /// The store does not say what the engine has to know.
    #[error(transparent)]
    Engine(#[from] crate::domain::Error),
}

impl ServerStartError {
    /// Its stable name, as Python has it in `.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Workers(settings::SupervisorStartError::TimedOut { .. }) => "start_timeout",
            Self::Workers(settings::SupervisorStartError::Stopped) => "start_stopped",
            _ => "serve_failed",
        }
    }

    /// Whose it is to mend: `usage` (an option), `agent` or `runtime`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Workers(error) if error.is_agents() => "agent",
            Self::PushedPolicy(error) if error.hint().is_none() => "runtime",
            Self::Descriptors { .. }
            | Self::Exposed(_)
            | Self::Workless
            | Self::Nameless
            | Self::Store(_)
            | Self::Policy(_)
            | Self::PushedPolicy(_)
            | Self::Webhook(_)
            | Self::Webhooks(_) => "usage",
            Self::Listen { source, .. } if source.kind() != io::ErrorKind::AddrInUse => "usage",
            _ => "runtime",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { port, source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some(format!("another program listens on port {port}; choose another with --port, or 0 for a free one"))
            }
            Self::Descriptors { .. } => Some(
                "raise the limit (`ulimit -Hn`, LimitNOFILE= of systemd), or lower --max-connections, --max-warm or --workers"
                    .to_owned(),
            ),
            Self::Nameless => Some("make a key for each of them: hitl keys create NAME --scope SCOPE".to_owned()),
            Self::Workless => Some("name a database that servers share: --store postgresql://USER@HOST/DATABASE".to_owned()),
            Self::Exposed(_) => Some(
                "make one with `hitl keys create`, add --api-key, or --insecure if the network itself is guarded"
                    .to_owned(),
            ),
            Self::Listen { .. } => Some("--host takes an address of this machine, such as 127.0.0.1".to_owned()),
            Self::Workers(settings::SupervisorStartError::AgentImport { hint, .. }) => hint.clone(),
            Self::Workers(settings::SupervisorStartError::TimedOut { .. }) => Some(
                "let the module do what takes long, or waits for others, when a turn begins and not when it is imported; \
                 or allow more with --start-timeout (0 is no limit)"
                    .to_owned(),
            ),
            Self::Store(error) => Some(error.hint().to_owned()),
            Self::Policy(_) => Some("docs/policy.md shows what a rule looks like".to_owned()),
            Self::PushedPolicy(error) => error.hint(),
            Self::Webhooks(WebhooksError::InvalidSecret) => {
                Some("for example: echo whsec_$(openssl rand -base64 32)".to_owned())
            }
            Self::Webhook(_) => Some(
                "for example: --webhook https://example.com/hook,interrupt.created,session.error (a comma in the URL is \
                 written %2C); an address of a private network needs --webhook-allow-private"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

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
        if config.no_workers {
            if !matches!(Address::parse(&config.store)?, Address::Postgres(_)) {
                return Err(ServerStartError::Workless);
            }
            config.workers = 0;
        }
        let settings = engine_settings(&config)?;
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
        let patience = seconds(config.shutdown_timeout);
        let listener = listen(&config.host, config.port).await?;
        let address = listener.local_addr().map_err(|source| listen_error(&config.host, config.port, source))?;
        let supervisor = match config.no_workers {
            true => None,
            false => Some(start_workers(&config, channel, stop).await?),
        };
        let role = ServerRole { agent: Some(config.agent.clone()), serves_http: true, workers: config.workers };
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
        let ready = async {
            if config.prevent_self_approval && config.api_key.is_none() && !engine.access().known().has_any() {
                return Err(ServerStartError::Nameless);
            }
            let is_guarded = config.insecure || config.api_key.is_some() || engine.access().known().has_any();
            if !is_guarded && !address.ip().to_canonical().is_loopback() {
                return Err(ServerStartError::Exposed(address.ip()));
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
        let ready = tokio::select! {
            ready = ready => ready,
            () = stop.cancelled() => Err(settings::SupervisorStartError::Stopped.into()),
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
            allowed_hosts: config.allowed_hosts,
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

/// Ends what serves: the engine first, which parks what waits and closes the store.
async fn end(
    engine: &Arc<Engine>,
    supervisor: Option<&Supervisor>,
    patience: Duration,
) -> Result<(), crate::domain::Error> {
    let settled = engine.shut_down(patience).await;
    if let Some(supervisor) = supervisor {
        supervisor.shutdown(Duration::ZERO).await;
    }
    settled
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
    let isolation = match config.isolation {
        IsolationName::Process => Isolation::Process,
        IsolationName::Task => Isolation::tasks(),
    };
    let settings = SupervisorSettings {
        python: config.python.clone(),
        agent: config.agent.clone(),
        isolation,
        workers: config.workers,
        working_dir: config.working_dir.clone(),
        environment: config.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        paths: vec![config.working_dir.clone()],
        max_payload: config.max_payload,
        hold: config.hold,
        start_timeout: seconds(config.start_timeout),
        stop_grace: settings::STOP_GRACE,
        worker_timeout: seconds(config.worker_timeout),
        spare_silent: faults::spares_silent_workers(),
    };
    Ok(Supervisor::start_until(settings, stop).await?)
}

fn engine_settings(config: &Config) -> Result<Settings, ServerStartError> {
    let webhooks = config
        .webhooks
        .iter()
        .map(|text| {
            let invalid = |error: crate::domain::Error| ServerStartError::Webhook(error.to_string());
            Webhook::of_server(text, config.webhook_allow_private).map_err(invalid)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Settings {
        agent: config.agent.clone(),
        workers: config.workers,
        queue: config.queue,
        max_sessions: Some(config.max_sessions).filter(|limit| *limit > 0),
        allow_custom_ids: config.allow_custom_ids,
        timeout: config.timeout,
        interrupt_ttl: config.interrupt_ttl,
        ttl: config.ttl,
        suspended_ttl: config.suspended_ttl,
        park_after: config.park_after,
        max_warm: config.max_warm,
        max_recoveries: config.max_recoveries,
        keep_journal: config.keep_journal,
        max_payload: config.max_payload,
        max_value: config.max_value,
        webhook_allow_private: config.webhook_allow_private,
        webhook_secret: config.webhook_secret.clone(),
        webhooks,
        tries: Tries { retries: config.webhook_retries, ..Tries::default() },
        remind_after: config.remind_after,
        allow_import: config.allow_import,
        state_key: config.state_key.clone(),
        prevent_self_approval: config.prevent_self_approval,
        ..Settings::default()
    })
}

/// What one client may have of all connections: what is set, or half of them.
fn share(set: usize, connections: usize) -> usize {
    if set == 0 { (connections / 2).max(1) } else { set }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

//! What a supervisor is told, and how its start can fail.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::payload::MAX_PAYLOAD;

/// How turns are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A process for each turn, forked from a warm zygote.
    Process,
    /// Turns as asyncio tasks in a few processes.
    Task {
        /// How many; at least 1.
        processes: usize,
    },
}

impl Isolation {
    /// Task isolation with one process for each of the first two cores.
    pub fn tasks() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Task { processes: cores.min(2) }
    }
}

/// Settings of a supervisor that has worker processes.
#[derive(Debug, Clone)]
pub struct SupervisorSettings {
    /// The interpreter, `sys.executable`.
    pub python: PathBuf,
    /// `MODULE:ATTR` of the agent.
    pub agent: String,
    /// How turns are kept apart.
    pub isolation: Isolation,
    /// How many turns may be at work (`--workers`); with process isolation as many idle children wait, at most
    /// four, so that a turn does not wait for a fork.
    pub workers: usize,
    /// The directory that workers run in, and import from.
    pub working_dir: PathBuf,
    /// The whole environment of workers, with secrets of the server taken out already.
    pub environment: Vec<(OsString, OsString)>,
    /// Put before everything else on the workers' `sys.path`.
    pub paths: Vec<PathBuf>,
    /// `--max-payload`, told to workers so that `interrupt()` can say it before anything is sent.
    pub max_payload: usize,
    /// `--hold`, in seconds: how long a turn with an open question stays in memory for raw I/O between its steps. Zero:
    /// for as long as that takes.
    pub hold: f64,
    /// How long a process may take to import the agent (`--start-timeout`). Zero: as long as it likes.
    pub start_timeout: Duration,
    /// How long a stopped turn may take to obey before its process is killed.
    pub stop_grace: Duration,
    /// A worker with a turn at work that says nothing at all for so long is killed (`--worker-timeout`). Zero: never.
    pub worker_timeout: Duration,
    /// For tests only: a silent worker loses its turns, but is not killed and may go on writing.
    pub spare_silent: bool,
}

impl SupervisorSettings {
    /// Process isolation for `agent`, with this process's directory and environment.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn new(python: impl Into<PathBuf>, agent: &str) -> io::Result<Self> {
        Ok(Self {
            python: python.into(),
            agent: agent.to_owned(),
            isolation: Isolation::Process,
            workers: std::thread::available_parallelism().map_or(2, |cores| usize::from(cores).max(2)),
            working_dir: std::env::current_dir()?,
            environment: std::env::vars_os().collect(),
            paths: Vec::new(),
            max_payload: MAX_PAYLOAD,
            hold: HOLD,
            start_timeout: START_TIMEOUT,
            stop_grace: STOP_GRACE,
            worker_timeout: WORKER_TIMEOUT,
            spare_silent: false,
        })
    }
}

/// See [`SupervisorSettings::hold`].
pub const HOLD: f64 = 60.0;

/// See [`SupervisorSettings::start_timeout`].
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// See [`SupervisorSettings::stop_grace`].
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// See [`SupervisorSettings::worker_timeout`].
pub const WORKER_TIMEOUT: Duration = Duration::from_secs(30);

/// Shared workers that are started beside the others for turns that run alone. Once there are as many, such turns share those
/// with each other: where memory is short, or each worker imports the agent, a process for every one is the next harm.
pub const MOST_ALONE: usize = 8;

/// Why there are no workers.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorStartError {
    /// The agent cannot be imported, or is none; the author's to mend (exit code 3).
    #[error("{message}")]
    AgentImport {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The process ended while it imported the agent, without a word.
    #[error("importing {agent} ended the worker process: {how}")]
    Ended {
        /// `MODULE:ATTR`.
        agent: String,
        /// Exit code or signal.
        how: String,
    },
    /// It was not imported in time.
    #[error("importing {agent} took longer than {} s", limit.as_secs_f64())]
    TimedOut {
        /// `MODULE:ATTR`.
        agent: String,
        /// See [`SupervisorSettings::start_timeout`].
        limit: Duration,
    },
    /// The supervisor was told to stop meanwhile.
    #[error("the server was stopped before it had started")]
    Stopped,
    /// The interpreter cannot be started.
    #[error("cannot start {}: {source}", python.display())]
    Spawn {
        /// The interpreter.
        python: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What answered is not this version's worker.
    #[error("the worker does not speak this server's protocol: {0}")]
    Protocol(String),
}

impl SupervisorStartError {
    /// Whether the agent's module is to blame, rather than hitl or the machine.
    pub fn is_agents(&self) -> bool {
        matches!(self, Self::AgentImport { .. } | Self::Ended { .. } | Self::TimedOut { .. })
    }
}

//! Where workers come from: forked by a zygote, or, where forking is not safe, started one by one.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::control::{Control, FromZygote, Mode, Ours};
use super::frames::Stream;
use super::log;
use super::process::{Exit, Output, Process, ended};
use super::runtime::KnownRuntime;
use super::settings::{SupervisorSettings, SupervisorStartError};
use super::{KILL_GRACE, no_longer_than};
use crate::engine::ports::dispatch::Runtime;

/// A worker that has begun and has not said anything.
pub struct Spawned {
    /// Its channel.
    pub stream: UnixStream,
    /// Its standard output.
    pub stdout: pipe::Receiver,
    /// Its standard error.
    pub stderr: pipe::Receiver,
    /// The process.
    pub body: Body,
    /// How it ended, once it has.
    pub exit: watch::Receiver<Option<Exit>>,
}

/// What a worker runs in.
pub enum Body {
    /// A child of the zygote.
    Forked {
        /// The way to it.
        control: Arc<Control>,
        /// Its number there.
        child: u64,
    },
    /// A process of its own.
    Started(Process),
    /// A thread of this process, with what tells that it is given up.
    InProcess(watch::Sender<Option<Exit>>),
}

impl Body {
    /// Ends it at once; a thread cannot be, but notices that its channel is closed.
    pub fn kill(&self) {
        match self {
            Self::Forked { control, child } => control.kill(*child),
            Self::Started(process) => process.kill(),
            Self::InProcess(lives) => {
                lives.send_replace(Some(Exit::default()));
            }
        }
    }
}

/// See the module.
pub struct Spawner {
    settings: SupervisorSettings,
    runtime: tokio::runtime::Handle,
    zygote: tokio::sync::Mutex<Option<Zygote>>,
    /// Why workers are not forked, where they are not.
    unforkable: OnceLock<String>,
    known: Arc<KnownRuntime>,
    /// Nothing is started any more, and a zygote that is still importing is ended.
    ending: CancellationToken,
}

struct Zygote {
    control: Arc<Control>,
    process: Process,
}

impl Spawner {
    /// A spawner whose zygote, if there is one, has imported the agent. When `stop` is cancelled it starts nothing any
    /// more.
    ///
    /// # Errors
    /// See [`SupervisorStartError`].
    pub async fn start(
        settings: SupervisorSettings,
        runtime: tokio::runtime::Handle,
        known: Arc<KnownRuntime>,
        stop: &CancellationToken,
    ) -> Result<Self, SupervisorStartError> {
        let (zygote, unforkable) = (tokio::sync::Mutex::new(None), OnceLock::new());
        let spawner = Self { settings, runtime, zygote, unforkable, known, ending: stop.child_token() };
        if cfg!(target_os = "linux") {
            let zygote = spawner.start_zygote().await?;
            *spawner.zygote.lock().await = zygote;
        } else {
            let _ = spawner.unforkable.set("this system has no safe fork".to_owned());
        }
        Ok(spawner)
    }

    /// A new worker.
    ///
    /// # Errors
    /// When it cannot be started, or the zygote had to be started again and could not.
    pub async fn spawn(&self, number: u64, mode: Mode) -> Result<Spawned, SupervisorStartError> {
        let control = self.control().await?;
        let spawned = match control {
            Some(control) => fork(control, number, mode),
            None => self.execute(mode).await,
        };
        spawned.map_err(|source| self.spawn_error(source))
    }

    /// `MODULE:ATTR` of what its workers run.
    pub fn agent(&self) -> &str {
        &self.settings.agent
    }

    /// Whether workers are forked, and the agent is imported therefore.
    pub fn forks(&self) -> bool {
        self.unforkable.get().is_none()
    }

    /// Ends the zygote and with it every child it has forked. Returns when they are gone.
    pub async fn stop(&self) {
        // First: whoever starts another zygote has the lock for as long as it imports.
        self.ending.cancel();
        if let Some(Zygote { control, process }) = self.zygote.lock().await.take() {
            control.close();
            if tokio::time::timeout(KILL_GRACE, ended(process.exit())).await.is_err() {
                end(&process).await;
            }
        }
    }

    /// The living zygote's control, of a new one where the last has died; `None` when workers are not forked.
    async fn control(&self) -> Result<Option<Arc<Control>>, SupervisorStartError> {
        if !self.forks() {
            return Ok(None);
        }
        let mut zygote = self.zygote.lock().await;
        if self.ending.is_cancelled() {
            return Err(SupervisorStartError::Stopped);
        }
        if zygote.as_ref().is_none_or(|zygote| zygote.control.is_gone()) {
            tracing::warn!("the zygote is gone; starting another");
            *zygote = self.start_zygote().await?;
        }
        Ok(zygote.as_ref().map(|zygote| Arc::clone(&zygote.control)))
    }

    async fn start_zygote(&self) -> Result<Option<Zygote>, SupervisorStartError> {
        let spawn_error = |source| self.spawn_error(source);
        let (ours, theirs) = Control::pair().map_err(spawn_error)?;
        let mut command = self.command("hitl.worker.zygote");
        command.arg(&self.settings.agent).args(&self.settings.paths).stdin(Stdio::from(theirs));
        let (process, output) = Process::start(command).await.map_err(spawn_error)?;
        self.pump(output).map_err(spawn_error)?;
        let limit = self.settings.start_timeout;
        let imported = tokio::select! {
            imported = no_longer_than(limit, self.imported(&ours, &process)) => {
                imported.unwrap_or_else(|| Err(SupervisorStartError::TimedOut { agent: self.settings.agent.clone(), limit }))
            }
            () = self.ending.cancelled() => Err(SupervisorStartError::Stopped),
        };
        match imported {
            Ok(None) => Ok(Some(Zygote { control: ours.serve(&self.runtime), process })),
            Ok(Some(reason)) => {
                tracing::warn!(reason, "workers cannot be forked and are started one by one, which takes longer");
                let _ = self.unforkable.set(reason);
                end(&process).await;
                Ok(None)
            }
            Err(error) => {
                end(&process).await;
                Err(error)
            }
        }
    }

    /// Waits until the zygote has imported the agent: why it cannot fork, if it cannot.
    async fn imported(&self, ours: &Ours, process: &Process) -> Result<Option<String>, SupervisorStartError> {
        match ours.next().await.map_err(|error| SupervisorStartError::Protocol(error.to_string()))? {
            Some(FromZygote::Ready { fork, reason, python, name, code, replay, pin }) => {
                self.known.learn(Runtime { agent: name, code, python, replay, pin });
                Ok((!fork).then(|| reason.unwrap_or_else(|| "no reason given".to_owned())))
            }
            Some(FromZygote::Failed { message, hint }) => Err(SupervisorStartError::AgentImport { message, hint }),
            None => {
                let how = ended(process.exit()).await.to_string();
                Err(SupervisorStartError::Ended { agent: self.settings.agent.clone(), how })
            }
            Some(other) => Err(SupervisorStartError::Protocol(format!("its first word was {other:?}"))),
        }
    }

    async fn execute(&self, mode: Mode) -> io::Result<Spawned> {
        let (stream, channel) = channel_pair()?;
        let mut command = self.command("hitl.worker.plain");
        command.arg(mode.as_str()).arg(&self.settings.agent).args(&self.settings.paths).stdin(Stdio::from(channel));
        let (process, output) = Process::start(command).await?;
        Ok(Spawned {
            stream,
            stdout: pipe::Receiver::from_owned_fd(output.stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(output.stderr.into())?,
            exit: process.exit(),
            body: Body::Started(process),
        })
    }

    fn spawn_error(&self, source: io::Error) -> SupervisorStartError {
        SupervisorStartError::Spawn { python: self.settings.python.clone(), source }
    }

    fn command(&self, module: &str) -> Command {
        let mut command = Command::new(&self.settings.python);
        command
            .args(["-m", module])
            .current_dir(&self.settings.working_dir)
            .env_clear()
            .envs(self.settings.environment.iter().map(|(name, value)| (name, value)))
            // Replay needs sets of strings in one order everywhere.
            .envs(
                [("PYTHONHASHSEED", "0"), ("PYTHONUNBUFFERED", "1")]
                    .map(|(name, value)| (OsString::from(name), OsString::from(value))),
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn pump(&self, output: Output) -> io::Result<()> {
        let stdout = pipe::Receiver::from_owned_fd(output.stdout.into())?;
        let stderr = pipe::Receiver::from_owned_fd(output.stderr.into())?;
        self.runtime.spawn(log::pump(stdout, Stream::Stdout, || None, std::future::pending()));
        self.runtime.spawn(log::pump(stderr, Stream::Stderr, || None, std::future::pending()));
        Ok(())
    }
}

/// Kills a process, and waits until it has gone: nothing of it is left when the start that needed it has failed.
async fn end(process: &Process) {
    process.kill();
    if tokio::time::timeout(KILL_GRACE, ended(process.exit())).await.is_err() {
        tracing::error!("the zygote could not be ended");
    }
}

fn fork(control: Arc<Control>, number: u64, mode: Mode) -> io::Result<Spawned> {
    let (stream, theirs) = channel_pair()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = io::pipe()?;
    let stdout = pipe::Receiver::from_owned_fd(stdout.into())?;
    let stderr = pipe::Receiver::from_owned_fd(stderr.into())?;
    let exit = control.fork(number, mode, [theirs, child_stdout.into(), child_stderr.into()])?;
    Ok(Spawned { stream, stdout, stderr, body: Body::Forked { control, child: number }, exit })
}

fn channel_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

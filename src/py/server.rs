//! The server, as Python holds it. Signals are Python's; it calls [`Server::stop`].

use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::logging;
use super::runtime::runtime;
use crate::serve::{Config, Running, ServerStartError};

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}

/// One server: made, started once, stopped once.
#[pyclass(frozen, module = "hitl._core")]
struct Server {
    config: Mutex<Option<(Config, Option<UnixStream>)>>,
    /// Gives up a start under way.
    stop: CancellationToken,
    phase: watch::Sender<ServerPhase>,
}

/// Where a server stands.
#[derive(Clone)]
enum ServerPhase {
    New,
    Starting,
    Running(Arc<Running>),
    /// It could not start.
    Failed,
}

#[pymethods]
impl Server {
    /// `settings`: the members of `serve::Config`.
    #[new]
    fn new(settings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let config: Config = pythonize::depythonize(settings)?;
        let (config, phase) = (Mutex::new(Some((config, None))), watch::Sender::new(ServerPhase::New));
        Ok(Self { config, stop: CancellationToken::new(), phase })
    }

    /// Turns will run in a thread of this process: the descriptor of the socket over which it is reached, which is the
    /// caller's from now on.
    fn open_channel(&self) -> PyResult<i32> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        match config.as_mut() {
            Some((_, channel)) => *channel = Some(ours),
            None => return Err(PyRuntimeError::new_err("the server has been started")),
        }
        Ok(theirs.into_raw_fd())
    }

    /// Returns once it listens; raises `ServeError`, also when it is stopped meanwhile.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        let runtime = runtime()?;
        let (config, channel) = slf.get().take_config()?;
        let this = slf.get();
        let started = slf.py().detach(|| runtime.block_on(this.begin(config, channel)));
        started.map_err(|error| serve_error(slf.py(), &error))
    }

    /// Where it listens.
    #[getter]
    fn url(&self) -> PyResult<String> {
        Ok(self.running()?.url())
    }

    /// Finishes turns at work for at most `timeout` seconds, ends the rest, closes. A start under way is given up, and
    /// has left nothing behind when this returns; what it logged is written then, where somebody reads it. Twice does
    /// nothing.
    fn stop(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let runtime = runtime()?;
        let ended = py.detach(|| {
            let ended = runtime.block_on(self.end(patience(timeout)));
            logging::flush();
            ended
        });
        ended.map_err(runtime_error)
    }

    /// Blocks until the server does not serve any more.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, running) = (runtime()?, self.running()?);
        py.detach(|| runtime.block_on(running.over()));
        Ok(())
    }

    /// Whether it has ended because it was asked to by its row.
    #[getter]
    fn is_drained(&self) -> bool {
        self.running().is_ok_and(|running| running.is_drained())
    }
}

impl Server {
    fn take_config(&self) -> PyResult<(Config, Option<UnixStream>)> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).take();
        let config = config.ok_or_else(|| PyRuntimeError::new_err("a server can be started once"))?;
        self.phase.send_replace(ServerPhase::Starting);
        Ok(config)
    }

    async fn begin(&self, config: Config, channel: Option<UnixStream>) -> Result<(), ServerStartError> {
        let shutdown_timeout = config.shutdown_timeout;
        match Running::start(config, channel, &self.stop).await {
            Ok(running) => {
                let running = Arc::new(running);
                self.phase.send_replace(ServerPhase::Running(Arc::clone(&running)));
                tokio::spawn(async move { running.obey_drain(patience(shutdown_timeout)).await });
                Ok(())
            }
            Err(error) => {
                self.phase.send_replace(ServerPhase::Failed);
                Err(error)
            }
        }
    }

    async fn end(&self, patience: Duration) -> Result<(), crate::domain::Error> {
        self.stop.cancel();
        let mut phase = self.phase.subscribe();
        // A start comes to an end first; it may have succeeded at the same moment.
        let begun = phase.wait_for(|phase| !matches!(phase, ServerPhase::Starting)).await.map(|phase| phase.clone());
        match begun {
            Ok(ServerPhase::Running(running)) => running.stop(patience).await,
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn running(&self) -> PyResult<Arc<Running>> {
        match &*self.phase.borrow() {
            ServerPhase::Running(running) => Ok(Arc::clone(running)),
            _ => Err(PyRuntimeError::new_err("the server is not running")),
        }
    }
}

/// `hitl.serving.ServeError` with message, kind, hint and code.
fn serve_error(py: Python<'_>, error: &ServerStartError) -> PyErr {
    let raised = py
        .import("hitl.serving")
        .and_then(|module| module.getattr("ServeError"))
        .and_then(|class| class.call1((error.to_string(), error.kind(), error.hint(), error.code())));
    match raised {
        Ok(raised) => PyErr::from_value(raised),
        Err(failed) => failed,
    }
}

fn runtime_error(error: crate::domain::Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn patience(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

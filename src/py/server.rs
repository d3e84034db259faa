//! The server, as Python holds it. Signals are Python's; it calls [`Server::stop`].

use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3_async_runtimes::tokio::future_into_py;

use super::runtime::runtime;
use crate::serve::{Config, Running, StartError};

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}

/// One server: made, started once, stopped once.
#[pyclass(frozen, module = "hitl._core")]
struct Server {
    config: Mutex<Option<(Config, Option<UnixStream>)>>,
    running: Mutex<Option<Arc<Running>>>,
}

#[pymethods]
impl Server {
    /// `settings`: the members of `serve::Config`.
    #[new]
    fn new(settings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let config: Config = pythonize::depythonize(settings)?;
        Ok(Self { config: Mutex::new(Some((config, None))), running: Mutex::new(None) })
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

    /// Returns once it listens; raises `ServeError`.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        let runtime = runtime()?;
        let (config, channel) = slf.get().take_config()?;
        let started = slf.py().detach(|| runtime.block_on(Running::start(config, channel)));
        slf.get().keep(started)
    }

    /// The same as an awaitable.
    fn start_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        runtime()?;
        let (config, channel) = slf.get().take_config()?;
        let this = slf.clone().unbind();
        future_into_py(slf.py(), async move {
            let started = Running::start(config, channel).await;
            this.get().keep(started)
        })
    }

    /// Where it listens.
    #[getter]
    fn url(&self) -> PyResult<String> {
        Ok(self.running()?.url())
    }

    /// Finishes turns at work for at most `timeout` seconds, ends the rest, closes. Twice does nothing.
    fn stop(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let (runtime, running) = (runtime()?, self.running()?);
        py.detach(|| runtime.block_on(running.stop(patience(timeout)))).map_err(runtime_error)
    }

    /// The same as an awaitable.
    fn stop_async<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        runtime()?;
        let running = self.running()?;
        future_into_py(py, async move { running.stop(patience(timeout)).await.map_err(runtime_error) })
    }

    /// Blocks until the server does not serve any more.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, running) = (runtime()?, self.running()?);
        py.detach(|| runtime.block_on(running.over()));
        Ok(())
    }
}

impl Server {
    fn take_config(&self) -> PyResult<(Config, Option<UnixStream>)> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).take();
        config.ok_or_else(|| PyRuntimeError::new_err("a server can be started once"))
    }

    fn keep(&self, started: Result<Running, StartError>) -> PyResult<()> {
        let running = started.map_err(|error| Python::attach(|py| serve_error(py, &error)))?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(running));
        Ok(())
    }

    fn running(&self) -> PyResult<Arc<Running>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| PyRuntimeError::new_err("the server is not running"))
    }
}

/// `hitl.serving.ServeError` with message, kind and hint.
fn serve_error(py: Python<'_>, error: &StartError) -> PyErr {
    let raised = py
        .import("hitl.serving")
        .and_then(|module| module.getattr("ServeError"))
        .and_then(|class| class.call1((error.to_string(), error.kind(), error.hint())));
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

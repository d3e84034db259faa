//! The server's log: standard error, for people or as JSON lines.

use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(init_logging, module)?)
}

/// Starts the log of this process: `level` is debug, info, warning or error, `format` human or json. Only the first call
/// counts; returns whether this was it.
#[pyfunction]
fn init_logging(level: &str, format: &str) -> PyResult<bool> {
    let level = match level {
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "warning" => LevelFilter::WARN,
        "error" => LevelFilter::ERROR,
        other => return Err(PyValueError::new_err(format!("unknown log level {other:?}"))),
    };
    // Other crates' details help nobody who runs a server, and may hold what must not be logged.
    let targets = Targets::new().with_target("hitl", level).with_default(LevelFilter::WARN.min(level));
    let registry = tracing_subscriber::registry().with(targets);
    let started = match format {
        "human" => registry.with(tracing_subscriber::fmt::layer().with_writer(io::stderr).compact()).try_init(),
        "json" => registry.with(tracing_subscriber::fmt::layer().with_writer(io::stderr).json()).try_init(),
        other => return Err(PyValueError::new_err(format!("unknown log format {other:?}"))),
    };
    Ok(started.is_ok())
}

//! The server's log: standard error, for people or as JSON lines.

use std::io::Write;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::domain::text::WrittenOut;
use crate::serve::log_lines;
use crate::serve::log_queue::{LogQueue, StandardError};

/// What this process says on standard error.
static LOG: LogQueue = LogQueue::new();

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(init_logging, module)?)?;
    module.add_function(wrap_pyfunction!(log_text, module)?)?;
    module.add_function(wrap_pyfunction!(flush_log, module)?)
}

/// Starts the log of this process: `level` is debug, info, warning or error, `format` human or json. Only the first call
/// counts; returns whether this was it. Whoever logs waits for no reader, and `flush_log` has to be called before the
/// process ends; where the system gives no thread for it, lines are written where they are logged.
#[pyfunction]
fn init_logging(level: &str, format: &str) -> PyResult<bool> {
    let level = match level {
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "warning" => LevelFilter::WARN,
        "error" => LevelFilter::ERROR,
        other => return Err(PyValueError::new_err(format!("unknown log level {other:?}"))),
    };
    let format = match format {
        "human" => WrittenOut::ForPeople,
        "json" => WrittenOut::ForJson,
        other => return Err(PyValueError::new_err(format!("unknown log format {other:?}"))),
    };
    if log_lines::subscriber(level, format, || &LOG).try_init().is_err() {
        return Ok(false);
    }
    if let Err(error) = LOG.start(StandardError, move |lost| log_lines::of_lost(format, lost)) {
        tracing::warn!(%error, "there is no thread for the log: whoever logs waits for who reads it");
    }
    LOG.log_panics();
    Ok(true)
}

/// Whole lines that are not the log's, behind those that were logged before.
#[pyfunction]
fn log_text(text: &[u8]) -> PyResult<()> {
    Ok((&LOG).write_all(text)?)
}

/// Waits until everything that was logged is written; for a few seconds where nobody reads.
#[pyfunction]
fn flush_log(py: Python<'_>) {
    py.detach(flush);
}

/// The same, for who does not have the interpreter.
pub fn flush() {
    LOG.wait_until_written();
}

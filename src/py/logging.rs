//! The server's log: standard error, for people or as JSON lines.

use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::domain::text::WrittenOut;
use crate::serve::log_lines;

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
    let format = match format {
        "human" => WrittenOut::ForPeople,
        "json" => WrittenOut::ForJson,
        other => return Err(PyValueError::new_err(format!("unknown log format {other:?}"))),
    };
    let started = log_lines::subscriber(level, format, io::stderr).try_init();
    Ok(started.is_ok())
}

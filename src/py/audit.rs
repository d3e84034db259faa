//! Whether an audit is whole, for the command line.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::domain::audit::{Head, Verifier};

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AuditVerifier>()
}

/// Looks at the rows of an audit in order.
#[pyclass(frozen, module = "hitl._core")]
struct AuditVerifier(Mutex<Verifier>);

#[pymethods]
impl AuditVerifier {
    /// `head`: number and hash of a row that was the last one once.
    #[new]
    #[pyo3(signature = (head = None))]
    fn new(head: Option<(u64, String)>) -> Self {
        let head = head.map(|(seq, hash)| Head { seq, hash });
        Self(Mutex::new(Verifier::new(head)))
    }

    /// The next row, as the line of a file, without its end. Raises `ValueError` where it is no row, or does not fit:
    /// which one, and why.
    fn take_line(&self, line: &[u8]) -> PyResult<()> {
        self.lock().take_line(line).map_err(|flaw| PyValueError::new_err(flaw.to_string()))
    }

    /// The next row, as the JSON of a server or a store: its line, without its end. Raises `ValueError` as `take_line` does.
    fn take(&self, row: &str) -> PyResult<String> {
        let line = self.lock().take_text(row.as_bytes()).map_err(|flaw| PyValueError::new_err(flaw.to_string()))?;
        String::from_utf8(line).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Number and hash of the last row. Raises `ValueError` where rows are missing at the end, as far as `head` tells.
    fn finish(&self) -> PyResult<(u64, String)> {
        let verifier = self.lock().clone();
        let Head { seq, hash } = verifier.finish().map_err(|flaw| PyValueError::new_err(flaw.to_string()))?;
        Ok((seq, hash))
    }
}

impl AuditVerifier {
    fn lock(&self) -> MutexGuard<'_, Verifier> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

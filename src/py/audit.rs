//! Whether an audit is whole, for the command line.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::domain::audit::{AuditRow, Head, Verifier};

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

    /// The next row, as JSON. Raises `ValueError` for what is no row, and where it does not fit: which one, and why.
    fn take(&self, row: &str) -> PyResult<()> {
        let row: AuditRow =
            serde_json::from_str(row).map_err(|error| PyValueError::new_err(format!("no row of an audit: {error}")))?;
        let mut verifier = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        verifier.take(&row).map_err(|flaw| PyValueError::new_err(flaw.to_string()))
    }

    /// Number and hash of the last row. Raises `ValueError` where rows are missing at the end, as far as `head` tells.
    fn finish(&self) -> PyResult<(u64, String)> {
        let verifier = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Head { seq, hash } = verifier.finish().map_err(|flaw| PyValueError::new_err(flaw.to_string()))?;
        Ok((seq, hash))
    }
}

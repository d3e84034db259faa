//! Errors of the core as exceptions of `hitl.errors`.

use pyo3::intern;
use pyo3::prelude::*;

use crate::domain::Error;
use crate::store::open_error::OpenError;

/// The exception for a domain error: by its code, with what more is known of it.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let details = match error {
        Error::InvalidAnswer(errors) => pythonize::pythonize(py, errors).ok(),
        _ => None,
    };
    exception(py, "error_of", (error.code(), error.to_string(), details))
}

/// `hitl.errors.StoreError` for a store that cannot be opened.
pub fn open_error(py: Python<'_>, error: &OpenError) -> PyErr {
    store_error(py, &error.to_string(), error.hint(), error.code())
}

/// `hitl.errors.StoreError` with message, hint and code.
pub fn store_error(py: Python<'_>, message: &str, hint: &str, code: &str) -> PyErr {
    exception(py, "StoreError", (message, hint, code))
}

fn exception<'py>(py: Python<'py>, maker: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py
        .import(intern!(py, "hitl.errors"))
        .and_then(|module| module.getattr(maker))
        .and_then(|maker| maker.call1(arguments));
    match made {
        Ok(made) => PyErr::from_value(made),
        Err(failed) => failed,
    }
}

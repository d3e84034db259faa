//! Keys of a store, for `hitl keys --store`.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::errors::{open_error, raised, store_error};
use super::runtime::runtime;
use crate::domain::Error;
use crate::domain::access::{Actor, NewKey};
use crate::domain::scope::Scope;
use crate::engine::access::keyring;
use crate::store::open;
use crate::store::open_error::OpenError;
use crate::store::{Store, StoreExt};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(create_key, module)?)?;
    module.add_function(wrap_pyfunction!(list_keys, module)?)?;
    module.add_function(wrap_pyfunction!(revoke_key, module)?)
}

/// Makes a key in the store at `address`, which is made where it is missing: the key as `GET /keys` lists it, and its
/// secret. Raises `StoreError`, and `HitlError` with the code of what is wrong.
#[pyfunction]
fn create_key<'py>(
    py: Python<'py>,
    address: &str,
    name: String,
    scopes: Vec<String>,
    groups: Vec<String>,
) -> PyResult<(Bound<'py, PyAny>, String)> {
    let unknown = |word: &str| PyValueError::new_err(format!("{word:?} is no scope"));
    let scopes = scopes.iter().map(|word| Scope::parse(word).ok_or_else(|| unknown(word))).collect::<PyResult<_>>()?;
    let new = NewKey { name, scopes, groups };
    let (key, secret) =
        with(py, open::change(address), async |store| keyring::create_key(store, new, &Actor::anyone()).await)?;
    Ok((pythonize::pythonize(py, &key)?, secret))
}

/// The keys of the store at `address`, whoever has it. Raises `StoreError`.
#[pyfunction]
fn list_keys<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyAny>> {
    let keys = with(py, open::read_only(address), async |store| store.query(|reader| reader.keys()).await)?;
    Ok(pythonize::pythonize(py, &keys)?)
}

/// Revokes the key with this name in the store at `address`. Raises `StoreError`, and `HitlError` (`unknown_key`).
#[pyfunction]
fn revoke_key(py: Python<'_>, address: &str, name: &str) -> PyResult<()> {
    with(py, open::change(address), async |store| keyring::revoke_named(store, name).await)
}

/// Opens the store, works with it, and closes it.
pub(super) fn with<T: Send>(
    py: Python<'_>,
    opening: impl Future<Output = Result<Arc<dyn Store>, OpenError>> + Send,
    work: impl AsyncFnOnce(&dyn Store) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let runtime = runtime()?;
    let done = py.detach(|| {
        let store = runtime.block_on(opening)?;
        let done = runtime.block_on(work(store.as_ref()));
        let closed = runtime.block_on(store.close());
        Ok(done.and_then(|value| closed.map(|()| value)))
    });
    match done.map_err(|error: OpenError| open_error(py, &error))? {
        Ok(value) => Ok(value),
        Err(error @ (Error::StoreUnavailable(_) | Error::Unreadable(_) | Error::Internal(_))) => {
            Err(store_error(py, &error.to_string(), "check the disk", error.code()))
        }
        Err(error) => Err(raised(py, &error)),
    }
}

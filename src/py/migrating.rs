//! The schema of a store, for `hitl migrate`.

use pyo3::prelude::*;

use super::errors::open_error;
use super::runtime::{runtime, wait_for};
use crate::store::open::Address;
use crate::store::open_error::OpenError;
use crate::store::postgres::migrating;
use crate::store::schema_state::SchemaState;
use crate::store::sqlite::SqliteStore;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(store_schema, module)?)?;
    module.add_function(wrap_pyfunction!(migrate_store, module)?)?;
    module.add_function(wrap_pyfunction!(schema_script, module)?)
}

/// `(found, newest)`: the version of the schema at `address`, `None` where there is none, and the one that this release
/// needs. Raises `StoreError`.
#[pyfunction]
fn store_schema(py: Python<'_>, address: &str) -> PyResult<(Option<i32>, i32)> {
    let state = async |address| match address {
        Address::Postgres(address) => migrating::schema(&address).await,
        Address::Sqlite(path) => SqliteStore::schema(&path),
        Address::Memory => Err(no_schema()),
    };
    with(py, address, state)
}

/// Makes the schema at `address` where there is none, and lets `role` use it, or brings a file up to date: `(found, newest)`,
/// as it was before. Raises `StoreError`.
#[pyfunction]
#[pyo3(signature = (address, role = None))]
fn migrate_store(py: Python<'_>, address: &str, role: Option<String>) -> PyResult<(Option<i32>, i32)> {
    let migrated = async |address| match address {
        Address::Postgres(address) => migrating::migrate(&address, role.as_deref()).await,
        Address::Sqlite(path) if role.is_none() => SqliteStore::migrate(&path).await,
        Address::Sqlite(_) => {
            Err(OpenError::InvalidAddress("a file has no roles: whoever may read and write it may serve it".to_owned()))
        }
        Address::Memory => Err(no_schema()),
    };
    with(py, address, migrated)
}

/// The statements that make the schema, and let `role` use it.
#[pyfunction]
#[pyo3(signature = (role = None))]
fn schema_script(role: Option<&str>) -> String {
    migrating::script(role)
}

fn no_schema() -> OpenError {
    OpenError::InvalidAddress("what is in memory has no schema".to_owned())
}

fn with(
    py: Python<'_>,
    address: &str,
    work: impl AsyncFnOnce(Address) -> Result<SchemaState, OpenError> + Send,
) -> PyResult<(Option<i32>, i32)> {
    let runtime = runtime()?;
    let done = match Address::parse(address) {
        Ok(address) => wait_for(py, runtime, || work(address))?,
        Err(error) => Err(error),
    };
    let SchemaState { found, newest } = done.map_err(|error| open_error(py, &error))?;
    Ok((found, newest))
}

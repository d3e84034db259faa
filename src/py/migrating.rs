//! The schema of a database, for `hitl migrate`.

use pyo3::prelude::*;

use super::servers::on_database;
use crate::store::open_error::OpenError;
use crate::store::postgres::PgAddress;
use crate::store::postgres::migrating::{self, SchemaState};

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
    with(py, address, async |address| migrating::schema(&address).await)
}

/// Makes the schema at `address` where there is none, and lets `role` use it: `(found, newest)`, as it was before. Raises
/// `StoreError`.
#[pyfunction]
#[pyo3(signature = (address, role = None))]
fn migrate_store(py: Python<'_>, address: &str, role: Option<String>) -> PyResult<(Option<i32>, i32)> {
    with(py, address, async |address| migrating::migrate(&address, role.as_deref()).await)
}

/// The statements that make the schema, and let `role` use it.
#[pyfunction]
#[pyo3(signature = (role = None))]
fn schema_script(role: Option<&str>) -> String {
    migrating::script(role)
}

fn with(
    py: Python<'_>,
    address: &str,
    work: impl AsyncFnOnce(PgAddress) -> Result<SchemaState, OpenError> + Send,
) -> PyResult<(Option<i32>, i32)> {
    let others = "only a database has a schema of its own; a server brings its file up to date when it starts";
    let SchemaState { found, newest } = on_database(py, address, others, work)?;
    Ok((found, newest))
}

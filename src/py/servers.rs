//! The servers of a database, for `hitl servers`.

use pyo3::prelude::*;
use serde_json::{Value, json};

use super::errors::open_error;
use super::runtime::{runtime, wait_for};
use crate::domain::cluster::routing;
use crate::store::open::Address;
use crate::store::open_error::OpenError;
use crate::store::postgres::PgAddress;
use crate::store::postgres::servers;
use crate::store::shared::servers::{OtherServer, ServerId};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(list_servers, module)?)?;
    module.add_function(wrap_pyfunction!(short_code, module)?)?;
    module.add_function(wrap_pyfunction!(drain_server, module)?)
}

/// Who has the store at `address`, the first that came first. Raises `StoreError`.
#[pyfunction]
fn list_servers<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = on_database(py, address, ONLY_THERE, async |address| servers::list(&address).await)?;
    let found: Vec<Value> = found.iter().map(record).collect();
    Ok(pythonize::pythonize(py, &found)?)
}

/// A server's code for people, as the label of a metric has it.
#[pyfunction]
fn short_code(code: &str) -> String {
    routing::short_code(code)
}

/// Asks the server of this id to end as by SIGTERM; whether it was there. Raises `StoreError`, and `ValueError` for an id
/// that is none.
#[pyfunction]
fn drain_server(py: Python<'_>, address: &str, id: &str) -> PyResult<bool> {
    let id = ServerId(id.parse().map_err(|_| pyo3::exceptions::PyValueError::new_err(format!("{id:?} is no id")))?);
    on_database(py, address, ONLY_THERE, async |address| servers::drain(&address, id).await)
}

fn record(server: &OtherServer) -> Value {
    let role = &server.row.role;
    json!({
        "name": server.row.name(),
        "server_id": server.row.id.0.to_string(),
        "kind": server.row.kind.as_str(),
        "version": server.version,
        "agent": role.agent,
        "code": role.running.code,
        "serves_http": role.serves_http,
        "max_workers": role.workers,
        "running_workers": server.at_work,
        "draining": server.is_draining,
        "silent_ms": server.silent_ms,
        "started_at": server.started_at,
    })
}

const ONLY_THERE: &str = "only a database has servers beside each other";

/// Does `work` on the database at `address`; what is none is refused, for the reason given.
pub(super) fn on_database<T: Send>(
    py: Python<'_>,
    address: &str,
    why_none_other: &str,
    work: impl AsyncFnOnce(PgAddress) -> Result<T, OpenError> + Send,
) -> PyResult<T> {
    let runtime = runtime()?;
    let done = match Address::parse(address) {
        Ok(Address::Postgres(address)) => wait_for(py, runtime, || work(*address))?,
        Ok(Address::Memory | Address::Sqlite(_)) => Err(OpenError::InvalidAddress(why_none_other.to_owned())),
        Err(error) => Err(error),
    };
    done.map_err(|error| open_error(py, &error))
}

//! A store that is copied into another one, for `hitl store copy`.

use pyo3::prelude::*;
use serde_json::{Value, json};

use super::errors::open_error;
use super::runtime::runtime;
use crate::store::copy;

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(copy_store, module)?)
}

/// Copies the store at `source` into the empty or missing one at `target`: `waiting`, how many sessions wait for somebody,
/// and `rows`, how many there were of each table. Raises `StoreError`; the target is as empty as before then.
#[pyfunction]
fn copy_store<'py>(py: Python<'py>, source: &str, target: &str) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime()?;
    let copied = py.detach(|| runtime.block_on(copy::copy(source, target)));
    let copied = copied.map_err(|error| open_error(py, &error))?;
    let rows: serde_json::Map<String, Value> =
        copied.rows.into_iter().map(|(table, rows)| (table.to_owned(), rows.into())).collect();
    Ok(pythonize::pythonize(py, &json!({"waiting": copied.waiting, "rows": rows}))?)
}

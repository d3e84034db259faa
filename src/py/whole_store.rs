//! A store as a whole: copied into another one, for `hitl store copy`, and looked at, for `hitl store check`.

use pyo3::prelude::*;
use serde_json::{Value, json};

use super::errors::open_error;
use super::runtime::runtime;
use crate::store::{check, copy};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_store, module)?)?;
    module.add_function(wrap_pyfunction!(copy_store, module)?)
}

/// Copies the store at `source` into the empty or missing one at `target`: `waiting`, how many sessions wait for somebody,
/// and `rows`, how many there were of each table. Raises `StoreError`; the target is as empty as before then.
#[pyfunction]
fn copy_store<'py>(py: Python<'py>, source: &str, target: &str) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime()?;
    let copied = py.detach(|| runtime.block_on(copy::copy(source, target)));
    let copied = copied.map_err(|error| open_error(py, &error))?;
    Ok(pythonize::pythonize(py, &json!({"waiting": copied.waiting, "rows": by_table(copied.rows)}))?)
}

/// Looks whether what the store at `address` holds fits together, whoever has it: `rows`, how many there are of each table,
/// `problems`, each with `kind`, `session_id` (or null) and `what`, and `more`, how many are not told. Raises `StoreError`.
#[pyfunction]
fn check_store<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime()?;
    let checked = py.detach(|| runtime.block_on(check::check(address)));
    let check::Checked { rows, problems } = checked.map_err(|error| open_error(py, &error))?;
    let told = problems.told.into_iter();
    let told = told.map(|one| json!({"kind": one.kind.as_str(), "session_id": one.session, "what": one.what}));
    let told: Vec<Value> = told.collect();
    Ok(pythonize::pythonize(py, &json!({"rows": by_table(rows), "problems": told, "more": problems.more}))?)
}

fn by_table(rows: Vec<(&'static str, u64)>) -> serde_json::Map<String, Value> {
    rows.into_iter().map(|(table, rows)| (table.to_owned(), rows.into())).collect()
}

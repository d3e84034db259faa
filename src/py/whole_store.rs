//! A store as a whole: copied into another one, for `hitl store copy`, looked at, for `hitl store check`, and made the one that
//! is served, for `hitl store adopt`.

use pyo3::prelude::*;
use serde_json::{Value, json};

use super::errors::open_error;
use super::runtime::{runtime, wait_for};
use super::servers::on_database;
use crate::store::postgres::adopting;
use crate::store::{check, copy};

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(adopt_store, module)?)?;
    module.add_function(wrap_pyfunction!(check_store, module)?)?;
    module.add_function(wrap_pyfunction!(copy_store, module)?)
}

/// Copies the store at `source` into the empty or missing one at `target`: `waiting`, how many sessions wait for somebody,
/// and `rows`, how many there were of each table. Raises `StoreError`; the target is as empty as before then.
#[pyfunction]
fn copy_store<'py>(py: Python<'py>, source: &str, target: &str) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime()?;
    let copied = wait_for(py, runtime, || copy::copy(source, target))?;
    let copied = copied.map_err(|error| open_error(py, &error))?;
    Ok(pythonize::pythonize(py, &json!({"waiting": copied.waiting, "rows": by_table(copied.rows)}))?)
}

/// Lets servers send the notices of a database that was restored or copied elsewhere: `was_restored`, whether it was, and how
/// many there are of `notices`, with `oldest_notice` (a time, or null), of turns `under_way` and of sessions
/// that are `waiting`. Raises `StoreError`.
#[pyfunction]
fn adopt_store<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyAny>> {
    let adopted = on_database(py, address, "only a database is seen to be restored", async |address| {
        adopting::adopt(&address).await
    })?;
    let told = json!({
        "was_restored": adopted.was_restored,
        "notices": adopted.notices,
        "oldest_notice": adopted.oldest_notice.map(|at| at.to_string()),
        "under_way": adopted.under_way,
        "waiting": adopted.waiting,
    });
    Ok(pythonize::pythonize(py, &told)?)
}

/// Looks whether what the store at `address` holds fits together, whoever has it: `rows`, how many there are of each table,
/// `problems`, each with `kind`, `session_id` (or null) and `what`, and `more`, how many are not told. Raises `StoreError`.
#[pyfunction]
fn check_store<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime()?;
    let checked = wait_for(py, runtime, || check::check(address))?;
    let check::Checked { rows, problems } = checked.map_err(|error| open_error(py, &error))?;
    let told = problems.told.into_iter();
    let told = told.map(|one| json!({"kind": one.kind.as_str(), "session_id": one.session, "what": one.what}));
    let told: Vec<Value> = told.collect();
    Ok(pythonize::pythonize(py, &json!({"rows": by_table(rows), "problems": told, "more": problems.more}))?)
}

fn by_table(rows: Vec<(&'static str, u64)>) -> serde_json::Map<String, Value> {
    rows.into_iter().map(|(table, rows)| (table.to_owned(), rows.into())).collect()
}

//! The Python face of the core: `hitl._core`. Thin: it converts, calls, and raises.

mod audit;
mod checks;
mod convert;
mod errors;
mod fingerprint;
mod frames;
mod graphs;
mod keys;
mod logging;
mod migrating;
mod policy;
mod read;
mod replay;
mod runs;
mod runtime;
mod server;
mod servers;
mod states;
mod store;
mod whole_store;
mod written;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::domain::cluster::routing::AGREEING;
use crate::faults;

/// The native core of hitl. Its names are internal; use `hitl`.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    module.add("FAILPOINTS", faults::places())?;
    module.add("PYTHONS", PyTuple::new(module.py(), AGREEING)?)?;
    audit::register(module)?;
    logging::register(module)?;
    migrating::register(module)?;
    policy::register(module)?;
    replay::register(module)?;
    runs::register(module)?;
    states::register(module)?;
    server::register(module)?;
    servers::register(module)?;
    store::register(module)?;
    keys::register(module)?;
    fingerprint::register(module)?;
    frames::register(module)?;
    graphs::register(module)?;
    whole_store::register(module)?;
    checks::register(module)
}

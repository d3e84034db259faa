//! The threads behind everything that Python awaits here. They do not outlive a fork.

use std::process;
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Runtime;

static OWNER: OnceLock<u32> = OnceLock::new();

/// The runtime of this process, started at its first use.
///
/// # Errors
/// `RuntimeError` in a process that was forked from the one that started it: its threads are not here, and whatever
/// waited for them would wait for ever.
pub fn runtime() -> PyResult<&'static Runtime> {
    check_owner()?;
    Ok(pyo3_async_runtimes::tokio::get_runtime())
}

/// # Errors
/// Those of [`runtime`].
pub fn check_owner() -> PyResult<()> {
    let (owner, here) = (*OWNER.get_or_init(process::id), process::id());
    if owner == here {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "hitl was used in process {owner} before this process ({here}) was forked from it; its threads were not \
         forked along. Start processes that use hitl with the \"spawn\" or \"forkserver\" method"
    )))
}

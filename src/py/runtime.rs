//! The threads behind everything that Python waits for here. They do not outlive a fork, and none of them ever runs Python:
//! one that comes back to an interpreter which is on its way out takes the process down with it.

use std::pin::pin;
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Runtime;

static OWNER: OnceLock<u32> = OnceLock::new();
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// How often whoever waits looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);

/// The runtime of this process, started at its first use.
///
/// # Errors
/// `RuntimeError` in a process that was forked from the one that started it: its threads are not here, and whatever
/// waited for them would wait for ever. `OSError` where the system gives no more threads.
pub fn runtime() -> PyResult<&'static Runtime> {
    check_owner()?;
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime),
        None => {
            let made = Runtime::new()?;
            Ok(RUNTIME.get_or_init(|| made))
        }
    }
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

/// Waits for what may take long, while Python goes on. Where the handler of a signal raises, as that of Ctrl-C does, it is dropped
/// as far as it has come.
///
/// # Errors
/// What the handler raises.
pub fn wait_for<T, F>(py: Python<'_>, runtime: &Runtime, work: impl FnOnce() -> F + Send) -> PyResult<T>
where
    T: Send,
    F: Future<Output = T>,
{
    py.detach(|| {
        runtime.block_on(async {
            let (mut work, mut looks) = (pin!(work()), tokio::time::interval(LOOK));
            loop {
                tokio::select! {
                    done = &mut work => return Ok(done),
                    _ = looks.tick() => Python::attach(|py| py.check_signals())?,
                }
            }
        })
    })
}

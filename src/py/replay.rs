//! The replay of a turn, as the runtime in Python drives it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{IntoPyObjectExt, intern};

use super::read::read;
use crate::domain::journal::StepIdentity;
use crate::domain::replay::{self, AskError, Invalid, Mismatch, ReplayAction, ReplayRecord, StepLookup};

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Replay>()
}

/// A turn that is run again from its journal: says what each ask gets, and in which order.
///
/// It decides, the caller delivers. Not for several threads at once: a call waits for the one before it.
#[pyclass(frozen, module = "hitl._core")]
struct Replay(Mutex<replay::Replay>);

#[pymethods]
impl Replay {
    /// `journal`: as a worker's `turn` frame carries it. `code`: the version of the agent's code at hand.
    ///
    /// Raises `ValueError`, which names the entry that cannot be.
    #[new]
    fn new(journal: &Bound<'_, PyAny>, code: &str) -> PyResult<Self> {
        let recorded = |(index, entry): (usize, PyResult<Bound<'_, PyAny>>)| -> PyResult<ReplayRecord> {
            read(&entry?).map_err(|error| PyValueError::new_err(format!("journal[{index}]: {error}")))
        };
        let entries: PyResult<Vec<ReplayRecord>> = journal.try_iter()?.enumerate().map(recorded).collect();
        replay::Replay::new(entries?, code).map(|replay| Self(Mutex::new(replay))).map_err(invalid)
    }

    /// The agent asks for a step: `("live",)`, `("recorded",)`, `("body",)`, `("intent", at)` or
    /// `("interrupt", interrupt_id)`.
    ///
    /// Raises `ReplayMismatch` when the journal holds something else at its path, `ValueError` for a path that was asked
    /// before.
    fn ask<'py>(&self, step: &Bound<'py, PyAny>, once: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = step.py();
        let asked = self.lock().ask(identity(step)?, once);
        match asked {
            Ok(StepLookup::Live) => (intern!(py, "live"),).into_bound_py_any(py),
            Ok(StepLookup::Recorded) => (intern!(py, "recorded"),).into_bound_py_any(py),
            Ok(StepLookup::Body) => (intern!(py, "body"),).into_bound_py_any(py),
            Ok(StepLookup::Intent(at)) => (intern!(py, "intent"), at).into_bound_py_any(py),
            Ok(StepLookup::Interrupt(interrupt)) => (intern!(py, "interrupt"), interrupt).into_bound_py_any(py),
            Err(AskError::Mismatch(mismatch)) => Err(PyErr::from_value(replay_mismatch(py, &mismatch)?)),
            Err(AskError::Invalid(error)) => Err(invalid(error)),
        }
    }

    /// When the body of the `once` step at `path` began, each time, in milliseconds since 1970.
    fn intents(&self, path: &str) -> Vec<i64> {
        self.lock().intents(path).to_vec()
    }

    /// The agent set a timer. Raises `ValueError` for a path that was armed before.
    fn arm(&self, path: &str) -> PyResult<()> {
        self.lock().arm(path).map_err(invalid)
    }

    /// The agent cancelled a timer; one that fired, or was never armed, is left as it is.
    fn disarm(&self, path: &str) {
        self.lock().disarm(path);
    }

    /// Nobody waits for this step or interrupt any more: its entries are dropped from here on.
    fn withdraw(&self, path: &str) {
        self.lock().withdraw(path);
    }

    /// The body of this step has come to its end.
    fn body_ended(&self, path: &str) {
        self.lock().body_ended(path);
    }

    /// What a turn in which nothing runs gets next: `("deliver", index, path)`, `("wake", task)`, `("wait",)` or
    /// `("end",)`. Only a delivery moves on.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.lock().next() {
            ReplayAction::Deliver { index, path } => (intern!(py, "deliver"), index, path).into_bound_py_any(py),
            ReplayAction::Wake(task) => (intern!(py, "wake"), task).into_bound_py_any(py),
            ReplayAction::Wait => (intern!(py, "wait"),).into_bound_py_any(py),
            ReplayAction::End => (intern!(py, "end"),).into_bound_py_any(py),
        }
    }

    /// Whether the replay could go on without the wakes that stand next.
    fn is_asked_for(&self) -> bool {
        self.lock().is_asked_for()
    }

    /// The wake that `next()` named has been delivered. Raises `ValueError` when none stands next.
    fn woken(&self) -> PyResult<()> {
        self.lock().woken().map_err(invalid)
    }

    /// Nothing of the turn runs, and `next()` does not go on: a `ReplayMismatch` to raise, or None when what was in the
    /// way could be dropped. `held`: the asks that wait for the end of the journal.
    fn stuck<'py>(&self, py: Python<'py>, held: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Only the first is shown.
        let held: PyResult<Vec<StepIdentity>> = held.try_iter()?.take(1).map(|step| identity(&step?)).collect();
        let mismatch = self.lock().stuck(&held?);
        mismatch.map(|mismatch| replay_mismatch(py, &mismatch)).transpose()
    }

    /// The agent has returned, and the tasks it left behind have ended: a `ReplayMismatch` to raise when the journal
    /// still holds what nobody asked for, else None.
    fn returned<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mismatch = self.lock().returned();
        mismatch.map(|mismatch| replay_mismatch(py, &mismatch)).transpose()
    }

    /// Ids of interrupts that the journal leaves open although nobody waits for them any more.
    fn orphans(&self) -> Vec<String> {
        self.lock().orphans().into_iter().map(str::to_owned).collect()
    }

    /// What differs from the journal and was let pass, for people.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.lock().warnings().to_vec()
    }

    /// Whether nothing is left to deliver or to wait for.
    #[getter]
    fn done(&self) -> bool {
        self.lock().is_done()
    }
}

impl Replay {
    fn lock(&self) -> MutexGuard<'_, replay::Replay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(step: &Bound<'_, PyAny>) -> PyResult<StepIdentity> {
    read(step).map_err(|error| PyValueError::new_err(format!("step: {error}")))
}

fn invalid(error: Invalid) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `hitl.errors.ReplayMismatch` with the whole text.
fn replay_mismatch<'py>(py: Python<'py>, mismatch: &Mismatch) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import(intern!(py, "hitl.errors"))?.getattr(intern!(py, "ReplayMismatch"))?;
    class.call1((mismatch.to_string(),))
}

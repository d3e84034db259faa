//! Run states, as Python holds them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::convert::to_json;
use super::errors::raised;
use crate::domain::message::ChatMessage;
use crate::domain::{Error, json, run_state};
use crate::engine::journal::runs;

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunState>()
}

/// The journal of an open turn, on which people decide.
#[pyclass(frozen, module = "hitl._core")]
pub struct RunState(Mutex<run_state::RunState>);

#[pymethods]
impl RunState {
    /// Reads what `write()` wrote, and whether its signature under `key` verifies. Raises `RunStateError`.
    #[staticmethod]
    #[pyo3(signature = (text, key = None))]
    fn read(py: Python<'_>, text: &str, key: Option<&str>) -> PyResult<(Self, bool)> {
        let read = match key {
            None => run_state::RunState::read(text).map(|state| (state, false)),
            Some(key) => json::read(text.as_bytes())
                .map_err(|error| Error::RunStateInvalid(error.to_string()))
                .and_then(|document| run_state::RunState::read_signed(document, Some(key.as_bytes()))),
        };
        read.map(|(state, is_ours)| (Self::new(state), is_ours)).map_err(|error| raised(py, &error))
    }

    /// The state as one compact JSON document, signed where there is a key.
    #[pyo3(signature = (key = None))]
    fn write(&self, py: Python<'_>, key: Option<&str>) -> PyResult<String> {
        let state = self.lock();
        let written = match key {
            None => state.write(),
            Some(key) => state.write_signed(Some(key.as_bytes())).map(|document| document.to_string()),
        };
        written.map_err(|error| raised(py, &error))
    }

    /// Another one like it.
    fn duplicate(&self) -> Self {
        Self::new(self.copy())
    }

    /// Answers interrupts, `[(id, value)]`: all, or with an error none. Returns how many answers were new.
    ///
    /// Raises `UnknownInterrupt`, `InvalidAnswer`, `NothingPending`, `AlreadyResolved`, `InterruptExpired`.
    fn answer(&self, py: Python<'_>, answers: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<usize> {
        let answers =
            answers.into_iter().map(|(id, value)| Ok((id, to_json(&value, "value")?))).collect::<PyResult<Vec<_>>>()?;
        self.lock().answer(answers, None, runs::now(), runs::grant_id).map_err(|error| raised(py, &error))
    }

    /// Looks whether an interrupt is of that type.
    /// Raises `UnknownInterrupt`, `InvalidAnswer`, `NothingPending`.
    fn check_type(&self, py: Python<'_>, id: &str, expected: &str) -> PyResult<()> {
        self.lock().check_type(id, expected).map_err(|error| raised(py, &error))
    }

    /// The records of open interrupts, in order of arrival, as JSON.
    fn pending(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let state = self.lock();
        let pending: Vec<_> = state.pending().collect();
        Ok(PyBytes::new(py, &json(&pending)?).unbind())
    }

    /// The records of all interrupts that were open when the turn paused, as JSON.
    fn interrupts(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        Ok(PyBytes::new(py, &json(&self.lock().interrupts)?).unbind())
    }

    /// What the session remembered when the turn began, as JSON.
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let messages: Vec<_> = self.lock().messages.iter().map(ChatMessage::without_nulls).collect();
        Ok(PyBytes::new(py, &json(&messages)?).unbind())
    }

    /// The message that began the turn, as JSON.
    fn message(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        Ok(PyBytes::new(py, &json(&self.lock().message.without_nulls())?).unbind())
    }

    /// The context object of the run as it was at the pause, encoded, as JSON.
    fn context(&self, py: Python<'_>) -> PyResult<Option<Py<PyBytes>>> {
        let state = self.lock();
        state.context.as_ref().map(|context| Ok(PyBytes::new(py, &json(context)?).unbind())).transpose()
    }

    /// Replaces it with another one, encoded; None for none.
    fn set_context(&self, context: &Bound<'_, PyAny>) -> PyResult<()> {
        let context = if context.is_none() { None } else { Some(to_json(context, "context")?) };
        self.lock().context = context;
        Ok(())
    }

    /// Whose turn.
    #[getter]
    fn session_id(&self) -> String {
        self.lock().session.to_string()
    }

    /// The store that the turn lives in, by its id; None where it lives nowhere but in the state.
    #[getter]
    fn store_id(&self) -> Option<String> {
        self.lock().store.map(|store| store.to_string())
    }

    /// Which turn.
    #[getter]
    fn turn_id(&self) -> String {
        self.lock().turn.to_string()
    }

    /// What the agent that was run calls itself.
    #[getter]
    fn agent_name(&self) -> Option<String> {
        self.lock().called().map(str::to_owned)
    }
}

impl RunState {
    /// A state from the core.
    pub fn new(state: run_state::RunState) -> Self {
        Self(Mutex::new(state))
    }

    /// What it holds now.
    pub fn copy(&self) -> run_state::RunState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, run_state::RunState> {
        // What is changed in it is changed in one go, after the last thing that can fail.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

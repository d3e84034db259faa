//! Runs without a server. No thread of ours touches Python: what one is done with waits in a queue until the event loop
//! of the caller, woken by a byte on a socket, comes to fetch it ([`RunDesk::completed`]).

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio_util::sync::CancellationToken;

use super::errors::{open_error, raised};
use super::runtime::{check_owner, runtime};
use super::states::RunState;
use crate::domain::event::EventView;
use crate::domain::message::ChatMessage;
use crate::domain::{Error, SessionId};
use crate::engine::dispatch::Runtime;
use crate::engine::runs::{self, Begin, RunOutcome};
use crate::run::{Desk, Run};
use crate::store::open::{self, OpenError};
use crate::store::{Store, StoreExt};

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunDesk>()?;
    module.add_class::<RunStore>()
}

/// Something that was asked for and is done.
enum Done {
    Outcome(Result<RunOutcome, Error>),
    Store(Result<Arc<dyn Store>, OpenError>),
    State(Result<Option<crate::domain::run_state::RunState>, Error>),
    Nothing(Result<(), Error>),
    /// Of a run that goes on.
    Event(EventView),
}

/// What is done and has not been fetched.
struct Completions {
    queue: Mutex<Vec<(u64, Done)>>,
    bell: UnixStream,
}

impl Completions {
    fn push(&self, token: u64, done: Done) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push((token, done));
        if queue.len() == 1 {
            // Full, or nobody listens any more: either way there is nothing to wake.
            let _ = (&self.bell).write(&[1]);
        }
    }

    fn take(&self) -> Vec<(u64, Done)> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one event loop asks the core to do for its runs.
#[pyclass(frozen, module = "hitl._core")]
struct RunDesk {
    desk: Arc<Desk>,
    completions: Arc<Completions>,
    /// The ends of its sockets that belong to the loop, until it has taken them.
    theirs: Mutex<Option<(UnixStream, UnixStream)>>,
    stops: Arc<Mutex<HashMap<u64, CancellationToken>>>,
}

#[pymethods]
impl RunDesk {
    #[new]
    fn new() -> PyResult<Self> {
        check_owner()?;
        let (channel, worker) = UnixStream::pair()?;
        let (bell, listener) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        Ok(Self {
            desk: Arc::new(Desk::new(channel)),
            completions: Arc::new(Completions { queue: Mutex::default(), bell }),
            theirs: Mutex::new(Some((worker, listener))),
            stops: Arc::default(),
        })
    }

    /// The descriptors of the worker's channel, and of the socket that becomes readable when something is done: the
    /// caller's from now on.
    fn open(&self) -> PyResult<(i32, i32)> {
        let theirs = self.theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (worker, listener) = theirs.ok_or_else(|| PyValueError::new_err("a desk can be opened once"))?;
        Ok((worker.into_raw_fd(), listener.into_raw_fd()))
    }

    /// Runs `message` in a session, or goes on from `state`. `token` tells its completion apart, a RunOutcome; with
    /// `events`, what is told of it comes before that, each `(name, data)`.
    /// Returns what the worker will know the run by, and the ids of session and turn.
    #[pyo3(signature = (token, store, agent, code, python, replay, message, session, state, events))]
    #[allow(clippy::too_many_arguments, reason = "called in one place, which has them all")]
    fn run(
        &self,
        token: u64,
        store: &RunStore,
        agent: String,
        code: String,
        python: String,
        replay: bool,
        message: Option<&[u8]>,
        session: Option<&str>,
        state: Option<&RunState>,
        events: bool,
    ) -> PyResult<(String, String, String)> {
        let begin = match (message, state) {
            (Some(message), None) => {
                let message: ChatMessage = serde_json::from_slice(message).map_err(value_error)?;
                let (new, turn) = runs::new_ids();
                Begin::Message { session: session.map_or(Ok(new), read_session)?, turn, message: Box::new(message) }
            }
            (None, Some(state)) => Begin::State(Box::new(state.copy())),
            _ => return Err(PyValueError::new_err("a run begins with a message or a state")),
        };
        let (session, turn) = begin.ids();
        let (_, alias) = runs::new_ids();
        let stop = CancellationToken::new();
        self.stops().insert(token, stop.clone());
        let completions = Arc::clone(&self.completions);
        let tell = move |event| completions.push(token, Done::Event(event));
        let listener = events.then(|| Box::new(tell) as Box<dyn Fn(EventView) + Send>);
        let run = Run {
            alias,
            agent,
            runtime: Runtime { code, python, replay },
            store: Arc::clone(&store.0),
            begin,
            stop,
            listener,
        };
        let (desk, stops) = (Arc::clone(&self.desk), Arc::clone(&self.stops));
        self.spawn(token, async move {
            let outcome = desk.run(run).await;
            stops.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
            Done::Outcome(outcome)
        })?;
        Ok((alias.to_string(), session.to_string(), turn.to_string()))
    }

    /// Lets go of a run that is under way; its completion still comes.
    fn stop(&self, token: u64) {
        if let Some(stop) = self.stops().get(&token) {
            stop.cancel();
        }
    }

    /// Opens a store to be used beside other processes; its completion is a RunStore.
    fn open_store(&self, token: u64, address: String) -> PyResult<()> {
        self.spawn(token, async move {
            let opened = tokio::task::spawn_blocking(move || open::shared(&address)).await;
            Done::Store(
                opened
                    .unwrap_or_else(|error| Err(OpenError::Failed { path: "store".into(), reason: error.to_string() })),
            )
        })
    }

    /// The state of a session's open turn; its completion is a RunState or None.
    fn load(&self, token: u64, store: &RunStore, session: &str, agent: String, code: String) -> PyResult<()> {
        let (store, session) = (Arc::clone(&store.0), read_session(session)?);
        self.spawn(token, async move {
            let loaded = store.query(move |reader| match reader.session(session)? {
                Some(_) => runs::export(reader, session, &agent, &code),
                None => Ok(None),
            });
            Done::State(loaded.await)
        })
    }

    /// Closes a store; its completion is None.
    fn close_store(&self, token: u64, store: &RunStore) -> PyResult<()> {
        let store = Arc::clone(&store.0);
        self.spawn(token, async move { Done::Nothing(store.close().await) })
    }

    /// What is done since the last call: `(token, is_event, exception | None, value)` of each.
    fn completed<'py>(&self, py: Python<'py>) -> PyResult<Vec<Completed<'py>>> {
        let done = self.completions.take();
        done.into_iter()
            .map(|(token, done)| {
                let is_event = matches!(done, Done::Event(_));
                let value = match done {
                    Done::Outcome(outcome) => {
                        outcome.map_err(|error| raised(py, &error)).and_then(|outcome| outcome_of(py, outcome))
                    }
                    Done::Store(opened) => opened
                        .map_err(|error| open_error(py, &error))
                        .and_then(|store| Ok(Bound::new(py, RunStore(store))?.into_any())),
                    Done::State(loaded) => loaded
                        .map_err(|error| raised(py, &error))
                        .and_then(|state| state.map(RunState::new).into_bound_py_any(py)),
                    Done::Event(event) => event_of(py, &event),
                    Done::Nothing(done) => done.map_err(|error| raised(py, &error)).map(|()| py.None().into_bound(py)),
                };
                Ok(match value {
                    Ok(value) => (token, is_event, None, value),
                    Err(error) => (token, is_event, Some(error), py.None().into_bound(py)),
                })
            })
            .collect()
    }
}

impl RunDesk {
    fn spawn(&self, token: u64, work: impl Future<Output = Done> + Send + 'static) -> PyResult<()> {
        let completions = Arc::clone(&self.completions);
        runtime()?.spawn(async move { completions.push(token, work.await) });
        Ok(())
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which was asked for, whether this is an event on the way, why it failed, and what came of it.
type Completed<'py> = (u64, bool, Option<PyErr>, Bound<'py, PyAny>);

/// A store that runs write to.
#[pyclass(frozen, module = "hitl._core")]
struct RunStore(Arc<dyn Store>);

#[pymethods]
impl RunStore {
    /// One in memory.
    #[staticmethod]
    fn memory() -> PyResult<Self> {
        check_owner()?;
        open::shared("memory").map(Self).map_err(|error| Python::attach(|py| open_error(py, &error)))
    }
}

/// `(name, data)`, data as JSON.
fn event_of<'py>(py: Python<'py>, event: &EventView) -> PyResult<Bound<'py, PyAny>> {
    let data = serde_json::to_vec(&event.data).map_err(value_error)?;
    (&event.name, PyBytes::new(py, &data)).into_bound_py_any(py)
}

/// `(status, response, messages, error, error_code, state)`; messages as JSON.
fn outcome_of(py: Python<'_>, mut outcome: RunOutcome) -> PyResult<Bound<'_, PyAny>> {
    let json = |value: &serde_json::Value| PyBytes::new(py, value.to_string().as_bytes()).unbind();
    let response = outcome.response().map(|response| json(&response.without_nulls()));
    let messages = json(&outcome.messages.iter().map(ChatMessage::without_nulls).collect());
    let failure = outcome.failure().cloned();
    let (error, code) = failure.map(|failure| (failure.message, failure.code)).unzip();
    let state = outcome.state.take().map(|state| RunState::new(*state));
    (outcome.status().as_str(), response, messages, error, code, state).into_bound_py_any(py)
}

fn read_session(text: &str) -> PyResult<SessionId> {
    text.parse().map_err(value_error)
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

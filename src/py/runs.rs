//! Runs without a server. The event loop of the caller drives them itself ([`Driver`]): what a call sets going is carried
//! on until it has to wait, and what comes of it is returned by that call, or fetched when the bell has rung.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::errors::{open_error, raised};
use super::read::Object;
use super::runtime::{check_owner, runtime};
use super::states::RunState;
use crate::domain::event::EventView;
use crate::domain::message::ChatMessage;
use crate::domain::payload::MAX_PAYLOAD;
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::journal::runs::{self, Begin, RunOutcome};
use crate::engine::ports::dispatch::Runtime;
use crate::run::driver::Driver;
use crate::run::{FromTurn, Run, RunSender, ToTurn};
use crate::store::memory::MemoryStore;
use crate::store::open::{self, Address};
use crate::store::open_error::OpenError;
use crate::store::{Store, StoreExt};
use crate::supervisor::frames::{FromWorker, MAX_FRAME, Word, parse, word};

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunBridge>()?;
    module.add_class::<RunStore>()
}

/// Something that came of what was asked for.
enum Completion {
    /// To whoever has the turn of a run.
    Told(TurnId, ToTurn),
    /// To whoever listens to it.
    Event(EventView),
    Outcome(Result<RunOutcome, Error>),
    Store(Result<RunStore, OpenError>),
    State(Result<Option<crate::domain::run_state::RunState>, Error>),
    Nothing(Result<(), Error>),
}

type Completions = Arc<Mutex<Vec<(u64, Completion)>>>;

/// A run that is under way.
struct OpenRun {
    sender: RunSender,
    stop: CancellationToken,
}

/// What one event loop asks the core to do for its runs.
#[pyclass(frozen, module = "hitl._core")]
struct RunBridge {
    driver: Driver,
    news: Completions,
    runs: Arc<Mutex<HashMap<u64, OpenRun>>>,
    /// What turns have said since their words were passed on.
    said: Mutex<Vec<(u64, Word)>>,
    /// The end of its bell that belongs to the loop, until it has taken it.
    listener: Mutex<Option<UnixStream>>,
}

#[pymethods]
impl RunBridge {
    #[new]
    fn new() -> PyResult<Self> {
        check_owner()?;
        let (bell, listener) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (driver, news, runs) = (Driver::new(bell), Completions::default(), Arc::default());
        Ok(Self { driver, news, runs, said: Mutex::default(), listener: Mutex::new(Some(listener)) })
    }

    /// The descriptor of the socket that becomes readable when there is something to fetch: the caller's from now on.
    fn open(&self) -> PyResult<i32> {
        let listener = lock(&self.listener).take();
        Ok(listener.ok_or_else(|| PyValueError::new_err("a bridge can be opened once"))?.into_raw_fd())
    }

    /// Runs `message` in a session, or goes on from `state`; the value of `token` is an outcome. What its turn is told
    /// comes before that, and with `events` what is told of it. With `kept` somebody keeps the store, and its states say
    /// that they live there; `traceparent` names the span that a new turn is a part of. Returns the session's id; `fetch` what came.
    #[pyo3(signature = (token, store, agent, code, python, replay, pin, message, session, state, events, kept, traceparent))]
    #[allow(clippy::too_many_arguments, reason = "called in one place, which has them all")]
    fn run(
        &self,
        token: u64,
        store: &RunStore,
        agent: String,
        code: String,
        python: String,
        replay: bool,
        pin: bool,
        message: Option<&[u8]>,
        session: Option<&str>,
        state: Option<&RunState>,
        events: bool,
        kept: bool,
        traceparent: Option<String>,
    ) -> PyResult<String> {
        let begin = match (message, state) {
            (Some(message), None) => {
                let message: ChatMessage = serde_json::from_slice(message).map_err(value_error)?;
                let (new, turn) = runs::new_ids();
                let session = session.map_or(Ok(new), read_session)?;
                Begin::Message { session, turn, message: Arc::new(message), traceparent }
            }
            (None, Some(state)) => Begin::State(Box::new(state.copy())),
            _ => return Err(PyValueError::new_err("a run begins with a message or a state")),
        };
        let (session, turn) = begin.ids();
        let (sender, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let run = Run {
            agent,
            runtime: Runtime { agent: None, code, python, replay, pin },
            store: Arc::clone(&store.store),
            begin,
            stop: stop.clone(),
            listener: events.then(|| Box::new(self.teller(token, Completion::Event)) as Box<dyn Fn(EventView) + Send>),
            worker: Box::new(self.teller(token, move |told| Completion::Told(turn, told))),
        };
        let open = OpenRun { sender: sender.clone(), stop };
        lock(&self.runs).insert(token, open);
        let runs = Arc::clone(&self.runs);
        self.begin(token, async move {
            let mut outcome = run.run(sender, receiver).await;
            if let Ok(RunOutcome { state: Some(state), .. }) = &mut outcome
                && !kept
            {
                state.store = None;
            }
            lock(&runs).remove(&token);
            Completion::Outcome(outcome)
        })?;
        Ok(session.to_string())
    }

    /// Hears a frame of a run's turn, as a worker would send it; it is passed on by `fetch`. Whether it could be read:
    /// what is no plain JSON, or too large, `hear_json` takes or refuses.
    fn hear(&self, token: u64, frame: &Bound<'_, PyDict>) -> PyResult<bool> {
        let Some(name) = frame.get_item("frame")? else { return Ok(false) };
        let room = Cell::new(MAX_FRAME / 2);
        let read = word(&name.extract::<String>()?, Object { object: frame.as_any(), depth: 0, room: &room });
        Ok(match read {
            Some(Ok(word)) => {
                self.say(token, word);
                true
            }
            Some(Err(_)) | None => false,
        })
    }

    /// Hears a frame that is written as JSON. `ValueError` for one that is none of a turn.
    fn hear_json(&self, token: u64, frame: &[u8]) -> PyResult<()> {
        match parse(frame).map_err(value_error)? {
            FromWorker::Turn(_, word) => self.say(token, word),
            _ => return Err(PyValueError::new_err("a frame is about no turn")),
        }
        Ok(())
    }

    /// Lets go of a run that is under way; its completion still comes.
    fn stop(&self, token: u64) {
        if let Some(open) = lock(&self.runs).get(&token) {
            open.stop.cancel();
        }
    }

    /// Opens a store to be used beside other processes; its value is a RunStore.
    fn open_store(&self, token: u64, address: String) -> PyResult<()> {
        // Now, while the caller is in the directory that it means.
        let (to_open, whole) = place_of(address);
        let runtime = runtime()?;
        let opening = runtime.spawn_blocking(move || runtime.block_on(open::shared(&to_open)));
        self.begin(token, async move {
            let lost =
                |error: tokio::task::JoinError| OpenError::Failed { path: "store".into(), reason: error.to_string() };
            let opened = opening.await.unwrap_or_else(|error| Err(lost(error)));
            Completion::Store(opened.map(|store| RunStore { store, address: whole }))
        })
    }

    /// The state of a session's open turn; its value is a RunState or None.
    fn load(&self, token: u64, store: &RunStore, session: &str, agent: String, code: String) -> PyResult<()> {
        let (store, session) = (Arc::clone(&store.store), read_session(session)?);
        self.begin(token, async move {
            let loaded = store.query(move |reader| match reader.session(session)? {
                Some(_) => runs::export(reader, session, &agent, &code),
                None => Ok(None),
            });
            Completion::State(loaded.await)
        })
    }

    /// Closes a store; its value is None.
    fn close_store(&self, token: u64, store: &RunStore) -> PyResult<()> {
        let store = Arc::clone(&store.store);
        self.begin(token, async move { Completion::Nothing(store.close().await) })
    }

    /// Carries on with what can go on, and returns what came of everything since the last call: `(token, what, value)`
    /// of each, where `what` is `told` (a frame), `event`, `value`, or `error` (an exception).
    fn fetch<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u64, &'static str, Bound<'py, PyAny>)>> {
        let entered = runtime()?.enter();
        // Without the interpreter: a store may make us wait for another thread that needs it.
        let news = py.detach(|| {
            self.driver.expect();
            for (token, word) in lock(&self.said).drain(..) {
                // The run that would not hear it is over.
                if let Some(open) = lock(&self.runs).get(&token) {
                    drop(open.sender.send(FromTurn::Word(word)));
                }
            }
            self.driver.drive();
            std::mem::take(&mut *lock(&self.news))
        });
        drop(entered);
        news.into_iter()
            .map(|(token, came)| {
                Ok(came.into_python(py).map_or_else(
                    |error| (token, "error", error.into_value(py).into_bound(py).into_any()),
                    |(what, value)| (token, what, value),
                ))
            })
            .collect()
    }
}

impl RunBridge {
    /// Sets something going; `fetch` drives it.
    fn begin(&self, token: u64, work: impl Future<Output = Completion> + Send + 'static) -> PyResult<()> {
        check_owner()?;
        let news = Arc::clone(&self.news);
        self.driver.add(
            token,
            Box::pin(async move {
                let came = work.await;
                lock(&news).push((token, came));
            }),
        );
        Ok(())
    }

    fn say(&self, token: u64, word: Word) {
        lock(&self.said).push((token, word));
    }

    /// What tells the loop what a run has to say.
    fn teller<T, F>(&self, token: u64, came: F) -> impl Fn(T) + Send + Sync + use<T, F>
    where
        F: Fn(T) -> Completion + Send + Sync + 'static,
    {
        let (news, woken) = (Arc::clone(&self.news), Arc::clone(self.driver.woken()));
        move |told| {
            lock(&news).push((token, came(told)));
            woken.tell();
        }
    }
}

impl Completion {
    /// What it is, and its value.
    fn into_python(self, py: Python<'_>) -> PyResult<(&'static str, Bound<'_, PyAny>)> {
        match self {
            Self::Told(turn, told) => Ok(("told", pythonize::pythonize(py, &told.frame(turn, MAX_PAYLOAD))?)),
            Self::Event(event) => Ok(("event", event_of(py, &event)?)),
            Self::Outcome(outcome) => {
                outcome.map_err(|error| raised(py, &error)).and_then(|outcome| Ok(("value", outcome_of(py, outcome)?)))
            }
            Self::Store(opened) => {
                let store = opened.map_err(|error| open_error(py, &error))?;
                Ok(("value", Bound::new(py, store)?.into_any()))
            }
            Self::State(loaded) => {
                let state = loaded.map_err(|error| raised(py, &error))?;
                Ok(("value", state.map(RunState::new).into_bound_py_any(py)?))
            }
            Self::Nothing(done) => {
                done.map_err(|error| raised(py, &error)).map(|()| ("value", py.None().into_bound(py)))
            }
        }
    }
}

/// A store that runs write to.
#[pyclass(frozen, module = "hitl._core")]
pub struct RunStore {
    store: Arc<dyn Store>,
    /// Where it is found again, whatever directory the program is in then; `None` for one in memory.
    #[pyo3(get)]
    address: Option<String>,
}

#[pymethods]
impl RunStore {
    /// One in memory. It has no threads, so that a module may have one which many processes are forked from.
    #[staticmethod]
    fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::default()), address: None }
    }

    /// The one at `address`, to be used beside other processes, for whoever may wait for it. Raises `StoreError`.
    #[staticmethod]
    fn open(py: Python<'_>, address: &str) -> PyResult<Self> {
        let runtime = runtime()?;
        let (to_open, whole) = place_of(address.to_owned());
        let opened = py.detach(|| runtime.block_on(open::shared(&to_open)));
        opened.map(|store| Self { store, address: whole }).map_err(|error| open_error(py, &error))
    }
}

impl RunStore {
    /// The store itself.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}

/// What to open, and where it is found again, for a caller that is in the directory that it means.
fn place_of(address: String) -> (String, Option<String>) {
    let parsed = Address::parse(&address).ok();
    let whole = parsed.as_ref().and_then(Address::whole);
    let to_open = match parsed {
        // It may hold a password, which nothing that is kept does.
        Some(Address::Postgres(_)) => address,
        _ => whole.clone().unwrap_or(address),
    };
    (to_open, whole)
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panics under one of them leaves nothing half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

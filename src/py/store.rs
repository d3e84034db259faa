//! A store's file, for commands that read it beside its owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{open_error, store_error};
use super::runtime::runtime;
use crate::domain::naming;
use crate::domain::payload::MAX_PAYLOAD;
use crate::domain::search::Needle;
use crate::domain::session::Failure;
use crate::domain::status::Status;
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::ports::dispatch::TurnOrder;
use crate::server::models::SessionSummary;
use crate::store::open;
use crate::store::query::{AuditQuery, Page, SessionQuery, SessionSearch, TitledSession};
use crate::store::{Reader, Store, StoreExt};
use crate::supervisor::frames::ToWorker;
use crate::supervisor::runtime as workers;

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StoredSessions>()
}

/// The sessions of a store, read while somebody else may own it.
#[pyclass(frozen, module = "hitl._core")]
struct StoredSessions(Arc<dyn Store>);

#[pymethods]
impl StoredSessions {
    /// `address`: that of `--store`. Raises `StoreError`.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<Self> {
        let runtime = runtime()?;
        let opened = py.detach(|| runtime.block_on(open::read_only(address)));
        opened.map(Self).map_err(|error| open_error(py, &error))
    }

    /// A page of sessions as `GET /sessions` lists them, oldest first, and where the next page begins. With `q`, only those
    /// that say this in the title or the id: it may look at all of them.
    #[pyo3(signature = (status = None, limit = 100, cursor = None, q = None))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        status: Option<&str>,
        limit: usize,
        cursor: Option<u64>,
        q: Option<&str>,
    ) -> PyResult<(Bound<'py, PyAny>, Option<u64>)> {
        let status = status.map(read_status).transpose()?;
        // Whoever reads a file here waits for it, and nobody else does.
        let search = q.map(|text| SessionSearch { needle: Needle::new(text), within: usize::MAX });
        let query = SessionQuery { status, search, limit, cursor, ..SessionQuery::default() };
        let Page { items, next } = self.read(py, move |reader| reader.sessions(&query))?;
        let summary = |titled: TitledSession| {
            let agent_name = naming::agent_name(None, &titled.agent).to_owned();
            SessionSummary::new(titled, agent_name)
        };
        let summaries: Vec<SessionSummary> = items.into_iter().map(summary).collect();
        Ok((pythonize::pythonize(py, &summaries)?, next))
    }

    /// The turns of a page of sessions that are open, or failed and can be taken up again: `(turns, others, next)`.
    ///
    /// `turns`: those of `agent`, each as the JSON of a worker's `turn` frame, with `(code, message)` where a worker of
    /// this `runtime`, its version of Python and the code that its agent is pinned to, would refuse it. `others`: how many there are of each other agent.
    fn open_turns<'py>(
        &self,
        py: Python<'py>,
        agent: String,
        runtime: (String, Option<String>),
        status: &str,
        limit: usize,
        cursor: Option<u64>,
    ) -> PyResult<OpenTurns<'py>> {
        let (python, pinned_to) = runtime;
        let query = SessionQuery { status: Some(read_status(status)?), limit, cursor, ..SessionQuery::default() };
        let OpenTurnsPage { orders, others, next } = self.read(py, move |reader| open_turns(reader, &agent, &query))?;
        let turns = orders.into_iter().map(|(order, unreadable)| {
            let frame = serde_json::to_vec(&ToWorker::turn(&order, MAX_PAYLOAD, None))
                .map_err(|error| PyValueError::new_err(format!("turn {} is no JSON: {error}", order.turn)))?;
            let refusal = unreadable.or_else(|| workers::refusal(&order.journal, &python, pinned_to.as_deref()));
            Ok((PyBytes::new(py, &frame), refusal.map(|failure| (failure.code, failure.message))))
        });
        Ok((turns.collect::<PyResult<_>>()?, others, next))
    }

    /// A page of the audit, oldest row first, each as compact JSON, and where the next page begins.
    #[pyo3(signature = (limit = 100, cursor = None))]
    fn audit(&self, py: Python<'_>, limit: usize, cursor: Option<u64>) -> PyResult<(Vec<String>, Option<u64>)> {
        let query = AuditQuery { limit, cursor, ..AuditQuery::default() };
        let Page { items, next } = self.read(py, move |reader| reader.audit(&query))?;
        let line = |row| serde_json::to_string(row).map_err(|error| PyValueError::new_err(error.to_string()));
        Ok((items.iter().map(line).collect::<PyResult<_>>()?, next))
    }

    /// Lets go of the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime()?;
        py.detach(|| runtime.block_on(self.0.close())).map_err(|error| read_error(py, &error))
    }
}

/// See [`StoredSessions::open_turns`].
type OpenTurns<'py> = (Vec<(Bound<'py, PyBytes>, Option<(String, String)>)>, BTreeMap<String, usize>, Option<u64>);

impl StoredSessions {
    fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl Fn(&dyn Reader) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let runtime = runtime()?;
        py.detach(|| runtime.block_on(self.0.query(job))).map_err(|error| read_error(py, &error))
    }
}

/// The open turns of a page of sessions.
struct OpenTurnsPage {
    /// Each with why its journal cannot be read, if it cannot.
    orders: Vec<(TurnOrder, Option<Failure>)>,
    others: BTreeMap<String, usize>,
    next: Option<u64>,
}

fn open_turns(reader: &dyn Reader, agent: &str, query: &SessionQuery) -> Result<OpenTurnsPage, Error> {
    let (mut orders, mut others) = (Vec::new(), BTreeMap::new());
    let Page { items, next } = reader.sessions(query)?;
    for session in items {
        let Some(turn) = session.turn else { continue };
        if session.agent == agent {
            orders.push(order(reader, session.id, turn)?);
        } else {
            *others.entry(session.agent).or_default() += 1;
        }
    }
    Ok(OpenTurnsPage { orders, others, next })
}

fn order(reader: &dyn Reader, session: SessionId, turn: TurnId) -> Result<(TurnOrder, Option<Failure>), Error> {
    let row = reader.turn(turn)?.ok_or(Error::TurnNotOpen(None))?;
    let (journal, unreadable) = match reader.journal(turn) {
        // One turn's trouble, and not the file's: a later release may have written it.
        Err(Error::Unreadable(why)) => (Vec::new(), Some(Failure::new("journal_unreadable", why))),
        read => (read?, None),
    };
    let order = TurnOrder {
        turn,
        epoch: row.life.epoch,
        session,
        message: row.message,
        state: reader.messages(session)?,
        journal,
        answered_by: BTreeMap::new(),
        sent_by: row.sent_by,
        alone: false,
    };
    Ok((order, unreadable))
}

fn read_status(text: &str) -> PyResult<Status> {
    Status::parse(text).ok_or_else(|| PyValueError::new_err(format!("{text:?} is no status of a session")))
}

fn read_error(py: Python<'_>, error: &Error) -> PyErr {
    let message = format!("the store cannot be read: {error}");
    store_error(py, &message, "check the disk; a server that owns the file says more in its log", error.code())
}

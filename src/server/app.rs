//! What handlers share.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use bytes::Bytes;
use tokio::sync::{AcquireError, Semaphore};
use tokio_util::sync::CancellationToken;

use super::auth::Gate;
use super::body::Limits;
use super::budget::{Budget, RequestBytes};
use super::error::ServerError;
use super::hosts::Hosts;
use super::limits::Buckets;
use super::permits::{Permit, Permits};
use super::places::{AnswerPlace, AnswerPlaces};
use super::settings::HttpSettings;
use super::telemetry::Telemetry;
use crate::engine::Engine;
use crate::engine::telling::resting::RestingCount;

/// What handlers share.
pub struct App {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Settings of the server.
    pub settings: HttpSettings,
    /// Who is let in.
    pub gate: Gate,
    /// How often; `None` where nothing is set.
    pub rates: Option<Buckets<Asking>>,
    /// How many requests are at work at once.
    pub at_work: Permits<Asking>,
    /// How many of them are long polls and event streams: who waits for much can still answer.
    pub waiting: Permits<Asking>,
    /// How many bytes of them are in memory.
    pub bodies: Arc<Budget<Asking>>,
    /// How many bytes of answers are in memory that nobody has taken yet.
    pub answers: Arc<Budget<Asking>>,
    /// Places to make a long answer in: what was read for it and what is written are in memory together, and count only then.
    pub making: AnswerPlaces<Asking>,
    /// A search goes when no other does: of each client one waits for that, and the rest behind it.
    searching: AnswerPlaces<Asking>,
    /// What the last look came to, at whether the server is ready.
    ready: RestingCount<Result<(), crate::domain::Error>>,
    /// By which names.
    pub hosts: Hosts,
    /// Counts and durations of requests.
    pub telemetry: Telemetry,
    /// Cancelled when the server begins to stop: polls answer and event streams end.
    pub stopping: CancellationToken,
    documented: Documented,
    document_json: OnceLock<Bytes>,
}

/// What the document of all routes says, which this module does not know.
pub struct Documented {
    /// The paths, as routes are matched.
    pub paths: Vec<String>,
    /// Writes the document.
    pub document: fn() -> Result<serde_json::Value, serde_json::Error>,
}

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Those of a key, from wherever.
    Key(Arc<str>),
    /// Those of an address, where nobody shows a key.
    Address(Option<IpAddr>),
}

impl<S: Send + Sync> FromRequestParts<S> for Asking {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        let nobody =
            || crate::domain::Error::Internal("a route waits for somebody and asks nobody who it is".to_owned());
        parts.extensions.remove::<Self>().ok_or_else(|| nobody().into())
    }
}

/// A handler's view of [`App`].
pub type Shared = axum::extract::State<Arc<App>>;

/// What one request has of the bytes that all requests may have in memory.
#[derive(Clone)]
pub struct BodyBytes(pub RequestBytes<Asking>);

impl<S: Send + Sync> FromRequestParts<S> for BodyBytes {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        let nobody = || crate::domain::Error::Internal("a route releases a body that nobody counts".to_owned());
        parts.extensions.get::<Self>().cloned().ok_or_else(|| nobody().into())
    }
}

/// How many of the longest bodies are in memory at once, and how many bytes at least. Read, a body may take thirty times as
/// much.
const BODIES: usize = 64;
const LEAST_BODIES: usize = 64 * 1024 * 1024;

/// How many times as much answers may have: a conversation is longer than the message that is sent to it.
const ANSWERS: usize = 4;

/// How many long answers are made at once; stores read no more than a few at once either.
pub const MAKING: usize = 8;

/// How long a look at whether the server is ready is as good as a new one.
pub const READY_REST: Duration = Duration::from_millis(200);

/// How much larger than its value the body of an answer may be.
const ENVELOPE: usize = 64 * 1024;

fn closed(closed: AcquireError) -> ServerError {
    crate::domain::Error::Internal(closed.to_string()).into()
}

/// How long the body of an answer to an interrupt may be, whatever others may.
fn longest_answer(engine: &Engine) -> usize {
    engine.settings().max_value.saturating_add(ENVELOPE)
}

impl App {
    /// An app for a server that listens on `bound`.
    pub fn new(engine: Arc<Engine>, settings: HttpSettings, bound: SocketAddr, documented: Documented) -> Arc<Self> {
        // One client has half of them.
        let answers = longest_answer(&engine).saturating_mul(2);
        let bodies = settings.max_body.saturating_mul(BODIES).max(LEAST_BODIES).max(answers);
        Arc::new(Self {
            gate: Gate::new(&settings),
            rates: settings.rate_limit.map(|rate| Buckets::new(rate.max(1.0), rate)),
            at_work: Permits::new(settings.max_requests_per_key),
            waiting: Permits::new(settings.max_requests_per_key / 4 * 3),
            bodies: Budget::new(bodies),
            answers: Budget::new(bodies.saturating_mul(ANSWERS)),
            making: AnswerPlaces::new(MAKING, MAKING / 2),
            searching: AnswerPlaces::new(Semaphore::MAX_PERMITS, 1),
            ready: RestingCount::default(),
            hosts: Hosts::new(bound, &settings.allowed_hosts),
            telemetry: Telemetry::new(documented.paths.iter().map(String::as_str)),
            stopping: CancellationToken::new(),
            engine,
            settings,
            documented,
            document_json: OnceLock::new(),
        })
    }

    /// A place to wait in, for as long as somebody does.
    ///
    /// # Errors
    /// [`ServerError::TooManyWaiting`].
    pub fn waiting_permit(&self, asking: Asking) -> Result<Permit<Asking>, ServerError> {
        self.waiting.take(asking).ok_or(ServerError::TooManyWaiting(self.waiting.most()))
    }

    /// A place to make a long answer in, once there is one.
    ///
    /// # Errors
    /// An internal error once they are closed, which nobody does.
    pub async fn place_to_make(&self, asking: Asking) -> Result<AnswerPlace, ServerError> {
        self.making.take(asking).await.map_err(closed)
    }

    /// A place to search in, where it is one, once no other search of this client goes on.
    ///
    /// # Errors
    /// Those of [`App::place_to_make`].
    pub async fn place_to_search(&self, asking: Asking, is_search: bool) -> Result<Option<AnswerPlace>, ServerError> {
        if is_search { self.searching.take(asking).await.map(Some).map_err(closed) } else { Ok(None) }
    }

    /// Whether the store takes writes, and there are workers. Anybody may ask, and each look is a durable write: whoever asks
    /// meanwhile, or soon after, is told what it came to.
    ///
    /// # Errors
    /// Those of [`Engine::check_ready`].
    pub async fn check_ready(&self) -> Result<(), crate::domain::Error> {
        if self.engine.is_stopping() {
            return Err(crate::domain::Error::ShuttingDown);
        }
        let engine = Arc::clone(&self.engine);
        // What it came to is told again, also where that is an error.
        let look = || async move { Ok(engine.check_ready().await) };
        self.ready.get_resting(|_| READY_REST, look).await?
    }

    /// How bodies may be.
    pub fn limits(&self) -> Limits {
        Limits { size: self.settings.max_body, time: self.settings.body_timeout }
    }

    /// How bodies with answers may be: an answer of `--max-value` has to fit.
    pub fn answer_limits(&self) -> Limits {
        Limits { size: self.settings.max_body.max(longest_answer(&self.engine)), ..self.limits() }
    }

    /// The OpenAPI document as JSON.
    ///
    /// # Errors
    /// An internal error where it cannot be written.
    pub fn document_json(&self) -> Result<Bytes, ServerError> {
        if let Some(json) = self.document_json.get() {
            return Ok(json.clone());
        }
        let json = (self.documented.document)()
            .and_then(|document| serde_json::to_vec(&document))
            .map_err(|error| crate::domain::Error::Internal(format!("the OpenAPI document: {error}")))?;
        Ok(self.document_json.get_or_init(|| Bytes::from(json)).clone())
    }
}

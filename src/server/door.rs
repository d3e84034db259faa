//! Connections for which there is no place: a probe is answered, everybody else is told to come again.
//!
//! Nobody is left in the kernel's queue: whoever watches over the server could not tell one that is full from one that
//! hangs, and would restart it. There are few places at the door, and nobody stays long: who was there first goes when
//! somebody else comes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::app::App;
use super::auth::Peer;
use super::error::ServerError;
use super::outflow::Outflow;
use super::{front, unread};
use crate::domain::Error;

/// How many may be at the door.
pub const PLACES: usize = 64;
/// How long somebody may stay there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the head of the one request may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
pub struct Door {
    app: Arc<App>,
    protocol: http1::Builder,
    probes: Router,
    refusals: Router,
    /// Who is there, in the order in which they came.
    visitors: Mutex<VecDeque<AbortHandle>>,
}

impl Door {
    /// The door of a server whose probes `router` answers.
    pub fn new(app: &Arc<App>, router: Router) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE.min(app.settings.head_timeout))
            .max_header_size(app.settings.max_head)
            .max_buf_size(app.settings.max_head.max(16 * 1024))
            .keep_alive(false);
        let refusals = Router::new()
            .fallback(refuse)
            .layer(middleware::from_fn_with_state(Arc::clone(app), unread::read_to_end))
            .with_state(Arc::clone(app));
        Self { app: Arc::clone(app), protocol, probes: router, refusals, visitors: Mutex::default() }
    }

    /// Reads one request and answers it: a probe as always, any other with `refusal`.
    pub fn turn_away(&self, stream: TcpStream, peer: Peer, refusal: ServerError, tasks: &TaskTracker) {
        let (probes, refusals) =
            (TowerToHyperService::new(self.probes.clone()), TowerToHyperService::new(self.refusals.clone()));
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            if is_probe(&request) {
                return probes.call(request);
            }
            request.extensions_mut().insert(refusal.clone());
            refusals.call(request)
        });
        let stream = TokioIo::new(Outflow::new(stream, PATIENCE));
        let connection = self.protocol.serve_connection(stream, service);
        let stopping = self.app.stopping.clone();
        let visit = tasks.spawn(stay(PATIENCE, connection, stopping));
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        visitors.retain(|visitor| !visitor.is_finished());
        if visitors.len() >= PLACES
            && let Some(first) = visitors.pop_front()
        {
            first.abort();
        }
        visitors.push_back(visit.abort_handle());
    }
}

/// A visit: however it ends, it is over, and at the latest after `patience` or when the server stops.
async fn stay(patience: Duration, connection: impl Future, stopping: CancellationToken) {
    tokio::select! {
        _ended = tokio::time::timeout(patience, connection) => {}
        () = stopping.cancelled() => {}
    }
}

/// What tells whoever restarts a server, or routes to it, how it is; neither needs a key.
fn is_probe<B>(request: &hyper::Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && matches!(request.uri().path(), "/healthz" | "/readyz")
}

async fn refuse(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let nothing = || ServerError::from(Error::Internal("somebody was turned away for no reason".to_owned()));
    let refusal = request.extensions_mut().remove::<ServerError>().unwrap_or_else(nothing);
    let mut response = refusal.into_response();
    front::secure(response.headers_mut());
    app.telemetry.record(None, request.method(), response.status(), None);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::pending;

    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::settings::Settings;
    use crate::server::routes;
    use crate::server::settings::HttpSettings;
    use crate::server::tests::support::{HOST, engine, within};

    #[tokio::test]
    async fn nobody_stays_for_ever_and_nobody_keeps_the_server_from_stopping() {
        within(stay(Duration::ZERO, pending::<()>(), CancellationToken::new())).await;
        let stopping = CancellationToken::new();
        stopping.cancel();
        within(stay(Duration::MAX, pending::<()>(), stopping)).await;
    }

    #[tokio::test]
    async fn there_are_few_places_and_who_came_first_goes_when_somebody_else_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut clients, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..PLACES + 2 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            streams.push(listener.accept().await.unwrap());
        }
        let app = routes::app(engine(Settings::default()).await, HttpSettings::default(), HOST.parse().unwrap());
        let (door, tasks) = (Door::new(&app, routes::router(&app)), TaskTracker::new());
        let ids = |door: &Door| door.visitors.lock().unwrap().iter().map(AbortHandle::id).collect::<Vec<_>>();
        let mut came = Vec::new();
        // None of them begins before all have come.
        for (stream, peer) in streams {
            door.turn_away(stream, Peer(peer.ip()), ServerError::TooManyConnections(1), &tasks);
            came.push(*ids(&door).last().unwrap());
        }
        assert_eq!(ids(&door), came[2..], "the first two had to go, and nobody else");
        drop(clients);
        tasks.close();
        tasks.wait().await;
    }
}

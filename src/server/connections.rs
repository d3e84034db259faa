//! Connections: accepting them, bounding them, and letting go of them when the server stops.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::app::App;
use super::auth::Peer;
use super::outflow::Outflow;

/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown` resolves; then stops accepting, lets polls and streams end, and gives the rest
/// `shutdown_timeout`.
pub async fn serve(listener: TcpListener, app: &App, router: Router, shutdown: impl Future<Output = ()>) {
    let connections = Connections::new(app, router);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = connections.accept(&listener) => {}
        }
    }
    // Whoever connects from here on is refused, not left waiting.
    drop(listener);
    connections.finish(app.settings.shutdown_timeout).await;
}

struct Connections {
    protocol: http1::Builder,
    router: Router,
    permits: Arc<Semaphore>,
    write_timeout: Duration,
    tasks: TaskTracker,
    /// Cancelled: no connection takes another request.
    stopping: CancellationToken,
    /// Cancelled: connections are cut.
    cut: CancellationToken,
}

impl Connections {
    fn new(app: &App, router: Router) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(app.settings.head_timeout)
            .max_header_size(app.settings.max_head)
            .max_buf_size(app.settings.max_head.max(16 * 1024));
        Self {
            protocol,
            router,
            permits: Arc::new(Semaphore::new(app.settings.max_connections)),
            write_timeout: app.settings.write_timeout,
            tasks: TaskTracker::new(),
            stopping: app.stopping.clone(),
            cut: CancellationToken::new(),
        }
    }

    /// Accepts one connection. Dropped before it resolves, it has accepted none.
    async fn accept(&self, listener: &TcpListener) {
        let Ok(permit) = self.permits.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => self.start(stream, Peer(peer.ip().to_canonical()), permit),
            // The client went away between connecting and being accepted.
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!("cannot accept connections: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: Peer, permit: OwnedSemaphorePermit) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot set TCP_NODELAY: {error}");
        }
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        let connection =
            self.protocol.serve_connection(TokioIo::new(Outflow::new(stream, self.write_timeout)), service);
        let (stopping, cut) = (self.stopping.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            let _permit = permit;
            let mut connection = pin!(connection);
            let mut stopping = pin!(stopping.cancelled_owned());
            let mut finishing = false;
            loop {
                tokio::select! {
                    ended = connection.as_mut() => {
                        // Resets, timeouts and garbage: clients' affairs.
                        if let Err(error) = ended {
                            tracing::debug!("connection ended: {error}");
                        }
                        return;
                    }
                    () = &mut stopping, if !finishing => {
                        finishing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    () = cut.cancelled() => return,
                }
            }
        });
    }

    async fn finish(self, patience: Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "connections are cut: they did not finish in time");
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

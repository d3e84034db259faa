//! Connections: accepting them, bounding them, and letting go of them when the server stops.

use std::future::Future;
use std::io;
use std::net::IpAddr;
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
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::app::App;
use super::auth::Peer;
use super::door::Door;
use super::error::ServerError;
use super::limits::network;
use super::outflow::Outflow;
use super::permits::{Permit, Permits};

/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// After how long without a word a client is asked whether it is there; as long again, and it is taken for gone.
const SILENCE: Duration = Duration::from_secs(30);

/// Serves `router` until `shutdown` resolves; then stops accepting, lets polls and streams end, and gives the rest
/// `shutdown_timeout`.
pub async fn serve(listener: TcpListener, app: &Arc<App>, router: Router, shutdown: impl Future<Output = ()>) {
    let connections = Connections::new(app, router);
    if let Err(error) = prepare(&listener, app.settings.socket_buffer) {
        tracing::warn!("connections go on with the system's options: {error}");
    }
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
    places: Arc<Semaphore>,
    /// How many of them an address may have.
    of_addresses: Permits<Option<IpAddr>>,
    door: Door,
    most: usize,
    write_timeout: Duration,
    tasks: TaskTracker,
    /// Cancelled: no connection takes another request.
    stopping: CancellationToken,
    /// Cancelled: connections are cut.
    cut: CancellationToken,
}

impl Connections {
    fn new(app: &Arc<App>, router: Router) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(app.settings.head_timeout)
            .max_header_size(app.settings.max_head)
            .max_buf_size(app.settings.max_head.max(16 * 1024));
        Self {
            protocol,
            door: Door::new(app, router.clone()),
            router,
            places: Arc::new(Semaphore::new(app.settings.max_connections)),
            of_addresses: Permits::new(app.settings.max_connections_per_address),
            most: app.settings.max_connections,
            write_timeout: app.settings.write_timeout,
            tasks: TaskTracker::new(),
            stopping: app.stopping.clone(),
            cut: CancellationToken::new(),
        }
    }

    /// Accepts one connection, whether or not there is a place for it. Dropped before it resolves, it has accepted none.
    async fn accept(&self, listener: &TcpListener) {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let peer = Peer(peer.ip().to_canonical());
                match self.place(peer) {
                    Ok(place) => self.start(stream, peer, place),
                    Err(refusal) => self.door.turn_away(stream, peer, refusal, &self.tasks),
                }
            }
            // The client went away between connecting and being accepted.
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!("cannot accept connections: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn place(&self, Peer(address): Peer) -> Result<ConnectionPermit, ServerError> {
        let of_address = self.of_addresses.take(network(Some(address)));
        let of_address = of_address.ok_or(ServerError::AddressLimited(self.of_addresses.most()))?;
        let of_all = Arc::clone(&self.places).try_acquire_owned();
        let of_all = of_all.map_err(|_| ServerError::TooManyConnections(self.most))?;
        Ok(ConnectionPermit { _of_address: of_address, _of_all: of_all })
    }

    fn start(&self, stream: TcpStream, peer: Peer, place: ConnectionPermit) {
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
            let _place = place;
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

/// The place of one connection.
struct ConnectionPermit {
    _of_address: Permit<Option<IpAddr>>,
    _of_all: OwnedSemaphorePermit,
}

/// Has the kernel ask silent clients whether they are still there: one that lost its power says no goodbye, and a long
/// poll would hold its place for it. And has it keep little of what is on its way, which it does for who never reads,
/// too. What is accepted has the options of its listener.
fn prepare(listener: &TcpListener, buffer: usize) -> io::Result<()> {
    sockopt::set_socket_send_buffer_size(listener, buffer)?;
    sockopt::set_socket_recv_buffer_size(listener, buffer)?;
    sockopt::set_socket_keepalive(listener, true)?;
    sockopt::set_tcp_keepidle(listener, SILENCE)?;
    sockopt::set_tcp_keepintvl(listener, SILENCE / 3)?;
    sockopt::set_tcp_keepcnt(listener, 3)?;
    Ok(())
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::engine::settings::Settings;
    use crate::server::routes;
    use crate::server::settings::HttpSettings;
    use crate::server::tests::support::{HOST, engine};

    #[tokio::test]
    async fn whoever_has_a_network_of_addresses_has_the_places_of_one() {
        let settings = HttpSettings { max_connections_per_address: 1, ..HttpSettings::default() };
        let app = routes::app(engine(Settings::default()).await, settings, HOST.parse().unwrap());
        let connections = Connections::new(&app, routes::router(&app));
        let from = |address: &str| connections.place(Peer(address.parse().unwrap()));
        let first = from("2001:db8::1").unwrap();
        assert!(matches!(from("2001:db8::ffff:2").err(), Some(ServerError::AddressLimited(1))));
        let _of_another = from("2001:db8:0:1::1").unwrap();
        drop(first);
        assert!(from("2001:db8::ffff:2").is_ok(), "a place that was given back is there for the next one");
    }
}
